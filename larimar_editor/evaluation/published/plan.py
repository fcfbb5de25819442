"""What is measured for the documentation: tables, how many cases of each, and what a reader is told first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from larimar_editor.evaluation.tables import NAMES
from larimar_editor.utils.files import load_mapping


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
    dtype: str | None = None
    reading: str = ""


@dataclass(frozen=True)
class Measure:
    """A line of the table in brief: one column of one table, for Larimar and every method.

    Attributes:
        table, column: where it stands.
        measure: its name for people.
        better: which way is better.
        ours: name of Larimar's row.
        theirs: name of a method's row, ``{}`` for the method and ``{n}`` for how many cases it had.
    """

    table: str
    column: str
    measure: str
    better: Literal["higher", "lower"] = "higher"
    ours: str = "LARIMAR"
    theirs: str = "{}"


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
    dtype: str = "float32"

    @classmethod
    def read(cls, path: Path) -> Plan:
        """A plan's file.

        Raises:
            FileNotFoundError: no such file.
            ValueError: it is no YAML of keys and values, names a table that there is not, or has a key that
                nothing reads; the message has it.
        """
        values = load_mapping(path)
        if unknown := values.keys() - cls.__dataclass_fields__.keys():
            raise ValueError(f"{path}: a plan has no {', '.join(sorted(unknown))}")
        tables = [_made(Planned, {"name": name, **(of or {})}, path) for name, of in values["tables"].items()]
        brief = _measures(values.get("brief"), path)
        comparisons = [
            _made(Comparison, {**each, "measures": _measures(each.get("measures"), path)}, path)
            for each in values.get("comparisons") or ()
        ]
        measures = [*brief, *(measure for each in comparisons for measure in each.measures)]
        named = [each.name for each in tables] + [each.table for each in measures]
        for name in named:
            if name not in NAMES:
                raise ValueError(f"{path}: there is no table {name!r}; there are {', '.join(NAMES)}")
        return cls(tuple(tables), brief, tuple(comparisons), values.get("dtype", cls.dtype))


def _measures(values: Iterable[Mapping[str, Any]] | None, path: Path) -> tuple[Measure, ...]:
    return tuple(_made(Measure, each, path) for each in values or ())


def _made(kind: type, values: Mapping[str, Any], path: Path):
    if unknown := values.keys() - kind.__dataclass_fields__.keys():  # type: ignore[attr-defined]
        raise ValueError(f"{path}: {kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**values)
