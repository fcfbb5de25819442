"""What can be done to an edited state, as data: applied once, kept in a journal, applied again when it is read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from larimar_editor.facts import Fact
from larimar_editor.state import EditedState

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
        """The rest."""
        ...


@dataclass(frozen=True)
class Write:
    """Facts with their encodings; see `EditedState.write`.

    Attributes:
        facts: N facts with N different prompts.
        values: ``(N, C)`` float32.
        keys: ``(N, key size)`` float32.
        scope: ``(N, E)`` float32.
        written_at: seconds since the epoch.
    """

    name: ClassVar[str] = "write"
    facts: tuple[Fact, ...]
    values: Tensor
    keys: Tensor
    scope: Tensor
    written_at: float

    def applied_to(self, state: EditedState) -> EditedState:
        """Written."""
        return state.write(self.facts, self.values, self.keys, self.scope, self.written_at)

    def description(self) -> dict:
        """Facts and time."""
        return {"facts": [asdict(fact) for fact in self.facts], "written_at": self.written_at}

    def tensors(self) -> dict[str, Tensor]:
        """``values``, ``keys`` and, if it is another, ``scope``."""
        # Where the scope embedding is the key it is not kept twice.
        return {name: getattr(self, name) for name in _COLUMNS if name != "scope" or self.scope is not self.keys}


@dataclass(frozen=True)
class Forget:
    """Facts by id; see `EditedState.forget`."""

    name: ClassVar[str] = "forget"
    ids: tuple[int, ...]

    def applied_to(self, state: EditedState) -> EditedState:
        """Forgotten; raises UnknownFact as `EditedState.forget`."""
        return state.forget(self.ids)

    def description(self) -> dict:
        """The ids."""
        return {"ids": list(self.ids)}

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}


@dataclass(frozen=True)
class Clear:
    """Every fact; see `EditedState.cleared`."""

    name: ClassVar[str] = "clear"

    def applied_to(self, state: EditedState) -> EditedState:
        """Empty."""
        return state.cleared()

    def description(self) -> dict:
        """Nothing."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}


def operation(name: str, description: Mapping, tensors: Mapping[str, Tensor], device: torch.device | str) -> Operation:
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
