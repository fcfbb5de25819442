"""What tells whether a prompt is near a written one: two detectors, one interface (paper, section "Scope
Detector").

A detector embeds the prompts of written facts, once each, when they are written, and the queries. It embeds
prompts only, never a target; the second stage may be shown a fact's own. `larimar_editor.scope.decision`
decides with both.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.pretrained.embedded import SENTENCE_ENCODER, resolve
from larimar_editor.scope.look import CloserLook
from larimar_editor.scope.low_rank import changed_copy, restored
from larimar_editor.scope.names import OtherNames
from larimar_editor.scope.reader import Reader
from larimar_editor.utils.text import cut_to, read_alike


def sentence_encoder(
    name_or_path: str = SENTENCE_ENCODER,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> SentenceTransformer:
    """A sentence encoder by name or folder; by default the embedded one."""
    return SentenceTransformer(resolve(name_or_path), device=str(device), model_kwargs={"dtype": dtype})


def transformer_of(encoder: SentenceTransformer) -> PreTrainedModel:
    """The network below a sentence encoder's pooling."""
    return cast(PreTrainedModel, encoder[0].auto_model)


class ScopeDetector(Protocol):
    """The interface of a detector."""

    @property
    def look(self) -> CloserLook | None:
        """Its second stage, for the few written prompts that are nearest; None where it has none."""
        ...

    @property
    def reader(self) -> Reader | None:
        """Its third stage, for what the second is unsure of; None where it has none."""
        ...

    @property
    def names(self) -> OtherNames | None:
        """What else known things are called; None where nothing is looked up."""
        ...

    @property
    def embedding_size(self) -> int:
        """E, the size of an embedding."""
        ...

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Embeddings ``(N, E)`` float32 with unit norm."""
        ...

    def similarity(self, queries: Tensor, written: Tensor) -> Tensor:
        """Scores ``(N, n)`` of query embeddings ``(N, E)`` against those of written prompts ``(n, E)``."""
        ...


class ExternalScopeDetector:
    """ESD: cosine similarity of sentence embeddings from an external encoder (paper: MiniLM).

    Args:
        model: the encoder. It may serve several detectors: it gets no gradients, and what is trained goes
            into a copy.
        weights: what was trained, any of them: ``metric`` ``(E, E)``, a linear map after the encoder;
            ``candidates.LAYER.A``, ``.B`` and ``.norm``, changes of the encoder; ``look.*``, the second
            stage (`CloserLook`); and ``reader.*``, the third (`Reader`).
        larger: loads the third stage's encoder; None: there is no third stage.
        names: of known things, each of which is embedded by its usual name; None: texts are embedded as
            they are.

    Raises:
        ValueError: weights that were trained for another encoder.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        weights: Mapping[str, Tensor] | None = None,
        larger: Callable[[], SentenceTransformer] | None = None,
        names: OtherNames | None = None,
    ):
        weights, self.names = weights or {}, names
        for parameter in model.parameters():
            parameter.requires_grad_(False)
        self.metric = weights.get("metric")
        look = stage_weights(weights, "look")
        self.look = CloserLook(transformer_of(model.eval()), model.tokenizer, look) if look else None
        reader = stage_weights(weights, "reader")
        self.reader = Reader(lambda: _read_by(larger()), reader) if look and reader and larger else None
        changed = stage_weights(weights, "candidates")
        self.model = changed_copy(model, changed, transformer_of(model)) if changed else model

    @property
    def embedding_size(self) -> int:
        """E, the sentence encoder's."""
        size = self.model.get_embedding_dimension()
        if size is None:
            raise ValueError("the sentence encoder does not say how long its embeddings are")
        return size

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Embeddings ``(N, E)`` float32 with unit norm; of a text that is too long the end, with a
        `TruncationWarning`.
        """
        if self.names is not None:
            texts = [self.names.usual(text) for text in texts]
        texts = [self._fitting(read_alike(text)) for text in texts]
        result = self.model.encode(
            texts, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
        ).float()
        return result if self.metric is None else F.normalize(result @ self.metric.to(result).T, dim=1)

    def to(self, device: torch.device) -> None:
        """Move its networks."""
        self.model.to(device)
        for stage in (self.look, self.reader):
            if stage is not None:
                stage.to(device)

    def _fitting(self, text: str) -> str:
        """The end of a text that is too long; the encoder itself would keep the beginning, and say
        nothing.
        """
        tokenizer = self.model.tokenizer
        limit = (self.model.max_seq_length or len(text)) - tokenizer.num_special_tokens_to_add()
        if len(unicodedata.normalize("NFD", text)) <= limit:  # a token has a character of these, at least
            return text
        ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False).input_ids
        return text if len(ids) <= limit else tokenizer.decode(cut_to(ids, limit, text, tokenizer))

    @staticmethod
    def similarity(queries: Tensor, written: Tensor) -> Tensor:
        """Cosines ``(N, n)`` of unit vectors ``(N, E)`` and ``(n, E)``, in [-1, 1]."""
        return queries @ written.T


class InternalScopeDetector:
    """ISD: a binary classifier on Larimar's own encodings of query and written prompt.

    Logistic regression over ``[|q - k|, q * k]`` of the two unit-length encodings.

    Args:
        encode: texts to latents ``(N, C)``.
        latent_size: C.
        weight: ``(2 C,)`` float32.
        bias: a number.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], Tensor], latent_size: int, weight: Tensor, bias: float
    ):
        if weight.shape != (2 * latent_size,):
            raise ValueError(
                f"an internal detector for C={latent_size} has {2 * latent_size} weights, got "
                f"{tuple(weight.shape)}"
            )
        self.encode, self.embedding_size = encode, latent_size
        self.look: CloserLook | None = None
        self.reader: Reader | None = None
        self.names: OtherNames | None = None
        self.weight, self.bias = weight.float(), float(bias)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Latents scaled to unit norm, ``(N, C)`` float32."""
        return F.normalize(self.encode(texts).float(), dim=1)

    def similarity(self, queries: Tensor, written: Tensor) -> Tensor:
        """Probabilities ``(N, n)`` in [0, 1] that ``(N, C)`` and ``(n, C)`` ask the same."""
        weight = self.weight.to(queries.device)
        size = self.embedding_size
        product = (queries * weight[size:]) @ written.T
        # Row by row: (N, n, C) at once would not fit for a large store.
        distance = torch.stack([(query - written).abs() @ weight[:size] for query in queries])
        return torch.sigmoid(product + distance + self.bias)


def _read_by(encoder: SentenceTransformer) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    return transformer_of(encoder.eval()).requires_grad_(False), encoder.tokenizer


def stage_weights(weights: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """A stage's own weights, of a detector's: those below its name, without it, as `restored` gives them."""
    prefix = f"{name}."
    return restored(
        {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
    )


def pair_features(queries: Tensor, written: Tensor) -> Tensor:
    """What the internal detector's classifier sees of N pairs of unit encodings ``(N, C)``: ``(N, 2 C)``."""
    return torch.cat(((queries - written).abs(), queries * written), dim=1)
