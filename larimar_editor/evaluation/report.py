"""Results as files: JSON, CSV and Markdown tables, and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

COMPARISON_COLUMNS = {
    "method": "Method",
    "edits": "Edits",
    "rewrite_acc": "Rewrite acc.",
    "rephrase_acc": "Rephrase acc.",
    "locality_acc": "Locality",
    "seconds_per_edit": "Seconds per edit (median)",
    "seconds_first_edit": "First edit (s)",
    "peak_memory_mb": "Peak memory (MiB)",
}


def markdown(rows: Sequence[Mapping], columns: Mapping[str, str]) -> str:
    """A Markdown table of some columns; a dash where a row has no value."""
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return str(value)


def write_comparison(rows: Sequence[Mapping], out: Path, settings: Mapping) -> str:
    """Write ``comparison.json``, ``.csv``, ``.md`` and ``.png`` (seconds per edit, logarithmic) into ``out``.

    Args:
        rows: as from `larimar_editor.easyedit.comparison.compare`.
        out: folder.
        settings: what was run, for the JSON file.

    Returns:
        the Markdown table.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "comparison.json").write_text(json.dumps({"settings": dict(settings), "rows": list(rows)}, indent=1))
    pd.DataFrame(rows).drop(columns="environment", errors="ignore").to_csv(out / "comparison.csv", index=False)
    table = markdown(rows, COMPARISON_COLUMNS)
    (out / "comparison.md").write_text(table)
    _bar_chart(rows, out / "comparison.png")
    return table


def _bar_chart(rows: Sequence[Mapping], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = [row for row in rows if row.get("seconds_per_edit")]
    figure, axes = plt.subplots(figsize=(6, 0.6 * len(rows) + 1.2), layout="constrained")
    bars = axes.barh([row["method"] for row in rows], [row["seconds_per_edit"] for row in rows], color="#4477aa")
    axes.bar_label(bars, labels=[f" {row['seconds_per_edit']:.3g} s" for row in rows])
    axes.set_xscale("log")
    axes.set_xlabel("seconds per edit, median without the first (log scale)")
    axes.invert_yaxis()
    axes.margins(x=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
