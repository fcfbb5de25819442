"""The scope detectors: equal-error rate and F1 on rephrasings against locality prompts, with the ROC
curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from sklearn.metrics import f1_score

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Evaluation, Statistic
from larimar_editor.evaluation.harness.plots import roc_plot
from larimar_editor.evaluation.harness.records import Condition, cases_of, read_records
from larimar_editor.scope.calibration import equal_error, pair_scores
from larimar_editor.scope.detectors import ExternalScopeDetector, ScopeDetector


def _conditions(context: Context) -> list[Condition]:
    model = context.larimar()
    detectors: dict[str, tuple[ScopeDetector | None, float | None]] = {}
    if model.config.scope == "external":
        name = "external, with its map" if "metric" in model.detectors.weights else "external"
        detectors[name] = model.detectors.current, model.config.scope_threshold
    if "metric" in model.detectors.weights:
        detectors["external, without a map"] = ExternalScopeDetector(model.detectors.external.model), None
    if "weight" in model.detectors.weights:
        internal = context.larimar(scope="internal", scope_threshold=0.5)
        detectors["internal"] = internal.detectors.current, 0.5
    cases = cases_of(
        [edit for edit in context.counterfact_edits if edit.rephrase_prompts and edit.locality_prompts]
    )

    def score(detector, threshold):
        return lambda edits: [_record(detector, edit) | {"threshold": threshold} for edit in edits]

    return [
        Condition(name, cases, score(detector, threshold), batch=32, settings={"threshold": threshold})
        for name, (detector, threshold) in detectors.items()
    ]


def _record(detector, edit: Edit) -> dict:
    scores, same = pair_scores(detector, [edit], progress=False)
    return {"positives": scores[same].tolist(), "negatives": scores[~same].tolist()}


def _labelled(records: Sequence[Mapping]) -> tuple[np.ndarray, np.ndarray]:
    positives = np.concatenate([record["positives"] for record in records])
    negatives = np.concatenate([record["negatives"] for record in records])
    return np.concatenate([positives, negatives]), np.repeat([True, False], [len(positives), len(negatives)])


def _equal_error(records: Sequence[Mapping]) -> float:
    return equal_error(*_labelled(records))[1]


def _at_threshold(statistic):
    def value(records: Sequence[Mapping]) -> float:
        scores, labels = _labelled(records)
        threshold = records[0]["threshold"]
        # A detector without a threshold of its own is taken at its equal-error point.
        accepted = scores >= (equal_error(scores, labels)[0] if threshold is None else threshold)
        return float(statistic(labels, accepted))

    return value


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    records = read_records(path.parent / "records.jsonl")
    curves = {row["name"]: _labelled([r for r in records if r["condition"] == row["name"]]) for row in rows}
    roc_plot(curves, path)


EVALUATION = Evaluation(
    "scope",
    "Scope detectors: rephrasings accepted, locality prompts rejected",
    _conditions,
    (
        Statistic("equal_error", "Equal-error rate", _equal_error),
        Statistic("f1", "F1", _at_threshold(f1_score)),
        Statistic(
            "accepted_locality",
            "Locality prompts accepted",
            _at_threshold(lambda labels, accepted: accepted[~labels].mean()),
        ),
        Statistic(
            "rejected_rephrasings",
            "Rephrasings rejected",
            _at_threshold(lambda labels, accepted: (~accepted)[labels].mean()),
        ),
    ),
    _plot,
    note="Each query against its own fact alone. F1 and the last two at the checkpoint's threshold; "
    "without a map, at the "
    "equal-error point of these very cases.",
)
