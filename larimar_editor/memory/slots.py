"""How a latent holds an answer of any length: what every latent has, and what a longer answer has besides.

The first C numbers are the codes of a text's last P tokens, oldest first. Each further slot, going back from
there, adds its code and a mark that it is there: 1 where it was written, 0 where only another fact's latent
is so long. Marks go through the memory as everything else does, so that a readout says by itself how long its
answer is.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# Tokens before the answer that a longer latent has, at least: they carry the question.
_BEFORE = 1


@dataclass(frozen=True)
class SlotLayout:
    """Where slots are in a latent.

    Attributes:
        slots: P, those that every latent has.
        code_size: numbers of one slot's code.
    """

    slots: int
    code_size: int

    @property
    def core(self) -> int:
        """C, the numbers that every latent has."""
        return self.slots * self.code_size

    def width(self, slots: int) -> int:
        """Numbers of a latent with so many slots."""
        return self.core + max(0, slots - self.slots) * (self.code_size + 1)

    def needed(self, answer_tokens: int) -> int:
        """Slots of a text whose answer has so many tokens."""
        return max(self.slots, answer_tokens + _BEFORE)

    def joined(self, codes: Tensor, counts: Tensor) -> Tensor:
        """Latents ``(N, width(S))`` of codes.

        Args:
            codes: ``(N, S, code_size)``, of the last S tokens, oldest first; S is at least P.
            counts: int ``(N,)``, how many of a row's codes, from the end, are to be there; P to S.
        """
        core, further = codes[:, -self.slots :].flatten(1), codes.shape[1] - self.slots
        if not further:
            return core
        back = codes[:, :further].flip(1)
        there = torch.arange(further, device=codes.device) < (counts.to(codes.device) - self.slots)[:, None]
        marked = torch.cat((back, back.new_ones(*back.shape[:2], 1)), dim=2) * there[..., None]
        return torch.cat((core, marked.flatten(1)), dim=1)

    def split(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        """The inverse of `joined`.

        Args:
            latents: ``(N, width)``, of any width that `width` gives.

        Returns:
            codes ``(N, S, code_size)`` oldest first, with zeros before those that a row has, and how many
            each has, int ``(N,)``; S is the largest of them.
        """
        last = latents[:, : self.core].unflatten(1, (self.slots, self.code_size))
        rest = latents[:, self.core :]
        if not rest.shape[1]:
            return last, torch.full((len(latents),), self.slots, device=latents.device)
        rest = rest.unflatten(1, (-1, self.code_size + 1))
        there = (rest[..., -1] > 0.5).long().cumprod(1)
        further = int(there.sum(1).max()) if len(latents) else 0  # a synchronisation with the device
        back = rest[:, :further, :-1] * there[:, :further, None]
        return torch.cat((back.flip(1), last), dim=1), self.slots + there.sum(1)
