"""Which prompts the scope detectors take for a written fact: those that ask it in other words, and those that
do not.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score

from larimar_editor.data.scope_cases import OTHER, SAME, TYPED, ScopeCase, as_read, scope_cases
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Statistic
from larimar_editor.evaluation.harness.plots import roc_plot
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.scope.calibration import Judge, equal_error
from larimar_editor.scope.detectors import ExternalScopeDetector

_AS_IT_IS = "sentence encoder as it is"


def _judges(context: Context) -> dict[str, tuple[Judge, float | None]]:
    """Detectors with their thresholds; None: the equal-error point of the very cases."""
    model = context.larimar()
    config = model.config
    result: dict[str, tuple[Judge, float | None]] = {}
    if config.scope == "external":
        external = model.detectors.external
        if external.look is not None and config.scope_candidates:
            every = Judge(
                external,
                config.scope_candidates,
                least_cosine=config.scope_least_cosine,
                sure=config.scope_sure,
            )
            threshold = config.threshold(two_stages=True)
            result["external"] = every, threshold
            result["external, subjects given"] = replace(every, with_subject=True), threshold
            if external.reader is not None:
                result["external, two stages"] = replace(every, sure=0.5), threshold
            if external.names is not None:
                nameless = copy.copy(external)
                nameless.names = None
                result["external, names not looked up"] = replace(every, detector=nameless), threshold
        result["external, first stage"] = Judge(external, candidates=0), config.threshold(two_stages=False)
    if model.detectors.weights:
        result[_AS_IT_IS] = Judge(ExternalScopeDetector(model.detectors.sentence_encoder)), None
    if "weight" in model.detectors.weights:
        internal = context.larimar(scope="internal").detectors.internal
        result["internal"] = Judge(internal), config.scope_threshold if config.scope == "internal" else 0.5
    return result


def _conditions(context: Context) -> list[Condition]:
    sets = {
        "made-up facts, kinds held out": scope_cases(None, context.limit, context.seed),
        "typed by hand": scope_cases(TYPED, context.limit),
    }
    for path in filter(None, (context.counterfact, *context.asked)):
        sets[f"{path.parent.name}/{path.stem}"] = scope_cases(path, context.limit, context.seed)
    sets |= {f"{name}, as read": read for name, cases in sets.items() if (read := as_read(cases))}
    judges = _judges(context)
    asks_the_same = {
        data: any(case.asked.get(sort) for case in cases for sort in SAME[1:]) for data, cases in sets.items()
    }
    return [
        Condition(
            f"{data}, {name}",
            {str(place): case for place, case in enumerate(cases)},
            partial(_scores, judge, threshold),
            batch=32,
            settings={"data": data, "detector": name, "threshold": threshold},
        )
        for data, cases in sets.items()
        for name, (judge, threshold) in judges.items()
        if threshold is not None or asks_the_same[data]  # else these cases have no equal-error point
    ]


def _scores(judge: Judge, threshold: float | None, cases: Sequence[ScopeCase]) -> list[dict]:
    return [judge.scores(case) | {"threshold": threshold} for case in cases]


def _labelled(records: Sequence[Mapping], others: Sequence[str] = OTHER) -> tuple[np.ndarray, np.ndarray]:
    """Scores of what is not written word for word, and whether it asks the same."""
    sorts = ((SAME[1:], True), (others, False))
    pairs = [
        (score, same) for r in records for names, same in sorts for name in names for score in r.get(name, ())
    ]
    return np.array([score for score, _ in pairs]), np.array([same for _, same in pairs], dtype=bool)


def _threshold(records: Sequence[Mapping]) -> float:
    """The detector's or, of one that has none, the equal-error point of these very cases."""
    threshold = records[0]["threshold"]
    return equal_error(*_labelled(records))[0] if threshold is None else threshold


def _equal_error(records: Sequence[Mapping]) -> float:
    return equal_error(*_labelled(records))[1]


def _f1(records: Sequence[Mapping]) -> float:
    scores, labels = _labelled(records)
    return float(f1_score(labels, scores >= _threshold(records)))


class _OfBoth(Statistic):
    """A statistic of what asks the same and what does not; nothing where there are not both."""

    def of(self, records: Sequence[Mapping]):
        return super().of(records) if len({*_labelled(records)[1].tolist()}) == 2 else None


class _Accepted(Column):
    """Share of a sort's prompts that are taken for the fact, by case; nothing where no case has such a
    prompt.
    """

    def of(self, records: Sequence[Mapping]):
        threshold = _threshold(records) if records else 0.0
        share = lambda scores: sum(score >= threshold for score in scores) / len(scores) if scores else None
        return Column(self.key, self.header, lambda record: share(record.get(self.key, ()))).of(records)


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    panels: dict[str, dict] = {}
    for row in rows:
        if row["settings"]["detector"] == _AS_IT_IS:
            continue
        curves = {sort.replace("_", " "): _labelled(row["records"], [sort]) for sort in OTHER}
        curves = {sort: (scores, labels) for sort, (scores, labels) in curves.items() if len({*labels}) == 2}
        if curves:
            panels[row["name"]] = curves
    if panels:
        roc_plot(panels, path)


def _header(sort: str) -> str:
    return f"{sort.replace('_', ' ').capitalize()} accepted"


EVALUATION = Evaluation(
    "scope",
    "Scope detectors: what is taken for a written fact, by what it is to it",
    _conditions,
    (
        *(_Accepted(sort, _header(sort), lambda record: None) for sort in (*SAME, *OTHER)),
        _OfBoth("equal_error", "Equal-error rate", _equal_error),
        _OfBoth("f1", "F1", _f1),
    ),
    _plot,
    note="Each query against its own fact alone. The first three columns should be 1, the next six 0; at the "
    "checkpoint's threshold, or, for the sentence encoder as it is, at the equal-error point of these very "
    "cases. Equal-error rate and F1 are of all prompts but the written one. Made-up facts are of kinds of "
    "questions that nothing is trained on, nor on what asks nearly the same; those typed by hand are written "
    "without a look at any of them. Further data by `--data`.",
    reads=("counterfact", "asked"),
)
