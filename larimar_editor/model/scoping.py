"""The scope detectors of a model, by the configuration as it is at the moment."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.queries import QueryEncoder
from larimar_editor.pretrained.embedded import resolve
from larimar_editor.scope.detectors import (
    ExternalScopeDetector,
    InternalScopeDetector,
    ScopeDetector,
    sentence_encoder,
)
from larimar_editor.scope.look import reading_dtype
from larimar_editor.scope.names import names_that_ship

INTERNAL = ("weight", "bias")  # the internal detector's weights
NO_READER = "none"  # in place of the third stage's encoder; null in a YAML file is the checkpoint's own


class ScopeDetectors:
    """Makes each detector when it is first asked for, from the checkpoint's weights.

    Args:
        config: ``scope`` says which one decides; read anew each time.
        queries: the internal detector's encodings; None: there is no decoder, and so no internal detector.
        sentence_encoder: the external detector's, where it is loaded already; else loaded by the name in
            ``config``. It may serve several models: it is never moved, and `to` takes a copy of it where it
            is on another device. Who wants one for all of them there moves it first.
        device: where they go without ``queries``, whose device it is otherwise.

    Attributes:
        weights: ``metric``, ``candidates.*``, ``look.*`` and ``reader.*`` of the external detector,
            ``weight`` and ``bias`` of the internal one; empty when the checkpoint has none. Assigning others
            makes the detectors anew.
    """

    def __init__(
        self,
        config: LarimarConfig,
        queries: QueryEncoder | None = None,
        sentence_encoder: SentenceTransformer | None = None,
        device: torch.device | str = "cpu",
    ):
        self._alone_on = torch.device(device)
        self._config, self._queries, self._sentence_encoder = config, queries, sentence_encoder
        self._handed_in = sentence_encoder is not None
        self._weights: dict[str, Tensor] = {}
        self._made: dict[str, Any] = {}

    @property
    def weights(self) -> Mapping[str, Tensor]:
        """The checkpoint's tensors; see the class."""
        return self._weights

    @weights.setter
    def weights(self, weights: Mapping[str, Tensor]) -> None:
        self._weights, self._made = dict(weights), {}

    @property
    def _device(self) -> torch.device:
        return self._alone_on if self._queries is None else self._queries.device

    @property
    def external_weights(self) -> Mapping[str, Tensor]:
        """The external detector's alone."""
        return {name: value for name, value in self._weights.items() if name not in INTERNAL}

    @property
    def current(self) -> ScopeDetector | None:
        """The detector that decides; None when everything is in scope.

        Raises:
            ValueError: an internal detector that the checkpoint has no weights for.
        """
        if self._config.scope == "none":
            return None
        return self.external if self._config.scope == "external" else self.internal

    @property
    def external(self) -> ExternalScopeDetector:
        """The sentence encoder's, which may address the memory even where another decides.

        Raises:
            ValueError: the checkpoint's was trained for another sentence encoder.
        """
        if "external" not in self._made:
            names = names_that_ship() if self._config.scope_other_names else None
            self._made["external"] = ExternalScopeDetector(
                self.sentence_encoder, self._weights, self._larger, names
            )
            if self._made["external"].look is None and self._config.scope == "external":
                warnings.warn(
                    "the checkpoint's scope detector has no second stage: it tells subjects apart better "
                    "than questions about one (`larimar-editor train-detector` trains one)",
                    stacklevel=2,
                )
        return self._made["external"]

    @property
    def _larger(self) -> Callable[[], SentenceTransformer] | None:
        """Loads the third stage's encoder; None where the checkpoint has no such stage, or it is not here."""
        name = self._config.scope_reader_name_or_path
        if name in (None, NO_READER) or not any(each.startswith("reader.") for each in self._weights):
            return None

        smaller = self.sentence_encoder  # by which it finds the device: by `self` it would hold the decoder

        def load() -> SentenceTransformer:
            # In the dtype in which it reads: a conversion would hold it in memory twice.
            return sentence_encoder(name, smaller.device, reading_dtype(smaller.device))

        try:
            if Path(resolve(name)).is_dir():
                return load
            loaded = load()  # of a hub, which may have no such model
            return lambda: loaded.to(smaller.device)
        except (ModuleNotFoundError, OSError) as missing:
            warnings.warn(
                f"the scope detector does without its third stage, and errs more often: {name} is not here. "
                f"With scope_reader_name_or_path: {NO_READER} it does so without a word. {missing}",
                stacklevel=2,
            )
            return None

    @property
    def sentence_encoder(self) -> SentenceTransformer:
        """The sentence encoder as it is, without anything that the checkpoint trained."""
        if self._sentence_encoder is None:
            self._sentence_encoder = sentence_encoder(self._config.scope_encoder_name_or_path, self._device)
        return self._sentence_encoder

    @property
    def internal(self) -> InternalScopeDetector:
        """The classifier's on Larimar's own encodings."""
        if "internal" not in self._made:
            if "weight" not in self._weights:
                raise ValueError(
                    "the checkpoint has no internal scope detector; "
                    "`larimar-editor calibrate --detector internal --out FOLDER` makes one"
                )
            if self._queries is None:
                raise ValueError("the internal scope detector reads with the decoder, which is not loaded")
            weight, bias = self._weights["weight"], float(self._weights["bias"])
            self._made["internal"] = InternalScopeDetector(
                self._queries.latents, self._config.latent_size, weight, bias
            )
        return self._made["internal"]

    def embed(self, prompts: Sequence[str]) -> Tensor:
        """Sentence embeddings ``(N, E)`` with unit norm."""
        return self.external.embed(prompts)

    def to(self, device: torch.device) -> None:
        """Move what has been loaded, and a copy of what was handed in."""
        if self._sentence_encoder is None:
            return
        if self._handed_in:
            if self._sentence_encoder.device == device:
                return
            # The stages share its weights, and are made anew with the copy's.
            self._sentence_encoder, self._handed_in = copy.deepcopy(self._sentence_encoder), False
            self._made.pop("external", None)
        self._sentence_encoder.to(device)
        if "external" in self._made:
            self._made["external"].to(device)
