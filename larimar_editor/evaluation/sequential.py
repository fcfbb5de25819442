"""Edit retention (paper, tab:zsre_seq): edits are written one after the other, then each is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from larimar_editor.data import Edit
from larimar_editor.evaluation.answers import answers, f1
from larimar_editor.evaluation.context import Context, cases_of
from larimar_editor.evaluation.evaluation import Column, Evaluation
from larimar_editor.evaluation.many_edits import score_many_edits
from larimar_editor.evaluation.records import Condition

EDITS = 1000


def last_of_each_prompt(edits: Sequence[Edit]) -> list[Edit]:
    """Of several edits of one prompt, the last: it is the one that holds."""
    return list({edit.prompt: edit for edit in edits}.values())


def _conditions(context: Context) -> list[Condition]:
    edits = last_of_each_prompt(context.zsre_edits[:EDITS])
    rows = max(1, len(edits))

    def score(cases: Sequence[Edit]) -> list[dict]:
        model = context.larimar(memory_rows=rows)
        said: list[str] = []
        records = score_many_edits(
            model, cases, sequentially=True, progress=False, asked=lambda: said.extend(answers(model, [e.prompt for e in cases]))
        )
        return [record | {"f1": f1(text, edit.target_new)} for record, text, edit in zip(records, said, cases, strict=True)]

    def base(cases: Sequence[Edit]) -> list[dict]:
        model = context.larimar(memory_rows=rows)
        return [{"f1": f1(text, edit.target_new)} for text, edit in zip(answers(model, [e.prompt for e in cases]), cases)]

    return [
        Condition("base model", cases_of(edits), base, batch=32),
        Condition(f"Larimar, K = {rows}", cases_of(edits), score, batch=0, settings={"memory_rows": rows}),
    ]


EVALUATION = Evaluation(
    "sequential",
    f"Up to {EDITS} edits, one after the other, then each is asked for",
    _conditions,
    (
        Column("retention", "Retention (F1 of the generated answer)", lambda record: record.get("f1")),
        Column("rewrite", "Accuracy, teacher-forced", lambda record: record.get("rewrite")),
        Column("rephrase", "Accuracy of a rephrasing", lambda record: record.get("rephrase")),
    ),
    note="K is the number of edits, as in the paper. F1 is over words of the greedy answer, cut to the target's length.",
)
