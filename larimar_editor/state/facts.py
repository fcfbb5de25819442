"""The facts that are written, and what scope and memory need of each."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from larimar_editor.scope.nearest import GraphIndex
from larimar_editor.state.entries import Entries, EntriesInMemory, Entry
from larimar_editor.state.fact import Fact, key_of
from larimar_editor.utils.locks import Lock

_FEW = 64  # rows among which the forgotten are left alone
_AT_ONCE = 1000  # facts that are looked at together


class UnknownFact(KeyError):
    """Forgetting, or asking for, a fact that is not written."""

    def __str__(self) -> str:
        return str(self.args[0])


def facts_from(requests: Iterable[Mapping | Fact]) -> list[Fact]:
    """The facts of one batch, each once.

    Raises:
        ValueError: as `Fact.from_request`; also when one prompt is given two targets.
    """
    if isinstance(requests, Mapping):
        raise ValueError(f"requests are a list of mappings, got one mapping: {dict(requests)}")
    facts: dict[str, Fact] = {}
    for request in requests:
        if not isinstance(request, (Fact, Mapping)):
            raise ValueError(f"a request is a mapping with 'prompt' and 'target_new', got {request!r}")
        fact = request if isinstance(request, Fact) else Fact.from_request(request)
        known = facts.setdefault(fact.key, fact)
        if known.says(fact):
            if fact.adds_to(known):
                facts[fact.key] = fact
        else:
            raise ValueError(
                f"one batch gives two targets for the prompt {fact.prompt!r}: {known.target_new!r} and "
                f"{fact.target_new!r}"
            )
    return list(facts.values())


@dataclass
class _Ids:
    """The next id, of all stores that come from one."""

    next: int = 1


@dataclass
class _Log:
    """Rows that only ever grow, shared by every store that was made from them."""

    entries: Entries = field(default_factory=EntriesInMemory)
    ids: _Ids = field(default_factory=_Ids)
    columns: dict[str, Tensor] = field(default_factory=dict)
    indices: dict[str, GraphIndex] = field(default_factory=dict)
    hashes: array = field(default_factory=lambda: array("Q"))
    capacity: int = 0
    lock: Lock = field(default_factory=Lock)

    def chosen(self, rows: Sequence[int]) -> _Log:
        """These rows alone; the given ones stay as they are."""
        rows = list(rows)
        columns = {name: values[rows] for name, values in self.columns.items() if rows}
        return _Log(self.entries.chosen(rows), self.ids, columns, capacity=len(rows))


@dataclass(frozen=True)
class FactStore:
    """Facts with one row of numbers per fact and column. Immutable, and cheap to extend.

    Stores share their rows: of each row a store says whether it is its own. One that is extended leaves the
    earlier one as it was.

    Attributes:
        alive: bool ``(rows,)``, on the CPU; False for a fact that was forgotten, or is another store's.
        count: facts that are alive.
    """

    _log: _Log = field(default_factory=_Log, repr=False)
    alive: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    count: int = 0

    def __len__(self) -> int:
        return self.count

    @property
    def length(self) -> int:
        """Rows that it knows of, alive or not."""
        return len(self.alive)

    @property
    def next_id(self) -> int:
        """Id of the next fact that this store, or another that comes from the same, is extended by."""
        return self._log.ids.next

    @property
    def entries(self) -> Entries:
        """What there is of the facts, by row; also of rows that are another store's."""
        return self._log.entries

    def alive_rows(self) -> list[int]:
        """The rows of the written facts, oldest first."""
        ids = self._log.entries.ids
        return sorted(_places(self.alive), key=ids.__getitem__)

    def facts(self) -> list[Fact]:
        """The written facts, oldest first."""
        return self._log.entries.facts(self.alive_rows())

    def row(self, fact: Fact | str | int) -> int | None:
        """The row of a fact, by itself, its prompt or its id; None when it is not written, as where its
        prompt has got another target since.

        Raises:
            TypeError: what is none of these.
        """
        if isinstance(fact, int) and not isinstance(fact, bool):  # True would be the fact of id 1
            row = self._log.entries.row_of(fact)
            rows: Iterable[int] = [] if row is None else [row]
        elif isinstance(fact, (Fact, str)):
            rows = self._log.entries.rows_of(fact.key if isinstance(fact, Fact) else key_of(fact))
        else:
            raise TypeError(
                f"a fact is named by itself, by its prompt or by its id, got {fact!r}; several are given one "
                "by one: forget(first, second)"
            )
        row = next((row for row in rows if row < self.length and bool(self.alive[row])), None)
        if row is not None and isinstance(fact, Fact) and not self.fact(row).says(fact):
            return None
        return row

    def find(self, fact: Fact | str | int) -> Fact | None:
        """The written fact, by itself, its prompt or its id; None when it is not written."""
        row = self.row(fact)
        return None if row is None else self.fact(row)

    def rows(self, facts: Iterable[Fact | str | int]) -> list[int]:
        """The rows of facts, each named by itself, its prompt or its id.

        Raises:
            UnknownFact: one that is not written, or named twice.
        """
        result: dict[int, None] = {}
        for fact in facts:
            row = self.row(fact)
            if row is None or row in result:
                name = fact.prompt if isinstance(fact, Fact) else fact
                why = "it is not written. facts() lists what is." if row is None else "it is named twice."
                raise UnknownFact(f"cannot forget {name!r}: {why}")
            result[row] = None
        return list(result)

    def fact(self, row: int) -> Fact:
        """The fact of a row, forgotten or not."""
        return self._log.entries.facts([row])[0]

    def values(self, rows: Sequence[int]) -> list[bytes]:
        """The latents of rows, at rest."""
        return self._log.entries.values(rows)

    def taken(self, rows: Sequence[int]) -> list[Entry]:
        """What there is of rows."""
        facts, values = self._log.entries.facts(rows), self._log.entries.values(rows)
        return [Entry(fact, value) for fact, value in zip(facts, values, strict=True)]

    def column(self, name: str) -> Tensor:
        """All rows of a column, forgotten ones too: ``(length, ...)``."""
        return self._log.columns[name][: self.length]

    def keys(self, rows: Sequence[int] | None = None) -> Tensor:
        """What addresses the memory, of these rows or all ``(n, key size)`` float32."""
        keys = self.column("key" if "key" in self._log.columns else "scope")
        return (keys if rows is None else keys[list(rows)]).float()

    def hashes(self) -> np.ndarray:
        """Of the prompt of every row, uint64 ``(length,)``: the same in every process, and spread evenly."""
        with self._log.lock:
            known = self._log.hashes
            for start in range(len(known), self._rows, _AT_ONCE):
                part = range(start, min(start + _AT_ONCE, self._rows))
                known.extend(_hash(fact.key) for fact in self._log.entries.facts(part))
            return np.array(known[: self.length], dtype=np.uint64)

    def columns(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """Of every column these rows."""
        return {name: values[list(rows)] for name, values in self._log.columns.items()}

    def index(self, name: str, make: Callable[[int], GraphIndex]) -> GraphIndex:
        """The index of a column, made when it is first asked for; it may lack rows, and hold later ones of
        another store.
        """
        with self._log.lock:
            if name not in self._log.indices:
                self._log.indices[name] = make(self.column(name).shape[1])
            return self._log.indices[name]

    def extended(
        self,
        facts: Sequence[Fact],
        values: Sequence[bytes],
        columns: Mapping[str, Tensor],
        written_at: float | None = None,
    ) -> FactStore:
        """With more facts, which get ids and the time, now when None.

        Rows of the dead are dropped once they are the majority.

        Args:
            facts: N.
            values: N latents at rest.
            columns: one row per fact each.
            written_at: seconds since the epoch.
        """
        if 2 * len(self) < self._rows and self._rows >= _FEW:
            return self.compacted().extended(facts, values, columns, written_at)
        at = time.time() if written_at is None else written_at
        with self._log.lock:
            first = self._log.ids.next
            new = [
                Entry(replace(fact, id=first + place, written_at=at), value)
                for place, (fact, value) in enumerate(zip(facts, values, strict=True))
            ]
            return self.appended(new, columns)

    def appended(self, new: Sequence[Entry], columns: Mapping[str, Tensor]) -> FactStore:
        """With facts that have their ids; ``columns`` has one row per fact each."""
        log = self._log
        with log.lock:
            start, end = self._rows, self._rows + len(new)
            capacity = log.capacity if end <= log.capacity else _room(end)
            grown = {
                name: _with_rows(log.columns.get(name), capacity, start, rows)
                for name, rows in columns.items()
            }
            # Nothing of the log changes before this; rows that a failure left behind belong to no store.
            log.columns, log.capacity = log.columns | grown, capacity
            log.ids.next = max(log.ids.next, *(entry.fact.id + 1 for entry in new))
            log.entries.append(new)
        alive = torch.zeros(end, dtype=torch.bool)
        alive[: self.length] = self.alive
        alive[start:] = True
        return FactStore(log, alive, len(self) + len(new))

    def without(self, rows: Sequence[int]) -> FactStore:
        """With the facts of these rows forgotten."""
        alive, gone = self.alive.clone(), list(set(rows))
        alive[gone] = False
        return replace(self, alive=alive, count=len(self) - int(self.alive[gone].sum()))

    def revived(self, rows: Sequence[int]) -> FactStore:
        """With the facts of these rows, which were forgotten, written again."""
        alive = torch.zeros(self._rows, dtype=torch.bool)
        alive[: self.length] = self.alive
        come = list(set(rows))
        count = len(self) + len(come) - int(alive[come].sum())
        alive[come] = True
        return replace(self, alive=alive, count=count)

    def compacted(self) -> FactStore:
        """The same facts in rows of their own."""
        return FactStore.of(self._log.chosen(self.alive_rows()))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> FactStore:
        """With ``change`` applied to every column (to move them to a device)."""
        log = self._log.chosen(self.alive_rows())
        log.columns = {name: change(rows) for name, rows in log.columns.items()}
        return FactStore.of(log)

    @classmethod
    def restored(cls, entries: Entries, columns: Mapping[str, Tensor], next_id: int) -> FactStore:
        """From saved facts, ids and times as they were; every column has one row per entry."""
        room = _room(len(entries.ids))
        grown = {name: _with_rows(None, room, 0, rows) for name, rows in columns.items()}
        return cls.of(_Log(entries, _Ids(next_id), grown, capacity=room))

    @classmethod
    def of(cls, log: _Log) -> FactStore:
        """All rows of a log."""
        count = len(log.entries.ids)
        return cls(log, torch.ones(count, dtype=torch.bool), count)

    @property
    def _rows(self) -> int:
        """Rows of the log, whichever store's."""
        return len(self._log.entries.ids)


def changed_rows(before: FactStore, after: FactStore) -> tuple[list[int], list[int]]:
    """Rows of ``before`` whose facts ``after`` lacks, and rows of ``after`` whose facts ``before`` lacks,
    each in order of writing. Where the two come from one store no fact is looked at.
    """
    if before._log is after._log:
        size = max(before.length, after.length)
        old, new = (torch.zeros(size, dtype=torch.bool) for _ in range(2))
        old[: before.length], new[: after.length] = before.alive, after.alive
        order = before.entries.ids.__getitem__
        return sorted(_places(old & ~new), key=order), sorted(_places(new & ~old), key=order)
    rows = before.alive_rows(), after.alive_rows()
    known: list[Sequence]
    if before._log.ids is after._log.ids:
        known = [[store.entries.ids[row] for row in mine] for store, mine in zip((before, after), rows)]
    else:
        known = [before.facts(), after.facts()]
    had, has = map(set, known)
    lost = [row for row, what in zip(rows[0], known[0]) if what not in has]
    return lost, [row for row, what in zip(rows[1], known[1]) if what not in had]


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")


def _room(rows: int) -> int:
    """Rows that columns have where so many are wanted: some are spare, so that few edits copy them."""
    return rows + rows // 32 + _FEW


def _places(chosen: Tensor) -> list[int]:
    return torch.nonzero(chosen).flatten().tolist()


def _with_rows(column: Tensor | None, capacity: int, start: int, rows: Tensor) -> Tensor:
    """A column of so many rows with ``rows`` from ``start`` on: the given one if it has them, else a copy."""
    if column is None or len(column) != capacity:
        grown = rows.new_zeros(capacity, rows.shape[1])
        if column is not None:
            grown[:start] = column[:start]
        column = grown
    column[start : start + len(rows)] = rows
    return column
