"""Perplexity of plain text with facts in memory, against the base model's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Statistic
from larimar_editor.evaluation.harness.preserving import preserved, state_with
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading
from larimar_editor.state.edited import EditedState

WINDOW = 256
FACTS = 512


def windows_of(
    model: LarimarForCausalLM, text: str, window: int = WINDOW, limit: int | None = None
) -> list[Tensor]:
    """A text in windows of token ids; a last one of a single token is left out, since nothing is predicted in
    it.
    """
    ids = torch.tensor(model.tokenizer(text, verbose=False).input_ids)
    return [part for part in ids.split(window) if len(part) > 1][:limit]


@torch.no_grad()
def score_window(model: LarimarForCausalLM, ids: Tensor) -> dict:
    """One window, its own query, with what the model has written, and of the base model.

    Args:
        model: the model with its facts.
        ids: ``(T,)``; the first is not predicted.

    Returns:
        ``tokens`` predicted, ``nats`` and ``base_nats`` over all of them, ``in_scope``, and ``identical``:
        whether every logit equalled the base model's, to the bit.
    """
    row = ids[None].to(model.device)
    reading = model.read(model.tokenizer.batch_decode(row))
    base = model(row, reading=Reading.nothing(1, model.config.latent_size), use_cache=False).logits
    edited = model(row, reading=reading, use_cache=False).logits
    return {
        "tokens": len(ids) - 1,
        "nats": _nats(edited, row),
        "base_nats": _nats(base, row),
        "in_scope": bool(reading.in_scope[0]),
        "identical": torch.equal(base, edited),
    }


def perplexity(records: Sequence[Mapping], key: str = "nats") -> float | None:
    """e to the mean nats per token over the records of `score_window`; None without a record."""
    return (
        math.exp(sum(record[key] for record in records) / sum(record["tokens"] for record in records))
        if records
        else None
    )


def _nats(logits: Tensor, ids: Tensor) -> float:
    return float(F.cross_entropy(logits[0, :-1].float(), ids[0, 1:], reduction="sum"))


def _conditions(context: Context) -> list[Condition]:
    model = context.larimar(memory_rows=FACTS)
    windows = windows_of(model, context.plain_text, limit=context.limit)
    edits = context.counterfact_edits[:FACTS]

    @cache
    def written() -> EditedState:
        return state_with(model, [edit.request for edit in edits])

    def score(cases: Sequence[Tensor]) -> list[dict]:
        with preserved(model, written()):
            return [score_window(model, ids) for ids in cases]

    name = f"{len(edits)} facts in memory"
    return [
        Condition(
            name,
            {str(i): ids for i, ids in enumerate(windows)},
            score,
            8,
            {"facts": len(edits), "window": WINDOW},
        )
    ]


EVALUATION = Evaluation(
    "perplexity",
    "Perplexity of plain text with facts in memory, and of the base model",
    _conditions,
    (
        Statistic("perplexity", "Perplexity", perplexity),
        Statistic("base", "Base model's", lambda records: perplexity(records, "base_nats")),
        Column("in_scope", "Windows in scope", lambda record: float(record["in_scope"])),
        Column(
            "identical",
            "Windows with the base model's logits, to the bit",
            lambda record: float(record["identical"]),
        ),
    ),
    note=f"Windows of {WINDOW} tokens, each its own query. The paper gives 14.6 for Larimar-1.3B and 15.9 "
    "for Larimar-6B on "
    "1,000 WikiText samples.",
    reads=("text", "counterfact"),
)
