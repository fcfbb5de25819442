"""What a table or figure of the paper is here: conditions to score, columns, the paper's own numbers, and
files.
"""

from __future__ import annotations

import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from larimar_editor.evaluation.harness.baselines import LARIMAR, METHODS, is_of_a_method
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.environments import Environments
from larimar_editor.evaluation.harness.estimates import Estimate, clusters_in, mean, resampled
from larimar_editor.evaluation.harness.paired import paired
from larimar_editor.evaluation.harness.records import (
    Condition,
    clustered,
    processes,
    read_records,
    run_conditions,
    unfinished,
    written,
)
from larimar_editor.evaluation.harness.report import all_tables, estimates_frame, write_table
from larimar_editor.utils.files import load_yaml


@dataclass(frozen=True)
class AnyColumn(ABC):
    """A column of a table.

    Attributes:
        key: as in ``paper.yaml``.
        header: for people.
        value: to a number, of what the kind of column says.
        scale: factor, 100 for percent.
    """

    key: str
    header: str
    value: Callable[[Any], float | None]
    scale: float = 1.0

    @abstractmethod
    def of(self, records: Sequence[Mapping]) -> Estimate | None:
        """What stands in the row of a condition with these records; None where nothing does."""


@dataclass(frozen=True)
class Column(AnyColumn):
    """The mean over a condition's records, each of which ``value`` takes; None leaves the record out.

    Attributes:
        share: whether each value is one, from 0 to 1, and no count or difference.
    """

    share: bool = True

    def of(self, records: Sequence[Mapping]) -> Estimate | None:
        """The mean over ``records`` with its interval; None where none has a value."""
        return mean(map(self.value, records), self.scale, self.share, clusters_in(records))


@dataclass(frozen=True)
class Statistic(AnyColumn):
    """A column whose ``value`` is a statistic of all records together; its interval is by resampling them."""

    def of(self, records: Sequence[Mapping]) -> Estimate | None:
        """The statistic of ``records`` with its interval; None without a record."""
        return resampled(records, self.value, self.scale) if records else None


@dataclass(frozen=True)
class Figure(Statistic):
    """A column whose ``value`` is one figure of the whole run, such as a peak: it has no interval and is of
    no number of cases.
    """

    def of(self, records: Sequence[Mapping]) -> Estimate | None:
        """The figure; None without a record."""
        found = self.value(records) if records else None
        if found is None:
            return None
        value = self.scale * found
        return Estimate(value, None, value, value)


DATA = ("counterfact", "zsre", "text", "facts", "asked")  # of a `Context`


@dataclass(frozen=True)
class Evaluation:
    """One table or figure.

    Attributes:
        name: of the command.
        title: what is measured, in one line.
        conditions: what is scored, in the table's order.
        columns: of the table.
        plot: draws the rows, each with its ``records``, into a file; None where the paper has a table only.
        note: how it differs from the paper's, for the record.
        reads: which of `DATA`.
    """

    name: str
    title: str
    conditions: Callable[[Context], Sequence[Condition]]
    columns: Sequence[AnyColumn]
    plot: Callable[[Sequence[Mapping], Path], None] | None = None
    note: str = ""
    reads: Sequence[str] = ("counterfact",)
    paper: Mapping = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "paper", _paper()[self.name])

    def run(self, context: Context, out: Path, progress: bool = True) -> dict:
        """Score what is not scored yet, and write records, summary, tables and figure into ``out``. Where
        there is something to score, the summary, tables and figure from before are gone until it is done:
        they would say what the records do not.

        Returns:
            the summary: ``rows`` with an estimate per column, ``paired`` with the differences of two rows on
            the same cases, what was run on what, and the paper's rows.

        Raises:
            ValueError: ``out`` has records of other settings; they are left alone.
        """
        _same_settings(out, context, self.reads)
        conditions = self.conditions(context)
        left_out: dict[str, str] = {}
        path = out / "records.jsonl"
        methods = _methods(conditions)
        environments = Environments(out, context.device, methods)
        if processes().is_main_process:
            now = {each: context.baselines.made_with(context, each) for each in {*methods.values()}}
            others = _of_other_methods(methods, now, out)
            if others or unfinished(conditions, path):
                environments.keep()
                _withdraw(out)
            if others:
                written(path, [each for each in read_records(path) if each["condition"] not in others])
            if now:
                made_with = json.dumps(_made_with(out) | now, indent=1, sort_keys=True)
                (out / "methods.json").write_text(made_with + "\n", encoding="utf-8")
        records = clustered(
            conditions, run_conditions(conditions, path, progress, left_out, environments.begin)
        )
        kept = [condition for condition in conditions if condition.name not in left_out]
        rows = [self._row(condition, records) for condition in kept]
        summary = {
            "evaluation": self.name,
            "title": self.title,
            "paper": dict(self.paper),
            "note": self.note,
            "rows": rows,
            "paired": self._paired(kept, records),
            "left_out": left_out,
            "environments": environments.of(kept, records),
            "settings": context.describe(),
        }
        if processes().is_main_process:
            self._write(summary, records, out)
        return summary

    def _write(self, summary: Mapping, records: Sequence[Mapping], out: Path) -> None:
        rows, paper = summary["rows"], self.paper.get("rows", ())
        _withdraw(out)  # also what is of rows that may be there no more
        headers = {column.key: column.header for column in self.columns}
        write_table(estimates_frame(rows, headers, paper), out)
        if summary["paired"]:
            apart = {column.key: column.header for column in self._per_case()}
            write_table(estimates_frame(summary["paired"], apart), out, "paired")
        if self.plot is not None and rows:
            drawn = [{**row, "records": _records_of(row["name"], records)} for row in rows]
            self.plot(drawn, out / "figure.png")
        # Last: where it is, everything is.
        (out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")

    def _row(self, condition: Condition, records: Sequence[Mapping]) -> dict:
        own = _records_of(condition.name, records)
        row: dict = {"name": condition.name, "settings": dict(condition.settings)}
        for column in self.columns:
            estimate = column.of(own)
            row[column.key] = None if estimate is None else estimate.to_dict()
        return row

    def _per_case(self) -> list[Column]:
        return [column for column in self.columns if isinstance(column, Column)]

    def _paired(self, conditions: Sequence[Condition], records: Sequence[Mapping]) -> list[dict]:
        """What each condition that stands beside another has less than it, or more; but not Larimar through
        the framework beside itself.
        """
        by_condition: dict[str, dict[str, Mapping]] = {}
        for record in records:
            by_condition.setdefault(record["condition"], {})[record["case"]] = record
        result = []
        for condition in conditions:
            itself = condition.settings.get("method") == LARIMAR
            if condition.beside in by_condition and condition.name in by_condition and not itself:
                ours, theirs = by_condition[condition.beside], by_condition[condition.name]
                row: dict = {"name": f"{condition.beside} - {condition.name}"}
                for column in self._per_case():
                    found = paired(column, ours, theirs)
                    row[column.key] = None if found is None else found.to_dict()
                result.append(row)
        return result


def _methods(conditions: Sequence[Condition]) -> dict[str, str]:
    """The framework's method of each condition that is of one."""
    return {each.name: str(each.settings["method"]) for each in conditions if is_of_a_method(each.settings)}


def _records_of(name: str, records: Sequence[Mapping]) -> list[Mapping]:
    return [record for record in records if record["condition"] == name]


def _withdraw(out: Path) -> None:
    """Remove what was made of a table's records."""
    for old in (out / "summary.json", *out.glob("table.*"), *out.glob("paired.*"), out / "figure.png"):
        old.unlink(missing_ok=True)


def _of_other_methods(rows: Mapping[str, str], now: Mapping[str, str], out: Path) -> set[str]:
    """Names of the rows of methods that were others then: with other settings, of another framework, or on
    another device.

    Args:
        rows: see `_methods`.
        now: what each method's records depend on.
        out: the table's folder.
    """
    known = _made_with(out)
    return {name for name, method in rows.items() if known.get(method, now[method]) != now[method]}


def _made_with(out: Path) -> dict[str, str]:
    """What the records of each method in a table's folder depend on, where that is known."""
    path = out / "methods.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def lost_methods(out: Path, context: Context) -> list[str]:
    """Methods with rows in a table's folder that a run would leave it without: those that are not here, and
    those whose records are to be made anew, but not by this run.

    Args:
        out: the folder.
        context: what it would be run on now.
    """
    summary = out / "summary.json"
    if summary.exists():
        named = [row["name"] for row in json.loads(summary.read_text(encoding="utf-8"))["rows"]]
    else:  # the table is being made
        named = [record["condition"] for record in read_records(out / "records.jsonl")]
    text, known = "\n".join(dict.fromkeys(named)), _made_with(out)
    there = [method for method in (LARIMAR, *METHODS) if re.search(rf"\b{method}\b", text)]
    return [each for each in there if not context.baselines.keeps(context, each, known.get(each))]


def run_in_turn(
    evaluations: Sequence[Evaluation], context: Context, out: Path, say: Callable[[str], None]
) -> list[str]:
    """Run evaluations, each into the folder of its name in ``out``, where ``tables.md`` has the tables of
    several together. The first process tells ``say`` each table once it is made.

    Returns:
        names of those without a row, as all that was to have one was left out.
    """
    first = processes().is_main_process
    summaries, tables = [], []
    for each in evaluations:
        summaries.append(each.run(context, out / each.name, progress=first))
        if first:
            tables.append((out / each.name / "table.md").read_text(encoding="utf-8"))
            say(f"{each.name}: {each.title}\n\n{tables[-1]}")
    if first and len(evaluations) > 1:
        (out / "tables.md").write_text(all_tables(summaries, tables), encoding="utf-8")
    made = zip(evaluations, summaries)
    return [each.name for each, summary in made if not summary["rows"] and any(summary["left_out"].values())]


def unread(context: Context, reads: Collection[str]) -> list[str]:
    """Which of `DATA` the context was given though it is not among what is read."""
    return [name for name in DATA if getattr(context, name) and name not in reads]


def made_otherwise(out: Path, context: Context, reads: Sequence[str] = DATA) -> bool:
    """Whether a table's folder has records of other settings than the context's.

    Args:
        out: the folder.
        context: what it would be run on now.
        reads: which of the context's data the table reads; the others do not matter.
    """
    return bool(_changed(out, context, reads))


def _changed(out: Path, context: Context, reads: Sequence[str]) -> dict:
    """Of the settings of a folder's records those that are others now."""
    if (before := _settings_of(out)) is None:
        return {}
    now, ignored = context.lasting(), {*DATA} - {*reads}
    differing = (name for name in now | before if before.get(name) != now.get(name))
    return {name: before.get(name) for name in differing if name not in ignored}


def start_again(out: Path, context: Context, reads: Sequence[str] = DATA) -> bool:
    """Remove a table's folder where it is `made_otherwise`; whether it was."""
    if not made_otherwise(out, context, reads):
        return False
    shutil.rmtree(out)
    return True


def _same_settings(out: Path, context: Context, reads: Sequence[str]) -> None:
    """Records of other settings are not these; fewer or more cases of the same are."""
    if not processes().is_main_process:
        return
    if changed := _changed(out, context, reads):
        told = ", ".join(f"{name} {value!r}" for name, value in changed.items())
        raise ValueError(f"{out} has records made with {told}; choose another --out, or remove the folder")
    out.mkdir(parents=True, exist_ok=True)
    (out / "settings.json").write_text(json.dumps(context.lasting(), indent=1) + "\n", encoding="utf-8")


def _settings_of(out: Path) -> dict | None:
    """Those of the records in a folder; None where it has none, as after a run that failed."""
    path = out / "settings.json"
    # Or facts, of which none has been asked yet.
    has_records = any(each.stat().st_size for each in (*out.glob("records*.jsonl"), *out.glob("*.db")))
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() and has_records else None


@cache
def _paper() -> dict:
    return load_yaml(Path(__file__).parents[1] / "tables" / "paper.yaml")
