"""What the memory says to a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reading:
    """Which rows of a batch are in scope, and their readouts.

    Attributes:
        in_scope: bool ``(B,)``, on the CPU.
        latents: ``(number in scope, C)``.
    """

    in_scope: Tensor
    latents: Tensor

    @classmethod
    def nothing(cls, count: int, latent_size: int) -> Reading:
        """A batch of ``count`` rows, none of them in scope."""
        return cls(torch.zeros(count, dtype=torch.bool), torch.zeros(0, latent_size))
