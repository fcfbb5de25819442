"""Many facts in memory at once: written in one block, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tqdm.auto import tqdm

from larimar_editor.data import Edit
from larimar_editor.evaluation.single_edits import target_scores
from larimar_editor.modeling import LarimarForCausalLM


def write_all(model: LarimarForCausalLM, edits: Sequence[Edit], sequentially: bool, progress: bool = True) -> None:
    """Write every edit: in one call, or each in a call of its own."""
    requests = [{"prompt": edit.prompt, "target_new": edit.target_new} for edit in edits]
    for block in tqdm(
        [[each] for each in requests] if sequentially else [requests], desc="writing", unit="write", disable=not progress
    ):
        model.write(block)


def score_many_edits(
    model: LarimarForCausalLM, edits: Sequence[Edit], sequentially: bool = False, progress: bool = True, batch: int = 32
) -> list[dict]:
    """Write all edits, then ask for each.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases. Of several with the same prompt the last one holds, and only it is scored.
        sequentially: one after the other instead of in one block.
        batch: prompts per pass of the decoder.

    Returns:
        one record per case that is written at the end: ``case_id``, ``rewrite`` and, where there is one, ``rephrase``:
        accuracy of the target's tokens, 0 to 1, of the written prompt and of the first rephrasing.
    """
    held = list({edit.prompt: edit for edit in edits}.values())
    asked = [(edit, name, prompt) for edit in held
             for name, prompt in (("rewrite", edit.prompt), *(("rephrase", p) for p in edit.rephrase_prompts[:1]))]  # fmt: skip
    before, records = model.edited_state, {edit.prompt: {"case_id": edit.case_id} for edit in held}
    try:
        model.edited_state = before.cleared()
        write_all(model, edits if sequentially else held, sequentially, progress)
        for start in tqdm(range(0, len(asked), batch), desc="asking", unit="pass", disable=not progress):
            part = asked[start : start + batch]
            scores = target_scores(model, [(prompt, edit.target_new) for edit, _, prompt in part])
            for (edit, name, _), score in zip(part, scores):
                records[edit.prompt][name] = score.accuracy
    finally:
        model.edited_state = before
    return list(records.values())


def summarise_many(records: Sequence[dict]) -> dict:
    """Mean accuracy over the records of `score_many_edits`."""
    values = {name: [record[name] for record in records if name in record] for name in ("rewrite", "rephrase")}
    return {"edits": len(records)} | {f"{name}_accuracy": round(fmean(each), 4) for name, each in values.items() if each}
