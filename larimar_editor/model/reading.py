"""What the memory says to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larimar_editor.memory.memory import fitted


@dataclass(frozen=True)
class AnswerIds:
    """The tokens of an answer.

    Attributes:
        in_slots: as its slots hold them, one each.
        as_asked: as it is said where it is asked, which differs in how it begins.
    """

    in_slots: tuple[int, ...]
    as_asked: tuple[int, ...]


@dataclass(frozen=True)
class Reading:
    """Which rows of a batch are in scope, and their readouts.

    Attributes:
        in_scope: bool ``(B,)``, on the CPU.
        latents: ``(number in scope, C)``, or wider where an answer is longer (`SlotLayout`).
        answers: of the facts that were decided for, one for each row in scope; none where nothing decides.
        answer_ids: their tokens; none where nothing decides, or slots are of no token.
    """

    in_scope: Tensor
    latents: Tensor
    answers: tuple[str, ...] = ()
    answer_ids: tuple[AnswerIds, ...] = ()

    def answer_of_rows(self) -> list[str]:
        """The answer of every row, empty where there is none."""
        left = iter(self.answers)
        return [next(left, "") if inside else "" for inside in self.in_scope.tolist()]

    @classmethod
    def nothing(cls, count: int, latent_size: int) -> Reading:
        """A batch of ``count`` rows, none of them in scope."""
        return cls(torch.zeros(count, dtype=torch.bool), torch.zeros(0, latent_size))

    @classmethod
    def joined(cls, readings: Sequence[Reading]) -> Reading:
        """Several batches as one."""
        width = max(each.latents.shape[1] for each in readings)
        latents = torch.cat([fitted(each.latents, width) for each in readings])
        answers = tuple(answer for each in readings for answer in each.answers)
        ids = tuple(own for each in readings for own in each.answer_ids)
        return cls(torch.cat([each.in_scope for each in readings]), latents, answers, ids)
