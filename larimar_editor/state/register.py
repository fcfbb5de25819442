"""The current edited state of a model, behind a parameter that editors know how to restore."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor, nn

from larimar_editor.state.edited import EditedState


class _Version(nn.Parameter):
    """Which state is the current one. Whoever asks for gradients of all of a model's parameters, as
    ``model.requires_grad_(True)`` does, is given those of the others: a whole number has none.
    """

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Itself, as it is."""
        return self


class StateRegister(nn.Module):
    """Holds the edited state behind an integer parameter, its version.

    Editors that undo an edit by copying saved values into parameters of given names (EasyEdit does) copy the
    version back, and with it the whole state of that moment, to the bit. Such a state lives as long as the
    `token` that was taken of it, and the latest one until the next is taken.
    """

    def __init__(self, state: EditedState):
        super().__init__()
        self.version = _Version(torch.zeros((), dtype=torch.int64), requires_grad=False)
        self._states: weakref.WeakValueDictionary[int, EditedState] = weakref.WeakValueDictionary({0: state})
        self._current, self._number, self._last = state, 0, 0
        # The version is noticed on the next look, when the editor may have dropped the token already.
        self._undo = state
        self._seen = self.version._version

    def get(self) -> EditedState:
        """The current state: the last that was set, or the one whose version an editor has put back.

        Raises:
            RuntimeError: that one is gone. The current state stays.
        """
        if (
            self.version._version != self._seen
        ):  # someone wrote to the parameter; tells it without reading a GPU
            number = int(self.version)
            state = self._states.get(number)
            if state is None:
                self._show(self._number)
                raise RuntimeError(
                    f"edited state {number} is gone: keep what the edit returned until it is restored"
                )
            self._take(self.placed(state), number)
        return self._current

    def placed(self, state: EditedState) -> EditedState:
        """A state, perhaps of before the model was moved, on the device of the current one."""
        device = self._current.device
        return state if state.device == device else state.to(device)

    def set(self, state: EditedState) -> None:
        """Make ``state`` current under a new version."""
        self._last += 1
        self._show(self._last)
        self._take(state, self._last)

    def token(self) -> Tensor:
        """The current version, as a tensor that keeps its state alive."""
        self._undo = self.get()
        token = self.version.detach().clone()
        token.edited_state = self._undo  # type: ignore[attr-defined]
        return token

    def moved(self, device: torch.device) -> None:
        """Move the current state. One of before can be restored only while something else keeps it."""
        self._take(self.get().to(device), self._number)
        self._undo = self._current

    def _show(self, number: int) -> None:
        with torch.no_grad():
            self.version.fill_(number)
        self._seen = self.version._version

    def _take(self, state: EditedState, number: int) -> None:
        self._current, self._number, self._seen = state, number, self.version._version
        self._states[number] = state

    # A version means a state of this register alone: it is no weight, to be saved and loaded elsewhere.

    def _save_to_state_dict(self, destination, prefix, keep_vars) -> None:
        pass

    def _load_from_state_dict(self, *args) -> None:
        pass
