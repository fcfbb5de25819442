"""Recall from more facts than one memory holds, by recursive reads (paper, longgen), against the facts in the
context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import DynamicCache

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.scores import TargetScore, rows_of, score_of, target_scores
from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.model.reading import Reading
from larimar_editor.utils.json_files import list_in
from larimar_editor.utils.text import prompt_and_target

FACTS = Path(__file__).parents[2] / "data" / "invented_facts.json"
SIZES = (64, 96, 128, 256)
CHUNK = 16  # facts of one memory, the episode length of training
ASKED = 32  # evenly spread


def read_facts(path: Path) -> list[dict]:
    """Facts of a file: JSON as the one that ships, or plain text with a fact a line, a tab between prompt and
    answer.

    Raises:
        ValueError: no JSON, a record or a line that is no fact, or none of them; the message names it.
    """
    facts = _facts_in_json(path) if path.suffix == ".json" else _facts_in_lines(path)
    if not facts:
        raise ValueError(f"{path} holds no fact")
    return facts


def _facts_in_json(path: Path) -> list[dict]:
    facts = list_in(path)
    for number, fact in enumerate(facts):
        if not isinstance(fact, dict):
            raise ValueError(f"{path}, record {number}: keys and values are wanted, got {str(fact)[:60]!r}")
        for name in ("prompt", "target_new"):
            if not isinstance(text := fact.get(name), str) or not text.strip():
                raise ValueError(
                    f"{path}, record {number}: {name!r} must be a text that is not empty, got {text!r}"
                )
    return facts


def _facts_in_lines(path: Path) -> list[dict]:
    facts = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        prompt, tab, target = line.strip().partition("\t")
        if line.strip() and not tab:
            raise ValueError(f"{path}, line {number}: no tab between prompt and answer")
        facts += [{"prompt": prompt, "target_new": target}] if tab else []
    return facts


def read_recursively(keys: Tensor, values: Tensor, queries: Tensor, chunk: int = CHUNK) -> Tensor:
    """Write chunks of facts to memories of their own, read each, write what was read to memories again, until
    one is left.

    Args:
        keys: what addresses each fact, ``(N, E)``.
        values: encodings ``(N, C)``.
        queries: ``(Q, E)``.
        chunk: facts of a memory, and readouts of a successor memory.

    Returns:
        readouts ``(Q, C)`` of the last memory.
    """
    return torch.stack([_read_one(keys, values, query[None], chunk)[0] for query in queries])


def _read_one(keys: Tensor, values: Tensor, query: Tensor, chunk: int) -> Tensor:
    while True:
        read_keys, read_values = [], []
        for start in range(0, len(keys), chunk):
            some_keys, some_values = keys[start : start + chunk], values[start : start + chunk]
            reference = Reference.fixed(some_keys, "gaussian")
            weights = reference.weights(query)
            memory = Memory.empty(len(some_keys), values.shape[1], device=values.device)
            memory = memory.write(some_values, reference.weights(some_keys).float())
            read_values.append(memory.read(weights).float())
            read_keys.append(weights.to(some_keys) @ some_keys)  # where the readout came from
        if len(read_values) == 1:
            return read_values[0]
        keys, values = torch.cat(read_keys), torch.cat(read_values)


def _conditions(context: Context) -> list[Condition]:
    facts = read_facts(context.facts or FACTS)
    result = []
    for count in [size for size in SIZES if size <= len(facts)] or [len(facts)]:
        asked = min(ASKED, context.limit or ASKED, count)
        cases = {str(place): facts[place] for place in range(0, count, count // asked)}
        for name, score in (("Larimar", _recursive), ("facts in the context", _in_context)):
            settings = {"facts": count, "chunk": CHUNK}
            scored = lambda asked, score=score, some=facts[:count]: score(context, asked, some)
            result.append(Condition(f"{name}, {count} facts", cases, scored, batch=16, settings=settings))
    return result


def _recursive(context: Context, asked: Sequence[Mapping], facts: Sequence[Mapping]) -> list[dict]:
    model = context.larimar(scope="none")
    values = model.latent_encoder.encode([_text(fact) for fact in facts])
    keys, queries = (model.memory_keys([fact["prompt"] for fact in some]) for some in (facts, asked))
    latents = read_recursively(keys, values, queries)
    reading = Reading(torch.ones(len(asked), dtype=torch.bool), latents)
    pairs = [(fact["prompt"], fact["target_new"]) for fact in asked]
    slots = model.config.memory_slots + 1
    scores = target_scores(model, pairs, reading)
    return [
        _record(score, slots + _tokens(model, fact["prompt"]))
        for score, fact in zip(scores, asked, strict=True)
    ]


def _in_context(context: Context, asked: Sequence[Mapping], facts: Sequence[Mapping]) -> list[dict]:
    model = context.larimar(scope="none")
    text = "\n".join(f"{_text(fact)}." for fact in facts)
    pairs = [(f"{text}\n{fact['prompt']}", fact["target_new"]) for fact in asked]
    scores = scores_after_a_context(model.decoder, model.tokenizer, pairs)
    return [_record(score, _tokens(model, prompt)) for score, (prompt, _) in zip(scores, pairs, strict=True)]


@torch.no_grad()
def scores_after_a_context(decoder, tokenizer, pairs: Sequence[tuple[str, str]]) -> list[TargetScore]:
    """Score targets after prompts that begin alike; what is alike passes through the decoder once."""
    rows, counts = rows_of(tokenizer, pairs)
    # Of the prompt, its last token is never left out: it predicts the target's first.
    alike = min(len(row) - count - 1 for row, count in zip(rows, counts))
    alike = next(
        (place for place, tokens in enumerate(zip(*rows)) if len(set(tokens)) > 1 or place == alike), alike
    )
    cache, scores = DynamicCache(), []  # one that is made for sliding windows cannot be cut
    decoder(torch.tensor([rows[0][:alike]], device=decoder.device), past_key_values=cache, logits_to_keep=1)
    for row, count in zip(rows, counts):
        logits = decoder(torch.tensor([row[alike:]], device=decoder.device), past_key_values=cache).logits[0]
        scores.append(score_of(logits[-count - 1 : -1], row[-count:]))
        cache.crop(alike - len(row))
    return scores


def _text(fact: Mapping) -> str:
    return prompt_and_target(fact["prompt"], fact["target_new"])


def _tokens(model, text: str) -> int:
    return len(model.tokenizer(text).input_ids)


def _record(score: TargetScore, tokens: int) -> dict:
    return {"recall": float(score.accuracy == 1), "accuracy": score.accuracy, "tokens": tokens}


EVALUATION = Evaluation(
    "longcontext",
    "Recall of facts that the decoder has never seen, from more of them than one memory holds",
    _conditions,
    (
        Column("recall", "Recall (every token of the answer)", lambda record: record["recall"]),
        Column("accuracy", "Accuracy of its tokens", lambda record: record["accuracy"]),
        Column("tokens", "Key/value tokens of the decoder", lambda record: record["tokens"], share=False),
    ),
    note=f"256 invented facts that ship, unless a file of facts is given; memories of {CHUNK}; about "
    f"{ASKED} of a size are "
    "asked, evenly spread. Keys of a successor memory are those that the readouts were addressed with. The "
    "in-context rows have "
    "no worked examples (the paper's have three). The shipped facts' relation templates are the project's "
    "own, which the "
    "shipped checkpoint was trained with; names and answers are of another seed.",
    reads=("facts",),
)
