"""What there is of facts, by rows that only ever grow: in memory, and see `larimar_editor.state.on_file`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from larimar_editor.state.fact import Fact


@dataclass(frozen=True)
class Entry:
    """A written fact and its latent.

    Attributes:
        fact: with its id.
        value: the latent of prompt and target, at rest (`larimar_editor.memory.rest`).
    """

    fact: Fact
    value: bytes


class Entries(Protocol):
    """Entries by row."""

    @property
    def ids(self) -> Sequence[int]:
        """Of each row."""
        ...

    def row_of(self, id: int) -> int | None:
        """The row of an id, or None."""
        ...

    def facts(self, rows: Sequence[int]) -> list[Fact]:
        """The facts of rows."""
        ...

    def values(self, rows: Sequence[int]) -> list[bytes]:
        """The latents of rows."""
        ...

    def rows_of(self, key: str) -> Iterator[int]:
        """The rows of facts with this `Fact.key`, the newest first."""
        ...

    def append(self, new: Sequence[Entry]) -> None:
        """With more of them, at the end."""
        ...

    def settle(self, ids: Iterable[int]) -> None:
        """These are in a file now, if there is one, or belong to no state."""
        ...

    def chosen(self, rows: Sequence[int]) -> Entries:
        """These rows alone, in this order; the given ones stay as they are."""
        ...


class EntriesInMemory:
    """Entries in lists."""

    def __init__(self, entries: Sequence[Entry] = ()):
        self.ids: list[int] = []
        self._entries: list[Entry] = []
        self._row_of: dict[int, int] = {}
        self._rows_of: dict[str, list[int]] = {}
        self.append(entries)

    def row_of(self, id: int) -> int | None:
        """See `Entries`."""
        return self._row_of.get(id)

    def facts(self, rows: Sequence[int]) -> list[Fact]:
        """See `Entries`."""
        return [self._entries[row].fact for row in rows]

    def values(self, rows: Sequence[int]) -> list[bytes]:
        """See `Entries`."""
        return [self._entries[row].value for row in rows]

    def rows_of(self, key: str) -> Iterator[int]:
        """See `Entries`."""
        return reversed(self._rows_of.get(key, []))

    def append(self, new: Sequence[Entry]) -> None:
        """See `Entries`."""
        for entry in new:
            self._row_of[entry.fact.id] = len(self._entries)
            self._rows_of.setdefault(entry.fact.key, []).append(len(self._entries))
            self._entries.append(entry)
            self.ids.append(entry.fact.id)

    def settle(self, ids: Iterable[int]) -> None:
        """See `Entries`: nothing."""

    def chosen(self, rows: Sequence[int]) -> EntriesInMemory:
        """See `Entries`."""
        return EntriesInMemory([self._entries[row] for row in rows])
