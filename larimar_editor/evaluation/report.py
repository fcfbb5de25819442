"""Results as files: JSON, CSV and Markdown tables, and plots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

COMPARISON_COLUMNS = {
    "method": "Method",
    "edits": "Edits",
    "rewrite_acc": "Rewrite acc.",
    "rephrase_acc": "Rephrase acc.",
    "locality_acc": "Locality",
    "portability_acc": "Portability",
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


def markdown_table(rows: Sequence[Mapping], headers: Mapping[str, str], paper: Sequence[Mapping] = ()) -> str:
    """Estimates with their intervals and counts, then the paper's own rows in italics.

    Args:
        rows: ``name``, and under each key of ``headers`` an estimate as a mapping, or None.
        headers: key to header.
        paper: ``name`` and plain numbers under the same keys.
    """
    lines = ["| | " + " | ".join(headers.values()) + " |", "|---|" + "---|" * len(headers)]
    for row in rows:
        lines.append("| " + " | ".join([row["name"], *(_estimate(row[key]) for key in headers)]) + " |")
    for row in paper:
        cells = (f"*{row[key]}*" if key in row else "–" for key in headers)
        lines.append("| " + " | ".join([f"*paper: {row['name']}*", *cells]) + " |")
    return "\n".join(lines) + "\n"


def all_tables(summaries: Sequence[Mapping], tables: Sequence[str]) -> str:
    """Tables of several evaluations one after the other, each with its title and note, in Markdown.

    Args:
        summaries: as `larimar_editor.evaluation.evaluation.Evaluation.run` returns them.
        tables: their tables in Markdown.
    """
    settings = summaries[0]["settings"]
    said = ", ".join(f"{key} {settings[key]}" for key in ("model", "dtype", "counterfact", "zsre", "limit", "baseline_cases"))
    machine = ", ".join(f"{key} {settings[key]}" for key in ("hardware", "threads", "torch", "transformers"))
    parts = [f"Settings: {said}. {machine}.\n\nIn brackets: 95% interval and number of cases; in italics: the paper's own.\n"]
    for summary, table in zip(summaries, tables, strict=True):
        left_out = "".join(f" Left out: {name} ({why})." for name, why in summary["left_out"].items())
        parts.append(f"## {summary['evaluation']}: {summary['title']}\n\n{table}\n{summary['note']}{left_out}\n")
    return "\n".join(parts)


def latex_table(rows: Sequence[Mapping], headers: Mapping[str, str], paper: Sequence[Mapping] = ()) -> str:
    """The same as a ``tabular`` for booktabs; counts and intervals in small print."""
    lines = [rf"\begin{{tabular}}{{l{'r' * len(headers)}}}", r"\toprule"]
    lines += [" & ".join(["", *map(_escaped, headers.values())]) + r" \\", r"\midrule"]
    for row in rows:
        cells = (_latex_estimate(row[key]) for key in headers)
        lines.append(" & ".join([_escaped(row["name"]), *cells]) + r" \\")
    if paper:
        lines.append(r"\midrule")
    for row in paper:
        cells = (str(row[key]) if key in row else "--" for key in headers)
        lines.append(" & ".join([rf"\emph{{{_escaped(row['name'])}}}", *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)


def _digits(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _estimate(estimate: Mapping | None) -> str:
    if estimate is None:
        return "–"
    value, low, high = (_digits(estimate[key]) for key in ("value", "low", "high"))
    return f"{value} ({low} to {high}; n = {estimate['count']})"


def _latex_estimate(estimate: Mapping | None) -> str:
    if estimate is None:
        return "--"
    value, low, high = (_digits(estimate[key]) for key in ("value", "low", "high"))
    return rf"{value} {{\scriptsize [{low}, {high}], {estimate['count']}}}"


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
    timed = {row["method"]: row["seconds_per_edit"] for row in rows if row.get("seconds_per_edit")}
    bar_plot(timed, out / "comparison.png", "seconds per edit, median without the first (log scale)", "{:.3g} s")
    return table


def line_plot(lines: Mapping[str, Sequence[tuple[float, Mapping]]], path: Path, x: str, y: str, log: bool = False) -> None:
    """Lines of (x, estimate) with their intervals as bands.

    Args:
        lines: by their name in the legend.
        path: PNG to write.
        x, y: labels.
        log: whether x is logarithmic.
    """
    with _figure(path, 6.5, 4) as (axes,):
        for name, points in lines.items():
            if points:
                places = [place for place, _ in points]
                (line,) = axes.plot(places, [each["value"] for _, each in points], marker="o", markersize=4, label=name)
                low, high = ([each[end] for _, each in points] for end in ("low", "high"))
                axes.fill_between(places, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        if log:
            axes.set_xscale("log", base=2)
        _finish(axes, x, y)


def roc_plot(scored: Mapping[str, tuple], path: Path) -> None:
    """ROC curves, one per detector.

    Args:
        scored: name to scores and labels, arrays ``(n,)``.
        path: PNG to write.
    """
    from sklearn.metrics import RocCurveDisplay

    with _figure(path, 5, 4.5) as (axes,):
        for name, (scores, labels) in scored.items():
            RocCurveDisplay.from_predictions(labels, scores, name=name, ax=axes)
        axes.set_xlabel("neighbours let in")
        axes.set_ylabel("rephrasings let in")


def bar_plot(bars: Mapping[str, float], path: Path, x: str, label: str) -> None:
    """Horizontal bars on a logarithmic axis.

    Args:
        bars: name to value, above 0; at least one.
        path: PNG to write.
        x: label of the axis.
        label: format of a bar's own label, with {} for the value.
    """
    with _figure(path, 6, 0.6 * len(bars) + 1.2) as (axes,):
        drawn = axes.barh(list(bars), list(bars.values()), color="#4477aa")
        axes.bar_label(drawn, labels=[f" {label.format(value)}" for value in bars.values()])
        axes.set_xscale("log")
        axes.set_xlabel(x)
        axes.invert_yaxis()
        axes.margins(x=0.25)
        axes.spines[["top", "right"]].set_visible(False)


def curves_plot(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], path: Path, y: str) -> None:
    """Panels side by side, each with its curves, on logarithmic axes.

    Args:
        panels: label of the x axis to curves by name.
        path: PNG to write.
        y: label of the y axis.
    """
    with _figure(path, 3.6 * len(panels), 3.2, len(panels)) as places:
        for axes, (x, curves) in zip(places, panels.items()):
            for name, points in curves.items():
                axes.loglog(*zip(*points), marker="o", markersize=4, label=name)
            _finish(axes, x, y)


@contextmanager
def _figure(path: Path, width: float, height: float, panels: int = 1) -> Iterator[Sequence]:
    """Axes side by side, to be drawn in; then a PNG of them. Sizes in inches."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)
    yield axes[0]
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _finish(axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.legend(fontsize="small")
    axes.spines[["top", "right"]].set_visible(False)
