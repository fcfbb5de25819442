"""How the cost of an edit grows with the memory's rows and with the facts that are written already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional as F

from larimar_editor.bench.clock import seconds_of, summary
from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import Fact, FactStore
from larimar_editor.state.operations import Write

EDITS = 40


def with_rows(sizes: Sequence[int], latent_size: int, key_size: int) -> list[dict]:
    """Seconds of an edit's update (everything but the encoders) into memories of K rows, half of them used,
    at most 256.
    """
    result = []
    for rows in sizes:
        state = filled(rows, min(rows // 2, 256), latent_size, key_size)
        result.append({"rows": rows} | summary(_further(state, latent_size, key_size)))
    return result


def with_facts(counts: Sequence[int], rows: int, latent_size: int, key_size: int) -> list[dict]:
    """The same with so many facts written already, and the bytes that each of them takes."""
    result = []
    for count in counts:
        state = filled(rows, count, latent_size, key_size)
        bytes_each = sum(state.store.column(name)[0].nbytes for name in ("value", "weight", "scope"))
        row = {"facts": count, "bytes_per_fact": bytes_each} | summary(_further(state, latent_size, key_size))
        result.append(row)
    first = result[0]["median"]
    return [row | {"against_the_first": row["median"] / first} for row in result]


def filled(rows: int, count: int, latent_size: int, key_size: int) -> EditedState:
    """A state with so many facts of random numbers."""
    state = EditedState(Memory.empty(rows, latent_size), Reference.from_prompts(rows, key_size), FactStore())
    block = 4096
    for start in range(0, count, block):
        state = _facts(start, min(block, count - start), latent_size, key_size).applied_to(state)
    return state


def _further(state: EditedState, latent_size: int, key_size: int) -> list[float]:
    current = [state]

    def write(number: int) -> None:
        current[0] = facts[number].applied_to(current[0])

    facts = [_facts(10_000_000 + number, 1, latent_size, key_size) for number in range(EDITS)]
    return seconds_of([partial(write, number) for number in range(EDITS)])


def _facts(start: int, count: int, latent_size: int, key_size: int) -> Write:
    generator = torch.Generator().manual_seed(start)
    values = torch.randn(count, latent_size, generator=generator)
    keys = F.normalize(torch.randn(count, key_size, generator=generator), dim=1)
    facts = tuple(Fact(f"prompt {start + number}", "target") for number in range(count))
    return Write(facts, values, keys, keys, written_at=0.0)
