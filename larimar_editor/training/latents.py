"""Encodings of training texts: made by the encoder once, and read from disk after that while the encoder is
frozen.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from larimar_editor.model.encoders import LatentEncoder
from larimar_editor.training.rows import Rows


class Latents:
    """Encodings of a step's texts.

    Args:
        encoder: text to latent.
        count: texts with a number, which are kept; others are encoded every time.
        folder: where the encodings are kept, as float16; None keeps nothing.
    """

    def __init__(self, encoder: LatentEncoder, count: int = 0, folder: Path | None = None):
        self.encoder = encoder
        self.values: np.ndarray | None = None
        self.known = np.zeros(
            count, dtype=bool
        )  # in memory only: half a written row of an interrupted run is never taken
        if folder is not None and count:
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "latents.npy"
            shape = (count, encoder.latent_size)
            there = path.exists() and np.load(path, mmap_mode="r").shape == shape
            mode = "r+" if there else "w+"
            self.values = np.lib.format.open_memmap(path, mode=mode, dtype=np.float16, shape=shape)

    def __call__(self, rows: Rows) -> Tensor:
        """``(N, C)`` float32, on the encoder's device, or wider where a text has more slots than P; of such a
        step nothing is kept.
        """
        layout = self.encoder.layout
        longer = layout is not None and max(rows.slots) > layout.slots
        if self.values is None or longer:
            return self.encoder.encode(rows.texts, rows.slots).clone()
        numbers = np.array(rows.records)
        known = np.array([number >= 0 and self.known[number] for number in numbers])
        Z = torch.empty(len(numbers), self.encoder.latent_size, device=self.encoder.device)
        if known.any():
            Z[torch.from_numpy(known)] = torch.from_numpy(self.values[numbers[known]].astype(np.float32)).to(
                Z.device
            )
        new = np.flatnonzero(~known)
        if len(new):
            made = self.encoder.encode([rows.texts[i] for i in new]).float()
            Z[torch.from_numpy(new)] = made.half().float()  # as it will be read again
            keep = np.flatnonzero(numbers[new] >= 0)
            self.values[numbers[new][keep]] = made[torch.from_numpy(keep)].half().cpu().numpy()
            self.known[numbers[new][keep]] = True
        return Z
