"""A memory without a ceiling: as many pages as the facts need, of K rows each.

On a page every fact has a row of its own, as its key is added to the page's reference memory when it is
written. Its weights are then one-hot (eq. (gaussian_conv) where z is a row of ``M_ref``), ``C_i = W^T W`` is
diagonal, and eq. (mem_update_seq) comes down to ``M[k] = Z`` for writing and ``M[k] = 0`` for forgetting: an
update touches one row whatever K is, no fact changes another's, and what is left of a forgotten one is
nothing, to the bit.

Which page a fact is on is not kept: facts whose prompts' hashes begin alike are on one page, as far as it
takes for a page to hold at most K. So it depends on what is written alone, not on what was, and a page that
is full falls in two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from larimar_editor.memory.addressing import gaussian_weights
from larimar_editor.memory.memory import add_noise, fitted
from larimar_editor.memory.rest import Rest
from larimar_editor.scope.nearest import exact
from larimar_editor.state.facts import FactStore

_HASH_BITS = 64


@dataclass(frozen=True)
class Pages:
    """How pages are read; their rows are the store's.

    Attributes:
        rows: K.
        alpha: the Gaussian's width, see `gaussian_weights`.
        rest: how rows are kept.
        device: of readouts.
    """

    rows: int
    alpha: float
    rest: Rest
    device: torch.device

    def written(self, values: Sequence[bytes], keys: Tensor) -> tuple[Pages, Mapping[str, Tensor]]:
        """Latents at rest written under keys, and columns that their facts get: itself, and none."""
        return self, {}

    def forgotten(self, store: FactStore, rows: Sequence[int]) -> Pages:
        """Without the facts of these rows: itself."""
        return self

    def cleared(self) -> Pages:
        """Without any fact: itself."""
        return self

    def to(self, device: torch.device | str) -> Pages:
        """With readouts on ``device``."""
        return replace(self, device=torch.device(device))

    @property
    def nbytes(self) -> int:
        """Bytes that an update makes anew: none that grow."""
        return 0

    def read(
        self, store: FactStore, rows: Sequence[int] | None, keys: Tensor | None, sigma_w: float
    ) -> Tensor:
        """``Z_read = W' M`` of a page, ``W' ~ N(W, sigma_w^2 I)`` (paper, algorithm 1, read).

        Args:
            store: the facts.
            rows: the fact of each query, whose page is read; of the nearest key when None.
            keys: ``(n, key size)``, whose weights are meant; those of the facts' own keys when None.
            sigma_w: standard deviation of reading weights, at least 0.

        Returns:
            ``(n, width)`` float32, on `device`.
        """
        if rows is None:
            assert keys is not None, "a fact, or a key"
            rows = exact(lambda a, b: a @ b.T, store.keys(), store.alive)(keys, 1)[1][:, 0].tolist()
        if keys is None and not sigma_w:
            return self.rest.unpacked(store.values(rows)).to(self.device)
        read = [
            self._readout(store, row, None if keys is None else keys[place], sigma_w)
            for place, row in enumerate(rows)
        ]
        width = max((each.shape[1] for each in read), default=self.rest.layout.core)
        return torch.cat([fitted(each, width) for each in read]) if read else torch.zeros(0, width)

    def page(self, store: FactStore, row: int) -> list[int]:
        """Rows of the page that a fact is on, oldest first; at most K."""
        rows = np.flatnonzero(store.alive.numpy())
        hashes = store.hashes()
        for bits in range(_HASH_BITS + 1):
            if bits:
                shift = np.uint64(_HASH_BITS - bits)
                rows = rows[hashes[rows] >> shift == hashes[row] >> shift]
            if len(rows) <= self.rows:
                break
        return sorted(rows.tolist(), key=store.entries.ids.__getitem__)

    def _readout(self, store: FactStore, row: int, key: Tensor | None, sigma_w: float) -> Tensor:
        rows = self.page(store, row)
        if key is None:
            W = torch.tensor([[float(each == row) for each in rows]], dtype=torch.float64, device=self.device)
        else:
            W = gaussian_weights(key[None].double(), store.keys(rows).double(), self.alpha).to(self.device)
        M = self.rest.unpacked(store.values(rows)).to(self.device, torch.float64)
        return (add_noise(W, sigma_w) @ M).float()
