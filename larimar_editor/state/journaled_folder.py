"""A folder that has the edited state at every moment."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from larimar_editor.state.edited import EditedState
from larimar_editor.state.files import (
    Snapshot,
    has_state,
    hold,
    read_snapshot,
    replayed,
    tensors_in_force,
    write_snapshot,
)
from larimar_editor.state.journal import Journal
from larimar_editor.state.operations import Operation

# A journal is folded into a new snapshot when it is larger than the last snapshot, and than this.
_LEAST_JOURNAL_BYTES = 16 * 2**20


class JournaledFolder:
    """A snapshot, and a journal of what was done since.

    One at a time, of any process, holds a folder.

    Args:
        folder: where; a state that is there is loaded.
        like: settings and devices, and the first state of a folder that has none.
        origin: see `save_state`.

    Attributes:
        state: the state that is in the folder.

    Raises:
        OSError: held by another, or not writable.
        ValueError: as `load_state`.
    """

    def __init__(self, folder: str | Path, like: EditedState, origin: Mapping):
        self.folder, self.origin = Path(folder), dict(origin)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = hold(self.folder)
        self._journal: Journal | None = None
        try:
            if has_state(self.folder):
                self._go_on(like)
            else:
                self.snapshot(like)
        except BaseException:
            self.close()
            raise

    def record(self, done: Operation, after: EditedState) -> None:
        """Put an operation into the journal, which made ``after`` of `state`.

        Raises:
            OSError: it could not be written; the folder is as it was.
        """
        if self._journal is None:  # a snapshot failed when it was in force already
            return self.snapshot(after)
        self._journal.append(done)
        self.state = after
        if self._journal.size > max(self._snapshot_bytes, _LEAST_JOURNAL_BYTES):
            try:
                self.snapshot(after)
            except OSError as error:
                warnings.warn(
                    f"the journal in {self.folder} grows on, as no snapshot could be written: {error}",
                    stacklevel=2,
                )

    def snapshot(self, state: EditedState) -> None:
        """Put a whole state there, with an empty journal.

        Raises:
            OSError: it could not be written; the folder has the state that it had, or this one.
        """
        try:
            files = write_snapshot(state, self.folder, self.origin, journal=True)
            assert files.journal is not None, "asked for"
            journal = Journal(files.journal)
        except BaseException:
            if self._journal is not None and tensors_in_force(self.folder) != self._tensors:
                self._close_journal()
            raise
        self._close_journal()
        self._hold_to(state, files, journal)

    def close(self) -> None:
        """Let go of the folder, which keeps the state."""
        self._close_journal()
        self._lock.release()

    def __deepcopy__(self, memo: dict) -> None:
        """None: the copy of a model has no journal, as two of them would tear it."""

    def _go_on(self, like: EditedState) -> None:
        state, files = read_snapshot(like, self.folder, self.origin)
        if files.journal is None:
            self.snapshot(state)
            return
        if files.journal.exists():
            self._journal = Journal(files.journal)  # cuts a torn last record, and says so
        self._hold_to(replayed(state, files.journal), files, self._journal)

    def _hold_to(self, state: EditedState, files: Snapshot, journal: Journal | None) -> None:
        self._journal, self.state = journal, state
        self._tensors, self._snapshot_bytes = files.tensors.name, files.tensors.stat().st_size

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
