"""The facts that are written, and what forgetting and scope need of each."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from larimar_editor.scope.nearest import GraphIndex
from larimar_editor.utils.locks import Lock
from larimar_editor.utils.text import prompt_and_target


@dataclass(frozen=True)
class Fact:
    """One edit: ``prompt`` is to be continued by ``target_new``.

    Attributes:
        prompt: a text, not empty.
        target_new: a text, not empty.
        id: number of the fact in its state, from 1, never used twice; 0 before it is written.
        written_at: seconds since the epoch.
        subject: what the prompt is about, where that is known: it helps to tell whether a query is about it.

    Raises:
        ValueError: ``prompt``, ``target_new`` or ``subject`` is no such text.
    """

    prompt: str
    target_new: str
    id: int = 0
    written_at: float = 0.0
    subject: str | None = None

    def __post_init__(self):
        for name in ("prompt", "target_new", "subject"):
            value = getattr(self, name)
            if name == "subject" and value is None:
                continue
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name!r} must be a text that is not empty, got {value!r}")
            if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
                raise ValueError(
                    f"{name!r} has half a surrogate pair, which no text file can hold: {value!r}"
                )

    @property
    def text(self) -> str:
        """The sentence that is encoded: prompt and target."""
        return prompt_and_target(self.prompt, self.target_new)

    @property
    def key(self) -> str:
        """Facts with the same key ask the same thing."""
        return self.prompt.strip()

    def says(self, other: Fact) -> bool:
        """Whether the other fact is this one: the same prompt with the same target."""
        return self.key == other.key and self.target_new.strip() == other.target_new.strip()

    def adds_to(self, known: Fact) -> bool:
        """Whether it is to be written where ``known`` is, which has its prompt: it says another thing, or
        brings a subject.
        """
        return not known.says(self) or self.subject not in (None, known.subject)

    @classmethod
    def from_request(cls, request: Mapping) -> Fact:
        """From an EasyEdit request (a mapping with ``prompt`` and ``target_new``, and perhaps ``subject``).

        Raises:
            ValueError: a missing, empty or non-text ``prompt`` or ``target_new``, or a ``subject`` that is no
                text; the message shows the request.
        """
        values: dict[str, Any] = {name: request.get(name) for name in ("prompt", "target_new")}
        for name, value in values.items():
            if value is None:
                raise ValueError(f"a request needs {name!r}: {dict(request)}")
        prompt, subject = values["prompt"], request.get("subject") or None
        if subject is not None and not isinstance(subject, str):
            raise ValueError(f"'subject' must be a text, got {subject!r} in {dict(request)}")
        if isinstance(prompt, str) and "{}" in prompt and subject:
            values["prompt"] = prompt.replace("{}", subject)
        values["subject"] = subject if subject is None or subject.strip() else None
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{error} in {dict(request)}") from error


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
        if not known.says(fact):
            raise ValueError(
                f"one batch gives two targets for the prompt {fact.prompt!r}: {known.target_new!r} and "
                f"{fact.target_new!r}"
            )
    return list(facts.values())


class UnknownFact(KeyError):
    """Forgetting, or asking for, a fact that is not written."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass
class _Log:
    """Rows that only ever grow, shared by every store that was made from them."""

    facts: list[Fact] = field(default_factory=list)
    rows_of: dict[str, list[int]] = field(default_factory=dict)
    columns: dict[str, Tensor] = field(default_factory=dict)
    indices: dict[str, GraphIndex] = field(default_factory=dict)
    capacity: int = 0
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class FactStore:
    """Facts with one row of numbers per fact and column. Immutable, and cheap to extend.

    Stores share their rows: one that is extended leaves the earlier one as it was. Only when two stores
    extend the same one is something copied.

    Attributes:
        length: rows of the log that are this store's.
        alive: bool ``(length,)``, on the CPU; False for a forgotten fact.
        next_id: id of the next fact.
    """

    _log: _Log = field(default_factory=_Log, repr=False)
    length: int = 0
    alive: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    next_id: int = 1

    def __len__(self) -> int:
        return int(self.alive.sum())

    def facts(self) -> list[Fact]:
        """The written facts, oldest first."""
        return [fact for fact, alive in zip(self._log.facts, self.alive.tolist()) if alive]

    def row(self, fact: Fact | str | int) -> int | None:
        """The row of a fact, by itself, its prompt or its id; None when it is not written."""
        if isinstance(fact, int):
            place = bisect_left(self._log.facts, fact, hi=self.length, key=lambda known: known.id)
            rows = (i for i in (place,) if i < self.length and self._log.facts[i].id == fact)
        else:
            key = fact.key if isinstance(fact, Fact) else fact.strip()
            rows = (i for i in self._log.rows_of.get(key, ()) if i < self.length)
        return next((i for i in rows if bool(self.alive[i])), None)

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
                raise UnknownFact(f"cannot forget {name!r}: it is not written. facts() lists what is.")
            result[row] = None
        return list(result)

    def fact(self, row: int) -> Fact:
        """The fact of a row, forgotten or not."""
        return self._log.facts[row]

    def column(self, name: str) -> Tensor:
        """All rows of a column, forgotten ones too: ``(length, ...)``."""
        return self._log.columns[name][: self.length]

    def index(self, name: str, make: Callable[[int], GraphIndex]) -> GraphIndex:
        """The index of a column, made when it is first asked for; it may lack rows, and hold later ones of
        another store.
        """
        with self._log.lock:
            if name not in self._log.indices:
                self._log.indices[name] = make(self.column(name).shape[1])
            return self._log.indices[name]

    def extended(
        self, facts: Sequence[Fact], columns: Mapping[str, Tensor], written_at: float | None = None
    ) -> FactStore:
        """With more facts, which get ids and the time, now when None; ``columns`` has one row per fact."""
        with self._log.lock:
            return self._extended(facts, columns, time.time() if written_at is None else written_at)

    def _extended(self, facts: Sequence[Fact], columns: Mapping[str, Tensor], written_at: float) -> FactStore:
        log = self._log
        if len(log.facts) != self.length:  # another store has extended the same rows
            log = self._compact(range(self.length))
        start, end = self.length, self.length + len(facts)
        capacity = log.capacity if end <= log.capacity else max(16, end, 2 * log.capacity)
        grown = {
            name: _with_rows(log.columns.get(name), capacity, start, rows) for name, rows in columns.items()
        }
        # Nothing of the log changes before this; rows that a failure left behind belong to no store.
        log.columns, log.capacity = log.columns | grown, capacity
        for offset, fact in enumerate(facts):
            log.facts.append(replace(fact, id=self.next_id + offset, written_at=written_at))
            log.rows_of.setdefault(fact.key, []).append(start + offset)
        alive = torch.cat((self.alive, torch.ones(len(facts), dtype=torch.bool)))
        return FactStore(log, end, alive, self.next_id + len(facts))

    def without(self, rows: Sequence[int]) -> FactStore:
        """With the facts of these rows forgotten. Rows of the dead are dropped once they are the majority."""
        alive = self.alive.clone()
        alive[list(rows)] = False
        if 2 * int(alive.sum()) >= self.length or self.length < 64:
            return replace(self, alive=alive)
        left = torch.nonzero(alive).flatten().tolist()
        return FactStore(
            self._compact(left), len(left), torch.ones(len(left), dtype=torch.bool), self.next_id
        )

    def mapped(self, change) -> FactStore:
        """With ``change`` applied to every column (to move them to a device)."""
        log = self._compact(range(self.length))
        log.columns = {name: change(rows) for name, rows in log.columns.items()}
        return replace(self, _log=log)

    @classmethod
    def restored(cls, facts: Sequence[Fact], columns: Mapping[str, Tensor], next_id: int) -> FactStore:
        """From saved facts, ids and times as they were."""
        log = _Log(list(facts), {}, dict(columns), {}, len(facts))
        for row, fact in enumerate(facts):
            log.rows_of.setdefault(fact.key, []).append(row)
        return cls(log, len(facts), torch.ones(len(facts), dtype=torch.bool), next_id)

    def _compact(self, rows: Sequence[int]) -> _Log:
        rows = list(rows)
        facts = [self._log.facts[i] for i in rows]
        columns = {name: values[rows].clone() for name, values in self._log.columns.items()}
        return FactStore.restored(facts, columns, self.next_id)._log


def _with_rows(column: Tensor | None, capacity: int, start: int, rows: Tensor) -> Tensor:
    """A column of so many rows with ``rows`` from ``start`` on: the given one if it has them, else a copy.
    The rows may be wider than those before them, or less wide: zeros make up for it.
    """
    width = rows.shape[1] if column is None else max(rows.shape[1], column.shape[1])
    if column is None or column.shape != (capacity, width):
        grown = rows.new_zeros(capacity, width)
        if column is not None:
            grown[:start, : column.shape[1]] = column[:start]
        column = grown
    column[start : start + len(rows)] = 0
    column[start : start + len(rows), : rows.shape[1]] = rows
    return column
