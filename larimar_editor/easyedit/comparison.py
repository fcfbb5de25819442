"""Larimar beside EasyEdit's own methods: same base model, same edits, EasyEdit's own ``BaseEditor``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from larimar_editor.data import Edit
from larimar_editor.easyedit.jobs import Job, chosen_methods, hparams_file, run


def compare(
    methods: Sequence[str] | None,
    edits: Sequence[Edit],
    out: Path,
    hparams: Path,
    model: str = "smollm2-135m",
    device: str | None = None,
    say: Callable[[str], None] = print,
) -> list[dict]:
    """Run the methods one after another, each in its own process.

    Args:
        methods: EasyEdit's names; None takes all that EasyEdit has and a YAML file exists for.
        edits: the cases, single edits.
        out: folder for records and logs; finished cases in it are not run again.
        hparams: folder with ``METHOD/MODEL.yaml``.
        model: which YAML file.
        device: "cpu" or a CUDA index; the YAML files' when None.
        say: where the line of a method that is left out goes.

    Returns:
        one summary per method; see `summarise`.
    """
    out.mkdir(parents=True, exist_ok=True)
    cases: list[Mapping] = [asdict(edit) for edit in edits]
    rows = []
    for method in chosen_methods(methods, hparams, model, say):
        file = str(hparams_file(hparams, method, model).resolve())
        job = Job("larimar_editor.easyedit.single", method, file, cases, str(out.resolve()), device=device)
        if run(job, say):
            rows.append(summarise(job.finished()) | {"method": method})
    return rows


def summarise(records: Sequence[dict]) -> dict:
    """One row of the table: means over the cases, the median time without the first edit, the peak memory."""
    seconds = [record["seconds"] for record in records]
    row: dict = {"method": None, "edits": len(records)}
    for name in ("rewrite_acc", "rephrase_acc", "locality_acc", "portability_acc"):
        values = [record["post"][name] for record in records if record["post"].get(name) is not None]
        row[name] = float(np.mean(values)) if values else None
    row["pre_rewrite_acc"] = float(np.mean([record["pre"]["rewrite_acc"] for record in records]))
    row["seconds_per_edit"] = float(np.median(seconds[1:])) if len(seconds) > 1 else None
    row["seconds_first_edit"] = seconds[0]
    row["peak_memory_mb"] = max(record["peak_memory_mb"] for record in records)
    row["environment"] = records[-1]["environment"]
    return row
