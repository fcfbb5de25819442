"""F1 on unseen wordings as writes accumulate (paper, fig:batch (b) and fig:zsre_seq_gen_appendix), both addressings."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from larimar_editor.evaluation.answers import answers, f1
from larimar_editor.evaluation.context import Context
from larimar_editor.evaluation.evaluation import Column, Evaluation
from larimar_editor.evaluation.records import Condition
from larimar_editor.evaluation.rephrase import facts_in_wordings

FACTS = 200
WORDINGS = 3  # written of each fact, in an order that mixes the facts
SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)  # of all writes, after which the unseen wordings are asked
ADDRESSINGS = ("gaussian", "pseudoinverse")


def _conditions(context: Context) -> list[Condition]:
    facts = facts_in_wordings(min(FACTS, context.limit or FACTS), context.seed)
    writes = [(prompt, fact["target_new"]) for fact in facts for prompt in [fact["prompt"], *fact["rephrase_prompt"]][:WORDINGS]]
    random.Random(context.seed).shuffle(writes)
    counts = sorted({round(share * len(writes)) for share in SHARES})
    return [_condition(context, facts, writes[:count], addressing) for addressing in ADDRESSINGS for count in counts]


def _condition(context: Context, facts: Sequence[Mapping], writes: Sequence[tuple[str, str]], addressing: str) -> Condition:
    def score(cases: Sequence[Mapping]) -> list[dict]:
        model = context.larimar(addressing=addressing, memory_rows=WORDINGS * len(facts))
        before = model.edited_state
        try:
            for prompt, target in writes:
                model.write([{"prompt": prompt, "target_new": target}])
            said = answers(model, [fact["rephrase_prompt"][-1] for fact in cases])
        finally:
            model.edited_state = before
        return [{"f1": f1(text, fact["target_new"])} for text, fact in zip(said, cases, strict=True)]

    settings = {"addressing": addressing, "writes": len(writes)}
    cases = {str(place): fact for place, fact in enumerate(facts)}
    return Condition(f"{addressing}, {len(writes)} writes to {len(facts)} facts", cases, score, batch=0, settings=settings)


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    from larimar_editor.evaluation.report import line_plot

    lines = {
        addressing: [(row["settings"]["writes"], row["f1"]) for row in rows if row["settings"]["addressing"] == addressing]
        for addressing in ADDRESSINGS
    }
    line_plot(lines, path, "writes", "F1 on unseen wordings")


EVALUATION = Evaluation(
    "holdout",
    "F1 on unseen wordings as writes accumulate",
    _conditions,
    (Column("f1", "F1 of the generated answer", lambda record: record["f1"]),),
    _plot,
    note=f"Up to {FACTS} made-up facts, {WORDINGS} wordings of each written one by one, one asked that never is; by relation "
    "templates of the project's own, which the shipped checkpoint was trained with. The paper's facts are ZsRE's; GRACE's "
    "curve is not here yet.",
)
