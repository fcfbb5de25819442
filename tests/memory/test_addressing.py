"""Weights over memory rows, against a float64 reference written from the paper's equations."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from larimar_editor.memory.addressing import (
    Reference,
    gaussian_weights,
    pseudoinverse_weights,
    random_reference,
)


def reference_gaussian(z, rows, alpha):
    """Eq. (gaussian_conv) in plain Python floats."""
    distances = [math.dist(z.tolist(), row.tolist()) for row in rows]
    sigma = min(distances)
    exponents = [-(d**2) / (2 * alpha * sigma**2) for d in distances]
    top = max(exponents)
    weights = [math.exp(e - top) for e in exponents]
    return torch.tensor([w / sum(weights) for w in weights], dtype=torch.float64)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([1e-3, 1e-2, 0.3, 2.0]), rows=st.integers(1, 9))
def test_gaussian_weights_follow_the_equation(seed, alpha, rows):
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(4, 7, generator=generator, dtype=torch.float64)
    M_ref = torch.randn(rows, 7, generator=generator, dtype=torch.float64)
    expected = torch.stack([reference_gaussian(z, M_ref, alpha) for z in Z])
    torch.testing.assert_close(gaussian_weights(Z, M_ref, alpha), expected, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e15])
def test_gaussian_weights_never_overflow(dtype, scale):
    generator = torch.Generator().manual_seed(0)
    weights = gaussian_weights(
        scale * torch.randn(5, 8, generator=generator, dtype=dtype),
        scale * torch.randn(16, 8, generator=generator, dtype=dtype),
        alpha=1e-3,
    )
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(5, dtype=dtype))


def test_a_row_of_the_reference_is_addressed_one_hot_and_equal_rows_share():
    M_ref = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    expected = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    assert torch.equal(gaussian_weights(M_ref[:2], M_ref), expected)


def test_pseudoinverse_weights_solve_the_normal_equations():
    generator = torch.Generator().manual_seed(0)
    M, W = torch.randn(5, 9, generator=generator).double(), torch.randn(3, 5, generator=generator).double()
    # Independent rows: z = w M has exactly one solution w, which lstsq finds too.
    expected = torch.linalg.lstsq(M.T, (W @ M).T).solution.T
    torch.testing.assert_close(pseudoinverse_weights(W @ M, M), expected)
    torch.testing.assert_close(pseudoinverse_weights(W @ M, M), W)


@pytest.mark.parametrize("addressing", ["gaussian", "pseudoinverse"])
def test_keys_written_into_a_reference_from_prompts_get_rows_of_their_own(addressing):
    keys = torch.randn(4, 9, generator=torch.Generator().manual_seed(0))
    reference = Reference.from_prompts(6, 9, addressing).extended(keys)
    torch.testing.assert_close(reference.weights(keys), torch.eye(6).double()[:4], atol=1e-12, rtol=0)
    assert reference.extended(keys).in_use.sum() == 4, "a key that is in it already takes no second row"


def test_a_full_reference_shares_rows_and_a_released_row_is_taken_again():
    keys = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    full = Reference.from_prompts(2, 4).extended(keys)
    assert full.in_use.all() and torch.equal(full.rows, keys[:2].double())
    shared = gaussian_weights(keys[2:].double(), keys[:2].double())
    torch.testing.assert_close(full.weights(keys[2:]), shared, atol=0, rtol=0)
    released = full.released(torch.tensor([True, False]))
    assert torch.equal(released.extended(keys[2:]).weights(keys[2:])[0], torch.tensor([1.0, 0.0]).double())


def test_a_fixed_reference_does_not_change_and_recomputes_the_same_key():
    rows = random_reference(5, 8, seed=3)
    reference = Reference.fixed(rows)
    keys = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
    assert reference.extended(keys) is reference
    torch.testing.assert_close(reference.weights(keys), keys.double() @ torch.linalg.pinv(rows.double()))
    assert torch.equal(random_reference(5, 8, seed=3), rows)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="alpha"):
        gaussian_weights(torch.ones(1, 2), torch.ones(1, 2), alpha=0.0)
    with pytest.raises(ValueError, match="no row"):
        gaussian_weights(torch.ones(1, 2), torch.ones(0, 2))
    with pytest.raises(ValueError, match="nearest"):
        Reference.from_prompts(2, 2, "nearest")
    assert not Reference.from_prompts(2, 2).weights(torch.ones(3, 2)).any()
