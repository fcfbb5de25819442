"""The nearest of many written prompts: every one is compared, or an index is asked."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.utils.locks import Lock

# Embeddings of queries (N, E), and how many are wanted of each, to scores (N, k) and rows (N, k) of the
# nearest written prompts, best first; -inf and -1 where there are not so many.
Lookup = Callable[[Tensor, int], tuple[Tensor, Tensor]]

# Queries (N, E) and written prompts (n, E) to scores (N, n).
Similarity = Callable[[Tensor, Tensor], Tensor]

INDEX_FROM = (
    20_000  # rows from which an index is faster than a matrix product, measured by `larimar-editor bench`
)
_ASKED_FOR = 8  # of the index at least: some of what it finds may be forgotten
_FEW = 3  # queries up to which one after the other is faster than blocks of rows
_SHORTLIST = 64  # rows that are compared exactly after all were in half precision
_AT_ONCE = 64  # queries whose scores of all rows are held at once
_BLOCK = 1024  # rows in half precision that are compared together: they stay in the processor's cache


def exact(similarity: Similarity, written: Tensor, alive: Tensor | None = None) -> Lookup:
    """A look-up that compares with every row of ``written`` ``(n, E)``, less those that ``alive`` (bool
    ``(n,)``) leaves out.
    """

    def nearest(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        scores = similarity(queries, written) if len(written) else queries.new_zeros(len(queries), 0)
        return _best(scores, alive, count)

    return nearest


def cosines(written: Tensor, alive: Tensor | None = None) -> Lookup:
    """A look-up that compares unit vectors with every row of ``written`` ``(n, E)`` float16: half the bytes
    to go through, which is what a look-up takes its time for.

    The scores are those of the rows in float32. For a few queries all rows are compared in half precision
    first, and the `_SHORTLIST` nearest again: only where more than these are within a thousandth of the best
    may one of them be missed. For more queries, blocks of rows are made float32.

    Args:
        written, alive: see `exact`.
    """

    def nearest(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        if len(queries) > _FEW or len(written) <= max(_SHORTLIST, count):
            found = [_of_every_row(part, written, alive, count) for part in queries.split(_AT_ONCE)]
            scores, rows = zip(*found, strict=True)
            return torch.cat(scores), torch.cat(rows)
        found = [_of_shortlist(query, written, alive, count) for query in queries]
        scores, rows = zip(*found, strict=True)
        return torch.stack(scores), torch.stack(rows)

    return nearest


def _of_every_row(
    queries: Tensor, written: Tensor, alive: Tensor | None, count: int
) -> tuple[Tensor, Tensor]:
    """Scores and rows ``(N, count)`` of queries ``(N, E)``."""
    blocks = [queries @ block.float().T for block in written.split(_BLOCK)]
    return _best(torch.cat(blocks, dim=1), alive, count)


def every_row(similarity: Similarity, written: Tensor, alive: Tensor | None = None) -> Lookup:
    """A look-up that compares with every row, as they are kept: `cosines` of float16, else `exact`."""
    if written.dtype == torch.float16:
        return cosines(written, alive)
    return exact(similarity, written, alive)


def _of_shortlist(query: Tensor, written: Tensor, alive: Tensor | None, count: int) -> tuple[Tensor, Tensor]:
    """Scores and rows ``(count,)`` of one query ``(E,)``."""
    # As a layer's, for which there are kernels that are twice as fast as a product with one vector is.
    near = F.linear(query.half()[None], written).float()
    (rows,) = _best(near, alive, max(_SHORTLIST, count))[1]
    scores = written[rows.clamp(min=0)].float() @ query
    (best,), (places,) = _best(scores.masked_fill(rows < 0, -torch.inf)[None], None, count)
    return best, rows[places.clamp(min=0)].masked_fill(places < 0, -1)


def _best(scores: Tensor, alive: Tensor | None, count: int) -> tuple[Tensor, Tensor]:
    """The highest of ``scores`` ``(N, n)``, as a `Lookup` gives them."""
    if alive is not None and not bool(alive.all()):
        # Masking the scores rather than choosing the rows: those are E times as many numbers.
        scores = scores.masked_fill(~alive.to(scores.device), -torch.inf)
    best, rows = scores.topk(min(count, scores.shape[1]), dim=1)
    rows = rows.masked_fill(best == -torch.inf, -1)
    missing = (0, count - best.shape[1])
    return F.pad(best, missing, value=-torch.inf), F.pad(rows, missing, value=-1)


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

    def nearest(self, queries: Tensor, alive: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Scores and rows as a `Lookup` gives them; fewer than ``count`` for a query of whose candidates some
        are dead or too new.

        Args:
            queries: ``(N, E)``.
            alive: bool ``(n,)``, on the CPU; rows from n on are another state's.
            count: how many, at most `BREADTH_WHEN_ASKED`.
        """
        with self._lock:
            wanted = min(max(_ASKED_FOR, 2 * count), max(len(self), 1))
            result = self._index.search(_array(queries), wanted)
        scores, rows = map(torch.from_numpy, result)
        usable = (rows >= 0) & (rows < len(alive)) & alive[rows.clamp(0, len(alive) - 1)]
        # Candidates come best first; what is of no use goes to the end.
        order = (~usable).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
        usable, missing = usable.gather(1, order), (0, count - order.shape[1])
        scores = scores.gather(1, order).masked_fill(~usable, -torch.inf)
        rows = rows.gather(1, order).masked_fill(~usable, -1)
        return F.pad(scores, missing, value=-torch.inf), F.pad(rows, missing, value=-1)


def indexed(index: GraphIndex, compare: Lookup, written: Tensor, alive: Tensor) -> Lookup:
    """A look-up that asks an index, and ``compare``, which compares with every row, where of what the index
    finds too few are alive: what is found does not depend on what was forgotten nearby.
    """

    def nearest(queries: Tensor, count: int) -> tuple[Tensor, Tensor]:
        index.extend(written)
        score, row = index.nearest(queries, alive, count)
        if bool((row < 0).any()):
            missing = (row >= 0).sum(dim=1) < min(count, int(alive.sum()))
            if not bool(missing.any()):
                return score, row
            compared = compare(queries[missing.to(queries.device)], count)
            score[missing], row[missing] = (result.cpu() for result in compared)
        return score, row

    return nearest


def _array(rows: Tensor) -> np.ndarray:
    return np.ascontiguousarray(rows.detach().float().cpu().numpy())
