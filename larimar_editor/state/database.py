"""The SQLite database of an edited state: one writer at a time, whole transactions.

Tables
    ``facts`` with ``encodings`` (what scope and addressing need, read when the file is opened) and
    ``latents`` (read when one is asked for); ``operations``, numbered; ``spans``, which operation wrote a
    fact and which forgot it. A fact is written now where a span of it is open. To undo the last operation is
    to delete its row: foreign keys do the rest.

SQLite's WAL with ``synchronous = FULL``: a transaction is on the disk when it ends, or gone whole.
"""

from __future__ import annotations

import os
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from socket import gethostname

from filelock import FileLock, Timeout

from larimar_editor.utils.locks import Lock

FORMAT_VERSION = 5  # 1 to 3 were folders; 4 had its embeddings in float32

PATIENCE = 30.0  # seconds to wait for another process's transaction

_APPLICATION = 0x4C524D52  # "LRMR"
_SQLITE = (3, 37)  # the first with STRICT tables
_AT_ONCE = 500  # ids in one question
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


class Database:
    """An open database.

    Args:
        path: of the file; made, with its folder, where there is none and it is written to.
        origin: what makes the numbers of the state that is kept in it; None: whatever has.
        writes: whether it is written to. One writer at a time, of any process, has a file.

    Attributes:
        lock: of the threads that ask it.

    Raises:
        FileNotFoundError: there is none, and it is not written to.
        OSError: a folder, another's (the message says whose), or one that cannot be written.
        ValueError: no edited state, a damaged one, one of a newer format, or one of another origin.
    """

    def __init__(self, path: Path, origin: Mapping[str, str] | None, writes: bool):
        self.path, self.writes = path.resolve(), writes  # a lock is of the file, by whatever name
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
            with self.named():
                self._connection = self._connected()
                self._check(origin)
        except BaseException:
            self.close()
            raise

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
            with closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as connection:
                return connection.execute("SELECT value FROM about WHERE name = 'writer'").fetchone()[0]
        except (sqlite3.Error, TypeError):
            return "another process"

    def _connected(self) -> sqlite3.Connection:
        if self.writes:
            return self._connect(f"{self.path.as_uri()}?mode=rwc")
        connection = self._connect(f"{self.path.as_uri()}?mode=ro")
        try:
            connection.execute("BEGIN")  # held until it is closed: what is read is of one moment
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return connection
        except sqlite3.OperationalError:
            connection.close()
            before, content = self.path.stat(), bytearray(self.path.read_bytes())
            changed = self.path.stat().st_mtime_ns != before.st_mtime_ns
            if changed or self.path.with_name(self.path.name + "-wal").exists():
                raise
            return self._copied(content)

    def _copied(self, content: bytearray) -> sqlite3.Connection:
        """What was in the file, in memory: in a folder that may not be written no lock keeps it as it is."""
        content[18:20] = b"\1\1"  # by the file format no WAL, which memory has none of
        connection = self._connect(":memory:")
        connection.deserialize(bytes(content))
        return connection

    def _connect(self, uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=PATIENCE
        )
        connection.execute("PRAGMA foreign_keys = ON")
        connection.create_function("folded", 1, _folded, deterministic=True)
        return connection

    def _check(self, origin: Mapping[str, str] | None) -> None:
        version, application, tables = (
            self.one(question)
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
            if self.one("PRAGMA journal_mode = WAL") != "wal":
                raise OSError(f"SQLite has no WAL where {self.path} is: put it on a disk of this machine")
            self.connection.execute("PRAGMA synchronous = FULL")
        elif not tables:
            raise FileNotFoundError(f"no edited state in {self.path}: it is empty")
        if not tables:
            self._make()
        for check in ("PRAGMA integrity_check(1)", "PRAGMA foreign_key_check"):
            found = self.connection.execute(check).fetchone()
            if found not in (None, ("ok",)):
                raise ValueError(f"{self.path} is damaged: {found[0]}")
        self._check_origin(origin)
        if self.writes:
            with self.transaction():
                self.say({"writer": f"process {os.getpid()} on {gethostname()}"})

    def _make(self) -> None:
        with self.transaction():
            for statement in _SCHEMA.split(";"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            self.connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")

    def _check_origin(self, wanted: Mapping[str, str] | None) -> None:
        recorded = self.origin
        if wanted and not self.one("SELECT count(*) FROM operations"):  # no numbers are in it
            if self.writes:
                with self.transaction():
                    self.say({f"origin.{name}": value for name, value in wanted.items()})
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
                + ". To take its facts over: `larimar-editor facts export`, `facts import` into a new file"
            )

    @property
    def origin(self) -> dict[str, str]:
        """What made the numbers in it."""
        return dict(self.all("SELECT substr(name, 8), value FROM about WHERE name LIKE 'origin.%'"))

    @contextmanager
    def named(self) -> Iterator[None]:
        """What SQLite raises, as what it is, with the file's name."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise OSError(f"{self.path}: {error}") from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path} is damaged, or no edited state: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """While it lasts, what is done is done whole, at its end, or not at all.

        Raises:
            OSError: the file was opened to be read only, or could not be written; it is as it was.
        """
        if not self.writes:
            raise OSError(f"{self.path} was opened to be read only")
        with self.named(), self.lock:
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def all(self, question: str, values: Sequence = ()) -> list[tuple]:
        """All rows of an answer."""
        with self.named(), self.lock:
            return self.connection.execute(question, values).fetchall()

    def one(self, question: str, values: Sequence = ()):
        """The first value of the first row of an answer."""
        return self.all(question, values)[0][0]

    @property
    def connection(self) -> sqlite3.Connection:
        """SQLite's own.

        Raises:
            RuntimeError: the file has been closed.
        """
        if self._connection is None:
            raise RuntimeError(f"{self.path} has been closed")
        return self._connection

    def of_ids(self, question: str, name: str, ids: Sequence[int]) -> Iterator[tuple]:
        """Rows of a question whose column ``name`` is one of ``ids``, in any order."""
        for start in range(0, len(ids), _AT_ONCE):
            part = list(map(int, ids[start : start + _AT_ONCE]))
            yield from self.all(f"{question} WHERE {name} IN ({','.join('?' * len(part))})", part)

    def say(self, values: Mapping[str, str]) -> None:
        """Note something about the file as a whole, within a transaction."""
        self.connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", values.items())

    @property
    def is_open(self) -> bool:
        """Whether it can be asked anything."""
        return self._connection is not None

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._held is not None:
            self._held.release()
            self._held = None


def _folded(text: str) -> str:
    """As texts are compared in a search: in any case, and however their accents are put together."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
