"""Seconds, and what is said of many of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from larimar_editor.utils.device import timed_call


def seconds_of(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of each call, one after the other, CUDA synchronised before and after."""
    return [timed_call(call)[1] for call in calls]


def summary(seconds: Sequence[float]) -> dict:
    """First, median and 99th percentile, the first left out of both; seconds."""
    rest = list(seconds[1:]) or list(seconds)
    return {
        "first": seconds[0],
        "median": float(np.median(rest)),
        "p99": float(np.percentile(rest, 99)),
        "count": len(seconds),
    }


@contextmanager
def timed(owner: object, name: str, into: list[float]) -> Iterator[None]:
    """While it lasts, each call of ``owner.name`` adds its seconds to ``into``."""
    original, own = getattr(owner, name), vars(owner).get(name)

    def call(*args, **kwargs):
        result, seconds = timed_call(original, *args, **kwargs)
        into.append(seconds)
        return result

    setattr(owner, name, call)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
