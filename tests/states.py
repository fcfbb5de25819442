"""Edited states of random numbers, small enough to be made in no time."""

from __future__ import annotations

import torch

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.memory.rest import Rest
from larimar_editor.memory.slots import SlotLayout
from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore
from larimar_editor.state.fixed import Fixed
from larimar_editor.state.operations import Write
from larimar_editor.state.paged import Pages

ROWS, LATENT, KEY = 6, 5, 7
ORIGIN = {"checkpoint": "a test's", "alpha": "0.001"}
LAYOUT = SlotLayout(1, LATENT)


def blank(rows: int = ROWS, dtype: str = "int8") -> EditedState:
    """Nothing written, in pages."""
    return EditedState(Pages(rows, 1e-3, Rest(LAYOUT, dtype), torch.device("cpu")), FactStore())


def blank_fixed(rows: int = ROWS, addressing: str = "gaussian", **options) -> EditedState:
    """Nothing written, in the paper's memory."""
    reference = Reference.from_prompts(rows, KEY, addressing, **options)
    return EditedState(Fixed(Memory.empty(rows, LATENT), reference, Rest(LAYOUT, "float32")), FactStore())


def draw(size: int, *numbers: int) -> torch.Tensor:
    """Encodings of numbers, each of its own."""
    seeds = (torch.Generator().manual_seed(100 * number + size) for number in numbers)
    return torch.stack([torch.randn(size, generator=seed) for seed in seeds])


def write(*numbers: int, text: str = "", kept_as: torch.dtype = torch.float32) -> Write:
    """The writing of facts, each with encodings of its own."""
    keys = draw(KEY, *numbers)
    facts = tuple(Fact(f"prompt {number} {text}", f"target {number}") for number in numbers)
    return Write(facts, draw(LATENT, *numbers), keys, keys, float(sum(numbers)), kept_as)


def written(count: int = 4, like: EditedState | None = None, text: str = "") -> EditedState:
    return write(*range(count), text=text).applied_to(like or blank())


def put(state: EditedState, facts, values, keys, scope, written_at: float = 0.0) -> EditedState:
    """The state with facts written."""
    return Write(tuple(facts), values, keys, scope, written_at).applied_to(state)


def less(state: EditedState, *names) -> EditedState:
    """The state with facts forgotten, by prompt, id or themselves."""
    return state.without(state.store.rows(names))


def same(a: EditedState, b: EditedState) -> bool:
    """Whether two states are equal to the bit, ids and times of the facts included."""
    rows = [state.store.alive_rows() for state in (a, b)]
    columns = [state.store.columns(mine) if mine else {} for state, mine in zip((a, b), rows)]
    if a.store.taken(rows[0]) != b.store.taken(rows[1]) or columns[0].keys() != columns[1].keys():
        return False
    pairs = [(columns[0][name], columns[1][name]) for name in columns[0]]
    if isinstance(a.memory, Fixed):
        names = ("M", "key_covariance", "inverse", "moments")
        pairs += [(getattr(a.memory.memory, name), getattr(b.memory.memory, name)) for name in names]
        used = [state.memory.reference.rows[state.memory.reference.in_use] for state in (a, b)]
        pairs.append((used[0], used[1]))
    return all(torch.equal(*pair) for pair in pairs)
