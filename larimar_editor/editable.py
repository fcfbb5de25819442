"""What a person does with an edited model: write, forget, undo, look, save."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from larimar_editor.episodic import EpisodicMemory
from larimar_editor.facts import Fact
from larimar_editor.scope import ScopeDecision
from larimar_editor.state import EditedState


class Editable:
    """The episodic memory's own operations, on the model that has it.

    Attributes:
        episodic: encoder, scope detector and edited state.
    """

    episodic: EpisodicMemory

    @property
    def edited_state(self) -> EditedState:
        """Memory and facts, immutable. Assigning one makes it current."""
        return self.episodic.edited_state

    @edited_state.setter
    def edited_state(self, state: EditedState) -> None:
        self.episodic.edited_state = state

    def write(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Write facts in one shot; see `EpisodicMemory.write`."""
        return self.episodic.write(requests)

    def forget(self, *facts: Fact | str | int) -> None:
        """Forget facts, named by prompt, by id or by themselves; see `EpisodicMemory.forget`."""
        self.episodic.forget(*facts)

    def undo(self) -> None:
        """Put back the state before the last write, forget or reset; see `EpisodicMemory.undo`."""
        self.episodic.undo()

    def facts(self) -> list[Fact]:
        """What is written, oldest first."""
        return self.episodic.facts()

    def reset(self) -> None:
        """Forget everything."""
        self.episodic.reset()

    def scope_of(self, prompts: Sequence[str]) -> ScopeDecision:
        """What the scope detector says of these prompts; see `EpisodicMemory.scope_of`."""
        return self.episodic.scope_of(prompts)

    def save_state(self, folder: str | Path) -> None:
        """Save the edited state, apart from the checkpoint; see `larimar_editor.statefiles.save_state`."""
        self.episodic.save_state(folder)

    def load_state(self, folder: str | Path) -> None:
        """Replace the edited state by a saved one; see `larimar_editor.statefiles.load_state`."""
        self.episodic.load_state(folder)

    def open_journal(self, folder: str | Path) -> None:
        """Load what is in ``folder``, and from now on keep every edit there before it takes effect.

        For a service: an edit that was reported as done is there again after a crash. See `EpisodicMemory.open_journal`.
        """
        self.episodic.open_journal(folder)

    def close_journal(self) -> None:
        """End what `open_journal` began; the folder keeps the state."""
        self.episodic.close_journal()
