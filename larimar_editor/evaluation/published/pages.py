"""Pages cut from the files that evaluations wrote: the page of results, and the tables of other pages.

Another page has a table between two comments, the first of which says which::

    <!-- results: {table: compare, columns: [rewrite_acc], rows: [LARIMAR, ROME]} -->
    <!-- end of results -->

``table: brief`` is the plan's. Without ``columns`` or ``rows`` the block has all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from larimar_editor.evaluation.harness.baselines import METHODS
from larimar_editor.evaluation.harness.report import NOTHING, made_on, markdown, note, shown, with_interval
from larimar_editor.evaluation.published.plan import Comparison, Measure, Plan, Planned
from larimar_editor.evaluation.tables import find

_BLOCK = re.compile(r"(<!-- results: (\{.*?\}) -->\n).*?(<!-- end of results -->)", re.DOTALL)


@dataclass(frozen=True)
class Published:
    """Results in a folder.

    Attributes:
        folder: as ``larimar-editor results`` fills it, one folder for each table.
        plan: what should be there.
        checkpoint: digest of the one that ships now; tables of another say so. None: nothing is said.
    """

    folder: Path
    plan: Plan
    checkpoint: str | None = None

    @cached_property
    def summaries(self) -> dict[str, dict]:
        """Those that are there, by table, in the plan's order."""
        paths = {each.name: self.folder / each.name / "summary.json" for each in self.plan.tables}
        read = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path.exists()}
        return {name: json.loads(text) for name, text in read.items()}

    def page(self, introduction: str, closing: str = "") -> str:
        """The page of results: the table in brief, then every table with what was run and how to read it.

        Args:
            introduction: stands in front.
            closing: stands behind.
        """
        missing = [each.name for each in self.plan.tables if each.name not in self.summaries]
        begun = [name for name in missing if (self.folder / name / "records.jsonl").exists()]
        parts = [introduction.rstrip(), "## In brief", _ABOUT_BRIEF, self.brief()]
        if begun:
            parts.append(f"Being made: {', '.join(begun)}.")
        if left := [name for name in missing if name not in begun]:
            parts.append(f"Planned and not measured: {', '.join(left)}.")
        if earlier := self._of_earlier_checkpoints():
            parts.append(
                f"Measured with an earlier checkpoint than the one that ships: {', '.join(earlier)}."
            )
        for planned in self.plan.tables:
            if planned.name in self.summaries:
                parts += self._section(planned)
        for comparison in self.plan.comparisons:
            parts += self._compared(comparison)
        parts += [closing] if closing else []
        return "\n\n".join(part.rstrip() for part in parts) + "\n"

    def _of_earlier_checkpoints(self) -> list[str]:
        return [name for name, summary in self.summaries.items() if self._is_earlier(summary["settings"])]

    def _is_earlier(self, settings: Mapping[str, Any]) -> bool:
        return self.checkpoint not in (None, settings["checkpoint"])

    def brief(self) -> str:
        """The plan's measures, a column for each method that has a figure."""
        rows = [self._line(measure) for measure in self.plan.brief if measure.table in self.summaries]
        frame = pd.DataFrame(rows, columns=["", "Larimar", *METHODS])
        return markdown(frame.drop(columns=[each for each in METHODS if (frame[each] == NOTHING).all()]))

    def fill(self, text: str) -> str:
        """A page's text with its blocks made anew.

        Raises:
            ValueError: a block asks for what is not there; the message has the block.
        """
        return _BLOCK.sub(lambda found: f"{found[1]}{self._block(found[2])}{found[3]}", text)

    def write(self, others: Iterable[Path] = ()) -> list[Path]:
        """Write the page of results, which is the folder's name with .md behind it, between the folder's
        ``introduction.md`` and ``closing.md``; and other pages with their blocks made anew.

        Returns:
            their paths.
        """
        page = self.folder.with_name(f"{self.folder.name}.md")  # a name may have a dot, as v0.1
        introduction, closing = self.folder / "introduction.md", self.folder / "closing.md"
        texts = {page: self.page(_text(introduction, "# Results"), _text(closing))}
        texts |= {path: self.fill(path.read_text(encoding="utf-8")) for path in others}
        for path, text in texts.items():  # all or, where a table is not there, none
            path.write_text(text, encoding="utf-8")
        return list(texts)

    def _section(self, planned: Planned) -> Iterator[str]:
        summary, folder = self.summaries[planned.name], self.folder / planned.name
        yield f"## {planned.name}: {summary['title']}"
        if planned.reading:
            yield planned.reading
        yield f"```\n{command(planned, summary['settings'], summary['rows'])}\n```"
        yield (folder / "table.md").read_text(encoding="utf-8")
        yield f"{note(summary)} {self._made_with(summary)}"
        if summary["paired"]:
            yield f"On the same cases, differences:\n\n{(folder / 'paired.md').read_text(encoding='utf-8')}"
        if (folder / "figure.png").exists():
            yield f"![{summary['title']}]({self.folder.name}/{planned.name}/figure.png)"

    def _compared(self, comparison: Comparison) -> list[str]:
        measured = {
            name: summaries
            for name, folder in comparison.folders.items()
            if (summaries := replace(self, folder=self.folder / folder).summaries)
        }
        if not measured:
            return []
        columns = {comparison.shipped: self.summaries} | measured
        of_each = lambda measure: (_of_larimar(summaries, measure) for summaries in columns.values())
        rows = [[each.measure, *map(with_interval, of_each(each))] for each in comparison.measures]
        table = markdown(pd.DataFrame(rows, columns=["", *columns]))
        read = {measure.table for measure in comparison.measures} & self.summaries.keys()
        earlier = sorted(name for name in read if self._is_earlier(self.summaries[name]["settings"]))
        shipped = (
            f"{comparison.shipped}'s figures of {', '.join(earlier)} are of an earlier checkpoint than ships."
        )
        return [f"## {comparison.heading}", comparison.reading, table, *([shipped] if earlier else [])]

    def _made_with(self, summary: Mapping[str, Any]) -> str:
        settings = summary["settings"]
        which = "an earlier checkpoint, " if self._is_earlier(settings) else "checkpoint "
        return f"Made with {which}{settings['checkpoint']}, {made_on(summary)}."

    def _line(self, measure: Measure) -> list[str]:
        summary = self.summaries[measure.table]
        rows = {row["name"]: row for row in summary["rows"]}
        differences = {row["name"]: row for row in summary["paired"]}
        cells = [_value(_of_larimar(self.summaries, measure))]
        for method in METHODS:
            name = measure.theirs.replace("{}", method)
            known = rows[name][measure.column] if name in rows else None
            apart = differences.get(f"{measure.ours} - {name}", {}).get(measure.column)
            cells.append(_value(known) + _mark(apart, measure.better))
        return [measure.measure, *cells]

    def _block(self, given: str) -> str:
        try:
            asked = yaml.safe_load(given)
            if asked["table"] == "brief":
                tables = {measure.table for measure in self.plan.brief}
                earlier = tables.intersection(self._of_earlier_checkpoints())
                return self.brief() + ("\n" + _IN_PART if earlier else "")
            summary = self.summaries[asked["table"]]
            headers = {column.key: column.header for column in find(asked["table"]).columns}
            rows = {row["name"]: row for row in summary["rows"]}
            columns = asked.get("columns", list(headers))
            lines = [
                [name, *(_value(rows[name][key]) for key in columns)]
                for name in asked.get("rows", list(rows))
            ]
            table = _compact(["", *(headers[key] for key in columns)], lines)
            return table + ("\n" + _EARLIER if self._is_earlier(summary["settings"]) else "")
        except (KeyError, TypeError) as error:
            raise ValueError(f"results have not all of {given}: {error}") from error


def command(planned: Planned, settings: Mapping[str, Any], rows: Sequence[Mapping] = ()) -> str:
    """What makes a table again, from a run's settings; of the files that were given those that it reads.

    Args:
        planned: the table.
        settings: the run's.
        rows: the table's, some of which are named after a file and its folder.
    """
    reads = find(planned.name).reads
    # Settings from before these were noted have the files' names alone, and the plan says where methods ran.
    files = settings.get("files") or _files_of(settings, rows)
    methods_device = settings.get("methods_device", planned.methods_device)
    parts = [f"larimar-editor eval {planned.name} --dtype {settings['dtype']}"]
    parts += [f"--limit {settings['limit']}"] if settings["limit"] else []
    parts.append(f"--baselines {settings['baseline_cases']}")
    parts += [f"--minutes {settings['minutes']:g}"] if settings.get("minutes") else []
    parts += [f"--device {settings['device']}"] if settings.get("device", "cpu") != "cpu" else []
    parts += [f"--methods-device {methods_device}"] if methods_device else []
    for option in ("counterfact", "zsre", "text", "facts"):
        if option in reads and "," in settings[option]:  # a file's name and digest
            parts.append(f"--{option} {files[option]}")
    if "asked" in reads:
        parts += [f"--data {name}" for name in files["asked"]]
    return " ".join(parts)


def _files_of(settings: Mapping[str, Any], rows: Sequence[Mapping]) -> dict[str, Any]:
    """The files of settings that name them alone, each with the folder that rows are named after."""
    named = (Path(str(row["settings"].get("data", ""))) for row in rows)
    folders = {data.name: data.parent for data in named}

    def with_folder(told: str) -> str:
        name = told.split(",")[0]
        return (folders.get(Path(name).stem, Path()) / name).as_posix()

    files = {option: with_folder(settings[option]) for option in ("counterfact", "zsre", "text", "facts")}
    return {**files, "asked": [with_folder(told) for told in settings["asked"]]}


def _text(path: Path, default: str = "") -> str:
    return path.read_text(encoding="utf-8") if path.exists() else default


def _of_larimar(summaries: Mapping[str, Mapping], measure: Measure) -> Mapping | None:
    rows = summaries[measure.table]["rows"] if measure.table in summaries else ()
    return next((row[measure.column] for row in rows if row["name"] == measure.ours), None)


def _value(estimate: Mapping | None) -> str:
    return NOTHING if estimate is None else shown(estimate["value"])


def _mark(apart: Mapping | None, better: str) -> str:
    """Whether Larimar is ahead of a method or behind it; nothing where they are not told apart."""
    if apart is None or apart["low"] <= 0 <= apart["high"] or apart["p"] >= 0.05:
        return ""
    return " +" if (apart["low"] > 0) == (better == "higher") else " **-**"


def _compact(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown(pd.DataFrame(rows, columns=list(headers)))


_EARLIER = "Made with an earlier checkpoint than the one that ships.\n"
_IN_PART = "Made in part with an earlier checkpoint than the one that ships.\n"
_ABOUT_BRIEF = (
    "Each method's figure is of its own cases, of which the tables below say how many. Behind it: + where "
    "Larimar is ahead of it on the same cases, **-** where Larimar is behind it, each by a paired difference "
    "whose 95% interval excludes zero and whose test has p below 0.05; nothing where the two are not told "
    "apart, or have no cases in common."
)
