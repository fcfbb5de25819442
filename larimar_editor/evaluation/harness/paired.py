"""Two conditions on the same cases: the difference, case by case."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import permutation_test

from larimar_editor.evaluation.harness.estimates import Estimate, bootstrapped, clusters_in, grouped, wilson

if TYPE_CHECKING:
    from larimar_editor.evaluation.harness.evaluation import Column


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean difference over cases.

    Attributes:
        p: probability of a mean difference this far from zero, either way, were the two conditions' names
            without meaning (paired permutation test, in [0, 1]).
    """

    p: float


def difference(
    ours: Sequence[float],
    theirs: Sequence[float],
    scale: float = 1.0,
    share: bool = True,
    clusters: Sequence[Hashable] | None = None,
) -> Difference | None:
    """Mean of ``ours - theirs`` with its 95% interval and a paired test; None without a case.

    The interval is the percentile bootstrap over clusters of cases (2,000 resamples, seed 0). Where all cases
    differ by the same the bootstrap sees no spread; of shares, Wilson's interval then says how much the count
    alone leaves open. The test exchanges the two within clusters, in all of whose cases at once: in all ways
    where these are at most 9,999, else in so many (seed 0).

    Args:
        ours, theirs: one value per case, in the same order.
        scale: factor, 100 for percent.
        share: whether each value is one, from 0 to 1, and no count.
        clusters: of each case, which it belongs to; None: each is one.
    """
    apart = np.subtract(ours, theirs, dtype=float)
    if not len(apart):
        return None
    value = float(apart.mean())
    sums, sizes = grouped(apart, range(len(apart)) if clusters is None else clusters)
    if np.ptp(apart) == 0:
        low, high = _without_spread(value, len(sums)) if share else (value, value)
    else:
        low, high = bootstrapped(sums, sizes)
    return Difference(scale * value, len(sums), scale * low, scale * high, _p(sums))


def paired(column: Column, ours: Mapping[str, Mapping], theirs: Mapping[str, Mapping]) -> Difference | None:
    """`difference` of a column over the cases that both have a value for.

    Args:
        column: of the table.
        ours, theirs: records of the two conditions by their case.
    """
    both = {case: (column.value(ours[case]), column.value(theirs[case])) for case in theirs if case in ours}
    known = {
        case: (own, other) for case, (own, other) in both.items() if own is not None and other is not None
    }
    return difference(
        [own for own, _ in known.values()],
        [other for _, other in known.values()],
        column.scale,
        column.share,
        clusters_in([theirs[case] for case in known]),
    )


def _p(apart: np.ndarray) -> float:
    if len(apart) < 2 or not apart.any():
        return 1.0
    result = permutation_test(
        (apart, np.zeros_like(apart)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def _without_spread(value: float, count: int) -> tuple[float, float]:
    """Of shares, which differ by 1 at most."""
    least, most = wilson(1.0, count)[0], wilson(0.0, count)[1]
    if value == 0:
        return -most, most
    if abs(value) == 1:
        return (least, 1.0) if value > 0 else (-1.0, -least)
    return value, value
