"""The nearest of many written prompts: every one is compared, or an index is asked."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from larimar_editor.utils.locks import Lock

# Embeddings of queries (N, E) to scores (N,) and rows (N,) of the nearest written prompts; -inf and -1 where
# there is none.
Lookup = Callable[[Tensor], tuple[Tensor, Tensor]]

# Queries (N, E) and written prompts (n, E) to scores (N, n).
Similarity = Callable[[Tensor, Tensor], Tensor]

INDEX_FROM = (
    20_000  # rows from which an index is faster than a matrix product, measured by `larimar-editor bench`
)
_CANDIDATES = 8


def exact(similarity: Similarity, written: Tensor, alive: Tensor | None = None) -> Lookup:
    """A look-up that compares with every row of ``written`` ``(n, E)``, less those that ``alive`` (bool
    ``(n,)``) leaves out.
    """

    def nearest(queries: Tensor) -> tuple[Tensor, Tensor]:
        if not written.shape[0] or (alive is not None and not bool(alive.any())):
            count = queries.shape[0]
            return queries.new_full((count,), -torch.inf), torch.full((count,), -1, device=queries.device)
        scores = similarity(queries, written)
        if alive is not None and not bool(alive.all()):
            # Masking the scores rather than choosing the rows: those are E times as many numbers.
            scores = scores.masked_fill(~alive.to(scores.device), -torch.inf)
        return scores.max(dim=1)

    return nearest


class GraphIndex:
    """FAISS's HNSW graph over rows that only grow; inner product of unit vectors.

    Args:
        size: E.

    Raises:
        ModuleNotFoundError: FAISS is not installed; the message says how to get it.
    """

    LINKS, BREADTH_WHEN_ADDING, BREADTH_WHEN_ASKED = 32, 120, 256

    def __init__(self, size: int):
        try:
            faiss = importlib.import_module("faiss")
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "scope_index: faiss needs FAISS: pip install faiss-cpu, or set scope_index: exact",
                name="faiss",
            ) from error
        self._lock = Lock()  # FAISS adds and searches one at a time
        self._index = faiss.IndexHNSWFlat(size, self.LINKS, faiss.METRIC_INNER_PRODUCT)
        self._index.hnsw.efConstruction = self.BREADTH_WHEN_ADDING
        self._index.hnsw.efSearch = self.BREADTH_WHEN_ASKED

    def __len__(self) -> int:
        return self._index.ntotal

    def extend(self, rows: Tensor) -> None:
        """Add those of ``rows`` ``(n, E)`` that are not in it yet, the last ones."""
        with self._lock:
            if len(rows) > len(self):
                self._index.add(_array(rows[len(self) :]))

    def nearest(self, queries: Tensor, alive: Tensor) -> tuple[Tensor, Tensor]:
        """Scores and rows as a `Lookup` gives them; row -1 for a query whose candidates are all dead or too
        new.

        Args:
            queries: ``(N, E)``.
            alive: bool ``(n,)``, on the CPU; rows from n on are another state's.
        """
        with self._lock:
            result = self._index.search(_array(queries), min(_CANDIDATES, len(self)))
        scores, rows = map(torch.from_numpy, result)
        usable = (rows >= 0) & (rows < len(alive)) & alive[rows.clamp(0, len(alive) - 1)]
        first = usable.int().argmax(dim=1, keepdim=True)  # candidates come best first
        score, row = scores.gather(1, first)[:, 0], rows.gather(1, first)[:, 0]
        any_usable = usable.any(dim=1)
        return score.where(any_usable, torch.tensor(-torch.inf)), row.where(any_usable, torch.tensor(-1))


def indexed(index: GraphIndex, similarity: Similarity, written: Tensor, alive: Tensor) -> Lookup:
    """A look-up that asks an index, and compares with every row where the index knows only dead ones."""

    def nearest(queries: Tensor) -> tuple[Tensor, Tensor]:
        index.extend(written)
        score, row = index.nearest(queries, alive)
        if bool((missing := row < 0).any()):
            compared = exact(similarity, written, alive)(queries[missing.to(queries.device)])
            score[missing], row[missing] = (result.cpu() for result in compared)
        return score, row

    return nearest


def _array(rows: Tensor) -> np.ndarray:
    return np.ascontiguousarray(rows.detach().float().cpu().numpy())
