"""A mean with its count and 95% confidence interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest, bootstrap


@dataclass(frozen=True)
class Estimate:
    """A measured number.

    Attributes:
        value: the mean (or another statistic).
        count: cases behind it; None of what is no mean over cases, such as a peak.
        low, high: 95% confidence interval.
    """

    value: float
    count: int | None
    low: float
    high: float

    def to_dict(self) -> dict:
        """As plain numbers, which JSON can hold."""
        return asdict(self)


def mean(values: Iterable[float | None], scale: float = 1.0, share: bool = True) -> Estimate | None:
    """Estimate from one value per case; None without a case.

    The interval is the percentile bootstrap over cases (2,000 resamples, seed 0). Where every case has the
    same value the bootstrap sees no spread; of shares, Wilson's interval then says at 0 and 1, where they
    end, how much the count alone leaves open.

    Args:
        values: one per case.
        scale: factor, 100 for percent.
        share: whether each value is one, from 0 to 1, and no count or difference.
    """
    array = np.array([value for value in values if value is not None], dtype=float)
    if not len(array):
        return None
    value = float(np.mean(array))
    if np.ptp(array) == 0:
        low, high = wilson(value, len(array)) if share and value in (0, 1) else (value, value)
    else:
        low, high = bootstrapped(array)
    return Estimate(scale * value, len(array), scale * float(low), scale * float(high))


def bootstrapped(array: np.ndarray) -> tuple[float, float]:
    """Percentile bootstrap of a mean, 95% (2,000 resamples, seed 0), of values that are not all the same."""
    drawn = bootstrap((array,), np.mean, n_resamples=2000, method="percentile", rng=np.random.default_rng(0))
    low, high = drawn.confidence_interval
    return float(low), float(high)


def resampled(
    records: Sequence, statistic: Callable[[Sequence], Any], scale: float = 1.0, resamples: int = 300
) -> Estimate:
    """A statistic of whole records, such as an equal-error rate, its 95% interval by resampling them (seed
    0).
    """
    rng = np.random.default_rng(0)
    drawn = [
        statistic([records[i] for i in rng.integers(len(records), size=len(records))])
        for _ in range(resamples)
    ]
    low, high = np.percentile(drawn, (2.5, 97.5))
    return Estimate(scale * statistic(records), len(records), scale * float(low), scale * float(high))


def wilson(share: float, count: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share of so many cases."""
    interval = binomtest(round(share * count), count).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
