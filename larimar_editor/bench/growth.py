"""How the cost of an edit grows with the memory's rows and with the facts that are written already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch.nn import functional as F

from larimar_editor.bench.clock import seconds_of, summary
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

EDITS = 40
ALPHA = 1e-3


def with_rows(sizes: Sequence[int], latent_size: int, key_size: int) -> list[dict]:
    """Seconds of an edit's update (everything but the encoders), K rows a page, half of one used, at most
    256; and with a fixed memory of K rows in all.
    """
    result = []
    for rows in sizes:
        spent = []
        for memory in (paged(rows, latent_size), fixed(rows, latent_size, key_size)):
            state = filled(memory, min(rows // 2, 256), latent_size, key_size)
            spent.append(summary(_further(state, latent_size, key_size)))
        result.append({"rows": rows} | spent[0] | {"fixed": spent[1]})
    return [row | {"against_the_first": row["median"] / result[0]["median"]} for row in result]


def with_facts(counts: Sequence[int], rows: int, latent_size: int, key_size: int) -> list[dict]:
    """The same with so many facts written already, and the bytes that each of them takes, its latent and all
    else that is kept of it in memory but for its texts.
    """
    result = []
    for count in counts:
        state = filled(paged(rows, latent_size), count, latent_size, key_size)
        store, first = state.store, state.store.alive_rows()[:1]
        columns = store.columns(first).values()
        bytes_each = len(store.values(first)[0]) + sum(column.nbytes for column in columns)
        row = {"facts": count, "bytes_per_fact": bytes_each} | summary(_further(state, latent_size, key_size))
        result.append(row)
    first_row = result[0]["median"]
    return [row | {"against_the_first": row["median"] / first_row} for row in result]


def paged(rows: int, latent_size: int) -> Pages:
    """Pages of so many rows."""
    return Pages(rows, ALPHA, Rest(SlotLayout(1, latent_size)), torch.device("cpu"))


def fixed(rows: int, latent_size: int, key_size: int) -> Fixed:
    """The paper's memory of so many rows."""
    reference = Reference.from_prompts(rows, key_size)
    return Fixed(Memory.empty(rows, latent_size), reference, Rest(SlotLayout(1, latent_size), "float32"))


def filled(memory: Pages | Fixed, count: int, latent_size: int, key_size: int) -> EditedState:
    """A state with so many facts of random numbers."""
    state, block = EditedState(memory, FactStore()), 4096
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
    return Write(facts, values, keys, keys, written_at=0.0, kept_as=torch.float16)
