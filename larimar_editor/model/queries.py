"""What encodes: texts to latents, several questions of one operation in one pass of the encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        known = self._known
        if texts and all(text in known for text in texts):
            return torch.stack([known[text] for text in texts])
        return self.encoder.encode(texts)

    @contextmanager
    def one_pass(self, texts: Sequence[str]) -> Iterator[None]:
        """Within this block `latents` knows these texts, from one pass of the encoder."""
        unique = list(dict.fromkeys(texts))
        self._known = dict(zip(unique, self.encoder.encode(unique))) if unique else {}
        try:
            yield
        finally:
            self._known = {}
