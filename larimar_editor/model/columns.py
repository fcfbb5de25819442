"""The columns of a batch as they come, for what has to know which tokens were said."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class Columns:
    """Token ids so far, and at which column each row's prompt ends.

    Args:
        starts: columns of each row that are the prompt.
    """

    def __init__(self, starts: Sequence[int]):
        self.starts = list(starts)
        self.ids: Tensor | None = None

    @property
    def length(self) -> int:
        """Columns so far."""
        return 0 if self.ids is None else self.ids.shape[1]

    def take(self, ids: Tensor) -> int:
        """Add the next columns ``(B, T)``; returns how many there were before."""
        before = self.length
        self.ids = ids if self.ids is None else torch.cat((self.ids, ids), dim=1)
        return before

    def select(self, indices: Tensor) -> None:
        """Keep the rows of these indices ``(n,)``, in their order."""
        self.starts = [self.starts[row] for row in indices.tolist()]
        if self.ids is not None:
            self.ids = self.ids[indices.to(self.ids.device)]

    def crop(self, tokens: int) -> None:
        """Drop the last so many columns."""
        if self.ids is not None and tokens:
            self.ids = self.ids[:, :-tokens]
