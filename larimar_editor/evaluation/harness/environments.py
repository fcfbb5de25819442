"""On which machine each row of a table was made: a run that was stopped may go on on another one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from larimar_editor.evaluation.harness.baselines import is_of_a_method
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.utils.device import environment
from larimar_editor.utils.files import written_whole

TOLD = ("hardware", "threads", "torch", "transformers", "easyedit")


def environments_of(summary: Mapping) -> list[dict]:
    """`TOLD` of each machine that a summary names, with the names of its ``rows``. A summary from before
    machines were told apart names one, among its settings: of rows of methods, which other processes made,
    nothing is known then.
    """
    if "environments" in summary:
        return summary["environments"]
    told = {key: summary["settings"][key] for key in TOLD if key in summary["settings"]}
    own = [row["name"] for row in summary["rows"] if not is_of_a_method(row["settings"])]
    return [{"rows": own, **told}] if own and told else []


@dataclass(frozen=True)
class Environments:
    """What the records of a table were made with, kept in its folder in ``environments.json``.

    Attributes:
        out: the folder.
        device: what is measured on now.
        elsewhere: names of conditions that are measured by other processes, on whatever machine; only their
            records may say which.
    """

    out: Path
    device: str
    elsewhere: Collection[str] = ()

    def begin(self, name: str, anew: bool) -> None:
        """Note the present machine for a condition whose first record of this run is about to be written.

        Args:
            name: the condition's.
            anew: none of its records are there yet.
        """
        before = [] if anew else self._known.get(name, [])
        now = [] if name in self.elsewhere else [environment(self.device)]
        self._known[name] = before + [each for each in now if each not in before]
        self.keep()

    def keep(self) -> None:
        """Write down what is known, so that nothing is lost with a summary that says it, too."""
        with written_whole(self._path) as file:
            file.write(json.dumps(self._known, indent=1) + "\n")

    def of(self, conditions: Sequence[Condition], records: Sequence[Mapping]) -> list[dict]:
        """`TOLD` of each machine, with the names of its ``rows``. What a record says itself comes first."""
        own: dict[str, list[Mapping]] = {}
        for record in records:
            if "environment" in record:
                own.setdefault(record["condition"], []).append(record["environment"])
        rows: dict[tuple, list[str]] = {}
        for condition in conditions:
            made = own.get(condition.name) or self._known.get(condition.name, [])
            for each in dict.fromkeys(tuple((key, one[key]) for key in TOLD if key in one) for one in made):
                rows.setdefault(each, []).append(condition.name)
        return [{"rows": names, **dict(each)} for each, names in rows.items()]

    @property
    def _path(self) -> Path:
        return self.out / "environments.json"

    @cached_property
    def _known(self) -> dict[str, list[dict]]:
        if self._path.exists():
            return json.loads(self._path.read_text(encoding="utf-8"))
        summary = self.out / "summary.json"
        if not summary.exists():
            return {}
        before = json.loads(summary.read_text(encoding="utf-8"))
        known: dict[str, list[dict]] = {}
        for each in environments_of(before):
            if told := {key: each[key] for key in TOLD if key in each}:
                for name in each["rows"]:
                    known.setdefault(name, []).append(told)
        return known
