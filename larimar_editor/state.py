"""The edited state: memory, reference memory and facts. Immutable; an edit makes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larimar_editor.addressing import Reference
from larimar_editor.facts import Fact, FactStore
from larimar_editor.memory import Memory

# A memory row whose keys weigh less than this, squared and summed, is free to take a new prompt.
_UNTOUCHED = 1e-12


@dataclass(frozen=True)
class EditedState:
    """What editing changes.

    Attributes:
        memory: `larimar_editor.memory.Memory`, K rows of C.
        reference: the reference memory; it turns keys into weights.
        store: facts, each with its columns ``value`` ``(C,)`` and ``weight`` ``(K,)`` as they were written, and
            ``scope`` ``(E,)``, the detector's embedding of the prompt.
    """

    memory: Memory
    reference: Reference
    store: FactStore

    def __deepcopy__(self, memo: dict) -> EditedState:
        return self

    def write(
        self, facts: Sequence[Fact], values: Tensor, keys: Tensor, scope: Tensor, written_at: float | None = None
    ) -> EditedState:
        """Write facts; a fact whose prompt is written already replaces it.

        Args:
            facts: N facts with N different prompts.
            values: encodings of prompt and target ``(N, C)``.
            keys: encodings of the prompts that address the memory ``(N, key_size)``.
            scope: the detector's embeddings of the prompts ``(N, E)``.
            written_at: seconds since the epoch; now when None.

        Raises:
            ValueError: an encoding that is not finite, with the fact it belongs to.
        """
        named = {"value": values, "key": keys, "scope embedding": scope}
        finite = torch.stack([torch.isfinite(rows).all(dim=1) for rows in named.values()])
        if not bool(finite.all()):  # a synchronisation with the device: nothing that is not finite gets in
            kind, place = finite.logical_not().nonzero()[0].tolist()
            raise ValueError(f"the {[*named][kind]} of {facts[place].text!r} is not finite; nothing was written")
        old = [row for row in map(self.store.row, facts) if row is not None]
        state = self._forget_rows(old)
        reference = state.reference.extended(keys)
        # Kept in float32 and used from there, so that forgetting removes just what was written.
        weights = reference.weights(keys).float()
        values = values.detach().float()
        return EditedState(
            memory=state.memory.write(values, weights),
            reference=reference,
            store=state.store.extended(facts, {"value": values, "weight": weights, "scope": scope.detach().float()}, written_at),
        )

    def forget(self, facts: Sequence[Fact | str | int]) -> EditedState:
        """Forget facts by prompt, id or themselves (eq. (mem_update_seq) with alpha = -1).

        Raises:
            UnknownFact: one that is not written, or named twice; nothing is changed.
        """
        return self._forget_rows(self.store.rows(facts))

    def _forget_rows(self, rows: list[int]) -> EditedState:
        if not rows:
            return self
        memory = self.memory.forget(self.store.column("value")[rows], self.store.column("weight")[rows])
        store = self.store.without(rows)
        if len(store):  # a synchronisation with the device: which rows are free is kept on the host
            untouched = (memory.key_covariance.diagonal() < _UNTOUCHED).cpu()
        else:
            untouched = torch.ones_like(self.reference.in_use)
        return EditedState(memory, self.reference.released(untouched), store)

    def cleared(self) -> EditedState:
        """With every fact forgotten."""
        empty = FactStore(next_id=self.store.next_id)
        everything = torch.ones_like(self.reference.in_use)
        return EditedState(self.memory.cleared(), self.reference.released(everything), empty)

    def to(self, device: torch.device | str) -> EditedState:
        """The same state on ``device``."""
        return EditedState(self.memory.to(device), self.reference.to(device), self.store.mapped(lambda x: x.to(device)))


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
    """How the facts of ``b`` differ from those of ``a``, each in order of writing. A fact written anew is not changed."""
    before, after = ({fact.key: fact for fact in state.store.facts()} for state in (a, b))
    return Difference(
        written=tuple(fact for key, fact in after.items() if key not in before),
        forgotten=tuple(fact for key, fact in before.items() if key not in after),
        changed=tuple((before[key], fact) for key, fact in after.items() if key in before and not fact.says(before[key])),
    )
