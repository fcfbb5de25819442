"""A mean with its count and 95% confidence interval."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy.stats import binomtest, bootstrap


@dataclass(frozen=True)
class Estimate:
    """A measured number.

    Attributes:
        value: the mean (or another statistic).
        count: cases behind it, or clusters of them; None of what is no mean over cases, such as a peak.
        low, high: 95% confidence interval.
    """

    value: float
    count: int | None
    low: float
    high: float

    def to_dict(self) -> dict:
        """As plain numbers, which JSON can hold."""
        return asdict(self)


def mean(
    values: Iterable[float | None],
    scale: float = 1.0,
    share: bool = True,
    clusters: Iterable[Hashable] | None = None,
) -> Estimate | None:
    """Estimate from one value per case; None without a case.

    The interval is the percentile bootstrap over clusters of cases (2,000 resamples, seed 0). Where every
    case has the same value the bootstrap sees no spread; of shares, Wilson's interval then says at 0 and 1,
    where they end, how much the count alone leaves open.

    Args:
        values: one per case.
        scale: factor, 100 for percent.
        share: whether each value is one, from 0 to 1, and no count or difference.
        clusters: of each case, which it belongs to; None: each is one.
    """
    cases = zip(values, count() if clusters is None else clusters)
    known = [(value, cluster) for value, cluster in cases if value is not None]
    if not known:
        return None
    array = np.array([value for value, _ in known], dtype=float)
    sums, sizes = grouped(array, [cluster for _, cluster in known])
    value = float(np.mean(array))
    if np.ptp(array) == 0:
        low, high = wilson(value, len(sums)) if share and value in (0, 1) else (value, value)
    else:
        low, high = bootstrapped(sums, sizes)
    return Estimate(scale * value, len(sums), scale * low, scale * high)


def clusters_in(records: Sequence[Mapping]) -> list[Hashable] | None:
    """The ``cluster`` of each record; None where they have none."""
    said = [record["cluster"] for record in records if isinstance(record, Mapping) and "cluster" in record]
    return said or None


def grouped(array: np.ndarray, clusters: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of each cluster's values."""
    places = {cluster: place for place, cluster in enumerate(dict.fromkeys(clusters))}
    of_each = [places[cluster] for cluster in clusters]
    return np.bincount(of_each, array), np.bincount(of_each)


def bootstrapped(sums: np.ndarray, sizes: np.ndarray) -> tuple[float, float]:
    """Percentile bootstrap of a mean over clusters, 95% (2,000 resamples, seed 0); the mean itself of one
    cluster, which says nothing of others.

    Args:
        sums, sizes: as `grouped` makes them; values that are not all the same.
    """
    if len(sums) == 1:
        low = high = sums[0] / sizes[0]
    elif (sizes == 1).all():
        rng = np.random.default_rng(0)
        drawn = bootstrap((sums,), np.mean, n_resamples=2000, method="percentile", rng=rng)
        low, high = drawn.confidence_interval
    else:
        chosen = np.random.default_rng(0).integers(len(sums), size=(2000, len(sums)))
        low, high = np.percentile(sums[chosen].sum(1) / sizes[chosen].sum(1), (2.5, 97.5))
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
