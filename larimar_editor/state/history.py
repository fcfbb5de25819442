"""The current edited state of a model, changed by whole edits, each of which can be undone and kept in a
journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.files import has_state
from larimar_editor.state.journaled_folder import JournaledFolder
from larimar_editor.state.operations import Operation
from larimar_editor.state.register import StateRegister

# Steps that can be undone: at most so many, and of those that take more than so many bytes, the last.
UNDO_STEPS = 8
_UNDO_BYTES = 128 * 2**20


class History:
    """Not for several threads at once; its owner sees to that.

    Args:
        register: holds the current state.
    """

    def __init__(self, register: StateRegister):
        self._register = register
        self._steps: deque[tuple[EditedState, EditedState]] = deque(maxlen=UNDO_STEPS)
        self._folder: JournaledFolder | None = None

    @property
    def state(self) -> EditedState:
        """The current state. One that is assigned cannot be undone."""
        return self._register.get()

    @state.setter
    def state(self, state: EditedState) -> None:
        if self._folder is not None:
            self._folder.snapshot(state)
        self._register.set(state)

    def commit(self, done: Operation, after: EditedState) -> None:
        """Make the state current that ``done`` made of the one before: first in the journal, if there is one,
        then here.

        Raises:
            OSError: the journal could not be written; the state is as it was.
        """
        before = self.state
        if self._folder is not None and self._folder.state is before:
            self._folder.record(done, after)
            self._register.set(after)
        else:  # an editor has put another state into the register meanwhile
            self.state = after
        self._steps.append((before, after))
        while len(self._steps) > 1 and len(self._steps) * after.memory.nbytes > _UNDO_BYTES:
            self._steps.popleft()

    def token(self) -> Tensor:
        """See `StateRegister.token`."""
        return self._register.token()

    def undo(self) -> None:
        """Put the state before the last operation back, to the bit.

        Raises:
            RuntimeError: there is none, or the state has been replaced since.
        """
        if not self._steps or self._steps[-1][1] is not self.state:
            raise RuntimeError(
                f"nothing to undo: the last {UNDO_STEPS} writes, forgets and resets can be, until another "
                "state is loaded or set"
            )
        self.state = self._steps[-1][0]
        self._steps.pop()

    def open_journal(self, folder: str | Path, origin: Mapping) -> None:
        """Keep the state in ``folder`` from now on; see `JournaledFolder`. A state that is there becomes the
        current one.

        Raises:
            RuntimeError: a journal is open already.
            ValueError: facts are written both here and there, or as `JournaledFolder`; nothing is changed.
            OSError: as `JournaledFolder`; nothing is changed.
        """
        if self._folder is not None:
            raise RuntimeError(f"a journal is open in {self._folder.folder}; close_journal() first")
        before = self.state
        if len(before.store) and has_state(folder):
            raise ValueError(
                f"facts are written, and {folder} has an edited state: reset() first, or take another folder"
            )
        opened = JournaledFolder(folder, before, origin)
        if opened.state is not before:
            self._register.set(opened.state)
        self._folder = opened

    def close_journal(self) -> None:
        """Let go of the journal's folder, which keeps the state; nothing when there is none."""
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def save(self, folder: str | Path) -> bool:
        """Fold the journal into a snapshot, if it is in ``folder``; whether it is."""
        if self._folder is None or Path(folder).resolve() != self._folder.folder.resolve():
            return False
        self._folder.snapshot(self.state)
        return True
