"""The scope look-up among many written prompts: every one compared, and by an index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.bench.clock import seconds_of, summary
from larimar_editor.scope.nearest import GraphIndex, cosines, indexed

QUERIES = 200


def lookups(counts: Sequence[int], seeds: Tensor) -> list[dict]:
    """Seconds of the look-up of one query among so many prompts, exactly and by FAISS, and the index's recall
    of the nearest.

    Args:
        counts: numbers of written prompts.
        seeds: embeddings of real prompts ``(n, E)``, unit length. Written prompts are these with noise
            (cosine about 0.7); queries are written prompts with noise (cosine about 0.8), as rephrasings are.
    """
    result = []
    for count in counts:
        made = _noisy(seeds[torch.arange(count) % len(seeds)], 1.0, seed=count)
        rows = made.half()  # as they are kept
        queries = _noisy(made[:: max(1, count // QUERIES)][:QUERIES], 0.75, seed=count + 1)
        alive = torch.ones(count, dtype=torch.bool)
        compare = cosines(rows, alive)
        row: dict = {"prompts": count, "exact": _spent(compare, queries)}
        result.append(row)
        try:
            index = GraphIndex(rows.shape[1])
        except ModuleNotFoundError:
            continue
        (building,) = seconds_of([partial(index.extend, rows)])
        ask = indexed(index, compare, rows, alive)
        same = (ask(queries, 1)[1] == compare(queries, 1)[1]).float().mean()
        row |= {"faiss": _spent(ask, queries), "recall": float(same), "seconds_to_add": building / count}
    return result


def _spent(lookup, queries: Tensor) -> dict:
    return summary(seconds_of([partial(lookup, query[None], 4) for query in queries]))


def _noisy(rows: Tensor, amount: float, seed: int) -> Tensor:
    noise = torch.randn(rows.shape, generator=torch.Generator().manual_seed(seed))
    return F.normalize(rows + amount * F.normalize(noise, dim=1), dim=1)
