"""One fact in memory at a time: is the new target what the model now says, and does a neighbour keep its answer?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from larimar_editor.data import Edit
from larimar_editor.episodic import Reading
from larimar_editor.evaluation.keeping import kept
from larimar_editor.modeling import LarimarForCausalLM

# What is written of an edit.
Requests = Callable[[Edit], list[dict]]


@dataclass(frozen=True)
class TargetScore:
    """What the model says of one target after one prompt.

    Attributes:
        log_probability: mean over the target's tokens, nats.
        accuracy: share of the target's tokens that are the most probable, given those before, 0 to 1.
        predicted: the most probable tokens.
    """

    log_probability: float
    accuracy: float
    predicted: tuple[int, ...]


def target_scores(
    model: LarimarForCausalLM, pairs: Sequence[tuple[str, str]], reading: Reading | None = None
) -> list[TargetScore]:
    """Score targets after prompts, all in one pass.

    Args:
        model: the query is the prompt alone.
        pairs: prompts and targets; a space is put between them.
        reading: readouts of these rows; by default the model reads its own memory.
    """
    if reading is None:
        reading = model.episodic.read([prompt for prompt, _ in pairs])
    return score_pairs(
        model.tokenizer,
        pairs,
        lambda ids, mask, counts: (
            model(input_ids=ids.to(model.device), attention_mask=mask.to(model.device), reading=reading, use_cache=False).logits
        ),
    )


@torch.no_grad()
def score_pairs(
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    logits_of: Callable[[Tensor, Tensor, list[int]], Tensor],
) -> list[TargetScore]:
    """Score targets after prompts by any model.

    Args:
        tokenizer: the model's.
        pairs: prompts and targets; a space is put between them.
        logits_of: ids and mask ``(N, T)``, padded on the right, and the number of target tokens of each row, to logits
            ``(N, T, vocabulary)``.
    """
    encode = lambda text: tokenizer(text).input_ids
    rows = [encode(f"{prompt} {target}") for prompt, target in pairs]
    counts = [len(row) - len(encode(prompt)) for row, (prompt, _) in zip(rows, pairs)]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), 1
    logits = logits_of(ids, mask, counts)
    return [
        score_of(logits[i, len(row) - count - 1 : len(row) - 1], row[-count:]) for i, (row, count) in enumerate(zip(rows, counts))
    ]


def score_of(logits: Tensor, target: list[int]) -> TargetScore:
    """Score a target's ``t`` tokens from the logits ``(t, vocabulary)`` of the places before each."""
    labels = torch.tensor(target, device=logits.device)
    scores, predicted = logits.float().log_softmax(-1), logits.argmax(-1)
    return TargetScore(
        scores.gather(1, labels[:, None]).mean().item(),
        (predicted == labels).float().mean().item(),
        tuple(predicted.tolist()),
    )


def the_edit_alone(edit: Edit) -> list[dict]:
    """What is written of an edit by default."""
    return [{"prompt": edit.prompt, "target_new": edit.target_new}]


def score_single_edits(
    model: LarimarForCausalLM,
    edits: Sequence[Edit],
    progress: bool = True,
    batch: int = 16,
    requests: Requests = the_edit_alone,
) -> list[dict]:
    """Write each edit alone, score it, forget it.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases.
        requests: what is written of an edit; nothing measures the base model.
        batch: edits whose prompts share a pass of the decoder. Each has been written to a memory of its own.

    Returns:
        one record per case: ``case_id``; ``rewrite`` and ``rephrase``, each a list (one entry per prompt) of ``in_scope``,
        ``accuracy``, ``success`` (P(target_new) > P(ground_truth)) and ``magnitude`` (P(target_new) - P(ground_truth)), with
        ``base_...`` for the model before the edit; ``neighbourhood``, a list of ``in_scope``, ``same`` (share of the answer's
        tokens for which the model says what it said before), ``accuracy`` (of the true answer's tokens), and ``success`` and
        ``magnitude`` the other way round: P(ground truth) against P(target_new); ``portability``, a list of ``in_scope``,
        ``accuracy`` and ``base_accuracy``.
    """
    records = []
    bar = tqdm(total=len(edits), desc="single edits", unit="edit", disable=not progress)
    for start in range(0, len(edits), batch):
        part = edits[start : start + batch]
        records += _score_together(model, part, requests)
        bar.update(len(part))
    bar.close()
    return records


def _score_together(model: LarimarForCausalLM, edits: Sequence[Edit], requests: Requests) -> list[dict]:
    pairs: list[tuple[str, str]] = []
    readings: list[Reading] = []
    for edit in edits:
        own = pairs_of(edit)
        with kept(model, model.edited_state.cleared()):
            if chosen := requests(edit):
                model.write(chosen)
            readings.append(model.episodic.read([prompt for prompt, _ in own]))
        pairs += own
    reading = Reading(torch.cat([each.in_scope for each in readings]), torch.cat([each.latents for each in readings]))
    edited = iter(zip(target_scores(model, pairs, reading), reading.in_scope.tolist()))
    base = iter(target_scores(model, pairs, Reading.nothing(len(pairs), model.config.latent_size)))
    return [_record(edit, edited, base) for edit in edits]


def record_of(edit: Edit, after: Sequence[TargetScore], before: Sequence[TargetScore]) -> dict:
    """The record of `score_single_edits` for a model of any kind, which has no scope: scores of `pairs_of`, edited and base."""
    return _record(edit, iter([(score, True) for score in after]), iter(before))


def pairs_of(edit: Edit) -> list[tuple[str, str]]:
    """Prompts and answers that are scored of an edit, in the order that its record is made from."""
    asked = [
        (prompt, target) for prompt in (edit.prompt, *edit.rephrase_prompts) for target in (edit.target_new, edit.ground_truth)
    ]
    neighbours = zip(edit.locality_prompts, edit.locality_ground_truth)
    asked += [(prompt, target) for prompt, truth in neighbours for target in (truth, edit.target_new)]
    return asked + list(zip(edit.portability_prompts, edit.portability_ground_truth))


def _record(edit: Edit, edited, base) -> dict:
    asked = []
    for _ in range(1 + len(edit.rephrase_prompts)):
        (new, in_scope), (old, _) = next(edited), next(edited)
        asked.append({"in_scope": in_scope} | _against(new, old, "") | _against(next(base), next(base), "base_"))
    neighbourhood = []
    for _ in zip(edit.locality_prompts, edit.locality_ground_truth):
        (after, in_scope), (new, _), before, _ = next(edited), next(edited), next(base), next(base)
        same = float(np.mean([a == b for a, b in zip(after.predicted, before.predicted, strict=True)]))
        neighbourhood.append({"in_scope": in_scope, "same": same} | _against(after, new, ""))
    record = {"case_id": edit.case_id, "rewrite": asked[:1], "rephrase": asked[1:], "neighbourhood": neighbourhood}
    return record | {"portability": [_followed(next(edited), next(base)) for _ in edit.portability_prompts]}


def _followed(edited: tuple[TargetScore, bool], before: TargetScore) -> dict:
    after, in_scope = edited
    return {"in_scope": in_scope, "accuracy": after.accuracy, "base_accuracy": before.accuracy}


def _against(new: TargetScore, old: TargetScore, prefix: str) -> dict:
    return {
        f"{prefix}accuracy": new.accuracy,
        f"{prefix}success": float(new.log_probability > old.log_probability),
        f"{prefix}magnitude": float(np.exp(new.log_probability) - np.exp(old.log_probability)),
    }


def summarise(records: Sequence[dict]) -> dict:
    """Means over the records: of the written prompts, rephrasings by their place, neighbourhood and portability; S is
    ``success``, M is ``magnitude`` (paper, tab:counterfact), both as shares from 0 to 1."""
    summary: dict = {"edits": len(records)}
    for name in ("rewrite", "rephrase", "neighbourhood", "portability"):
        places = range(max(len(record[name]) for record in records))
        for key in next((list(record[name][0]) for record in records if record[name]), []):
            values = [[record[name][i][key] for record in records if i < len(record[name])] for i in places]
            summary[f"{name}_{key}"] = [round(float(np.mean(each)), 4) for each in values]
    return summary
