"""A state's file: what durability costs an edit, and how opening, reading and editing grow with its facts."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import psutil
import torch
from torch.nn import functional as F

from larimar_editor.bench.clock import seconds_of, summary
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.entries import Entry
from larimar_editor.state.fact import Fact
from larimar_editor.state.file import StateFile
from larimar_editor.utils.device import timed_call

_IN_TURN = 10  # edits with a file, then as many without one
_BLOCK = 4096
_ASKED = 20


def durable(model: LarimarForCausalLM, facts: Sequence[Mapping]) -> dict:
    """Seconds of an edit that is on the disk when it returns, and of one in memory, in turn."""
    empty, spent = model.edited_state.cleared(), {"in_memory": [0.0], "durable": [0.0]}
    with tempfile.TemporaryDirectory() as folder, preserved(model):
        for start in range(0, len(facts), _IN_TURN):
            part = [partial(model.write, [fact]) for fact in facts[start : start + _IN_TURN]]
            model.edited_state = empty
            spent["in_memory"] += seconds_of(part)
            model.edited_state = empty
            model.open_state(Path(folder) / f"{start}.db")
            spent["durable"] += seconds_of(part)
            model.close_state(keep=False)
        model.edited_state = empty
    result = {name: summary(seconds) for name, seconds in spent.items()}
    return result | {"durable_against_in_memory": result["durable"]["median"] / result["in_memory"]["median"]}


def grown(model: LarimarForCausalLM, facts: Sequence[Mapping], counts: Sequence[int]) -> list[dict]:
    """Files of so many facts of random numbers besides ``facts``: seconds until one is open and a first
    prompt is answered, of a prompt after that and of an edit; bytes of a fact in the file, and in memory.
    """
    result = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder, preserved(model):
            model.edited_state = model.edited_state.cleared()
            path = Path(folder) / "facts.db"
            model.open_state(path)
            model.write(facts)
            model.close_state(keep=False)
            model.edited_state = model.edited_state.cleared()
            _, filling = timed_call(_fill, path, model, count)
            result.append({"facts": count, "fill": filling} | _measured(model, path, facts, count))
    return [
        row
        | {
            f"{name}_against_the_first": row[name]["median"] / result[0][name]["median"]
            for name in ("read", "edit")
        }
        for row in result
    ]


def _measured(model: LarimarForCausalLM, path: Path, facts: Sequence[Mapping], count: int) -> dict:
    process = psutil.Process()
    before = process.memory_info().rss
    _, opening = timed_call(model.open_state, path)
    held = process.memory_info().rss - before
    index = model.edited_state.store.keys().nbytes
    asked = [partial(model.read, [fact["prompt"]]) for fact in facts[:_ASKED]]
    read = seconds_of(asked)
    edits = [
        partial(model.write, [{"prompt": f"The number of house {number} is", "target_new": str(number)}])
        for number in range(_ASKED)
    ]
    edit = seconds_of(edits)
    undo = seconds_of([model.undo] * _ASKED)
    model.close_state(keep=False)
    model.edited_state = model.edited_state.cleared()
    size = sum(each.stat().st_size for each in path.parent.iterdir())
    return {
        "open": opening,
        "open_and_first_read": opening + read[0],
        "read": summary(read),
        "edit": summary(edit),
        "undo": summary(undo),
        "file_bytes_per_fact": size / (count + len(facts)),
        "memory_bytes_per_fact_beyond_the_index": max(0, held - index) / (count + len(facts)),
    }


def _fill(path: Path, model: LarimarForCausalLM, count: int) -> None:
    """Facts with random keys; the latents of the first few thousand come again and again."""
    size, latent = model.detectors.external.embedding_size, model.config.latent_size
    generator = torch.Generator().manual_seed(0)
    values = model.edited_state.memory.rest.packed(torch.randn(_BLOCK, latent, generator=generator))
    with closing(StateFile(path, None)) as file:
        first = file.next_id
        for start in range(0, count, _BLOCK):
            part = range(start, min(start + _BLOCK, count))
            keys = F.normalize(torch.randn(len(part), size, generator=generator), dim=1)
            written = [
                Entry(
                    Fact(f"The written prompt of fact {number} is", f"answer {number}", first + number, 0.0),
                    value,
                )
                for number, value in zip(part, values)
            ]
            file.commit("write", [], written, {"scope": keys})
