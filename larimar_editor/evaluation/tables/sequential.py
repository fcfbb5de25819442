"""Edit retention (paper, tab:zsre_seq): edits are written one after the other, then each is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers, f1
from larimar_editor.evaluation.harness.baselines import KEEPING, retained_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt, score_many_edits
from larimar_editor.evaluation.harness.records import Condition, cases_of

EDITS = 1000


def _conditions(context: Context) -> list[Condition]:
    edits = last_of_each_prompt(context.zsre_edits[:EDITS])
    few = edits[: context.baseline_cases]

    def base(cases: Sequence[Edit]) -> list[dict]:
        return [
            {"f1": score} for score in _f1(context.larimar(memory="fixed", memory_rows=len(edits)), cases)
        ]

    blocks = [edits] + [few] * (0 < len(few) < len(edits))
    result = [
        Condition("base model", cases_of(edits), base, batch=32),
        *(_larimar(context, block) for block in blocks),
    ]
    return result + retained_edit_conditions(context, few, KEEPING, result[-1].name)


def _larimar(context: Context, edits: Sequence[Edit]) -> Condition:
    rows = len(edits)

    def score(cases: Sequence[Edit]) -> list[dict]:
        model, generated = context.larimar(memory="fixed", memory_rows=rows), []
        asked = lambda: generated.extend(_f1(model, cases))
        records = score_many_edits(model, cases, sequentially=True, progress=False, asked=asked)
        return [record | {"f1": value} for record, value in zip(records, generated, strict=True)]

    settings = {"memory_rows": rows, "edits": rows}
    return Condition(f"Larimar, {rows} edits, K = {rows}", cases_of(edits), score, batch=0, settings=settings)


def _f1(model, edits: Sequence[Edit]) -> list[float]:
    generated = answers(model, [edit.prompt for edit in edits])
    return [f1(text, edit.target_new) for text, edit in zip(generated, edits, strict=True)]


EVALUATION = Evaluation(
    "sequential",
    f"Up to {EDITS} edits, one after the other, then each is asked for",
    _conditions,
    (
        Column("retention", "Retention (F1 of the generated answer)", lambda record: record.get("f1")),
        Column("rewrite", "Accuracy, teacher-forced", lambda record: record.get("rewrite")),
        Column("rephrase", "Accuracy of a rephrasing", lambda record: record.get("rephrase")),
        Column("locality", "Locality, as before", lambda record: record.get("locality")),
    ),
    note="K is the number of edits, as in the paper. F1 is over words of the greedy answer, cut to the "
    "target's length. "
    "EasyEdit's methods get the first cases only, each takes seconds; a Larimar row has the same ones.",
    reads=("zsre",),
)
