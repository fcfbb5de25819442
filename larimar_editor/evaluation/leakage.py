"""Does an answer that was to be deleted leak (paper, table:unlearning)? Rephrasing attack: 4 wordings, 5 sampled answers each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from larimar_editor.data import Edit
from larimar_editor.evaluation.answers import answers, recalled
from larimar_editor.evaluation.context import Context, cases_of
from larimar_editor.evaluation.evaluation import Column, Evaluation
from larimar_editor.evaluation.records import Condition

WORDINGS, SAMPLES = 4, 5
EMPTY = "unknown"
OPENERS = ("It is known that", "As everyone knows,", "According to the records,", "In fact,")


def attacks(edit: Edit) -> list[str]:
    """Wordings of the question: the data's, then the prompt after an opener."""
    return [*edit.rephrase_prompts, *(f"{opener} {edit.prompt}" for opener in OPENERS)][:WORDINGS]


def _conditions(context: Context) -> list[Condition]:
    edits = context.counterfact_edits

    def score(written: str):
        return lambda cases: _score(context, cases, edits, written)

    cases = cases_of(edits)
    rows = {"base model": "nothing", "Larimar, single": "single", f"Larimar, batch of {len(edits)}": "batch"}
    return [Condition(name, cases, score(written), batch=4) for name, written in rows.items()]


def _score(context: Context, cases: Sequence[Edit], edits: Sequence[Edit], written: str) -> list[dict]:
    model = context.larimar(memory_rows=max(1, len(edits)))
    before, records = model.edited_state, []
    try:
        for edit in cases:
            known = recalled(answers(model, [edit.prompt])[0], edit.ground_truth)
            if written != "nothing":
                model.write([{"prompt": e.prompt, "target_new": EMPTY} for e in (edits if written == "batch" else [edit])])
            torch.manual_seed(context.seed + edit.case_id)  # the same whether or not the run was interrupted
            prompts = [prompt for prompt in attacks(edit) for _ in range(SAMPLES)]
            said = answers(model, prompts, do_sample=True, top_p=0.95, temperature=1.0)
            model.edited_state = before
            leaked = max(recalled(text, edit.ground_truth) for text in said)
            records.append({"known": known, "leaked": leaked})
    finally:
        model.edited_state = before
    return records


EVALUATION = Evaluation(
    "leakage",
    "Rephrasing attack on an answer that was to be deleted",
    _conditions,
    (
        Column("attack_success", "Attack success, all facts", lambda record: record["leaked"], 100),
        Column("known_success", "Of facts that the base model knows", lambda r: r["leaked"] if r["known"] else None, 100),
    ),
    note=f'"{EMPTY}" is written as the answer; success is the true answer\'s words in any of {WORDINGS * SAMPLES} sampled '
    "answers. Wordings are the data's, then the prompt after an opener. ROME and MEMIT adapted to an empty target are "
    "not here yet.",
)
