"""Edit retention (paper, tab:zsre_seq): edits are written one after the other, then each is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        return [{"f1": score} for score in _f1(context.larimar(), cases)]

    count = len(edits)
    fixed = {"memory": "fixed", "memory_rows": count}
    result = [
        Condition("base model", cases_of(edits), base, batch=32),
        _larimar(context, f"fixed memory, {count} edits, K = {count}", edits, fixed),
        _larimar(context, f"Larimar, {count} edits", edits, {}),
    ]
    if 0 < len(few) < len(edits):
        result.append(_larimar(context, f"Larimar, {len(few)} edits", few, {}))
    return result + retained_edit_conditions(context, few, KEEPING, result[-1].name)


def _larimar(context: Context, name: str, edits: Sequence[Edit], memory: Mapping) -> Condition:
    def score(cases: Sequence[Edit]) -> list[dict]:
        model, generated = context.larimar(**memory), []
        asked = lambda: generated.extend(_f1(model, cases))
        records = score_many_edits(model, cases, sequentially=True, progress=False, asked=asked)
        return [record | {"f1": value} for record, value in zip(records, generated, strict=True)]

    return Condition(name, cases_of(edits), score, batch=0, settings={"edits": len(edits), **memory})


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
    note="Of the fixed memory, which is the paper's, K is the number of edits; the fact by whose key it is "
    "addressed is the detector's choice here, too. F1 is over words of the "
    "greedy answer, cut to the target's length. "
    "EasyEdit's methods get the first cases only, each takes seconds; a Larimar row has the same ones.",
    reads=("zsre",),
)
