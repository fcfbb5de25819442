"""How an encoding becomes weights over the K memory rows.

Two rules, against the current memory or against a fixed reference memory ``M_ref`` (paper, section
"Sequential Writing and Forgetting" and the appendix "Additional Experimental Details"):

- `pseudoinverse_weights`: ``W = Z M_ref^+``;
- `gaussian_weights`: eq. (gaussian_conv), a Gaussian of the distance to each row, normalised to sum to one.

`Reference` is the fixed reference memory: random, the trained prior, or built from the written prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

Addressing = Literal["gaussian", "pseudoinverse"]
ADDRESSINGS = ("gaussian", "pseudoinverse")

# Keys are float32: directions of the reference memory that are relatively smaller than this are noise, and
# would come back as weights of this number's inverse. Nearly equal keys count as one.
_SAME_KEYS = 1e-4


def pseudoinverse_weights(Z: Tensor, M: Tensor, rtol: float | None = None) -> Tensor:
    """``W = Z M^+`` (paper, algorithm 1, with ``M_0`` for writing and ``M`` for reading).

    Args:
        Z: encodings ``(N, C)``.
        M: memory or reference memory ``(K, C)``.
        rtol: singular values below ``rtol`` times the largest count as zero; torch's default when None.

    Returns:
        weights ``(N, K)`` in the wider of the two dtypes.
    """
    dtype = torch.promote_types(Z.dtype, M.dtype)
    return Z.to(dtype) @ torch.linalg.pinv(M.to(dtype), rtol=rtol)


def gaussian_weights(Z: Tensor, M_ref: Tensor, alpha: float = 1e-3) -> Tensor:
    """Eq. (gaussian_conv): ``w_k ~ exp(-||z - m_k||^2 / (2 alpha sigma^2))``, ``sigma = min_k ||z - m_k||``.

    Computed as a softmax over logits that are shifted by the largest, so that no distance, however large,
    overflows. Where ``z`` is a row of ``M_ref``, sigma is 0 and the limit is taken: all the weight goes to
    that row, shared evenly among equal rows.

    Args:
        Z: encodings ``(N, C)``, of finite numbers.
        M_ref: reference memory ``(K, C)``, K >= 1, of finite numbers.
        alpha: > 0; towards 0 the weights become one-hot.

    Returns:
        weights ``(N, K)``, >= 0, each row summing to one.

    Raises:
        ValueError: alpha not above 0, or no row in use.
    """
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, got {alpha}")
    if M_ref.shape[0] == 0:
        raise ValueError("the reference memory has no row in use")
    dtype = torch.promote_types(Z.dtype, M_ref.dtype)
    Z, M_ref = Z.to(dtype), M_ref.to(dtype)
    # Differences rather than the expanded square: a row's distance to itself must be exactly zero.
    distance = torch.cdist(Z, M_ref, compute_mode="donot_use_mm_for_euclid_dist")
    sigma = distance.min(dim=1, keepdim=True).values
    ratio = distance / sigma.clamp_min(torch.finfo(dtype).tiny)
    logits = -(ratio.square() - 1) / (2 * alpha)
    exact = torch.where(distance == 0, 0.0, -torch.inf)
    return torch.softmax(torch.where(sigma == 0, exact, logits), dim=1)


def random_reference(num_rows: int, key_size: int, seed: int = 0, std: float = 1.0) -> Tensor:
    """``M_ref`` with entries from N(0, std^2), as in the paper's forgetting experiments: ``(K, C)``,
    float32.
    """
    generator = torch.Generator().manual_seed(seed)
    return std * torch.randn(num_rows, key_size, generator=generator)


@dataclass(frozen=True)
class Reference:
    """The reference memory and the rule that reads it. Immutable.

    Attributes:
        rows: ``(K, key_size)``, float64; when it is built from prompts those in use are written keys.
        in_use: bool ``(K,)``, on the CPU, so that bookkeeping waits for no GPU; rows that take part in
            addressing.
        addressing: "gaussian" or "pseudoinverse".
        alpha: the Gaussian's width, see `gaussian_weights`.
        grows: whether a written key takes a free row (reference memory built from prompts) or the
            rows stay as they were given (random, or the trained prior).
        pseudoinverse: of the rows in use, ``(key_size, rows in use)``, where keys nearly equal count as one:
            kept, so that addressing takes no decomposition. None with "gaussian".
    """

    rows: Tensor
    in_use: Tensor
    addressing: Addressing = "gaussian"
    alpha: float = 1e-3
    grows: bool = True
    pseudoinverse: Tensor | None = None

    @classmethod
    def from_prompts(
        cls,
        num_rows: int,
        key_size: int,
        addressing: Addressing = "gaussian",
        alpha: float = 1e-3,
        device: torch.device | str = "cpu",
    ) -> Reference:
        """An empty reference memory that each newly written prompt extends by its key, while rows are
        free.
        """
        rows = torch.zeros(num_rows, key_size, dtype=torch.float64, device=device)
        return cls(rows, torch.zeros(num_rows, dtype=torch.bool), _known(addressing), alpha)

    @classmethod
    def fixed(cls, rows: Tensor, addressing: Addressing = "pseudoinverse", alpha: float = 1e-3) -> Reference:
        """A reference memory that never changes: random, or the trained prior. ``rows`` is ``(K,
        key_size)``.
        """
        rows = rows.detach().double()
        in_use = torch.ones(rows.shape[0], dtype=torch.bool)
        return cls(rows, in_use, _known(addressing), alpha, grows=False)._with_pseudoinverse()

    @property
    def num_rows(self) -> int:
        """K, the number of rows, in use or not."""
        return self.rows.shape[0]

    def to(self, device: torch.device | str) -> Reference:
        """The same reference memory on ``device``."""
        pseudoinverse = None if self.pseudoinverse is None else self.pseudoinverse.to(device)
        return replace(self, rows=self.rows.to(device), pseudoinverse=pseudoinverse)

    def weights(self, Z: Tensor) -> Tensor:
        """Reading or writing weights of encodings ``(N, key_size)``: ``(N, K)``, float64.

        With no row in use there is nothing to read, and all weights are zero.
        """
        W = torch.zeros(Z.shape[0], self.num_rows, dtype=self.rows.dtype, device=self.rows.device)
        if not bool(self.in_use.any()):
            return W
        Z = Z.detach().to(self.rows)
        if self.addressing == "gaussian":
            W[:, self.in_use] = gaussian_weights(Z, self.rows[self.in_use], self.alpha)
        else:
            assert self.pseudoinverse is not None, "kept up to date by _with_pseudoinverse"
            W[:, self.in_use] = Z @ self.pseudoinverse
        return W

    def extended(self, Z: Tensor) -> Reference:
        """With the keys ``(N, key_size)`` placed in free rows, one each.

        Keys that are in it already take no second row; once no row is free, later keys share the rows of
        rows near them through their weights. Unchanged when the rows are fixed.

        With ``pseudoinverse`` the weights of keys that are in it already stay as they are only while keys are
        linearly independent; beyond, take fixed rows (the paper's, which "remains unchanged").
        """
        if not self.grows:
            return self
        rows, in_use = self.rows.clone(), self.in_use.clone()
        for keys in Z.detach().to(rows).split(64):
            free = torch.nonzero(~in_use).flatten()
            if not len(free):
                break
            known = (keys[:, None] == rows[in_use]).all(dim=2).any(dim=1)
            first = (keys[:, None] == keys).all(dim=2).int().argmax(dim=1)
            # A synchronisation with the device: which keys are new is decided on the host.
            told = torch.stack((known, first), dim=1).tolist()
            new = [place for place, (is_known, same) in enumerate(told) if not is_known and same == place][
                : len(free)
            ]
            free = free[: len(new)]
            rows[free.to(rows.device)] = keys[new]
            in_use[free] = True
        return self.with_rows(rows, in_use)

    def with_rows(self, rows: Tensor, in_use: Tensor) -> Reference:
        """The same rule with other rows ``(K, key_size)``, of which ``in_use`` (bool ``(K,)``, on the CPU)
        take part.
        """
        return replace(self, rows=rows, in_use=in_use)._with_pseudoinverse()

    def released(self, unused: Tensor) -> Reference:
        """Without the rows marked in ``unused`` (bool ``(K,)``, on the CPU), which no written key touches any
        more.
        """
        if not self.grows or not bool((unused & self.in_use).any()):
            return self
        return replace(self, in_use=self.in_use & ~unused)._with_pseudoinverse()

    def _with_pseudoinverse(self) -> Reference:
        if self.addressing != "pseudoinverse":
            return self
        return replace(self, pseudoinverse=torch.linalg.pinv(self.rows[self.in_use], rtol=_SAME_KEYS))


def _known(addressing: str) -> Addressing:
    if addressing not in ADDRESSINGS:
        raise ValueError(f"addressing must be one of {', '.join(ADDRESSINGS)}, got {addressing!r}")
    return addressing  # type: ignore[return-value]
