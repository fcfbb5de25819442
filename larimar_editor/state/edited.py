"""The edited state: memory, reference memory and facts. Immutable; an edit makes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory, fitted
from larimar_editor.state.facts import Fact, FactStore

# A memory row whose keys weigh less than this, squared and summed, is free to take a new prompt.
_UNTOUCHED = 1e-12


@dataclass(frozen=True)
class EditedState:
    """What editing changes.

    Attributes:
        memory: `larimar_editor.memory.memory.Memory`, K rows of C.
        reference: the reference memory; it turns keys into weights.
        store: facts, each with its columns ``value`` (as many numbers as the longest has) and ``weight``
            ``(K,)`` as they were written, and ``scope`` ``(E,)``, the detector's embedding of the prompt.
    """

    memory: Memory
    reference: Reference
    store: FactStore

    def __deepcopy__(self, memo: dict) -> EditedState:
        return self

    def without(self, rows: Sequence[int]) -> EditedState:
        """With the facts of these rows of the store forgotten (eq. (mem_update_seq) with alpha = -1)."""
        if not rows:
            return self
        memory = self.memory.forget(self.values()[list(rows)], self.store.column("weight")[list(rows)])
        store = self.store.without(rows)
        if len(store):  # a synchronisation with the device: which rows are free is kept on the host
            untouched = (memory.key_covariance.diagonal() < _UNTOUCHED).cpu()
        else:
            untouched = torch.ones_like(self.reference.in_use)
        return EditedState(memory, self.reference.released(untouched), store)

    def values(self) -> Tensor:
        """The store's column ``value``, forgotten rows too, as wide as the memory: a later store that shares
        its rows may have longer ones.
        """
        return fitted(self.store.column("value"), self.memory.latent_size)

    def cleared(self) -> EditedState:
        """With every fact forgotten."""
        empty = FactStore(next_id=self.store.next_id)
        everything = torch.ones_like(self.reference.in_use)
        return EditedState(self.memory.cleared(), self.reference.released(everything), empty)

    def to(self, device: torch.device | str) -> EditedState:
        """The same state on ``device``."""
        return EditedState(
            self.memory.to(device), self.reference.to(device), self.store.mapped(lambda x: x.to(device))
        )


@dataclass(frozen=True)
class Difference:
    """What was done between two states.

    Attributes:
        written: facts whose prompt only the later state has.
        forgotten: facts whose prompt only the earlier one has.
        changed: facts of one prompt with another target, as they were and as they are.
    """

    written: tuple[Fact, ...]
    forgotten: tuple[Fact, ...]
    changed: tuple[tuple[Fact, Fact], ...]

    def __bool__(self) -> bool:
        return bool(self.written or self.forgotten or self.changed)


def diff(a: EditedState, b: EditedState) -> Difference:
    """How the facts of ``b`` differ from those of ``a``, each in order of writing. A fact written anew is not
    changed.
    """
    before, after = ({fact.key: fact for fact in state.store.facts()} for state in (a, b))
    return Difference(
        written=tuple(fact for key, fact in after.items() if key not in before),
        forgotten=tuple(fact for key, fact in before.items() if key not in after),
        changed=tuple(
            (before[key], fact) for key, fact in after.items() if key in before and not fact.says(before[key])
        ),
    )
