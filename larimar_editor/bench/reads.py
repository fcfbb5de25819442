"""A read of the memory, and a generated token with a memory in use beside one of the bare decoder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from larimar_editor.bench.clock import seconds_of, summary
from larimar_editor.bench.growth import filled
from larimar_editor.evaluation.harness.preserving import preserved, state_with, written_alone
from larimar_editor.model.larimar import LarimarForCausalLM


def reads(model: LarimarForCausalLM, facts: Sequence[Mapping]) -> dict:
    """Latency of a read among ``facts``, as they were written (``read``) and in other words (``reworded``),
    beside the sentence encoder's pass that the latter contains.
    """
    with written_alone(model, facts):
        read = seconds_of([partial(model.read, [fact["prompt"]]) for fact in facts])
        reworded = seconds_of([partial(model.read, [fact["rephrase_prompt"]]) for fact in facts])
        key = seconds_of([partial(model.memory_keys, [fact["rephrase_prompt"]]) for fact in facts])
    result = {"read": summary(read), "reworded": summary(reworded), "sentence_encoder": summary(key)}
    ratio = result["reworded"]["median"] / result["sentence_encoder"]["median"]
    return result | {"facts": len(facts), "reworded_against_sentence_encoder": ratio}


def among_many(model: LarimarForCausalLM, facts: Sequence[Mapping], count: int) -> dict:
    """A read among ``count`` facts, with all stages of the scope detector and with the first alone, in turn.

    Each of ``facts`` is asked as it was written and in other words. The other facts are of random numbers, so
    that the look-up has its work and the second stage has only the few candidates that real facts are.
    """
    config = model.config
    memory, size = model.edited_state.memory.cleared(), model.detectors.external.embedding_size
    state, candidates = filled(memory, count, config.latent_size, size), config.scope_candidates
    state = state.to(model.queries.device)
    spent: dict[str, list[float]] = {}
    with preserved(model, state):
        model.write(facts)
        try:
            for asked in ("prompt", "rephrase_prompt"):
                for fact in facts:
                    for stages, number in (("first_stage", 0), ("every_stage", candidates)):
                        config.scope_candidates = number
                        seconds = seconds_of([partial(model.read, [fact[asked]])])
                        spent.setdefault(f"{asked}.{stages}", []).extend(seconds)
        finally:
            config.scope_candidates = candidates
    result: dict = {"facts": count} | {name: summary(seconds) for name, seconds in spent.items()}
    for asked in ("prompt", "rephrase_prompt"):
        every, first = (result[f"{asked}.{stages}"]["median"] for stages in ("every_stage", "first_stage"))
        result[f"{asked}.against_first_stage"] = every / first
    return result


def generation(
    model: LarimarForCausalLM,
    bare: PreTrainedModel,
    facts: Sequence[Mapping],
    tokens: int = 48,
    repeats: int = 8,
) -> dict:
    """Seconds per generated token: bare decoder, Larimar beside a fact that is not asked, Larimar with
    the fact's memory in use, and the same where the memory is let go once its answer is said.

    The four take turns, each time another first, so that a slow moment of the machine is everyone's. Seconds
    are medians over tokens, the first left out; ratios are medians of a turn's.

    Args:
        model: as before afterwards.
        bare: the decoder as it is loaded, without anything of Larimar's in it.
        facts: two. With the first's prompt the four begin; it does not ask for the second.
        tokens: generated each time.
        repeats: turns.
    """
    fact, other = facts
    inputs = model.tokenizer(fact["prompt"], return_tensors="pt").to(model.device)
    options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    options["pad_token_id"] = model.tokenizer.pad_token_id
    spent: dict[str, list[float]] = {"decoder": [], "out_of_scope": [], "in_scope": [], "let_go": []}
    before = model.config.after_answer
    aside, full = (state_with(model, [written]) for written in (other, fact))
    turns: tuple[tuple[str, Any, Any, Any], ...] = (
        ("decoder", bare, aside, before),
        ("out_of_scope", model, aside, before),
        ("in_scope", model, full, "memory"),
        ("let_go", model, full, "base"),
    )
    with preserved(model):
        try:
            for turn in range(repeats):
                first = turn % len(turns)
                for name, generator, state, after in (*turns[first:], *turns[:first]):
                    model.edited_state, model.config.after_answer = state, after
                    spent[name].append(float(np.median(_gaps(generator, inputs, options))))
        finally:
            model.config.after_answer = before
    result = {name: float(np.median(seconds)) for name, seconds in spent.items()}
    against = {name: np.array(seconds) / np.array(spent["decoder"]) for name, seconds in spent.items()}
    ratios = {f"{name}_against_decoder": float(np.median(against[name])) for name in [*spent][1:]}
    return result | ratios | {"tokens": tokens * repeats}


class _Clock:
    """A streamer that notes when each token came."""

    def __init__(self):
        self.times: list[float] = []

    def put(self, value: torch.Tensor) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def _gaps(generator, inputs: Mapping, options: Mapping) -> list[float]:
    clock = _Clock()
    generator.generate(**inputs, **options, streamer=clock)
    return list(np.diff(clock.times[2:]))  # the prompt comes first, then the token that its pass gave
