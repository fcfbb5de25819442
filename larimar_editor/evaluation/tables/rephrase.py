"""Recall of unseen wordings after several were written (paper, table_forget_rephrase_appendix), both
addressings.
"""

from __future__ import annotations

from collections.abc import Sequence

from larimar_editor.data.relations import Names, RephrasedFacts, read_relations
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.evaluation.harness.records import Condition, LeftOut
from larimar_editor.evaluation.harness.scores import target_scores

SIZES = ((20, 3), (40, 2), (100, 1), (1, 1))  # facts, wordings written of each
ASKED = 2


def facts_in_wordings(count: int, seed: int, foreign_targets: float = 0.2) -> list[dict]:
    """Made-up facts with at least five wordings each, subjects all different; for ``foreign_targets`` see
    `RephrasedFacts`.
    """
    relations = [relation for relation in read_relations() if len(relation.prompts) >= 5]
    made = RephrasedFacts(relations, Names(), seed, foreign_targets, openers=0.0, bare_questions=0.0)
    result: dict[str, dict] = {}
    number = 0
    while len(result) < count:
        fact = made[number]
        result.setdefault(fact["subject"], fact)
        number += 1
    return list(result.values())


def _conditions(context: Context) -> list[Condition]:
    result = []
    for facts, wordings in SIZES:
        if context.limit and facts > context.limit:
            result.append(_left_out(facts, wordings))
            continue
        runs = max(1, 20 // facts)  # a single fact is no sample
        for addressing in ("pseudoinverse", "gaussian"):
            cases = {
                f"{run} {place}": (run, place, facts, wordings, addressing)
                for run in range(runs)
                for place in range(facts)
            }
            settings = {"facts": facts, "wordings": wordings, "addressing": addressing}
            score = lambda given: _score(context, given)
            result.append(
                Condition(
                    f"({facts}, {wordings}), {addressing}", cases, score, batch=facts, settings=settings
                )
            )
    return result


def _left_out(facts: int, wordings: int) -> Condition:
    def score(cases: Sequence[None]) -> list[dict]:
        raise LeftOut(f"it is of {facts} facts, more than --limit")

    return Condition(f"({facts}, {wordings})", {"": None}, score)


def _score(context: Context, cases: Sequence[tuple[int, int, int, int, str]]) -> list[dict]:
    run, _, count, wordings, addressing = cases[0]
    facts = facts_in_wordings(count, context.seed + run)
    rows = max(1, count * wordings)  # of one kind of memory, so that the two differ in the addressing alone
    model = context.larimar(addressing=addressing, memory="fixed", memory_rows=rows, scope="none")
    with preserved(model):
        for fact in facts:
            written = [fact["prompt"], *fact["rephrase_prompt"]][:wordings]
            model.write([{"prompt": prompt, "target_new": fact["target_new"]} for prompt in written])
        chosen = [facts[place] for _, place, *_ in cases]
        asked = [
            (prompt, fact["target_new"]) for fact in chosen for prompt in fact["rephrase_prompt"][-ASKED:]
        ]
        scores = [score.accuracy for score in target_scores(model, asked)]
    per_fact = [scores[start : start + ASKED] for start in range(0, len(scores), ASKED)]
    return [
        {"accuracy": sum(each) / ASKED, "recall": sum(score == 1 for score in each) / ASKED}
        for each in per_fact
    ]


EVALUATION = Evaluation(
    "rephrase",
    "Recall of unseen wordings: (facts, wordings written of each)",
    _conditions,
    (
        Column("recall", "Recall (every token of the target)", lambda record: record["recall"]),
        Column("accuracy", "Accuracy of its tokens", lambda record: record["accuracy"]),
    ),
    note="Facts and wordings are made by rule from relation templates of the project's own, which the "
    "shipped checkpoint was "
    "trained with; no scope detector; the reference memory holds what was written. The paper's facts are "
    "ZsRE's.",
    reads=(),
)
