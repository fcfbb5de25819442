"""Single edits through EasyEdit, by each of its methods: its own scores, and the wall-clock time of an edit
(paper, tab:compare_methods, tab:time)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from larimar_editor.evaluation.harness.baselines import single_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Figure, Statistic
from larimar_editor.evaluation.harness.plots import bar_plot
from larimar_editor.evaluation.harness.records import Condition


def _conditions(context: Context) -> list[Condition]:
    return single_edit_conditions(context, context.counterfact_edits[: context.baseline_cases], _record)


def _record(record: Mapping) -> dict:
    timed = {key: record[key] for key in ("seconds", "peak_memory_mb")}
    return timed | {
        key: record["post"].get(key)
        for key in ("rewrite_acc", "rephrase_acc", "locality_acc", "portability_acc")
    }


class _OfLater(Statistic):
    """A statistic of all records that were timed but the first, which is slow."""

    def of(self, records: Sequence[Mapping]):
        timed = [record for record in records if record["seconds"] is not None]
        return super().of(timed[1:] or timed)


def _median(records: Sequence[Mapping]) -> float:
    return float(np.median([record["seconds"] for record in records]))


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    bars = {row["name"]: row["seconds"]["value"] for row in rows if row["seconds"]}
    bar_plot(bars, path, "seconds per edit, median without the first (log scale)", "{:.3g} s")


EVALUATION = Evaluation(
    "compare",
    "Larimar beside EasyEdit's own methods: same model, same edits, EasyEdit's own editor and scores",
    _conditions,
    (
        Column("rewrite_acc", "Rewrite acc.", lambda record: record["rewrite_acc"]),
        Column("rephrase_acc", "Rephrase acc.", lambda record: record["rephrase_acc"]),
        Column("locality_acc", "Locality", lambda record: record["locality_acc"]),
        Column("portability_acc", "Portability", lambda record: record["portability_acc"]),
        _OfLater("seconds", "Seconds per edit (median without the first)", _median),
        Figure("first", "First edit (s)", lambda records: records[0]["seconds"]),
        Figure(
            "memory", "Peak memory (MiB)", lambda records: max(record["peak_memory_mb"] for record in records)
        ),
    ),
    _plot,
    note="Seconds are of apply_algo alone, CUDA synchronised before and after; each method has a process "
    "of its own, whose "
    "hardware and versions are in each record; a method that was run beside others has no seconds of those "
    "edits. Accuracies are EasyEdit's own.",
)
