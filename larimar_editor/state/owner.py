"""What is done with an edited state, whoever encodes what is written: it is looked at, forgotten from,
undone, kept in a file.
"""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore
from larimar_editor.state.file import StateFile
from larimar_editor.state.history import History
from larimar_editor.state.operations import Clear, Forget
from larimar_editor.state.register import StateRegister
from larimar_editor.state.saved import load_state, save_state
from larimar_editor.utils.inference import outside_inference
from larimar_editor.utils.locks import Lock


class StateOwner:
    """What is done with an edited state that needs no encoder and no detector, by several threads at once.

    A base class: what encodes and reads says what the state begins with (`_empty_state`), what makes its
    numbers (`origin`) and whether that is so of some facts (`_check_made_by`). It sets ``_lock``, and
    ``state_register`` and ``_history`` to None.

    Attributes:
        state_register: holds the current edited state; None where nothing was ever edited.
    """

    _lock: Lock
    state_register: StateRegister | None
    _history: History | None

    @property
    def origin(self) -> dict[str, str]:
        """What made the state's numbers: a state is loaded only where that is the same."""
        raise NotImplementedError

    def _empty_state(self) -> EditedState:
        """Before anything is written."""
        raise NotImplementedError

    def _check_made_by(self, store: FactStore) -> None:
        """Before a file says `origin` of these facts.

        Raises:
            ValueError: something else made their numbers.
        """
        raise NotImplementedError

    # --- the state ---

    @property
    def history(self) -> History:
        """What changes and keeps the edited state, made on first use: an unedited model costs nothing."""
        with self._lock:
            if self._history is None:
                with outside_inference():
                    self.state_register = StateRegister(self._empty_state())
                    self._history = History(self.state_register)
            return self._history

    @property
    def edited_state(self) -> EditedState:
        """Memory and facts, immutable. Assigning one makes it current."""
        with self._lock:
            return self.history.state

    @edited_state.setter
    def edited_state(self, state: EditedState) -> None:
        with self._lock, outside_inference():
            self.history.state = state

    def undo_token(self) -> Tensor:
        """The current state's version; see `StateRegister.token`."""
        with self._lock:
            return self.history.token()

    def facts(self) -> list[Fact]:
        """What is written, oldest first."""
        return self.edited_state.store.facts()

    def is_empty(self) -> bool:
        """Whether nothing is written. Costs nothing on a model that was never edited."""
        return self.state_register is None or not len(self.edited_state.store)

    # --- editing ---

    def forget(self, *facts: Fact | str | int) -> None:
        """Forget facts, named by prompt, by id or by themselves (alpha = -1).

        Raises:
            UnknownFact: a fact that is not written; nothing is changed.
            OSError: the state's file, if one is open, could not be written; nothing is changed.
        """
        with self._lock, outside_inference():
            state = self.edited_state
            if rows := state.store.rows(facts):
                operation = Forget(tuple(state.store.fact(row).id for row in rows))
                self.history.commit(operation.name, operation.applied_to(state))

    def reset(self) -> None:
        """Forget every fact at once; ids are not used again. `undo` brings them back."""
        with self._lock, outside_inference():
            operation = Clear()
            self.history.commit(operation.name, operation.applied_to(self.edited_state))

    def undo(self) -> None:
        """Put back the state before the last `write`, `forget` or `reset`, to the bit; see `History.undo`."""
        with self._lock, outside_inference():
            self.history.undo()

    # --- files ---

    def save_state(self, path: str | Path) -> None:
        """Save the edited state to a file, apart from the checkpoint; see
        `larimar_editor.state.saved.save_state`.

        Raises:
            OSError, ValueError: as that; or facts that were written with other settings than the file would
                say. What was in the file is still there.
        """
        with self._lock:
            if self.history.file is not None and self.history.file.path == Path(path).resolve():
                self.edited_state = self.edited_state  # an editor may have put back an earlier one
            else:
                self._check_made_by(self.edited_state.store)
                save_state(self.edited_state, path, self.origin)

    def load_state(self, path: str | Path) -> None:
        """Replace the edited state by a saved one; see `larimar_editor.state.saved.load_state`."""
        with self._lock, outside_inference():
            self.edited_state = load_state(self.edited_state, path, self.origin)

    def open_state(self, path: str | Path, read_only: bool = False) -> None:
        """Take up the state in a file, made if need be, and from now on keep every edit there before it takes
        effect: an edit that was reported as done is there again after a crash, and `undo` goes back through
        all of them.

        Args:
            path: of the file. Latents and texts stay in it until they are asked for.
            read_only: for a second process: what was written when it is opened is read, and nothing can be
                edited.

        Raises:
            RuntimeError: a file is open already.
            OSError, ValueError: as `StateFile` and `History.open`, or facts in memory that were written with
                other settings than the file would say; nothing is changed.
        """
        with self._lock, outside_inference():
            if self.history.file is not None:
                raise RuntimeError(f"a state is open in {self.history.file.path}; close_state() first")
            self._check_made_by(self.edited_state.store)
            file = StateFile(path, self.origin, writes=not read_only)
            try:
                self.history.open(file)
            except BaseException:
                file.close(keep=False)
                raise

    def close_state(self, keep: bool = True) -> None:
        """End what `open_state` began; the file keeps the state, and so does the model, in memory.

        Args:
            keep: False where neither the model's facts nor its copies' are asked for any more: nothing is
                read into memory then.
        """
        with self._lock, outside_inference():
            self.history.close(keep)
