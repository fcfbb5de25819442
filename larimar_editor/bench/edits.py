"""An edit: alone, one of many, in a block; and where its time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from larimar_editor.bench.clock import seconds_of, summary, timed
from larimar_editor.data.relations import Names, RephrasedFacts, read_relations
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.facts import facts_from
from larimar_editor.state.operations import Write


def requests(count: int, seed: int = 0) -> list[dict]:
    """Made-up facts, prompts all different; each with its subject and a rewording."""
    made = RephrasedFacts(read_relations(), Names(), seed, openers=0.0)
    result: dict[str, dict] = {}
    number = 0
    while len(result) < count:
        fact = made[number]
        request = {key: fact[key] for key in ("prompt", "target_new", "subject")}
        request["rephrase_prompt"] = fact["rephrase_prompt"][0]
        result.setdefault(fact["prompt"].strip(), request)
        number += 1
    return list(result.values())


def one_by_one(model: LarimarForCausalLM, facts: Sequence[Mapping]) -> dict:
    """Latency of single and sequential edits, beside the encoder passes that an edit contains
    (median of the facts' ratios), and an edit's shares.
    """
    empty = growing = model.edited_state.cleared()
    single, sequential, encoder = [], [], []
    with preserved(model):
        for fact in facts:  # in turn, so that whatever slows the machine for a while slows all three
            model.edited_state = empty
            single += seconds_of([partial(model.write, [fact])])
            model.edited_state = growing
            sequential += seconds_of([partial(model.write, [fact])])
            growing = model.edited_state
            encoder += seconds_of([partial(_encode, model, fact)])
        model.edited_state = empty
        shares = _shares(model, facts)
    result = {
        "single": summary(single),
        "sequential": summary(sequential),
        "encoder": summary(encoder),
        "shares": shares,
    }
    for name, seconds in (("single", single), ("sequential", sequential)):
        ratios = [edit / passes for edit, passes in zip(seconds, encoder)]
        result[f"{name}_against_encoder"] = summary(ratios)["median"]
    return result


def _encode(model: LarimarForCausalLM, fact: Mapping) -> None:
    """The network passes of an edit: the fact's latents, and the prompt's key, which is its scope embedding
    too.
    """
    slots = model.to_encode(facts_from([fact])).slots
    model.latent_encoder.encode(list(slots), list(slots.values()))
    model.memory_keys([fact["prompt"]])


def _shares(model: LarimarForCausalLM, facts: Sequence[Mapping]) -> dict[str, float]:
    """Shares of sequential edits' time: latent, key (with scope), update of memory and store, and the rest,
    Python.
    """
    latent: list[float] = []
    key: list[float] = []
    update: list[float] = []
    writes: list[float] = []
    with (
        timed(model.latent_encoder, "encode", latent),
        timed(model, "memory_keys", key),
        timed(Write, "applied_to", update),
        timed(model, "write", writes),
    ):
        for fact in facts:
            model.write([fact])
    total = sum(writes)
    parts = {"encoder": sum(latent) / total, "scope": sum(key) / total, "update": sum(update) / total}
    return parts | {"python": 1 - sum(parts.values())}


def in_blocks(model: LarimarForCausalLM, facts: Sequence[Mapping], sizes: Sequence[int]) -> list[dict]:
    """Seconds per edit of blocks of each size, the median of three at least, beside one fact's."""
    rows, empty = [], model.edited_state.cleared()
    with preserved(model):
        for size in sizes:
            repeats, there = max(3, min(20, 64 // size)), max(1, len(facts) // size)
            starts = (number % there * size for number in range(repeats))
            blocks = [facts[start : start + size] for start in starts]
            spent = []
            for block in blocks:
                model.edited_state = empty
                spent += seconds_of([partial(model.write, block)])
            rows.append({"size": size, "seconds": sorted(spent)[len(spent) // 2] / size})
    one = next(row["seconds"] for row in rows if row["size"] == min(sizes))
    return [row | {"per_second": 1 / row["seconds"], "times_faster": one / row["seconds"]} for row in rows]
