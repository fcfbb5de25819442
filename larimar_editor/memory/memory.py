"""The episodic memory alone: K rows of C numbers, written, read and updated in closed form.

Pure tensors; no text and no model. Names follow the paper: ``Z`` encodings ``(N, C)``, ``W`` weights
``(N, K)``, ``M`` memory ``(K, C)``. The paper's key covariance ``C_i = W^T W`` is called
``key_covariance`` here so that it is not taken for the latent size C.

Singular key covariance
    Until K independent keys are written, ``W^T W`` has no inverse, and the paper leaves that case open.
    This module keeps its Moore-Penrose pseudoinverse, so that ``M`` is at every moment the
    *minimum-norm* least-squares solution over the pairs that are still written. No ridge is added: a
    written fact is read back exactly (to rounding) as long as its key is independent of the others.
    The one approximation is ``rtol``: a direction of key space whose relative length is below it counts
    as already written, which changes the solution by no more than ``rtol`` times the norm of the
    weights that lie along it.

Precision
    Encodings come in and readouts go out in ``dtype`` (float32 by default). What is carried from one update
    to the next is kept in ``accumulate_dtype`` (float64 by default): forgetting divides by one minus a
    leverage, which float32 cannot tell from zero after a few thousand updates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

# A pseudoinverse changes its rank where these quantities, of at most 1, cross zero. Inside the band around
# the tolerance rounding could decide, so the exact decomposition does.
_DOUBTFUL_BAND = {torch.float64: 1e3, torch.float32: 30.0}

_TENSORS = ("M", "key_covariance", "inverse", "moments")

_DEFAULT_RTOL = {torch.float64: 1e-6, torch.float32: 1e-3}


@dataclass(frozen=True)
class Memory:
    """The memory and what a later update of it needs. Immutable: every operation returns a new one.

    Attributes:
        M: memory, ``(K, C)``, ``accumulate_dtype``; the minimum-norm solution of ``min_M sum_j ||Z_j - W_j
            M||^2`` over the pairs still written.
        key_covariance: ``W^T W``, ``(K, K)``; the paper's ``C_i``.
        inverse: pseudoinverse of ``key_covariance``, ``(K, K)``.
        moments: ``W^T Z``, ``(K, C)``; with ``key_covariance`` it determines ``M``, and the
            periodic refresh goes back to it.
        core_size: columns that every encoding has; further ones came with longer encodings (`widened`).
        rows_written: pairs written less pairs forgotten.
        updates: rank-one updates since the last exact refresh.
        dtype: dtype of readouts.
        rtol: relative length under which a key direction counts as already written.
        refresh_every: rank-one updates after which ``inverse`` and ``M`` are recomputed exactly.
    """

    M: Tensor
    key_covariance: Tensor
    inverse: Tensor
    moments: Tensor
    core_size: int
    rows_written: int = 0
    updates: int = 0
    dtype: torch.dtype = torch.float32
    rtol: float = 1e-6
    refresh_every: int = 4096

    @classmethod
    def empty(
        cls,
        num_rows: int,
        latent_size: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        accumulate_dtype: torch.dtype = torch.float64,
        rtol: float | None = None,
        refresh_every: int = 4096,
    ) -> Memory:
        """A memory with nothing written: all zeros, so that every readout is zero.

        Args:
            num_rows: K, at least 1.
            latent_size: C, at least 1.
            device: where the tensors live.
            dtype: dtype of readouts, float32 or float64.
            accumulate_dtype: dtype carried between updates, float32 or float64.
            rtol: see the class; by default 1e-6 for float64 and 1e-3 for float32.
            refresh_every: see the class, at least 1.

        Raises:
            ValueError: a size below 1 or an unsupported dtype.
        """
        if num_rows < 1 or latent_size < 1:
            raise ValueError(f"num_rows and latent_size must be at least 1, got {num_rows} and {latent_size}")
        for name, given in (("dtype", dtype), ("accumulate_dtype", accumulate_dtype)):
            if given not in _DEFAULT_RTOL:
                raise ValueError(f"{name} must be float32 or float64, got {given}")
        if refresh_every < 1:
            raise ValueError(f"refresh_every must be at least 1, got {refresh_every}")
        options: dict[str, Any] = {"device": device, "dtype": accumulate_dtype}
        return cls(
            M=torch.zeros(num_rows, latent_size, **options),
            key_covariance=torch.zeros(num_rows, num_rows, **options),
            inverse=torch.zeros(num_rows, num_rows, **options),
            moments=torch.zeros(num_rows, latent_size, **options),
            core_size=latent_size,
            dtype=dtype,
            rtol=_DEFAULT_RTOL[accumulate_dtype] if rtol is None else rtol,
            refresh_every=refresh_every,
        )

    @property
    def num_rows(self) -> int:
        """K, the number of memory rows."""
        return self.M.shape[0]

    @property
    def latent_size(self) -> int:
        """C, the number of columns."""
        return self.M.shape[1]

    def widened(self, latent_size: int) -> Memory:
        """The same memory for encodings of more columns, of which those written so far have zeros: they stay
        the least-squares solution. Itself where it is that wide.
        """
        missing = latent_size - self.latent_size
        if missing <= 0:
            return self
        return replace(self, M=fitted(self.M, latent_size), moments=fitted(self.moments, latent_size))

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors that are carried from update to update."""
        return sum(tensor.nbytes for tensor in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """What is carried from update to update, by attribute."""
        return {name: getattr(self, name) for name in _TENSORS}

    def to(self, device: torch.device | str) -> Memory:
        """The same memory on ``device``."""
        if self.M.device == torch.device(device):
            return self
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in self.tensors().items()}
        return replace(self, **moved)

    def write(self, Z: Tensor, W: Tensor) -> Memory:
        """Write encodings (paper, eq. (mem_update_seq) with alpha = 1).

        Args:
            Z: encodings ``(N, C)``. Add observation noise ``xi`` with `add_noise` before addressing.
            W: writing weights ``(N, K)``.

        Raises:
            ValueError: shapes that do not fit, or a non-finite number.
        """
        return self.update(Z, W, alpha=1)

    def forget(self, Z: Tensor, W: Tensor) -> Memory:
        """Remove encodings that were written with the same ``Z`` and ``W`` (alpha = -1).

        Whether they were written cannot be told from the memory; the caller keeps that record.

        Raises:
            ValueError: as `update`; also when fewer pairs are written than are to be forgotten.
        """
        if Z.shape[0] > self.rows_written:
            raise ValueError(f"cannot forget {Z.shape[0]} encodings: {self.rows_written} are written")
        return self.update(Z, W, alpha=-1)

    def update(self, Z: Tensor, W: Tensor, alpha: int) -> Memory:
        """Add (alpha = 1) or remove (alpha = -1) pairs; ``M`` stays the least-squares solution.

        ``C_i = C_{i-1} + alpha W^T W`` and ``M_i = M_{i-1} + alpha C_i^{-1} W^T (Z - W M_{i-1})``
        (paper, eq. (mem_update_seq)), with the pseudoinverse where ``C_i`` is singular. Few rows go one by
        one, O(K^2 + K C) each; a block of more than K / 16 rows is solved at once, O(N K^2 + N K C + K^3).

        Raises:
            ValueError: shapes that do not fit, a non-finite number, or another alpha.
        """
        if alpha not in (1, -1):
            raise ValueError(f"alpha must be 1 (write) or -1 (forget), got {alpha}")
        Z, W = self._check(Z, W)
        count = Z.shape[0]
        rows_written = self.rows_written + alpha * count
        if rows_written == 0:
            return self.cleared()
        moved = replace(
            self,
            key_covariance=torch.addmm(self.key_covariance, W.T, W, alpha=alpha),
            moments=torch.addmm(self.moments, W.T, Z, alpha=alpha),
            rows_written=rows_written,
            updates=self.updates + count,
        )
        if count > max(1, self.num_rows // 16) or moved.updates >= self.refresh_every:
            return moved.refresh()
        solution = _Solution(self.M, self.inverse, self.key_covariance, self.rtol)
        step = solution.add if alpha == 1 else solution.remove
        if not all(step(z, w) for z, w in zip(Z, W, strict=True)):
            return moved.refresh()
        return replace(moved, M=solution.M, inverse=solution.inverse)

    def cleared(self) -> Memory:
        """The same memory with nothing written, and as wide as it was at first."""
        zeros: dict[str, Any] = {name: torch.zeros_like(tensor) for name, tensor in self.tensors().items()}
        for name in ("M", "moments"):
            zeros[name] = zeros[name][:, : self.core_size].contiguous()
        return replace(self, **zeros, rows_written=0, updates=0)

    def refresh(self) -> Memory:
        """``inverse`` and ``M`` recomputed from ``key_covariance`` and ``moments``, which rounding does not
        amplify.

        Rows that no key touches are left out of the decomposition, so that a sparsely used memory is cheap.
        """
        diagonal = self.key_covariance.diagonal()
        # Synchronisations with the device, here and below: sizes depend on what is used and on the rank.
        used = torch.nonzero(diagonal > self.rtol**2 * diagonal.max()).flatten()
        if not len(used):  # no key has any weight
            nothing = torch.zeros_like(self.M), torch.zeros_like(self.inverse)
            return replace(self, M=nothing[0], inverse=nothing[1], updates=0)
        eigenvalues, vectors = torch.linalg.eigh(self.key_covariance[used][:, used])
        keep = eigenvalues > self.rtol**2 * eigenvalues.max()
        vectors = vectors[:, keep]
        inverse = torch.zeros_like(self.inverse)
        inverse[used[:, None], used[None, :]] = (vectors / eigenvalues[keep]) @ vectors.T
        return replace(self, inverse=inverse, M=inverse @ self.moments, updates=0)

    def read(self, W: Tensor, sigma_w: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """``Z_read = W' M`` with ``W' ~ N(W, sigma_w^2 I)`` (paper, algorithm 1, read).

        Args:
            W: mean reading weights ``(N, K)``.
            sigma_w: standard deviation, >= 0; 0 reads deterministically.
            generator: source of the noise.

        Returns:
            ``(N, C)`` in ``dtype``.
        """
        W = W.to(self.M)
        return (add_noise(W, sigma_w, generator) @ self.M).to(self.dtype)

    def generate(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """``Z = W M`` with ``W ~ N(0, I)`` (paper, algorithm 1, generate): ``(count, C)`` in ``dtype``."""
        W = torch.randn(count, self.num_rows, generator=generator, device=self.M.device, dtype=self.M.dtype)
        return (W @ self.M).to(self.dtype)

    def _check(self, Z: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        if Z.ndim != 2 or W.ndim != 2 or Z.shape[0] != W.shape[0]:
            raise ValueError(
                f"Z (N, C) and W (N, K) must have the same N, got {tuple(Z.shape)} and {tuple(W.shape)}"
            )
        if Z.shape[1] != self.latent_size or W.shape[1] != self.num_rows:
            raise ValueError(
                f"a memory of K={self.num_rows}, C={self.latent_size} takes Z (N, {self.latent_size}) and "
                f"W (N, {self.num_rows}), got {tuple(Z.shape)} and {tuple(W.shape)}"
            )
        Z, W = Z.detach().to(self.M), W.detach().to(self.M)
        # A synchronisation with the device: nothing that is not finite gets in.
        if not bool(torch.isfinite(Z).all() & torch.isfinite(W).all()):
            raise ValueError("an encoding or a weight is not finite; nothing was written")
        return Z, W


def fitted(rows: Tensor, columns: int) -> Tensor:
    """Rows ``(n, m)`` with so many columns: cut, or with zeros behind what they have."""
    missing = columns - rows.shape[1]
    return rows[:, :columns] if missing <= 0 else torch.nn.functional.pad(rows, (0, missing))


def write(Z: Tensor, W0: Tensor, **options) -> Memory:
    """Posterior memory of one episode, ``M = W_0^+ Z`` (paper, algorithm 1, write).

    Args:
        Z: (noisy) encodings ``(N, C)``.
        W0: addressing weights ``(N, K)``, in the paper ``Z M_0^+`` with the prior memory ``M_0``.
        options: passed to `Memory.empty`.
    """
    return Memory.empty(W0.shape[1], Z.shape[1], device=Z.device, **options).write(Z, W0)


def add_noise(x: Tensor, sigma: float, generator: torch.Generator | None = None) -> Tensor:
    """``x + N(0, sigma^2 I)``: the paper's observation noise ``xi`` and the sampling of reading weights.

    Raises:
        ValueError: negative ``sigma``.
    """
    if sigma < 0:
        raise ValueError(f"a standard deviation must not be negative, got {sigma}")
    if sigma == 0:
        return x
    return x + sigma * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)


class _Solution:
    """Rank-one changes of the pseudoinverse and of the minimum-norm solution, in place of a decomposition.

    ``add`` is Greville's recursion, ``remove`` its inverse (Meyer 1973, Generalized inversion of modified
    matrices). Both return False, and leave the solution of no use, where rounding could decide the rank.
    """

    def __init__(self, M: Tensor, inverse: Tensor, key_covariance: Tensor, rtol: float):
        self.M, self.inverse, self.key_covariance = M, inverse, key_covariance
        band = _DOUBTFUL_BAND[M.dtype]
        self.certain, self.none = rtol * band, rtol / band

    def add(self, z: Tensor, w: Tensor) -> bool:
        g = self.inverse @ w
        outside = w - self.key_covariance @ g  # the part of w that no written key reaches
        residual = z - w @ self.M
        # A synchronisation with the device: the branch depends on it.
        relative = float(outside.norm() / w.norm().clamp_min(torch.finfo(w.dtype).tiny))
        if relative > self.certain:
            u = outside / (outside @ outside)
            cross = torch.outer(u, g)
            self.inverse = self.inverse - cross - cross.T + (1 + w @ g) * torch.outer(u, u)
            self.M = torch.addr(self.M, u, residual)
        elif relative < self.none:
            gain = g / (1 + w @ g)
            self.inverse = torch.addr(self.inverse, gain, g, alpha=-1)
            self.M = torch.addr(self.M, gain, residual)
        else:
            return False
        self.key_covariance = torch.addr(self.key_covariance, w, w)
        return True

    def remove(self, z: Tensor, w: Tensor) -> bool:
        g = self.inverse @ w
        # A synchronisation with the device: the branch depends on it.
        freedom = float(1 - w @ g)  # one minus the leverage: 0 where no other key reaches this direction
        if freedom > self.certain:
            gain = g / freedom
            self.inverse = torch.addr(self.inverse, gain, g)
            self.M = torch.addr(self.M, gain, z - w @ self.M, alpha=-1)
        elif abs(freedom) < self.none:
            v = g / g.norm()
            self.M = torch.addr(self.M, v, v @ self.M, alpha=-1)
            left = torch.addr(self.inverse, v, v @ self.inverse, alpha=-1)
            self.inverse = torch.addr(left, left @ v, v, alpha=-1)
        else:
            return False
        self.key_covariance = torch.addr(self.key_covariance, w, w, alpha=-1)
        return True
