"""One fact in memory at a time: is the new target what the model now says, and does a neighbour keep its answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.data import Edit
from larimar_editor.episodic import Reading
from larimar_editor.modeling import LarimarForCausalLM


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


@torch.no_grad()
def target_scores(
    model: LarimarForCausalLM, pairs: Sequence[tuple[str, str]], reading: Reading | None = None
) -> list[TargetScore]:
    """Score targets after prompts, all in one pass.

    Args:
        model: the query is the prompt alone.
        pairs: prompts and targets; a space is put between them.
        reading: readouts of these rows; by default the model reads its own memory.
    """
    tokenizer = model.tokenizer
    encode = lambda text: tokenizer(text).input_ids
    rows = [encode(f"{prompt} {target}") for prompt, target in pairs]
    counts = [len(row) - len(encode(prompt)) for row, (prompt, _) in zip(rows, pairs)]
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), 1
    if reading is None:
        reading = model.episodic.read([prompt for prompt, _ in pairs])
    device = model.device
    logits = model(input_ids=ids.to(device), attention_mask=mask.to(device), reading=reading, use_cache=False).logits
    return [
        _score(logits[i, len(row) - count - 1 : len(row) - 1], row[-count:]) for i, (row, count) in enumerate(zip(rows, counts))
    ]


def _score(logits: Tensor, target: list[int]) -> TargetScore:
    labels = torch.tensor(target, device=logits.device)
    scores, predicted = logits.float().log_softmax(-1), logits.argmax(-1)
    return TargetScore(
        scores.gather(1, labels[:, None]).mean().item(),
        (predicted == labels).float().mean().item(),
        tuple(predicted.tolist()),
    )


def score_single_edits(model: LarimarForCausalLM, edits: Sequence[Edit], progress: bool = True, batch: int = 16) -> list[dict]:
    """Write each edit alone, score it, forget it.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases.
        batch: edits whose prompts share a pass of the decoder. Each has been written to a memory of its own.

    Returns:
        one record per case: ``case_id``; ``rewrite`` and ``rephrase``, each a list (one entry per prompt) of ``in_scope``,
        ``accuracy``, ``success`` (P(target_new) > P(ground_truth)) and ``magnitude`` (P(target_new) - P(ground_truth)), with
        ``base_...`` for the model before the edit; ``neighbourhood``, a list of ``in_scope`` and ``same`` (share of the answer's
        tokens for which the model says what it said before).
    """
    records = []
    bar = tqdm(total=len(edits), desc="single edits", unit="edit", disable=not progress)
    for start in range(0, len(edits), batch):
        part = edits[start : start + batch]
        records += _score_together(model, part)
        bar.update(len(part))
    bar.close()
    return records


def _score_together(model: LarimarForCausalLM, edits: Sequence[Edit]) -> list[dict]:
    pairs, readings = [], []
    before = model.edited_state
    try:
        for edit in edits:
            own = _pairs(edit)
            model.edited_state = before.cleared()
            model.write([{"prompt": edit.prompt, "target_new": edit.target_new}])
            readings.append(model.episodic.read([prompt for prompt, _ in own]))
            pairs += own
    finally:
        model.edited_state = before
    reading = Reading(torch.cat([each.in_scope for each in readings]), torch.cat([each.latents for each in readings]))
    edited = iter(zip(target_scores(model, pairs, reading), reading.in_scope.tolist()))
    base = iter(target_scores(model, pairs, Reading.nothing(len(pairs), model.config.latent_size)))
    return [_record(edit, edited, base) for edit in edits]


def _pairs(edit: Edit) -> list[tuple[str, str]]:
    asked = [
        (prompt, target) for prompt in (edit.prompt, *edit.rephrase_prompts) for target in (edit.target_new, edit.ground_truth)
    ]
    return asked + list(zip(edit.locality_prompts, edit.locality_ground_truth))


def _record(edit: Edit, edited, base) -> dict:
    asked = []
    for _ in range(1 + len(edit.rephrase_prompts)):
        (new, in_scope), (old, _) = next(edited), next(edited)
        asked.append({"in_scope": in_scope} | _against(new, old, "") | _against(next(base), next(base), "base_"))
    neighbourhood = []
    for _ in zip(edit.locality_prompts, edit.locality_ground_truth):
        (after, in_scope), before = next(edited), next(base)
        same = float(np.mean([a == b for a, b in zip(after.predicted, before.predicted, strict=True)]))
        neighbourhood.append({"in_scope": in_scope, "same": same})
    return {"case_id": edit.case_id, "rewrite": asked[:1], "rephrase": asked[1:], "neighbourhood": neighbourhood}


def _against(new: TargetScore, old: TargetScore, prefix: str) -> dict:
    return {
        f"{prefix}accuracy": new.accuracy,
        f"{prefix}success": float(new.log_probability > old.log_probability),
        f"{prefix}magnitude": float(np.exp(new.log_probability) - np.exp(old.log_probability)),
    }


def summarise(records: Sequence[dict]) -> dict:
    """Means over the records: of the written prompts, the rephrasings by their place, and the neighbourhood; S is
    ``success``, M is ``magnitude`` (paper, tab:counterfact), both as shares from 0 to 1."""
    summary: dict = {"edits": len(records)}
    for name in ("rewrite", "rephrase", "neighbourhood"):
        places = range(max(len(record[name]) for record in records))
        for key in next((list(record[name][0]) for record in records if record[name]), []):
            values = [[record[name][i][key] for record in records if i < len(record[name])] for i in places]
            summary[f"{name}_{key}"] = [round(float(np.mean(each)), 4) for each in values]
    return summary
