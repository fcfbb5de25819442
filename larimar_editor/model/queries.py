"""What encodes: texts to latents, several questions of one operation in one pass of the encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from larimar_editor.memory.memory import fitted
from larimar_editor.model.encoders import TEXTS_PER_PASS, LatentEncoder, in_order

# Texts whose latents are as wide as the longest's: whole passes of the encoder.
_TEXTS_AT_ONCE = 4 * TEXTS_PER_PASS


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
        """As `latents`; of texts that `one_pass` was told slots of, with all of them, as wide as the longest
        needs.
        """
        if texts and all(text in self._known for text in texts):
            rows = [self._known[text][None] for text in texts]
            width = max(row.shape[1] for row in rows)
            return torch.cat([fitted(row, width) for row in rows])
        return self.encoder.encode(texts)

    @contextmanager
    def one_pass(self, texts: Sequence[str], slots: Mapping[str, int] | None = None) -> Iterator[None]:
        """Within this block `latents` knows these texts, from one pass of the encoder.

        Args:
            texts: what is encoded.
            slots: of texts that are to have more of them than P.
        """
        self._known = self._encoded(list(dict.fromkeys(texts)), slots or {})
        try:
            yield
        finally:
            self._known = {}

    def _encoded(self, texts: Sequence[str], slots: Mapping[str, int]) -> dict[str, Tensor]:
        """The encoding of each text, as long as its own slots need: where one is long, all of them in one
        tensor would take hundreds of times the room. The encoder's passes are those of all at once.
        """
        layout = self.encoder.layout
        if layout is None:
            return dict(zip(texts, self.encoder.encode(texts, None))) if texts else {}
        counts = [slots.get(text, layout.slots) for text in texts]
        order, known = in_order(texts, counts), dict[str, Tensor]()
        for start in range(0, len(order), _TEXTS_AT_ONCE):
            part = order[start : start + _TEXTS_AT_ONCE]
            made = self.encoder.encode([texts[place] for place in part], [counts[place] for place in part])
            for place, row in zip(part, made, strict=True):
                known[texts[place]] = row[: layout.width(counts[place])].clone()
        return known
