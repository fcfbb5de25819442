"""What can be done to an edited state, as data: each makes a changed state of one, which stays as it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact


@dataclass(frozen=True)
class Write:
    """Facts with their encodings; a fact whose prompt is written already replaces it.

    Attributes:
        facts: N facts with N different prompts.
        values: encodings of prompt and target ``(N, C)`` float32, or wider where one of them is longer.
        keys: encodings of the prompts that address the memory ``(N, key size)`` float32.
        scope: the detector's embeddings of the prompts ``(N, E)`` float32; may be ``keys`` itself.
        written_at: seconds since the epoch.
        kept_as: in which ``scope`` is kept: float32, or float16, of which `cosines` finds the nearest.
    """

    name: ClassVar[str] = "write"
    facts: tuple[Fact, ...]
    values: Tensor
    keys: Tensor
    scope: Tensor
    written_at: float
    kept_as: torch.dtype = torch.float32

    def applied_to(self, state: EditedState) -> EditedState:
        """Written (eq. (mem_update_seq) with alpha = 1).

        Raises:
            ValueError: an encoding that is not finite, with the fact it belongs to.
        """
        named = {"value": self.values, "key": self.keys, "scope embedding": self.scope}
        finite = torch.stack([torch.isfinite(rows).all(dim=1) for rows in named.values()])
        if not bool(finite.all()):  # a synchronisation with the device: nothing that is not finite gets in
            kind, place = finite.logical_not().nonzero()[0].tolist()
            raise ValueError(
                f"the {[*named][kind]} of {self.facts[place].text!r} is not finite; nothing was written"
            )
        written = (state.store.row(fact.key) for fact in self.facts)
        state = state.without([row for row in written if row is not None])
        # Nothing of the forgotten is left where all are: another detector may have come meanwhile.
        store = state.store if len(state.store) else state.store.compacted()
        values = state.memory.rest.packed(self.values)
        memory, columns = state.memory.written(values, self.keys)
        columns = {**columns, "scope": self.scope.detach().to(self.kept_as)}
        if self.scope is not self.keys:
            columns["key"] = self.keys.detach().float()
        return EditedState(memory, store.extended(self.facts, values, columns, self.written_at))


@dataclass(frozen=True)
class Forget:
    """Forgetting of facts, by their ids."""

    name: ClassVar[str] = "forget"
    ids: tuple[int, ...]

    def applied_to(self, state: EditedState) -> EditedState:
        """Forgotten (eq. (mem_update_seq) with alpha = -1).

        Raises:
            UnknownFact: one that is not written, or named twice.
        """
        return state.without(state.store.rows(self.ids))


@dataclass(frozen=True)
class Clear:
    """Forgetting of every fact at once."""

    name: ClassVar[str] = "clear"

    def applied_to(self, state: EditedState) -> EditedState:
        """The state without facts; ids are not used again."""
        return state.cleared()
