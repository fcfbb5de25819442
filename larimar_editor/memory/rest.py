"""Latents at rest: the bytes that are kept of one that is only read.

A latent is kept slot by slot. With ``int8`` each run of 64 numbers of a slot's code has a scale of its own,
its largest number's 127th part: a number is then off by at most half a scale. Marks are not kept; the number
of bytes says how many slots there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.memory.slots import SlotLayout

RestDtype = Literal["int8", "float16", "float32"]

_RUN = 64  # numbers that share a scale


@dataclass(frozen=True)
class Rest:
    """How latents are kept.

    Attributes:
        layout: where slots are in a latent.
        dtype: "int8", "float16" or "float32"; the last gives back every bit.
    """

    layout: SlotLayout
    dtype: RestDtype = "int8"

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot."""
        size = self.layout.code_size
        return self._runs * (_RUN + 4) if self.dtype == "int8" else size * int(self.dtype[-2:]) // 8

    @property
    def _runs(self) -> int:
        return -(-self.layout.code_size // _RUN)

    def packed(self, latents: Tensor) -> list[bytes]:
        """The bytes of each latent ``(N, width)``, of any width that the layout gives; deterministic, and of
        each latent alone.

        Raises:
            ValueError: a number that float16 cannot hold.
        """
        codes, counts = self.layout.split(latents.detach().float().cpu())
        kept = [row[len(row) - count :] for row, count in zip(codes, counts.tolist())]
        return [self._bytes_of(slots) for slots in kept]

    def unpacked(self, kept: Sequence[bytes]) -> Tensor:
        """Latents ``(N, width)`` of what `packed` gave, float32 on the CPU, as wide as the longest needs.

        Raises:
            ValueError: a number of bytes that is none of whole slots, at least P.
        """
        slots = [self._slots_of(data) for data in kept]
        if not slots:
            return torch.zeros(0, self.layout.core)
        most, counts = max(map(len, slots)), torch.tensor([len(each) for each in slots])
        codes = torch.stack([F.pad(each, (0, 0, most - len(each), 0)) for each in slots])
        return self.layout.joined(codes, counts)

    def _bytes_of(self, slots: Tensor) -> bytes:
        numbers = slots.contiguous().numpy()
        if self.dtype != "int8":
            kept = numbers.astype(self.dtype)
            if not np.isfinite(kept).all():
                raise ValueError(f"a latent has a number that {self.dtype} cannot hold; use rest_dtype: int8")
            return kept.tobytes()
        runs = np.zeros((len(numbers), self._runs, _RUN), np.float32)
        runs.reshape(len(numbers), -1)[:, : numbers.shape[1]] = numbers
        scales = np.abs(runs).max(axis=2) / np.float32(127)
        steps = runs / np.where(scales > 0, scales, np.float32(1))[..., None]
        return scales.tobytes() + np.rint(steps).astype(np.int8).tobytes()

    def _slots_of(self, data: bytes) -> Tensor:
        count, rest = divmod(len(data), self.slot_bytes)
        if rest or count < self.layout.slots:
            raise ValueError(f"{len(data)} bytes are no latent of {self.dtype}: a slot has {self.slot_bytes}")
        size = self.layout.code_size
        if self.dtype != "int8":
            numbers = np.frombuffer(data, self.dtype).reshape(count, size)
            return torch.from_numpy(numbers.astype(np.float32))
        border = 4 * count * self._runs
        scales = np.frombuffer(data[:border], np.float32).reshape(count, self._runs, 1)
        steps = np.frombuffer(data[border:], np.int8).reshape(count, self._runs, _RUN)
        return torch.from_numpy((steps * scales).reshape(count, -1)[:, :size].copy())
