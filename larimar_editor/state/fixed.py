"""The paper's memory: K rows in all, which more than K facts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory, fitted
from larimar_editor.memory.rest import Rest
from larimar_editor.state.facts import FactStore

# A memory row whose keys weigh less than this, squared and summed, is free to take a new prompt.
_UNTOUCHED = 1e-12


@dataclass(frozen=True)
class Fixed:
    """Memory and what addresses it. Immutable.

    Attributes:
        memory: `larimar_editor.memory.memory.Memory`.
        reference: the reference memory; it turns keys into weights.
        rest: how latents are kept that forgetting needs: to the bit.
    """

    memory: Memory
    reference: Reference
    rest: Rest

    @property
    def device(self) -> torch.device:
        """Of the memory and its readouts."""
        return self.memory.M.device

    @property
    def nbytes(self) -> int:
        """Bytes that an update makes anew."""
        return self.memory.nbytes

    def written(self, values: Sequence[bytes], keys: Tensor) -> tuple[Fixed, Mapping[str, Tensor]]:
        """One least-squares update (eq. (mem_update_seq) with alpha = 1), and the weights that were written.

        Args:
            values: N latents as they are kept, so that forgetting removes just what was written.
            keys: ``(N, key size)``.
        """
        reference, Z = self.reference.extended(keys), self.rest.unpacked(values).to(self.device)
        weights = reference.weights(keys).float()  # kept so, and used from there
        memory = self.memory.widened(Z.shape[1])
        memory = memory.update(fitted(Z, memory.latent_size), weights, alpha=1)
        return replace(self, memory=memory, reference=reference), {"weight": weights}

    def forgotten(self, store: FactStore, rows: Sequence[int]) -> Fixed:
        """Without the facts of these rows (eq. (mem_update_seq) with alpha = -1)."""
        return self.less(store.values(rows), store.column("weight")[list(rows)])

    def less(self, values: Sequence[bytes], weights: Tensor) -> Fixed:
        """Without what was written as N latents at rest under ``weights`` ``(N, K)``."""
        Z = self.rest.unpacked(values).to(self.device)
        memory = self.memory.forget(fitted(Z, self.memory.latent_size), weights)
        if memory.rows_written:  # a synchronisation with the device: which rows are free is kept on the host
            untouched = (memory.key_covariance.diagonal() < _UNTOUCHED).cpu()
        else:
            untouched = torch.ones_like(self.reference.in_use)
        return replace(self, memory=memory, reference=self.reference.released(untouched))

    def cleared(self) -> Fixed:
        """Without any fact."""
        everything = torch.ones_like(self.reference.in_use)
        return replace(self, memory=self.memory.cleared(), reference=self.reference.released(everything))

    def to(self, device: torch.device | str) -> Fixed:
        """The same on ``device``."""
        return replace(self, memory=self.memory.to(device), reference=self.reference.to(device))

    def read(
        self, store: FactStore, rows: Sequence[int] | None, keys: Tensor | None, sigma_w: float
    ) -> Tensor:
        """As `larimar_editor.state.paged.Pages.read`, by keys alone: rows of the memory belong to no fact."""
        assert keys is not None, "what addresses a memory that facts share"
        return self.memory.read(self.reference.weights(keys), sigma_w)
