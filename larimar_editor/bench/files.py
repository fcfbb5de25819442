"""A state's file: what durability costs an edit, and how opening, reading and editing grow with its facts."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median

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
_EACH = ("read", "reworded", "edit", "undo")  # what is timed many times
_ASKED, _ROUNDS = 20, 5  # prompts and edits of a round, and rounds, in each of which every file has its turn


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
    """Files of so many facts of random numbers besides ``facts``, in turn: seconds until one is open and a
    first prompt is answered, of a prompt after that, as it was written (``read``) and in other words
    (``reworded``), of an edit and of its undoing; bytes of a fact in the file, and in memory.
    """
    rows: list[dict] = [{"facts": count} for count in counts]
    spent: list[dict[str, list[float]]] = [{} for _ in counts]
    with tempfile.TemporaryDirectory() as folder, preserved(model):
        model.edited_state = model.edited_state.cleared()
        paths = [Path(folder) / str(count) / "facts.db" for count in counts]
        for row, path in zip(rows, paths):
            _, row["fill"] = timed_call(_made, path, model, facts, row["facts"])
        for number in range(_ROUNDS):
            for row, path, own in zip(rows, paths, spent):
                measured = _measured(model, path, facts)
                if not number:
                    size = sum(each.stat().st_size for each in path.parent.iterdir())
                    held, all_facts = measured.pop("held"), row["facts"] + len(facts)
                    row["file_bytes_per_fact"] = size / all_facts
                    row["memory_bytes_per_fact_beyond_the_index"] = max(0, *held) / all_facts
                for name in ("open", "open_and_first_read", *_EACH):
                    own.setdefault(name, []).extend(measured[name])
    for row, own in zip(rows, spent):
        row |= {name: median(own[name]) for name in ("open", "open_and_first_read")}
        row |= {name: summary(own[name]) for name in _EACH}
        for name in ("read", "reworded", "edit"):
            row[f"{name}_against_the_first"] = row[name]["median"] / rows[0][name]["median"]
    return rows


def _made(path: Path, model: LarimarForCausalLM, facts: Sequence[Mapping], count: int) -> None:
    path.parent.mkdir()
    model.open_state(path)
    model.write(facts)
    model.close_state(keep=False)
    model.edited_state = model.edited_state.cleared()
    _fill(path, model, count)


def _measured(model: LarimarForCausalLM, path: Path, facts: Sequence[Mapping]) -> dict[str, list[float]]:
    """Seconds, the first read apart, and under ``held`` the bytes that the open file takes in memory beyond
    the index.
    """
    process = psutil.Process()
    before = process.memory_info().rss
    _, opening = timed_call(model.open_state, path)
    held = process.memory_info().rss - before - model.edited_state.store.column("scope").nbytes
    # The first in other words: as it was written it would not be looked for among all.
    first, *reworded = seconds_of([partial(model.read, [fact["rephrase_prompt"]]) for fact in facts[:_ASKED]])
    read = seconds_of([partial(model.read, [fact["prompt"]]) for fact in facts[:_ASKED]])
    edits = [
        partial(model.write, [{"prompt": f"The number of house {number} is", "target_new": str(number)}])
        for number in range(_ASKED)
    ]
    edit = seconds_of(edits)
    undo = seconds_of([model.undo] * _ASKED)
    model.close_state(keep=False)
    model.edited_state = model.edited_state.cleared()
    return {
        "open": [opening],
        "open_and_first_read": [opening + first],
        "read": read,
        "reworded": reworded,
        "edit": edit,
        "undo": undo,
        "held": [held],
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
            file.commit("write", [], written, {"scope": keys.half()})
