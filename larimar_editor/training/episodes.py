"""Writing and reading one episode with gradients (paper, algorithm 1), and the KL term of its reading
weights.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pseudoinverse(A: Tensor) -> Tensor:
    """``A^+`` of a matrix of full rank, ``(n, m)`` to ``(m, n)``, by Cholesky on the smaller side,
    differentiable.

    A ridge of 1e-6 times the mean squared row norm keeps the decomposition defined; the relative error it
    brings is 1e-6 times the squared condition number. `larimar_editor.memory.memory`, which edits go through,
    has none.
    """
    wide = A.shape[0] <= A.shape[1]
    rows = A if wide else A.T
    gram = rows @ rows.T
    ridge = 1e-6 * gram.diagonal().mean().clamp_min(1e-12)
    factor = torch.linalg.cholesky(gram + ridge * torch.eye(len(gram), dtype=A.dtype, device=A.device))
    inverse = torch.cholesky_solve(rows, factor)
    return inverse.T if wide else inverse


def read_episodes(
    Z: Tensor,
    prior_inverse: Tensor,
    sigma_w: Tensor,
    length: int,
    observation_noise: float = 0.0,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Write each run of ``length`` encodings to a memory of its own and read all of it back.

    ``W_0 = (Z + xi) M_0^+``, ``M = W_0^+ (Z + xi)``, ``W ~ N(Z M^+, sigma_W^2 I)``, ``Z_read = W M`` (paper,
    algorithm 1).

    Args:
        Z: encodings ``(N, C)``, or wider where an answer is longer: its first C numbers address as it is
            written, and all of it as it is read.
        prior_inverse: ``M_0^+`` of the prior memory, ``(C, K)``.
        sigma_w: standard deviation of the reading weights, a scalar tensor, > 0 or 0.
        length: encodings per episode, at least 1; the last episode may be shorter.
        observation_noise: standard deviation of xi.
        generator: source of xi and of the sampled weights.

    Returns:
        readouts, as wide as ``Z``, and the mean reading weights ``(N, K)``.
    """
    readouts, weights = [], []
    for z in Z.split(length):
        noisy = z + observation_noise * torch.randn(
            z.shape, generator=generator, device=z.device, dtype=z.dtype
        )
        W0 = noisy[:, : len(prior_inverse)] @ prior_inverse
        M = pseudoinverse(W0) @ noisy
        # With fewer encodings than rows M has not full rank, and M^+ = (W_0^+ Z)^+ is Z^+ W_0.
        W = z @ (pseudoinverse(noisy) @ W0 if len(z) < M.shape[0] else pseudoinverse(M))
        noise = torch.randn(W.shape, generator=generator, device=z.device, dtype=z.dtype)
        readouts.append((W + sigma_w * noise) @ M)
        weights.append(W)
    return torch.cat(readouts), torch.cat(weights)


def reading_kl(W: Tensor, sigma_w: Tensor) -> Tensor:
    """``D_KL(N(W, sigma_W^2 I) || N(0, I))``, mean over encodings (paper, eq. (obj), third term)."""
    variance = sigma_w**2
    return 0.5 * (W.square() + variance - variance.clamp_min(1e-12).log() - 1).sum(dim=1).mean()


def kl_strength(
    step: int, total: int, beta: float, cycles: int = 10, zero: float = 0.5, ramp: float = 0.25
) -> float:
    """The annealed beta: in each of ``cycles`` it is 0, then rises linearly, then stays (Li et al. 2020, as
    in the paper).
    """
    if beta == 0 or cycles == 0:
        return beta
    place = (step / max(1, total) * cycles) % 1.0
    return beta * min(1.0, max(0.0, (place - zero) / ramp)) if ramp else beta * (place >= zero)
