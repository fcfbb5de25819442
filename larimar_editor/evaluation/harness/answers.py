"""What a model says of its own accord, and how near that is to a target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import torch


@torch.no_grad()
def answers(
    model, prompts: Sequence[str], max_new_tokens: int = 12, batch: int = 32, tokenizer=None, **sampling
) -> list[str]:
    """Text that the model generates after each prompt; greedy unless ``sampling`` says otherwise.

    Args:
        model: a causal language model. A Larimar reads its own memory; the prompt is the query.
        prompts: one text each.
        max_new_tokens: length of an answer.
        tokenizer: the model's; a Larimar has it.
        sampling: passed to `generate`.
    """
    tokenizer, result = tokenizer or model.tokenizer, []
    device = next(model.parameters()).device
    options = {
        "do_sample": False,
        "max_new_tokens": max_new_tokens,
        "pad_token_id": tokenizer.pad_token_id,
    } | sampling
    if "stop_strings" in options:
        options["tokenizer"] = tokenizer
    for start in range(0, len(prompts), batch):
        part = list(prompts[start : start + batch])
        inputs = tokenizer(part, return_tensors="pt", padding=True, padding_side="left").to(device)
        made = model.generate(**inputs, **options)[:, inputs.input_ids.shape[1] :]
        result += tokenizer.batch_decode(made, skip_special_tokens=True)
    return result


def words(text: str) -> list[str]:
    """Words in lower case, without punctuation and articles."""
    return [word for word in re.findall(r"\w+", text.lower()) if word not in ("a", "an", "the")]


def times_said(answer: str, target: str) -> int:
    """How often the target's words stand in the answer, one after the other."""
    given, wanted = words(answer), words(target)
    places = range(len(given) - len(wanted) + 1) if wanted else ()
    return sum(given[place : place + len(wanted)] == wanted for place in places)


def recalled(answer: str, target: str) -> float:
    """1 if the target's words stand in the answer, one after the other, else 0."""
    return float(times_said(answer, target) > 0)


def f1(answer: str, target: str) -> float:
    """F1 of the words of the answer's start, as many as the target has, against the target's: 0 to 1."""
    wanted = words(target)
    given = words(answer)[: len(wanted)]
    common = sum((Counter(given) & Counter(wanted)).values())
    return 2 * common / (len(given) + len(wanted)) if common else 0.0
