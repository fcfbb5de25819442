"""What can be done to an edited state, as data: applied once, kept in a journal, applied again when it is
read back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from larimar_editor.memory.memory import fitted
from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import Fact, FactStore

_COLUMNS = ("values", "keys", "scope")


class Operation(Protocol):
    """A change of an edited state.

    Attributes:
        name: of its kind.
    """

    name: ClassVar[str]

    def applied_to(self, state: EditedState) -> EditedState:
        """The changed state; the given one stays as it was."""
        ...

    def description(self) -> dict:
        """What JSON can hold of it."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What safetensors can hold of it: the rest."""
        ...


@dataclass(frozen=True)
class Write:
    """Facts with their encodings; a fact whose prompt is written already replaces it.

    Attributes:
        facts: N facts with N different prompts.
        values: encodings of prompt and target ``(N, C)`` float32, or wider where one of them is longer.
        keys: encodings of the prompts that address the memory ``(N, key size)`` float32.
        scope: the detector's embeddings of the prompts ``(N, E)`` float32.
        written_at: seconds since the epoch.
    """

    name: ClassVar[str] = "write"
    facts: tuple[Fact, ...]
    values: Tensor
    keys: Tensor
    scope: Tensor
    written_at: float

    def applied_to(self, state: EditedState) -> EditedState:
        """Written: one least-squares update of the memory (eq. (mem_update_seq) with alpha = 1).

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
        state = state.without([row for row in map(state.store.row, self.facts) if row is not None])
        reference = state.reference.extended(self.keys)
        # Kept in float32 and used from there, so that forgetting removes just what was written.
        weights, values = reference.weights(self.keys).float(), self.values.detach().float()
        memory = state.memory.widened(values.shape[1])
        values = fitted(values, memory.latent_size)
        columns = {"value": values, "weight": weights, "scope": self.scope.detach().float()}
        # Nothing of the forgotten is left where all are: another detector may have come meanwhile.
        store = state.store if len(state.store) else FactStore(next_id=state.store.next_id)
        store = store.extended(self.facts, columns, self.written_at)
        return EditedState(memory.update(values, weights, alpha=1), reference, store)

    def description(self) -> dict:
        """The facts, and when they were written."""
        return {"facts": [asdict(fact) for fact in self.facts], "written_at": self.written_at}

    def tensors(self) -> dict[str, Tensor]:
        """``values``, ``keys`` and, if it is another, ``scope``."""
        # Where the scope embedding is the key it is not kept twice.
        return {
            name: getattr(self, name) for name in _COLUMNS if name != "scope" or self.scope is not self.keys
        }


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

    def description(self) -> dict:
        """The ids of what is forgotten."""
        return {"ids": list(self.ids)}

    def tensors(self) -> dict[str, Tensor]:
        """An empty mapping: it is all in the description."""
        return {}


@dataclass(frozen=True)
class Clear:
    """Forgetting of every fact at once."""

    name: ClassVar[str] = "clear"

    def applied_to(self, state: EditedState) -> EditedState:
        """The state without facts; ids are not used again."""
        return state.cleared()

    def description(self) -> dict:
        """An empty mapping: the name says it all."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """An empty mapping: it is all in the description."""
        return {}


def operation(
    name: str, description: Mapping, tensors: Mapping[str, Tensor], device: torch.device | str
) -> Operation:
    """The inverse of an operation's ``name``, `description` and `tensors`.

    Raises:
        KeyError, TypeError, ValueError: not such a description.
    """
    if name == Write.name:
        facts = tuple(Fact(**fact) for fact in description["facts"])
        values, keys = (tensors[column].to(device) for column in ("values", "keys"))
        scope = tensors["scope"].to(device) if "scope" in tensors else keys
        return Write(facts, values, keys, scope, float(description["written_at"]))
    if name == Forget.name:
        return Forget(tuple(map(int, description["ids"])))
    if name == Clear.name:
        return Clear()
    raise ValueError(f"no operation is called {name!r}")
