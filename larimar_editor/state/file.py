"""The edited state in one SQLite file: every edit is a transaction, and none is forgotten until `compact`.

Tables
    ``facts`` with ``encodings`` (what scope and addressing need, read when the file is opened) and
    ``latents`` (read when one is asked for); ``operations``, numbered; ``spans``, which operation wrote a
    fact and which forgot it. A fact is written now where a span of it is open. To undo the last operation is
    to delete its row: foreign keys do the rest.

SQLite's WAL with ``synchronous = FULL``: a transaction is on the disk when `commit` returns, or gone whole.
Every blob and every fact's texts end with or have a CRC-32, as SQLite's own check does not look into them.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import time
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Protocol, TypeVar

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from larimar_editor.state.entries import Entry
from larimar_editor.state.fact import Fact
from larimar_editor.utils.locks import Lock

FORMAT_VERSION = 5  # 1 to 3 were folders; 4 had its embeddings in float32

BASE = "base"  # the operation that wrote what cannot be undone
PATIENCE = 30.0  # seconds to wait for another process's transaction

_APPLICATION = 0x4C524D52  # "LRMR"
_EMBEDDINGS = ("float32", "float16")  # in which they may be kept
_SQLITE = (3, 37)  # the first with STRICT tables
_AT_ONCE = 500  # ids in one question
_FEW = 20
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE operations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, done_at REAL NOT NULL) STRICT;
CREATE TABLE facts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, prompt TEXT NOT NULL, target_new TEXT NOT NULL,
    subject TEXT, written_at REAL NOT NULL, crc INTEGER NOT NULL
) STRICT;
CREATE INDEX facts_by_key ON facts (key);
CREATE TABLE encodings (
    fact INTEGER PRIMARY KEY REFERENCES facts ON DELETE CASCADE, scope BLOB NOT NULL, key BLOB
) STRICT;
CREATE TABLE latents (fact INTEGER PRIMARY KEY REFERENCES facts ON DELETE CASCADE, value BLOB NOT NULL)
STRICT; CREATE TABLE spans (
    fact INTEGER NOT NULL REFERENCES facts ON DELETE CASCADE,
    written_by INTEGER NOT NULL REFERENCES operations ON DELETE CASCADE,
    forgotten_by INTEGER REFERENCES operations ON DELETE SET NULL,
    PRIMARY KEY (fact, written_by)
) STRICT, WITHOUT ROWID;
CREATE INDEX spans_by_writing ON spans (written_by);
CREATE INDEX spans_by_forgetting ON spans (forgotten_by) WHERE forgotten_by IS NOT NULL;
CREATE INDEX spans_open ON spans (fact) WHERE forgotten_by IS NULL;
"""
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

    Args:
        path: of the file; made, with its folder, where there is none and it is written to.
        origin: what makes the numbers of the state that is kept in it; None: whatever has.
        writes: whether it is written to. One writer at a time, of any process, has a file.

    Raises:
        FileNotFoundError: there is none, and it is not written to.
        OSError: a folder, another's (the message says whose), or one that cannot be written.
        ValueError: no edited state, a damaged one, one of a newer format, or one of another origin.
    """

    def __init__(self, path: str | Path, origin: Mapping[str, str] | None, writes: bool = True):
        self.path, self.writes = Path(path), writes
        # What reads from it, and has to be told before it loses something.
        self.readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self.lock, self._held = Lock(), None
        self._connection: sqlite3.Connection | None = None
        if self.path.is_dir():
            raise IsADirectoryError(
                f"{path} is a folder, and an edited state is a file. A folder of an older version of "
                f"larimar_editor is read by: larimar-editor facts import FILE {path}"
            )
        if not self.path.exists():
            if not writes:
                raise FileNotFoundError(f"no edited state in {path}")
            self.path.parent.mkdir(parents=True, exist_ok=True)
        if sqlite3.sqlite_version_info < _SQLITE:
            raise OSError(f"SQLite 3.37 or later is needed, this Python has {sqlite3.sqlite_version}")
        if writes:
            self._held = self._hold()
        try:
            with self._named():
                self._connection = self._connected()
                self._check(origin)
        except BaseException:
            self.close(keep=False)
            raise

    # --- opening ---

    def _hold(self) -> FileLock:
        lock = FileLock(self.path.with_name(self.path.name + ".lock"), thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise OSError(
                f"{self.path} is being written by {self._writer()}: close it there, or open another file"
            ) from None
        return lock

    def _writer(self) -> str:
        try:
            with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                return connection.execute("SELECT value FROM about WHERE name = 'writer'").fetchone()[0]
        except (sqlite3.Error, TypeError):
            return "another process"

    def _connected(self) -> sqlite3.Connection:
        if self.writes:
            return self._connect("mode=rwc")
        connection = self._connect("mode=ro")
        try:
            connection.execute("BEGIN")  # held until it is closed: what is read is of one moment
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return connection
        except sqlite3.OperationalError:
            connection.close()
            if self.path.with_name(self.path.name + "-wal").exists():
                raise
            return self._connect("immutable=1")  # in a folder that may not be written

    def _connect(self, how: str) -> sqlite3.Connection:
        uri = f"{self.path.resolve().as_uri()}?{how}"
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=PATIENCE
        )
        connection.execute("PRAGMA foreign_keys = ON")
        connection.create_function("folded", 1, str.casefold, deterministic=True)
        return connection

    def _check(self, origin: Mapping[str, str] | None) -> None:
        version, application, tables = (
            self._one(question)
            for question in (
                "PRAGMA user_version",
                "PRAGMA application_id",
                "SELECT count(*) FROM sqlite_schema",
            )
        )
        if tables and application != _APPLICATION:
            raise ValueError(f"{self.path} is a database, but no edited state of larimar_editor")
        if version > FORMAT_VERSION:
            raise ValueError(
                f"{self.path} has format {version}; this version of larimar_editor reads up to "
                f"{FORMAT_VERSION}"
            )
        if self.writes:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
        elif not tables:
            raise FileNotFoundError(f"no edited state in {self.path}: it is empty")
        if not tables:
            self._make()
        for check in ("PRAGMA integrity_check(1)", "PRAGMA foreign_key_check"):
            found = self._database.execute(check).fetchone()
            if found not in (None, ("ok",)):
                raise ValueError(f"{self.path} is damaged: {found[0]}")
        self._check_origin(origin)
        if self.writes:
            with self._transaction():
                self._say({"writer": f"process {os.getpid()} on {gethostname()}"})

    def _make(self) -> None:
        with self._transaction():
            for statement in _SCHEMA.split(";"):
                self._database.execute(statement)
            self._database.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._database.execute(f"PRAGMA user_version = {FORMAT_VERSION}")

    def _check_origin(self, wanted: Mapping[str, str] | None) -> None:
        recorded = self.origin
        if wanted and not recorded and not self.last_number():
            if self.writes:
                with self._transaction():
                    self._say({f"origin.{name}": value for name, value in wanted.items()})
            return
        other = [
            f"{name}: {recorded.get(name)!r} there, {value!r} here"
            for name, value in (wanted or {}).items()
            if recorded.get(name) != value
        ]
        if other:
            raise ValueError(
                f"the edited state in {self.path} was made by another model or other settings: "
                + "; ".join(other)
            )

    # --- reading ---

    @property
    def origin(self) -> dict[str, str]:
        """What made the numbers in it."""
        rows = self._all("SELECT substr(name, 8), value FROM about WHERE name LIKE 'origin.%'")
        return dict(rows)

    @property
    def next_id(self) -> int:
        """Of the next fact; no fact ever had it."""
        question = "SELECT max(ifnull(max(id), 0), ifnull((SELECT seq FROM sqlite_sequence), 0)) FROM facts"
        return self._all(question)[0][0] + 1

    def __len__(self) -> int:
        with self._named():
            return self._one("SELECT count(*) FROM spans WHERE forgotten_by IS NULL")

    def ids(self) -> list[int]:
        """Of what is written, ascending."""
        return [id for (id,) in self._all("SELECT fact FROM spans WHERE forgotten_by IS NULL ORDER BY fact")]

    def ids_of(self, key: str) -> Iterator[int]:
        """Of facts with this `Fact.key`, written or forgotten, the newest first."""
        question = "SELECT id FROM facts WHERE key = ? AND id < ? ORDER BY id DESC LIMIT ?"
        last = 1 << 62
        while found := self._all(question, (key, last, _FEW)):
            yield from (id for (id,) in found)
            last = found[-1][0]

    def is_written(self, id: int) -> bool:
        """Whether the fact of an id is written now."""
        return bool(self._all("SELECT 1 FROM spans WHERE fact = ? AND forgotten_by IS NULL", (id,)))

    def search(self, words: str, limit: int = -1) -> list[int]:
        """Ids of written facts in whose prompt, target or subject these words stand, at most ``limit``."""
        texts = "prompt || char(10) || target_new || char(10) || ifnull(subject, '')"
        question = (
            "SELECT id FROM facts JOIN spans ON fact = id AND forgotten_by IS NULL "
            f"WHERE instr(folded({texts}), folded(?)) ORDER BY id LIMIT ?"
        )
        return [id for (id,) in self._all(question, (words, limit))]

    def known(self, ids: Sequence[int]) -> list[int]:
        """Those of these ids that there is a fact of, written or forgotten."""
        found = {id for (id,) in self._of_ids("SELECT id FROM facts", "id", ids)}
        return [id for id in ids if id in found]

    def facts(self, ids: Sequence[int]) -> list[Fact]:
        """The facts of these ids, written or forgotten.

        Raises:
            ValueError: a damaged one, or one that is not there.
        """
        found: dict[int, Fact] = {}
        for id, prompt, target, subject, at, crc in self._of_ids(_FACTS, "id", ids):
            if crc != _crc_of(prompt, target, subject, at):
                raise ValueError(f"fact {id} in {self.path} is damaged: it is not what was written")
            found[id] = Fact(prompt, target, id, at, subject)
        return self._each(found, ids)

    def values(self, ids: Sequence[int]) -> list[bytes]:
        """The latents of these facts, at rest. Raises as `facts`."""
        rows = self._of_ids("SELECT fact, value FROM latents", "fact", ids)
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
        for id, of_scope, of_key in self._of_ids("SELECT fact, scope, key FROM encodings", "fact", ids):
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
        for row in self._all("SELECT number, name, done_at FROM operations ORDER BY number"):
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
        with self._transaction() as connection:
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
            self._say({"embeddings": str(columns["scope"].dtype).removeprefix("torch.")})
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
        return self._all("SELECT ifnull(max(number), 0) FROM operations")[0][0]

    def last(self) -> Done | None:
        """The last operation, which `undo` takes back; None where there is none that could be."""
        found = self._all("SELECT number, name, done_at FROM operations ORDER BY number DESC LIMIT 1")
        return next((self._done(*row) for row in found if row[1] != BASE), None)

    def undoable(self) -> int:
        """How many operations can be undone."""
        return self._all("SELECT count(*) FROM operations WHERE name != ?", (BASE,))[0][0]

    def undo(self) -> None:
        """Take the last operation back, with the facts that it alone wrote.

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        with self._transaction() as connection:
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
        with self._transaction() as connection:
            number, written = self.last_number(), set(self.ids())
            for reader in list(self.readers):
                reader.fetch([id for id in reader.ids if id not in written])
            connection.execute("UPDATE operations SET name = ? WHERE number = ?", (BASE, number))
            connection.execute("DELETE FROM spans WHERE forgotten_by IS NOT NULL")
            connection.execute("UPDATE spans SET written_by = ?", (number,))
            connection.execute("DELETE FROM operations WHERE number < ?", (number,))
            connection.execute("DELETE FROM facts WHERE NOT EXISTS (SELECT 1 FROM spans WHERE fact = id)")
        with self._named(), self.lock:
            self._database.execute("VACUUM")
            (busy, *_) = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
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
        with self._transaction() as connection:
            connection.execute("DELETE FROM operations")
            connection.execute("DELETE FROM facts")
            connection.execute("DELETE FROM about WHERE name LIKE 'origin.%'")
            self._say({f"origin.{name}": value for name, value in origin.items()})
            connection.execute("INSERT INTO operations VALUES (1, ?, ?)", (BASE, time.time()))
            self._insert(connection, written, columns, number=1)
            self._reserve(connection, next_id)

    @property
    def is_open(self) -> bool:
        """Whether it can be asked anything."""
        return self._connection is not None

    def close(self, keep: bool = True) -> None:
        """Let go of the file.

        Args:
            keep: whether what reads from it is to have in memory what it has there.
        """
        with self.lock:
            try:
                if self._connection is not None:
                    for reader in list(self.readers) if keep else ():
                        reader.fetch(list(reader.ids))
            finally:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                if self._held is not None:
                    self._held.release()
                    self._held = None

    def __deepcopy__(self, memo: dict) -> None:
        """None: the copy of a model writes to no file, as a file has one writer."""

    # --- SQL ---

    @contextmanager
    def _named(self) -> Iterator[None]:
        """What SQLite raises, as what it is, with the file's name."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path} is damaged, or no edited state: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if not self.writes:
            raise OSError(f"{self.path} was opened to be read only")
        with self._named(), self.lock:
            connection = self._database
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def _all(self, question: str, values: Sequence = ()) -> list[tuple]:
        with self._named(), self.lock:
            return self._database.execute(question, values).fetchall()

    def _one(self, question: str):
        return self._database.execute(question).fetchone()[0]

    @property
    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError(f"{self.path} has been closed")
        return self._connection

    def _of_ids(self, question: str, name: str, ids: Sequence[int]) -> Iterator[tuple]:
        for start in range(0, len(ids), _AT_ONCE):
            part = list(map(int, ids[start : start + _AT_ONCE]))
            yield from self._all(f"{question} WHERE {name} IN ({','.join('?' * len(part))})", part)

    def _say(self, values: Mapping[str, str]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    def _embeddings(self) -> str:
        """In which `_EMBEDDINGS` are kept."""
        found = [value for (value,) in self._all("SELECT value FROM about WHERE name = 'embeddings'")]
        if not set(found) <= set(_EMBEDDINGS):
            raise ValueError(f"{self.path} is damaged: it has embeddings in {found[0]!r}")
        return found[0] if found else _EMBEDDINGS[0]

    def _done(self, number: int, name: str, done_at: float) -> Done:
        changed = lambda by: tuple(
            id for (id,) in self._all(f"SELECT fact FROM spans WHERE {by} = ? ORDER BY fact", (number,))
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
