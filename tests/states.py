"""Edited states of random numbers, small enough to be made in no time."""

from __future__ import annotations

import torch

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import Fact, FactStore
from larimar_editor.state.operations import Write

ROWS, LATENT, KEY, SCOPE = 6, 5, 7, 3
ORIGIN = {"checkpoint": "a test's", "alpha": "0.001"}


def blank(rows: int = ROWS) -> EditedState:
    return EditedState(Memory.empty(rows, LATENT), Reference.from_prompts(rows, KEY), FactStore())


def write(*numbers: int, text: str = "") -> Write:
    """The writing of facts, each with encodings of its own."""
    draws = []
    for size in (LATENT, KEY, SCOPE):
        generators = (torch.Generator().manual_seed(100 * number + size) for number in numbers)
        draws.append(torch.stack([torch.randn(size, generator=generator) for generator in generators]))
    facts = tuple(Fact(f"prompt {number} {text}", f"target {number}") for number in numbers)
    return Write(facts, *draws, written_at=float(sum(numbers)))


def written(count: int = 4, rows: int = ROWS, text: str = "") -> EditedState:
    return write(*range(count), text=text).applied_to(blank(rows))


def put(state: EditedState, facts, values, keys, scope, written_at: float = 0.0) -> EditedState:
    """The state with facts written."""
    return Write(tuple(facts), values, keys, scope, written_at).applied_to(state)


def less(state: EditedState, *names) -> EditedState:
    """The state with facts forgotten, by prompt, id or themselves."""
    return state.without(state.store.rows(names))


def same(a: EditedState, b: EditedState) -> bool:
    """Whether two states are equal to the bit."""
    tensors = [
        [getattr(state.memory, name) for name in ("M", "key_covariance", "inverse", "moments")]
        + [state.reference.rows, state.reference.in_use]
        + [
            state.store.column(name)[state.store.alive]
            for name in ("value", "weight", "scope")
            if len(state.store)
        ]
        for state in (a, b)
    ]
    numbers = [
        (state.memory.rows_written, state.memory.updates, state.store.next_id, state.store.facts())
        for state in (a, b)
    ]
    return len(tensors[0]) == len(tensors[1]) and numbers[0] == numbers[1] and all(map(torch.equal, *tensors))
