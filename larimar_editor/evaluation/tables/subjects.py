"""Several facts about each of many subjects, asked as they were written and in other words: does the right
one answer?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from larimar_editor.data.edits import Edit
from larimar_editor.data.question_sources import Questions, facts_of_subjects, questions
from larimar_editor.evaluation.harness.baselines import KEEPING
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import score_many_edits
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.evaluation.harness.trials import Stage, Trial, request, where_made
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.calibration import Judge, calibrate, made_up_cases
from larimar_editor.scope.detectors import ExternalScopeDetector

SUBJECTS, EACH = 50, (1, 2, 5, 10)
_BESIDE = 5  # facts a subject, where other methods are measured
_BATCH = 32
_SETTINGS: Mapping[str, Mapping] = {
    "Larimar": {},
    "first stage alone": {"scope_candidates": 0},
    "addressed by the query": {"addressed_by": "query"},
}


def _conditions(context: Context) -> list[Condition]:
    asked = questions()
    subjects = min(SUBJECTS, context.limit or SUBJECTS)
    edits = {each: facts_of_subjects(asked, subjects, each, context.seed) for each in EACH}
    result = [
        _condition(context, name, each, edits[each], settings)
        for name, settings in _SETTINGS.items()
        for each in EACH
    ]
    if context.larimar().detectors.weights:
        threshold = cache(lambda: _equal_error_point(context, asked))
        result += [_plain(context, each, edits[each], threshold) for each in EACH]
    return result + _beside(context, edits[_BESIDE][: context.baseline_cases])


def _beside(context: Context, few: Sequence[Edit]) -> list[Condition]:
    """Other methods, and Larimar on the same facts: edited one after the other, and asked after the last, in
    every rewording.
    """
    methods = context.baselines.methods(context, KEEPING)
    if not methods:
        return []
    ours = f"Larimar, {len(few)} facts"
    asked = [
        [(prompt, edit.target_new) for prompt in (edit.prompt, *edit.rephrase_prompts)]
        + [(edit.locality_prompts[0], edit.locality_ground_truth[0])]
        for edit in few
    ]
    stage = Stage([[request(edit)] for edit in few], [pair for pairs in asked for pair in pairs])
    trial = Trial([stage], context.seed)

    def score(method: str) -> Callable[[Sequence[Edit]], list[dict]]:
        def records(cases: Sequence[Edit]) -> list[dict]:
            ((result,),) = context.baselines.trials(context, method, [trial])
            scores = iter(result["scores"])
            return [_record([next(scores) for _ in pairs]) | where_made(result) for pairs in asked]

        return records

    scored = lambda cases: _asked(context.larimar(), cases)
    own = Condition(ours, cases_of(few), scored, batch=0, cluster=_subject(_BESIDE))
    return [own] + [
        Condition(
            f"{method}, {len(few)} facts",
            cases_of(few),
            score(method),
            0,
            {"method": method, "facts": len(few)},
            ours,
            _subject(_BESIDE),
        )
        for method in methods
    ]


def _record(scores: Sequence[Mapping]) -> dict:
    """Of what a method was asked of one fact: as written, reworded, and the other question."""
    written, *reworded, other = scores
    return {
        "written": float(written["accuracy"] == 1),
        "reworded": fmean(float(each["accuracy"] == 1) for each in reworded),
        "other_question": other["same"],
    }


def _condition(context: Context, name: str, each: int, edits: Sequence[Edit], settings: Mapping) -> Condition:
    return Condition(
        f"{name}, {each} of each",
        cases_of(edits),
        lambda cases: _asked(context.larimar(**settings), cases),
        batch=0,
        settings={"detector": name, "each": each, **settings},
        cluster=_subject(each),
    )


def _subject(each: int) -> Callable[[Edit], int]:
    """Which subject a fact is about, of so many facts each: all of them are asked the same other question."""
    return lambda edit: edit.case_id // each


def _plain(context: Context, each: int, edits: Sequence[Edit], threshold: Callable[[], float]) -> Condition:
    """The sentence encoder as it is, at the equal-error point of what thresholds are calibrated on."""

    def score(cases: Sequence[Edit]) -> list[dict]:
        cosine = threshold()  # first: it uses a model of its own
        model = context.larimar(scope_candidates=0, scope_other_names=False)
        trained, before = model.detectors.weights, model.config.scope_cosine
        try:
            model.detectors.weights, model.config.scope_cosine = {}, cosine
            return _asked(model, cases)
        finally:
            model.detectors.weights, model.config.scope_cosine = trained, before

    name = "sentence encoder as it is"
    settings = {"detector": name, "each": each}
    return Condition(f"{name}, {each} of each", cases_of(edits), score, 0, settings, cluster=_subject(each))


def _equal_error_point(context: Context, asked: Questions) -> float:
    judge = Judge(ExternalScopeDetector(context.larimar().detectors.sentence_encoder))
    cases = made_up_cases(asked, min(200, 20 * (context.limit or 10)))
    return calibrate(judge, cases, None, None, progress=False).threshold


def _asked(model: LarimarForCausalLM, edits: Sequence[Edit]) -> list[dict]:
    """Each fact as it was written and in each of its rewordings; and the question about its subject of which
    nothing is written.
    """
    reworded: dict[int, list[float]] = {}
    chosen: dict[int, list[float]] = {}
    pairs = [(edit, prompt) for edit in edits for prompt in edit.rephrase_prompts]

    def ask() -> None:
        for start in range(0, len(pairs), _BATCH):
            part = pairs[start : start + _BATCH]
            scores = target_scores(model, [(prompt, edit.target_new) for edit, prompt in part])
            facts = model.facts_asked_by([prompt for _, prompt in part])
            for (edit, _), score, fact in zip(part, scores, facts, strict=True):
                reworded.setdefault(edit.case_id, []).append(float(score.accuracy == 1))
                chosen.setdefault(edit.case_id, []).append(
                    float(fact is not None and fact.prompt == edit.prompt)
                )

    records = score_many_edits(model, edits, progress=False, asked=ask)
    return [
        {
            "written": float(record["rewrite"] == 1),
            "reworded": fmean(reworded[record["case_id"]]),
            "chosen": fmean(chosen[record["case_id"]]),
            "other_question": record["locality"],
        }
        for record in records
    ]


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    panels = []
    for key, label in (("reworded", "right, reworded"), ("other_question", "other questions as before")):
        lines: dict[str, list] = {}
        for row in rows:
            if row[key] and "each" in row["settings"]:
                lines.setdefault(row["settings"]["detector"], []).append((row["settings"]["each"], row[key]))
        panels.append(Panel(lines, "facts about each subject", label))
    panels_plot(panels, path)


EVALUATION = Evaluation(
    "subjects",
    "Several facts about each of many subjects, all in memory together",
    _conditions,
    (
        Column("written", "Right, as written", itemgetter("written")),
        Column("reworded", "Right, reworded", itemgetter("reworded")),
        Column("chosen", "Taken for the right fact, reworded", lambda record: record.get("chosen")),
        Column("other_question", "Other question, as before", itemgetter("other_question")),
    ),
    _plot,
    note="Made-up facts of sheets of questions that nothing is trained or calibrated on; right: every "
    "token of the answer is the most probable, given those before. The other question is about the same "
    "subject, and nothing of it is written; all facts about a subject have the same one, so n and the "
    "intervals are of subjects. EasyEdit's methods get the first cases, one after the other, of "
    "five facts a subject, and a Larimar row has the same ones.",
    reads=(),
)
