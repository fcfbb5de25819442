"""F1 on unseen wordings as writes accumulate (paper, fig:batch (b) and fig:zsre_seq_gen_appendix), both
addressings.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from larimar_editor.evaluation.harness.answers import answers, f1
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.trials import Stage, Trial, where_made
from larimar_editor.evaluation.tables.rephrase import facts_in_wordings

FACTS = 200
WORDINGS = 3  # written of each fact, in an order that mixes the facts
SHARES = (0.0, 0.1, 0.3, 0.6, 1.0)  # of all writes, after which the unseen wordings are asked
ADDRESSINGS = ("gaussian", "pseudoinverse")


def _conditions(context: Context) -> list[Condition]:
    facts = facts_in_wordings(min(FACTS, context.limit or FACTS), context.seed)
    few = facts[: context.baseline_cases]
    result = [
        _condition(context, chosen, writes, addressing)
        for chosen in ([facts, few] if 0 < len(few) < len(facts) else [facts])
        for addressing in ADDRESSINGS
        for writes in _growing(chosen, context.seed)
    ]
    return result + _grace(context, few)


def _growing(facts: Sequence[Mapping], seed: int) -> list[list[dict]]:
    """Writes, in each of which those before are the first."""
    writes = [
        {"prompt": prompt, "target_new": fact["target_new"], "subject": fact["subject"], "ground_truth": ""}
        for fact in facts
        for prompt in [fact["prompt"], *fact["rephrase_prompt"]][:WORDINGS]
    ]
    random.Random(seed).shuffle(writes)
    return [writes[:count] for count in sorted({round(share * len(writes)) for share in SHARES})]


def _grace(context: Context, facts: Sequence[Mapping]) -> list[Condition]:
    growing = _growing(facts, context.seed)
    new = [after[len(before) :] for before, after in zip([[], *growing], growing)]
    asked = [fact["rephrase_prompt"][-1] for fact in facts]
    trial = Trial([Stage([[write] for write in writes], generated=asked) for writes in new])

    def condition(method: str, stage: int, count: int) -> Condition:
        def score(cases: Sequence[Mapping]) -> list[dict]:
            result = context.baselines.trials(context, method, [trial])[0][stage]
            return [record | where_made(result) for record in _records(result["answers"], cases)]

        return _named(method, facts, count, score, method=method)

    methods = context.baselines.methods(context, ["GRACE"])
    return [
        condition(method, stage, len(writes)) for method in methods for stage, writes in enumerate(growing)
    ]


def _named(who: str, facts: Sequence[Mapping], writes: int, score, **more) -> Condition:
    settings = {"who": f"{who}, {len(facts)} facts", "writes": writes, **more}
    cases = {str(place): fact for place, fact in enumerate(facts)}
    return Condition(
        f"{who}, {writes} writes to {len(facts)} facts", cases, score, batch=0, settings=settings
    )


def _records(generated: Sequence[str], facts: Sequence[Mapping]) -> list[dict]:
    return [{"f1": f1(text, fact["target_new"])} for text, fact in zip(generated, facts, strict=True)]


def _condition(
    context: Context, facts: Sequence[Mapping], writes: Sequence[Mapping], addressing: str
) -> Condition:
    def score(cases: Sequence[Mapping]) -> list[dict]:
        # Of one kind, so that the two differ in the addressing alone; by the query's own key, as by that of
        # the fact which the detector decides for both are alike.
        memory: dict[str, Any] = {"memory": "fixed", "memory_rows": WORDINGS * len(facts)}
        model = context.larimar(addressing=addressing, addressed_by="query", **memory)
        with preserved(model):
            for write in writes:
                model.write([{key: write[key] for key in ("prompt", "target_new", "subject")}])
            return _records(answers(model, [fact["rephrase_prompt"][-1] for fact in cases]), cases)

    return _named(f"{addressing}, by the query", facts, len(writes), score)


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    lines: dict[str, list] = {}
    for row in rows:
        lines.setdefault(row["settings"]["who"], []).append((row["settings"]["writes"], row["f1"]))
    panels_plot([Panel(lines, "writes", "F1 on unseen wordings")], path)


EVALUATION = Evaluation(
    "holdout",
    "F1 on unseen wordings as writes accumulate",
    _conditions,
    (Column("f1", "F1 of the generated answer", lambda record: record["f1"]),),
    _plot,
    note=f"Up to {FACTS} made-up facts, {WORDINGS} wordings of each written one by one, one asked that "
    "never is; by relation "
    "templates of the project's own, which the shipped checkpoint was trained with. The paper's facts are "
    "ZsRE's. The query's own key addresses the memory, as in the paper; whether a prompt is in scope the "
    "detector says. GRACE gets the "
    "first facts only; a Larimar curve has the same ones.",
    reads=(),
)
