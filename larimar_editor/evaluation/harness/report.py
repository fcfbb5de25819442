"""Results as tables: one writer for Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from larimar_editor.evaluation.harness.baselines import is_of_a_method
from larimar_editor.evaluation.harness.environments import environments_of

NOTHING = "–"
PAPER = "paper: "


def estimates_frame(
    rows: Sequence[Mapping], headers: Mapping[str, str], paper: Sequence[Mapping] = ()
) -> pd.DataFrame:
    """Estimates with their intervals and counts, then the paper's own rows.

    Args:
        rows: ``name``, and under each key of ``headers`` an estimate as a mapping, or None.
        headers: key to header; headers may be alike.
        paper: ``name`` and plain numbers under the same keys.
    """
    own = [[row["name"], *(with_interval(row[key]) for key in headers)] for row in rows]
    theirs = [[PAPER + row["name"], *(str(row.get(key, NOTHING)) for key in headers)] for row in paper]
    return pd.DataFrame(own + theirs, columns=["", *headers.values()])


def markdown(frame: pd.DataFrame) -> str:
    """A Markdown table; the paper's rows are in italics."""
    cells = frame.astype(str).to_numpy(dtype=object)
    for row in cells:
        if row[0].startswith(PAPER):
            row[:] = [cell if cell == NOTHING else f"*{cell}*" for cell in row]
    return (
        pd.DataFrame(cells, columns=frame.columns).to_markdown(
            index=False, disable_numparse=True, tablefmt="pipe"
        )
        + "\n"
    )


def write_table(frame: pd.DataFrame, out: Path, name: str = "table") -> str:
    """Write ``NAME.md``, ``NAME.tex`` (for booktabs) and ``NAME.csv`` into ``out``; returns the Markdown."""
    text = markdown(frame)
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    (out / f"{name}.tex").write_text(frame.to_latex(index=False, escape=True), encoding="utf-8")
    frame.to_csv(out / f"{name}.csv", index=False)
    return text


def with_interval(estimate: Mapping | None) -> str:
    """An estimate with its interval and how many cases it is of, where it has these."""
    if estimate is None:
        return NOTHING
    value, low, high = (shown(estimate[key]) for key in ("value", "low", "high"))
    about = [f"{low} to {high}"] if estimate["low"] != estimate["high"] else []
    about += [f"n = {estimate['count']}"] if estimate["count"] is not None else []
    about += [f"p = {estimate['p']:.2g}"] if "p" in estimate else []
    return f"{value} ({'; '.join(about)})" if about else value


def all_tables(summaries: Sequence[Mapping], tables: Sequence[str]) -> str:
    """Tables of several evaluations one after the other, each with its title and note, in Markdown.

    Args:
        summaries: as `larimar_editor.evaluation.harness.evaluation.Evaluation.run` returns them.
        tables: their tables in Markdown.
    """
    settings = summaries[0]["settings"]
    ran_on = ", ".join(
        f"{key} {settings[key]}"
        for key in ("model", "dtype", "counterfact", "zsre", "limit", "baseline_cases")
    )
    legend = "In brackets: 95% interval and number of cases; in italics: the paper's own."
    parts = [f"Settings: {ran_on}.\n\n{legend}\n"]
    for summary, table in zip(summaries, tables, strict=True):
        below = f"{note(summary)} Made on {made_on(summary)}."
        parts.append(f"## {summary['evaluation']}: {summary['title']}\n\n{table}\n{below}\n")
    return "\n".join(parts)


def note(summary: Mapping) -> str:
    """What is said below a table: how it differs from the paper's, what was left out and why, whether its
    seconds compare, and whether its rows are of one dtype.
    """
    left_out = "".join(f" Left out: {name} ({why})." for name, why in summary["left_out"].items() if why)
    machines = {each.get("hardware") for each in summary.get("environments", ())}
    timed = len(machines) > 1 and any("seconds" in row for row in summary["rows"])
    apart = " Rows are of different machines, whose seconds do not compare." if timed else ""
    dtype, rows = summary["settings"].get("dtype", "float32"), summary["rows"]
    loaded = (
        f" Larimar's own rows are in {dtype}; those of EasyEdit's methods, LARIMAR among them, in float32, "
        "or in half precision where their files say `fp16`."
        if dtype != "float32" and any(is_of_a_method(row["settings"]) for row in rows)
        else ""
    )
    return f"{summary['note']}{left_out}{apart}{loaded}"


def made_on(summary: Mapping) -> str:
    """Machine and versions that a table was made with; which rows, unless it is one and known to be
    of all.
    """
    made = environments_of(summary)
    if len(made) == 1 and {row["name"] for row in summary["rows"]} <= {*made[0]["rows"]}:
        return _machine(made[0])
    return "; ".join(f"{_quoted(each['rows'])} on {_machine(each)}" for each in made) or NOTHING


def _quoted(rows: Sequence[str]) -> str:
    """Names of rows; those with commas of their own in quotes."""
    return ", ".join(f'"{name}"' if "," in name else name for name in rows)


def _machine(told: Mapping) -> str:
    said = {
        "hardware": "{}",
        "threads": "{} threads",
        "torch": "torch {}",
        "transformers": "transformers {}",
        "easyedit": "EasyEdit's {}",
    }
    return ", ".join(form.format(told[key]) for key, form in said.items() if key in told)


def shown(number: float) -> str:
    """A number as tables have it."""
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.3f}"
