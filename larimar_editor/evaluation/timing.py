"""Wall-clock time of an edit through EasyEdit (paper, tab:compare_methods, tab:time)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from larimar_editor.evaluation.context import Context
from larimar_editor.evaluation.evaluation import Column, Evaluation, Statistic
from larimar_editor.evaluation.records import Condition


def _conditions(context: Context) -> list[Condition]:
    from larimar_editor.easyedit.conditions import method_conditions

    return method_conditions(context, context.counterfact_edits[: context.baseline_cases], _record)


def _record(record: Mapping) -> dict:
    kept = {key: record[key] for key in ("seconds", "peak_memory_mb", "environment")}
    return kept | {key: record["post"].get(key) for key in ("rewrite_acc", "rephrase_acc", "locality_acc", "portability_acc")}


def _without_the_first(records: Sequence[Mapping]) -> float:
    return float(np.median([record["seconds"] for record in records[1:] or records]))


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    from larimar_editor.evaluation.report import bar_plot

    bars = {row["name"]: row["seconds"]["value"] for row in rows}
    bar_plot(bars, path, "seconds per edit, median without the first (log scale)", "{:.3g} s")


EVALUATION = Evaluation(
    "timing",
    "Seconds per edit through EasyEdit's BaseEditor",
    _conditions,
    (
        Statistic("seconds", "Seconds per edit (median without the first)", _without_the_first),
        Statistic("first", "First edit (s)", lambda records: records[0]["seconds"]),
        Statistic("memory", "Peak memory (MiB)", lambda records: max(record["peak_memory_mb"] for record in records)),
        Column("rewrite_acc", "Rewrite acc.", lambda record: record["rewrite_acc"]),
        Column("rephrase_acc", "Rephrase acc.", lambda record: record["rephrase_acc"]),
        Column("locality_acc", "Locality", lambda record: record["locality_acc"]),
        Column("portability_acc", "Portability", lambda record: record["portability_acc"]),
    ),
    _plot,
    note="Seconds are of apply_algo alone, CUDA synchronised before and after; each method has a process of its own, whose "
    "hardware and versions are in each record. Accuracies are EasyEdit's own.",
)
