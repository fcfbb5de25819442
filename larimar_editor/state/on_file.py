"""Entries that are read from a file when they are asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from larimar_editor.state.entries import Entry
from larimar_editor.state.fact import Fact
from larimar_editor.state.file import StateFile


class EntriesOnFile:
    """Entries of a `StateFile`. In memory are their ids, and what the file does not have, or no longer.

    Args:
        file: where they are.
        ids: of each row.
    """

    def __init__(self, file: StateFile, ids: Iterable[int]):
        self.file = file
        self.ids = array("q", ids)
        self._row_of = {id: row for row, id in enumerate(self.ids)}
        self._here: dict[int, Entry] = {}
        self._here_of: dict[str, list[int]] = {}
        file.readers.add(self)

    def __deepcopy__(self, memo: dict) -> EntriesOnFile:
        return self

    def row_of(self, id: int) -> int | None:
        """See `Entries`."""
        return self._row_of.get(id)

    def facts(self, rows: Sequence[int]) -> list[Fact]:
        """See `Entries`.

        Raises:
            ValueError: a damaged one.
        """
        with self.file.lock:
            ids = [self.ids[row] for row in rows]
            there = [id for id in ids if id not in self._here]
            read = dict(zip(there, self.file.facts(there)))
            return [read[id] if id in read else self._here[id].fact for id in ids]

    def values(self, rows: Sequence[int]) -> list[bytes]:
        """See `Entries`. Raises as `facts`."""
        with self.file.lock:
            ids = [self.ids[row] for row in rows]
            there = [id for id in ids if id not in self._here]
            read = dict(zip(there, self.file.values(there)))
            return [read[id] if id in read else self._here[id].value for id in ids]

    def rows_of(self, key: str) -> Iterator[int]:
        """See `Entries`."""
        with self.file.lock:
            ids = self._here_of.get(key, [])[::-1]
            if self.file.is_open:
                ids += self.file.ids_of(key)
        for id in ids:
            if id in self._row_of:
                yield self._row_of[id]

    def append(self, new: Sequence[Entry]) -> None:
        """See `Entries`; they are in memory until `settle`."""
        with self.file.lock:
            for entry in new:
                self.ids.append(entry.fact.id)
                self._row_of[entry.fact.id] = len(self.ids) - 1
                self._keep(entry)

    def chosen(self, rows: Sequence[int]) -> EntriesOnFile:
        """See `Entries`."""
        with self.file.lock:
            result = EntriesOnFile(self.file, (self.ids[row] for row in rows))
            for id in result.ids:
                if id in self._here:
                    result._keep(self._here[id])
            return result

    def settle(self, ids: Iterable[int]) -> None:
        """These are in the file now, or belong to no state, and need no place in memory."""
        with self.file.lock:
            for id in ids:
                entry = self._here.pop(id, None)
                if entry is not None:
                    of_key = self._here_of[entry.fact.key]
                    of_key.remove(id)
                    if not of_key:
                        del self._here_of[entry.fact.key]

    def fetch(self, ids: Iterable[int]) -> None:
        """Keep these in memory, those of them that there are, as the file is about to lose them."""
        with self.file.lock:
            wanted = self.file.known([id for id in ids if id in self._row_of and id not in self._here])
            for fact, value in zip(self.file.facts(wanted), self.file.values(wanted)):
                self._keep(Entry(fact, value))

    def _keep(self, entry: Entry) -> None:
        self._here[entry.fact.id] = entry
        self._here_of.setdefault(entry.fact.key, []).append(entry.fact.id)
