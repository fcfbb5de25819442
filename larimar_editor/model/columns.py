"""The columns of a batch as they come, for what follows which answers are said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

Answer = TypeVar("Answer")


class Columns(Generic[Answer]):
    """Token ids so far, what each row is to say, and where that was over.

    Args:
        answers: of each row; None where nothing is followed.
        starts: columns of each row that are the prompt.
    """

    def __init__(self, answers: Sequence[Answer | None], starts: Sequence[int]):
        self.answers, self.starts = list(answers), list(starts)
        self.ids: Tensor | None = None
        # Of each row the first column behind its answer, and how many columns have said so.
        self._over: list[tuple[int, int] | None] = [None] * len(self.answers)

    @property
    def length(self) -> int:
        """Columns so far."""
        return 0 if self.ids is None else self.ids.shape[1]

    def take(self, ids: Tensor) -> list[tuple[int, Answer, list[int]]]:
        """Add the next columns ``(B, T)``.

        Returns:
            row, answer and all tokens so far, where an answer is not over.
        """
        self.ids = ids if self.ids is None else torch.cat((self.ids, ids), dim=1)
        left = [
            (row, answer)
            for row, (answer, over) in enumerate(zip(self.answers, self._over))
            if answer is not None and over is None
        ]
        # A synchronisation with the device: what was said is read on the host.
        said = self.ids[[row for row, _ in left]].tolist() if left else []
        return [(*which, tokens) for which, tokens in zip(left, said)]

    def select(self, indices: Tensor) -> None:
        """Keep the rows of these indices ``(n,)``, in their order."""
        order = indices.tolist()
        self.answers = [self.answers[row] for row in order]
        self.starts = [self.starts[row] for row in order]
        self._over = [self._over[row] for row in order]
        if self.ids is not None:
            self.ids = self.ids[indices.to(self.ids.device)]

    def crop(self, tokens: int) -> None:
        """Drop the last so many columns."""
        if self.ids is not None and tokens:
            self.ids = self.ids[:, :-tokens]
            self._over = [over if over is None or over[1] <= self.length else None for over in self._over]
