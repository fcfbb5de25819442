"""What changes and keeps the edited state of a model: by whole edits, each of which can be undone, and in a
file.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.entries import Entry
from larimar_editor.state.facts import FactStore, changed_rows
from larimar_editor.state.file import BASE, Done, StateFile
from larimar_editor.state.on_file import EntriesOnFile
from larimar_editor.state.paged import Pages
from larimar_editor.state.register import StateRegister
from larimar_editor.state.saved import state_in

# Steps that can be undone without a file: at most so many, and of those that take more than so many bytes,
# the last.
UNDO_STEPS = 8
_UNDO_BYTES = 128 * 2**20


@dataclass(frozen=True)
class _Step:
    """What an edit made of a state, and the number of its operation in the file; 0 without one."""

    before: EditedState
    after: EditedState
    number: int


class History:
    """What changes and keeps an edited state. Not for several threads at once; a `StateOwner` sees to that.

    Args:
        register: holds the current state.
    """

    def __init__(self, register: StateRegister):
        self._register = register
        self._steps: deque[_Step] = deque(maxlen=UNDO_STEPS)
        self._file: StateFile | None = None
        self._in_file: EditedState | None = None  # the file's state after its operation of this number
        self._number = 0

    @property
    def state(self) -> EditedState:
        """The current state. One that is assigned can be undone where a file is open."""
        return self._register.get()

    @state.setter
    def state(self, state: EditedState) -> None:
        state = self._register.placed(state)
        self._record("set", state)
        self._register.set(state)

    @property
    def file(self) -> StateFile | None:
        """What the state is kept in."""
        return self._file

    def commit(self, name: str, after: EditedState) -> None:
        """Make a state current that was made of the one before, first in the file, if one is open, then here.

        Args:
            name: of the operation, or of all of them that are to be one.
            after: what they made.

        Raises:
            OSError: the file could not be written; the state is as it was.
        """
        before = self.state
        self._record("set", before)  # where an editor has put another state into the register meanwhile
        self._record(name, after)
        self._register.set(after)
        self._steps.append(_Step(before, after, self._number))
        while len(self._steps) > 1 and len(self._steps) * after.memory.nbytes > _UNDO_BYTES:
            self._steps.popleft()

    def token(self) -> Tensor:
        """See `StateRegister.token`."""
        return self._register.token()

    def undo(self) -> None:
        """Put the state before the last operation back, to the bit; with a file as far back as the file goes.

        Raises:
            RuntimeError: there is none, or the state has been replaced since.
            OSError: the file could not be written; the state is as it was.
        """
        step = self._steps[-1] if self._steps and self._steps[-1].after is self.state else None
        if self._file is not None:
            self._undo_in(self._file, step)
        elif step is not None:
            self._register.set(step.before)
        else:
            raise RuntimeError(
                f"nothing to undo: the last {UNDO_STEPS} writes, forgets and resets can be, until "
                "another state is loaded or set; with open_state(file) all of them"
            )
        if step is not None:
            self._steps.pop()

    def open(self, file: StateFile) -> None:
        """Keep the state in ``file`` from now on. A state that is there becomes the current one, and the
        current one goes there where it is empty.

        Raises:
            RuntimeError: a file is open already.
            ValueError: facts are written both here and there, or here and the file is only read, or as
                `state_in`; nothing is changed.
            OSError: it could not be written; nothing is changed.
        """
        if self._file is not None:
            raise RuntimeError(f"a state is open in {self._file.path}; close_state() first")
        before = self.state
        store, rows = before.store, before.store.alive_rows()
        if rows and (file.last_number() or not file.writes):
            raise ValueError(
                f"facts are written, and {file.path} has an edited state, or is only read: reset() first, or "
                "take another file"
            )
        if file.writes and not file.last_number() and store.next_id > 1:
            file.commit(BASE, [], store.taken(rows), store.columns(rows), store.next_id)
        self._register.set(state_in(file, before))
        self._file, self._in_file, self._number = file, self.state, file.last_number()
        self._steps.clear()

    def close(self, keep: bool = True) -> None:
        """Let go of the file, which keeps the state; nothing when there is none. ``keep``: as
        `StateFile.close`.
        """
        if self._file is not None:
            try:
                self._file.close(keep)
            finally:
                self._file = self._in_file = None
                self._steps.clear()

    def _record(self, name: str, after: EditedState) -> None:
        """Put what makes ``after`` of the file's state into the file."""
        if self._file is None or after is self._in_file:
            return
        assert self._in_file is not None, "of the file that is open"
        store = after.store
        entries = store.entries
        if not isinstance(entries, EntriesOnFile) or entries.file is not self._file:
            raise ValueError(
                f"a state is open in {self._file.path}, and this one is not of it: close_state() first"
            )
        self._catch_up(self._file)
        gone, come = changed_rows(self._in_file.store, store)
        if not gone and not come and name == "set":
            return
        forgotten = [self._in_file.store.entries.ids[row] for row in gone]
        written = [entries.ids[row] for row in come]
        taken, columns = store.taken(come), store.columns(come)
        # What cannot be written belongs to no state, but its rows are in the log: it stays in memory.
        self._number = self._file.commit(name, forgotten, taken, columns, store.next_id)
        self._in_file = after
        entries.settle(written)

    def _catch_up(self, file: StateFile) -> None:
        """With an edit that was interrupted when it was in the file already."""
        if file.last_number() != self._number:
            self._in_file, self._number = state_in(file, self.state), file.last_number()

    def _undo_in(self, file: StateFile, step: _Step | None) -> None:
        self._catch_up(file)
        last, state = file.last(), self.state
        assert self._in_file is not None, "of the file that is open"
        if last is None:
            raise RuntimeError(f"nothing to undo: {file.path} has no operation that could be")
        if any(changed_rows(self._in_file.store, state.store)):
            raise RuntimeError("nothing to undo: the state has been replaced since")
        before = step.before if step is not None and step.number == last.number else None
        if before is None and isinstance(state.memory, Pages):
            before = EditedState(state.memory, _store_before(last, state, file))
        file.undo()
        self._in_file = state_in(file, state) if before is None else before
        self._number = file.last_number()
        self._register.set(self._in_file)


def _store_before(last: Done, state: EditedState, file: StateFile) -> FactStore:
    """The store before a file's last operation."""
    row_of = state.store.entries.row_of
    store = state.store.without([row for row in map(row_of, last.written) if row is not None])
    there = {id: row_of(id) for id in last.forgotten}
    store = store.revived([row for row in there.values() if row is not None])
    lost = [id for id, row in there.items() if row is None]
    if lost:
        entries = [Entry(fact, value) for fact, value in zip(file.facts(lost), file.values(lost))]
        columns = {name: column.to(state.device) for name, column in file.columns(lost).items()}
        store = store.appended(entries, columns)
        store.entries.settle(lost)
    return store
