"""What encodes: texts to latents, several questions of one operation in one pass of the encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from larimar_editor.model.encoders import LatentEncoder


class QueryEncoder:
    """Encodings of prompts and facts.

    Args:
        encoder: text to latent.
    """

    def __init__(self, encoder: LatentEncoder):
        self.encoder = encoder
        self._known: dict[str, Tensor] = {}

    @property
    def device(self) -> torch.device:
        """Device of the encodings: the encoder's."""
        return self.encoder.device

    def latents(self, texts: Sequence[str]) -> Tensor:
        """Encodings ``(N, C)``, float32, from the pass of `one_pass` if they are in it."""
        return self.values(texts)[:, : self.encoder.latent_size]

    def values(self, texts: Sequence[str]) -> Tensor:
        """As `latents`; of texts that `one_pass` was told slots of, with all of them."""
        known = self._known
        if texts and all(text in known for text in texts):
            return torch.stack([known[text] for text in texts])
        return self.encoder.encode(texts)

    @contextmanager
    def one_pass(self, texts: Sequence[str], slots: Mapping[str, int] | None = None) -> Iterator[None]:
        """Within this block `latents` knows these texts, from one pass of the encoder.

        Args:
            texts: what is encoded.
            slots: of texts that are to have more of them than P.
        """
        unique = list(dict.fromkeys(texts))
        layout = self.encoder.layout
        counts = [(slots or {}).get(text, layout.slots) for text in unique] if layout else None
        self._known = dict(zip(unique, self.encoder.encode(unique, counts))) if unique else {}
        try:
            yield
        finally:
            self._known = {}
