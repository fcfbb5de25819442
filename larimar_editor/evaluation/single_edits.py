"""One fact in memory at a time: is the new target what the model now says, for the prompt and for its rephrasings?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tqdm.auto import tqdm

from larimar_editor.data import Edit
from larimar_editor.modeling import LarimarForCausalLM, announced_prompts


def target_score(model: LarimarForCausalLM, prompt: str, target: str) -> tuple[float, float]:
    """Mean log probability (nats a token) and teacher-forced accuracy (0 to 1) of the target's tokens after the prompt.

    The query is the prompt alone.
    """
    tokenizer = model.tokenizer
    inputs = tokenizer(f"{prompt} {target}", return_tensors="pt").to(model.device)
    count = inputs["input_ids"].shape[1] - len(tokenizer(prompt).input_ids)
    with torch.no_grad(), announced_prompts([prompt]):
        scores = model(**inputs).logits[0, -count - 1 : -1].log_softmax(-1)
    labels = inputs["input_ids"][0, -count:]
    return scores.gather(1, labels[:, None]).mean().item(), (scores.argmax(-1) == labels).float().mean().item()


def score_single_edits(model: LarimarForCausalLM, edits: Sequence[Edit], progress: bool = True) -> list[dict]:
    """Write each edit alone, score it, forget it.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases.

    Returns:
        one record per case: ``case_id``; ``rewrite`` and ``rephrase``, each a list (one entry per prompt) of
        ``{"accuracy": ..., "success": P(target_new) > P(ground_truth)}``.
    """
    before, records = model.edited_state, []
    try:
        for edit in tqdm(edits, desc="single edits", unit="edit", disable=not progress):
            model.edited_state = before.cleared()
            model.write([{"prompt": edit.prompt, "target_new": edit.target_new}])
            scores = [_score(model, prompt, edit) for prompt in (edit.prompt, *edit.rephrase_prompts)]
            records.append({"case_id": edit.case_id, "rewrite": scores[:1], "rephrase": scores[1:]})
    finally:
        model.edited_state = before
    return records


def summarise(records: Sequence[dict]) -> dict:
    """Mean accuracy and success (the paper's S) of the written prompts and of the rephrasings, by their place."""
    summary: dict = {"edits": len(records)}
    for name in ("rewrite", "rephrase"):
        for key in ("accuracy", "success"):
            places = range(max(len(record[name]) for record in records))
            values = [[record[name][i][key] for record in records if i < len(record[name])] for i in places]
            summary[f"{name}_{key}"] = [round(float(np.mean(each)), 4) for each in values]
    return summary


def _score(model: LarimarForCausalLM, prompt: str, edit: Edit) -> dict:
    new, accuracy = target_score(model, prompt, edit.target_new)
    old, _ = target_score(model, prompt, edit.ground_truth)
    return {"accuracy": accuracy, "success": float(new > old)}
