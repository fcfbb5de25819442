"""Single edits by the length of their answer: is it said whole?"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from larimar_editor.data.answers import Answers
from larimar_editor.data.edits import Edit
from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.facts import AskedFacts
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.scores import rows_of
from larimar_editor.evaluation.harness.single_edits import score_single_edits

MOST = (1, 2, 4, 8, 16, 32, 64, 128)  # tokens of an answer
EACH = 60
_SETTINGS: Mapping[str, Mapping] = {
    "Larimar": {},
    "Nothing copied": {"copying": 0.0},
    "P slots whatever the answer": {"answer_tokens": 0},
}


def _conditions(context: Context) -> list[Condition]:
    count = min(EACH, context.limit or EACH)
    edits = _edits(context, count)
    return [
        Condition(
            f"{name}, {least + 1} to {most} tokens" if most - least > 1 else f"{name}, {most} tokens",
            cases_of(edits[most]),
            _scored(context, settings),
            settings={"detector": name, "tokens": most, **settings},
        )
        for name, settings in _SETTINGS.items()
        for least, most in zip((0, *MOST), MOST)
    ]


def _scored(context: Context, settings: Mapping) -> Callable[[Sequence[Edit]], list[dict]]:
    return lambda cases: score_single_edits(context.larimar(**settings), cases, progress=False)


def _edits(context: Context, count: int) -> dict[int, list[Edit]]:
    """So many facts for each length, of questions and answers that nothing is trained on: also none of the
    answers that facts to train on have of their own.
    """
    tokenizer, rng = context.larimar().tokenizer, random.Random(context.seed)
    asked = questions()
    facts = AskedFacts(asked.held_out, asked.names, context.seed)
    own = set(asked.own_answers())
    texts = [text for text in Answers(held_out=True).texts if text not in own]
    rng.shuffle(texts)
    groups: dict[int, list[str]] = {most: [] for most in MOST}
    for text in chain(texts, _several(texts, rng)):
        _, (tokens,) = rows_of(tokenizer, [("It is", text)])
        if (most := next((each for each in MOST if tokens <= each), None)) is not None:
            groups[most].append(text)
    return {
        most: [_edit(facts[most * EACH + place], group, place) for place in range(min(count, len(group)))]
        for most, group in groups.items()
    }


def _several(texts: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Lists of 6 and of 12 answers, as long as none of them is. However few cases are wanted, the draws are
    the same: a run that goes on with more has the same ones first.
    """
    for several in (6, 12):
        for _ in range(4 * EACH):
            yield "; ".join(rng.sample(texts, several))


def _edit(fact: Mapping, answers: Sequence[str], place: int) -> Edit:
    other = answers[place - 1] if len(answers) > 1 else "something else"
    return Edit(
        fact["prompt"],
        answers[place],
        other,
        fact["subject"],
        tuple(fact["rephrase_prompt"][:1]),
        case_id=place,
    )


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    panels = []
    for key, label in (("rewrite", "tokens right, as written"), ("rephrase", "tokens right, reworded")):
        lines: dict[str, list] = {}
        for row in rows:
            if row[key]:
                lines.setdefault(row["settings"]["detector"], []).append(
                    (row["settings"]["tokens"], row[key])
                )
        panels.append(Panel(lines, "tokens of the answer, at most", label, log="x"))
    panels_plot(panels, path)


def _of(kind: str, value: Callable[[float], float] = lambda share: share) -> Callable[[dict], float | None]:
    return lambda record: value(record[kind][0]["accuracy"]) if record[kind] else None


EVALUATION = Evaluation(
    "lengths",
    "Single edits by the number of their answer's tokens",
    _conditions,
    (
        Column("rewrite", "Tokens right, as written", _of("rewrite")),
        Column("whole", "Whole answer right, as written", _of("rewrite", lambda share: float(share == 1))),
        Column("rephrase", "Tokens right, reworded", _of("rephrase")),
    ),
    _plot,
    note="Made-up facts of kinds of questions that nothing is trained on, with answers that nothing is "
    "trained on, drawn at random: none can be guessed from its question. Teacher-forced.",
    reads=(),
)
