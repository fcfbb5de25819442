"""The edited state in one SQLite file: every edit is a transaction, and none is forgotten until `compact`.

Every blob and every fact's texts end with or have a CRC-32, as SQLite's own check does not look into them.
"""

from __future__ import annotations

import sqlite3
import struct
import time
import unicodedata
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from larimar_editor.state.database import FORMAT_VERSION, Database
from larimar_editor.state.entries import Entry
from larimar_editor.state.fact import Fact
from larimar_editor.utils.locks import Lock

BASE = "base"  # the operation that wrote what cannot be undone
_EMBEDDINGS = ("float32", "float16")  # in which they may be kept
_FACTS = "SELECT id, prompt, target_new, subject, written_at, crc FROM facts"


Kept = TypeVar("Kept")


@dataclass(frozen=True)
class Done:
    """An operation, by the ids that it changed.

    Attributes:
        number: rising.
        name: "write", "forget", "clear", "set", or "base", which cannot be undone.
        done_at: seconds since the epoch.
        forgotten: ids of facts that were written before it, and not after.
        written: ids of facts that were written after it, and not before.
    """

    number: int
    name: str
    done_at: float
    forgotten: tuple[int, ...]
    written: tuple[int, ...]


class Reader(Protocol):
    """What reads facts from a file, some of which it keeps in memory."""

    @property
    def ids(self) -> Sequence[int]:
        """Of the facts that it may ask for."""
        ...

    def fetch(self, ids: Iterable[int]) -> None:
        """Keep these in memory, those of them that there are."""
        ...


class StateFile:
    """An open file.

    Args and raises: see `larimar_editor.state.database.Database`.
    """

    def __init__(self, path: str | Path, origin: Mapping[str, str] | None, writes: bool = True):
        self._database = Database(Path(path), origin, writes)
        # What reads from it, and has to be told before it loses something.
        self.readers: weakref.WeakSet[Reader] = weakref.WeakSet()

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._database.path

    @property
    def writes(self) -> bool:
        """Whether it is written to."""
        return self._database.writes

    @property
    def lock(self) -> Lock:
        """Of the threads that ask it."""
        return self._database.lock

    @property
    def is_open(self) -> bool:
        """Whether it can be asked anything."""
        return self._database.is_open

    # --- reading ---

    @property
    def origin(self) -> dict[str, str]:
        """What made the numbers in it."""
        return self._database.origin

    @property
    def next_id(self) -> int:
        """Of the next fact; no fact ever had it."""
        question = "SELECT max(ifnull(max(id), 0), ifnull((SELECT seq FROM sqlite_sequence), 0)) FROM facts"
        return self._database.one(question) + 1

    def __len__(self) -> int:
        return self._database.one("SELECT count(*) FROM spans WHERE forgotten_by IS NULL")

    def ids(self) -> list[int]:
        """Of what is written, ascending."""
        return [
            id
            for (id,) in self._database.all("SELECT fact FROM spans WHERE forgotten_by IS NULL ORDER BY fact")
        ]

    def ids_of(self, key: str) -> list[int]:
        """Of facts with this `Fact.key`, written or forgotten, the newest first."""
        # Files of before have keys as they were typed.
        question = "SELECT id FROM facts WHERE key IN (?, ?) ORDER BY id DESC"
        typed = unicodedata.normalize("NFD", key)
        return [id for (id,) in self._database.all(question, (key, typed))]

    def is_written(self, id: int) -> bool:
        """Whether the fact of an id is written now."""
        return bool(self._database.all("SELECT 1 FROM spans WHERE fact = ? AND forgotten_by IS NULL", (id,)))

    def search(self, words: str, limit: int = -1) -> list[int]:
        """Ids of written facts in whose prompt, target or subject these words stand, in any case and however
        their accents are put together, at most ``limit``.
        """
        texts = "prompt || char(10) || target_new || char(10) || ifnull(subject, '')"
        question = (
            "SELECT id FROM facts JOIN spans ON fact = id AND forgotten_by IS NULL "
            f"WHERE instr(folded({texts}), folded(?)) ORDER BY id LIMIT ?"
        )
        return [id for (id,) in self._database.all(question, (words, limit))]

    def known(self, ids: Sequence[int]) -> list[int]:
        """Those of these ids that there is a fact of, written or forgotten."""
        found = {id for (id,) in self._database.of_ids("SELECT id FROM facts", "id", ids)}
        return [id for id in ids if id in found]

    def facts(self, ids: Sequence[int]) -> list[Fact]:
        """The facts of these ids, written or forgotten.

        Raises:
            ValueError: a damaged one, or one that is not there.
        """
        found: dict[int, Fact] = {}
        for id, prompt, target, subject, at, crc in self._database.of_ids(_FACTS, "id", ids):
            if crc != _crc_of(prompt, target, subject, at):
                raise ValueError(f"fact {id} in {self.path} is damaged: it is not what was written")
            found[id] = Fact(prompt, target, id, at, subject)
        return self._each(found, ids)

    def values(self, ids: Sequence[int]) -> list[bytes]:
        """The latents of these facts, at rest. Raises as `facts`."""
        rows = self._database.of_ids("SELECT fact, value FROM latents", "fact", ids)
        found = {id: self._opened(value, id) for id, value in rows}
        return self._each(found, ids)

    def columns(self, ids: Sequence[int]) -> dict[str, Tensor]:
        """``scope``, float16 or float32 as it was written, and, where it is another, ``key``, float32, of
        these facts, ``(n, size)``.

        Raises:
            ValueError: a damaged one.
        """
        scope: dict[int, bytes] = {}
        key: dict[int, bytes] = {}
        for id, of_scope, of_key in self._database.of_ids(
            "SELECT fact, scope, key FROM encodings", "fact", ids
        ):
            scope[id] = self._opened(of_scope, id)
            if of_key is not None:
                key[id] = self._opened(of_key, id)
        kept = {"scope": (scope, self._embeddings())} | ({"key": (key, "float32")} if key else {})
        try:
            return {
                name: _matrix([found[id] for id in ids], dtype)
                for name, (found, dtype) in kept.items()
                if ids
            }
        except (KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is damaged: encodings of unlike sizes, or without one") from error

    def operations(self) -> Iterator[Done]:
        """All of them, first to last."""
        for row in self._database.all("SELECT number, name, done_at FROM operations ORDER BY number"):
            yield self._done(*row)

    # --- writing ---

    def commit(
        self,
        name: str,
        forgotten: Sequence[int],
        written: Sequence[Entry],
        columns: Mapping[str, Tensor],
        next_id: int = 1,
    ) -> int:
        """An operation, on the disk when this returns its number.

        Args:
            name: see `Done`.
            forgotten: ids of facts that it forgets.
            written: facts with their ids; one whose id is here already is written again.
            columns: ``scope`` and perhaps ``key``, one row per fact written.
            next_id: least id of the next fact.

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        with self._database.transaction() as connection:
            number = self.last_number() + 1
            connection.execute("INSERT INTO operations VALUES (?, ?, ?)", (number, name, time.time()))
            connection.executemany(
                "UPDATE spans SET forgotten_by = ? WHERE fact = ? AND forgotten_by IS NULL",
                ((number, id) for id in forgotten),
            )
            self._insert(connection, written, columns, number)
            if next_id > self.next_id:
                self._reserve(connection, next_id)
        return number

    def _insert(
        self,
        connection: sqlite3.Connection,
        written: Sequence[Entry],
        columns: Mapping[str, Tensor],
        number: int,
    ) -> None:
        facts = (
            (f.id, f.key, f.prompt, f.target_new, f.subject, f.written_at, _crc_of(*_texts(f)))
            for f in (entry.fact for entry in written)
        )
        if written and connection.execute("SELECT 1 FROM encodings LIMIT 1").fetchone() is None:
            self._database.say({"embeddings": str(columns["scope"].dtype).removeprefix("torch.")})
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")  # of one that was empty till now
        scope = _blobs(columns["scope"], self._embeddings()) if written else []
        keys: Iterable[bytes | None] = (
            _blobs(columns["key"], "float32") if "key" in columns else [None] * len(written)
        )
        ids = [entry.fact.id for entry in written]
        for statement, rows in (
            ("facts VALUES (?, ?, ?, ?, ?, ?, ?)", facts),
            ("encodings VALUES (?, ?, ?)", zip(ids, scope, keys)),
            ("latents VALUES (?, ?)", ((entry.fact.id, _sealed(entry.value)) for entry in written)),
            ("spans (fact, written_by) VALUES (?, ?)", ((id, number) for id in ids)),
        ):
            connection.executemany(f"INSERT INTO {statement} ON CONFLICT DO NOTHING", rows)

    def _reserve(self, connection: sqlite3.Connection, next_id: int) -> None:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'facts'")
        connection.execute("INSERT INTO sqlite_sequence VALUES ('facts', ?)", (next_id - 1,))

    def last_number(self) -> int:
        """Of the last operation; 0 where there is none."""
        return self._database.one("SELECT ifnull(max(number), 0) FROM operations")

    def last(self) -> Done | None:
        """The last operation, which `undo` takes back; None where there is none that could be."""
        found = self._database.all(
            "SELECT number, name, done_at FROM operations ORDER BY number DESC LIMIT 1"
        )
        return next((self._done(*row) for row in found if row[1] != BASE), None)

    def undoable(self) -> int:
        """How many operations can be undone."""
        return self._database.one("SELECT count(*) FROM operations WHERE name != ?", (BASE,))

    def undo(self) -> None:
        """Take the last operation back, with the facts that it alone wrote.

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        with self._database.transaction() as connection:
            number = self.last_number()
            wrote = connection.execute("SELECT fact FROM spans WHERE written_by = ?", (number,)).fetchall()
            for reader in list(self.readers):
                reader.fetch(id for (id,) in wrote)
            connection.execute("DELETE FROM operations WHERE number = ?", (number,))
            connection.executemany(
                "DELETE FROM facts WHERE id = ? AND NOT EXISTS (SELECT 1 FROM spans WHERE fact = id)", wrote
            )

    def compact(self) -> None:
        """Let go of what is forgotten and of what could be undone, and of the room that it took.

        Raises:
            OSError: it could not be written; the file is as it was, or what is forgotten is still in it, as
                another process reads it or the disk has no room for a copy.
        """
        with self._database.transaction() as connection:
            number, written = self.last_number(), set(self.ids())
            for reader in list(self.readers):
                reader.fetch([id for id in reader.ids if id not in written])
            connection.execute("UPDATE operations SET name = ? WHERE number = ?", (BASE, number))
            connection.execute("DELETE FROM spans WHERE forgotten_by IS NOT NULL")
            connection.execute("UPDATE spans SET written_by = ?", (number,))
            connection.execute("DELETE FROM operations WHERE number < ?", (number,))
            connection.execute("DELETE FROM facts WHERE NOT EXISTS (SELECT 1 FROM spans WHERE fact = id)")
        self._database.all("VACUUM")
        busy = self._database.one("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise OSError(
                f"{self.path} is being read: what is forgotten is in it until that ends; then compact again"
            )

    def replace(
        self, origin: Mapping[str, str], written: Sequence[Entry], columns: Mapping[str, Tensor], next_id: int
    ) -> None:
        """These facts in place of what is there, in one transaction; there is nothing to undo then.

        Args:
            origin: what made their numbers.
            written: facts with their ids.
            columns: as in `commit`.
            next_id: of the next fact.

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM operations")
            connection.execute("DELETE FROM facts")
            connection.execute("DELETE FROM about WHERE name LIKE 'origin.%'")
            self._database.say({f"origin.{name}": value for name, value in origin.items()})
            connection.execute("INSERT INTO operations VALUES (1, ?, ?)", (BASE, time.time()))
            self._insert(connection, written, columns, number=1)
            self._reserve(connection, next_id)

    def close(self, keep: bool = True) -> None:
        """Let go of the file.

        Args:
            keep: whether what reads from it is to have in memory what it has there.
        """
        with self.lock:
            try:
                for reader in list(self.readers) if keep and self.is_open else ():
                    reader.fetch(list(reader.ids))
            finally:
                self._database.close()

    def __deepcopy__(self, memo: dict) -> None:
        """None: the copy of a model writes to no file, as a file has one writer."""

    def _embeddings(self) -> str:
        """In which `_EMBEDDINGS` are kept."""
        found = [
            value for (value,) in self._database.all("SELECT value FROM about WHERE name = 'embeddings'")
        ]
        if not set(found) <= set(_EMBEDDINGS):
            raise ValueError(f"{self.path} is damaged: it has embeddings in {found[0]!r}")
        return found[0] if found else _EMBEDDINGS[0]

    def _done(self, number: int, name: str, done_at: float) -> Done:
        changed = lambda by: tuple(
            id
            for (id,) in self._database.all(f"SELECT fact FROM spans WHERE {by} = ? ORDER BY fact", (number,))
        )
        return Done(number, name, done_at, changed("forgotten_by"), changed("written_by"))

    def _each(self, found: Mapping[int, Kept], ids: Sequence[int]) -> list[Kept]:
        try:
            return [found[id] for id in ids]
        except KeyError as missing:
            raise ValueError(f"{self.path} lacks fact {missing}, or a part of it") from None

    def _opened(self, blob: bytes, id: int) -> bytes:
        content, crc = blob[:-4], blob[-4:]
        if struct.pack("<I", zlib.crc32(content)) != crc:
            raise ValueError(f"fact {id} in {self.path} is damaged: its numbers are not what was written")
        return content


def _sealed(content: bytes) -> bytes:
    return content + struct.pack("<I", zlib.crc32(content))


def _blobs(column: Tensor, dtype: str) -> list[bytes]:
    return [_sealed(row.tobytes()) for row in column.detach().float().cpu().numpy().astype(dtype)]


def _matrix(rows: Sequence[bytes], dtype: str) -> Tensor:
    return torch.from_numpy(np.stack([np.frombuffer(row, dtype) for row in rows]))


def _texts(fact: Fact) -> tuple[str, str, str | None, float]:
    return fact.prompt, fact.target_new, fact.subject, fact.written_at


def _crc_of(prompt: str, target: str, subject: str | None, written_at: float) -> int:
    return zlib.crc32(repr((prompt, target, subject, float(written_at))).encode())
