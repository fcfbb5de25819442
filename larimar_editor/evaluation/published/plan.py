"""What is measured for the documentation: tables, how many cases of each, and what a reader is told first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from larimar_editor.evaluation.tables import NAMES
from larimar_editor.model.settings import Dtype
from larimar_editor.utils.files import load_mapping
from larimar_editor.utils.settings import build, check


@dataclass(frozen=True)
class Planned:
    """A table to be made.

    Attributes:
        name: of the evaluation.
        limit: cases at most; None takes all.
        baselines: cases at most for EasyEdit's methods; 0 runs none.
        minutes: of editing for each of them, where they edit for as long as the time goes.
        methods_device: of EasyEdit's methods, as ``--methods-device`` takes it; None: what Larimar is on.
        dtype: of the decoder; None: the plan's.
        reading: what a reader should know of it.
    """

    name: str
    limit: int | None = None
    baselines: int = 0
    minutes: float | None = None
    methods_device: str | None = None
    dtype: Dtype | None = None
    reading: str = ""

    def __post_init__(self):
        check(self)


@dataclass(frozen=True)
class Measure:
    """A line of the table in brief: one column of one table, for Larimar and every method.

    Attributes:
        table, column: where it stands.
        measure: its name for people.
        better: which way is better.
        ours: name of Larimar's row.
        theirs: name of a method's row, ``{}`` for the method.
    """

    table: str
    column: str
    measure: str
    better: Literal["higher", "lower"] = "higher"
    ours: str = "LARIMAR"
    theirs: str = "{}"

    def __post_init__(self):
        check(self)


@dataclass(frozen=True)
class Comparison:
    """Tables of other models than the shipped checkpoint's beside its own, a column for each.

    Attributes:
        heading: of its section.
        shipped: name of the shipped checkpoint's column.
        folders: of each other model, by its name for people, the folder in which `larimar-editor eval` wrote.
        measures: lines of the table; a measure's ``ours`` names the row.
        reading: what a reader should know of it.
    """

    heading: str
    shipped: str
    folders: Mapping[str, str]
    measures: tuple[Measure, ...]
    reading: str = ""

    def __post_init__(self):
        check(self)


@dataclass(frozen=True)
class Plan:
    """What a YAML file plans.

    Attributes:
        tables: in the page's order.
        brief: lines of the table in brief.
        comparisons: what stands behind the tables, in the page's order.
        dtype: of the decoder in Larimar's own evaluations, where a table has none of its own.
    """

    tables: tuple[Planned, ...]
    brief: tuple[Measure, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    dtype: Dtype = "float32"

    def __post_init__(self):
        check(self)

    @classmethod
    def read(cls, path: Path) -> Plan:
        """A plan's file.

        Raises:
            FileNotFoundError: no such file.
            ValueError: it is no YAML of keys and values, names a table that there is not, lacks a key, or has
                one that nothing reads or another value than it takes; the message has the place and the key.
        """
        values = load_mapping(path)
        tables = values.get("tables")
        if not isinstance(tables, dict):
            raise ValueError(f"{path}: the key 'tables' must hold what is planned of each table, by its name")
        parts = {
            "tables": tuple(_planned(name, of, f"{path}, tables, {name}") for name, of in tables.items()),
            "brief": _measures(values.get("brief"), f"{path}, brief"),
            "comparisons": tuple(
                _comparison(each, f"{path}, comparisons, number {number}")
                for number, each in enumerate(_listed(values.get("comparisons"), f"{path}, comparisons"), 1)
            ),
        }
        plan = build(cls, values | parts, str(path))
        measures = [*plan.brief, *(measure for each in plan.comparisons for measure in each.measures)]
        for name in (*(each.name for each in plan.tables), *(each.table for each in measures)):
            if name not in NAMES:
                raise ValueError(f"{path}: there is no table {name!r}; there are {', '.join(NAMES)}")
        return plan


def _planned(name: str, values: Any, where: str) -> Planned:
    values = {} if values is None else values
    return build(Planned, {"name": name} | values if isinstance(values, dict) else values, where)


def _comparison(values: Any, where: str) -> Comparison:
    if isinstance(values, dict):
        values = values | {"measures": _measures(values.get("measures"), f"{where}, measures")}
    return build(Comparison, values, where)


def _measures(values: Any, where: str) -> tuple[Measure, ...]:
    rows = enumerate(_listed(values, where), 1)
    return tuple(build(Measure, each, f"{where}, number {number}") for number, each in rows)


def _listed(values: Any, where: str) -> list:
    if values is not None and not isinstance(values, list):
        raise ValueError(f"{where} must hold a list")
    return values or []
