"""The edited state: memory and facts. Immutable; an edit makes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore, changed_rows
from larimar_editor.state.fixed import Fixed
from larimar_editor.state.paged import Pages


@dataclass(frozen=True)
class EditedState:
    """What editing changes.

    Attributes:
        memory: pages, or the paper's memory of K rows in all.
        store: facts, each with its latent at rest and its columns: ``scope`` ``(E,)``, the detector's
            embedding of the prompt, ``key`` where that is another, and with a fixed memory ``weight``
            ``(K,)``.
    """

    memory: Pages | Fixed
    store: FactStore

    def __deepcopy__(self, memo: dict) -> EditedState:
        return self

    @property
    def device(self) -> torch.device:
        """Of readouts."""
        return self.memory.device

    def without(self, rows: Sequence[int]) -> EditedState:
        """With the facts of these rows of the store forgotten."""
        if not rows:
            return self
        # As a file's operations are gone through: the last bits of a sum hang on the order.
        rows = sorted(rows, key=self.store.entries.ids.__getitem__)
        return EditedState(self.memory.forgotten(self.store, rows), self.store.without(rows))

    def cleared(self) -> EditedState:
        """With every fact forgotten."""
        return EditedState(self.memory.cleared(), self.store.without(self.store.alive_rows()).compacted())

    def to(self, device: torch.device | str) -> EditedState:
        """The same state on ``device``."""
        return EditedState(self.memory.to(device), self.store.mapped(lambda x: x.to(device)))

    def read(self, rows: Sequence[int] | None, keys: Tensor | None, sigma_w: float = 0.0) -> Tensor:
        """Readouts ``(n, width)``, float32; see `Pages.read`."""
        return self.memory.read(self.store, rows, keys, sigma_w)


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
    gone, come = changed_rows(a.store, b.store)
    before = {fact.key: fact for fact in a.store.entries.facts(gone)}
    after = {fact.key: fact for fact in b.store.entries.facts(come)}
    return Difference(
        written=tuple(fact for key, fact in after.items() if key not in before),
        forgotten=tuple(fact for key, fact in before.items() if key not in after),
        changed=tuple(
            (before[key], fact) for key, fact in after.items() if key in before and not fact.says(before[key])
        ),
    )
