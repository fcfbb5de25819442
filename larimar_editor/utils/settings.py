"""Settings: each is declared once, in a dataclass field: type, default, range and meaning.

From the declaration come the check at the door, the reading of files, the comments of YAML files and the
tables of the documentation.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")

REQUIRED = "required"


def setting(
    default: Any = MISSING,
    help: str = "",
    *,
    factory: Any = MISSING,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    **tags: bool,
) -> Any:
    """A dataclass field that is a setting.

    Args:
        default: value where none is given; none makes the setting a required one.
        help: what it is for, in one line.
        factory: makes the default, where that is mutable.
        at_least, above, at_most: range of a number.
        tags: marks for the dataclass' own use.
    """
    metadata = {
        "help": help,
        "at_least": at_least,
        "above": above,
        "at_most": at_most,
    } | tags
    return field(default=default, default_factory=factory, metadata=metadata)


def check(settings: object) -> None:
    """Every setting of a dataclass instance.

    Raises:
        ValueError: a value of another type, or out of its range, with the setting's name.
    """
    for each in fields(settings):  # type: ignore[arg-type]
        check_one(type(settings), each.name, getattr(settings, each.name))


def check_one(kind: type, name: str, value: object) -> None:
    """One setting of the dataclass ``kind``.

    Raises:
        ValueError: as `check`.
    """
    alternatives = _alternatives(kind)[name]
    each = _fields(kind)[name]
    if not any(_fits(value, one, each) for one in alternatives):
        wanted = " or ".join(_wanted(one, each) for one in alternatives if one is not NoneType)
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def build(kind: type[Settings], values: Mapping, where: str) -> Settings:
    """A dataclass from what a file holds. YAML reads 1e-3 as text: a number is made of it where one is
    wanted.

    Args:
        kind: the dataclass; it checks itself.
        values: by name.
        where: the file, or the part of it, for messages.

    Raises:
        ValueError: an unknown or missing key, or a value out of its range; the message names ``where`` and
            the key.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{where} must hold keys and values")
    known = _fields(kind)  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}"
            raise ValueError(f"{where}: unknown key {name!r}{hint}")
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"{where}: the key {name!r} is missing")
    try:
        return kind(**as_declared(kind, values))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from error


def as_declared(kind: type, values: Any) -> Any:
    """What a file holds for a dataclass, by name, each as it was meant: YAML reads 1e-3 as text and ``no`` as
    false. A name that is no setting's, and what is no mapping, stay as they are.
    """
    if not isinstance(values, Mapping):
        return values
    alternatives = _alternatives(kind)
    return {name: _as_declared(value, alternatives.get(name, ())) for name, value in values.items()}


def number(value: Any) -> Any:
    """The number that a text is, else the value: YAML 1.1 takes 1e-3, without a point, for text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def described(kind: type) -> Iterator[tuple[str, str, object, str]]:
    """Name, type with its range, default (`REQUIRED` where there is none) and meaning of each setting, for
    documentation.
    """
    for name, each in _fields(kind).items():
        wanted = " or ".join(_wanted(one, each) for one in _alternatives(kind)[name] if one is not NoneType)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        yield name, wanted, REQUIRED if default is MISSING else default, each.metadata.get("help", "")


def table(kind: type, without: Collection[str] = ()) -> str:
    """The settings of a dataclass in Markdown, less those named ``without``."""
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, wanted, default, meaning in described(kind):
        if name in without:
            continue
        shown = (
            default
            if isinstance(default, str)
            else "its own"
            if is_dataclass(default)
            else json.dumps(default)
        )
        lines.append(f"| `{name}` | {wanted} | {shown or '–'} | {meaning} |")
    return "\n".join(lines) + "\n"


@cache
def _fields(kind: type) -> dict[str, Field]:
    return {each.name: each for each in fields(kind)}


@cache
def _alternatives(kind: type) -> dict[str, tuple[Any, ...]]:
    """The types that each setting may have."""
    hints = get_type_hints(kind)
    unions = (Union, UnionType)
    return {
        name: get_args(hints[name]) if get_origin(hints[name]) in unions else (hints[name],)
        for name in _fields(kind)
    }


def _fits(value: object, kind: Any, each: Field) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and _in_range(value, each)
    if kind is float:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and math.isfinite(value) and _in_range(value, each)  # type: ignore[arg-type]
    if kind is Any:
        return True
    return isinstance(value, get_origin(kind) or kind)


def _in_range(value: float, each: Field) -> bool:
    least, above, most = (each.metadata.get(bound) for bound in ("at_least", "above", "at_most"))
    return (
        (least is None or value >= least)
        and (above is None or value > above)
        and (most is None or value <= most)
    )


def _wanted(kind: Any, each: Field) -> str:
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if kind in (int, float):
        return f"a {'whole ' * (kind is int)}number{_range(each)}"
    words = {
        str: "a text",
        bool: "true or false",
        NoneType: "null",
        dict: "a mapping",
        Mapping: "a mapping",
        list: "a list",
    }
    plain = get_origin(kind) or kind
    return words.get(plain, plain.__name__)


def _range(each: Field) -> str:
    least, above, most = (each.metadata.get(bound) for bound in ("at_least", "above", "at_most"))
    if least is not None and most is not None:
        return f" between {least:g} and {most:g}"
    return (
        f" of at least {least:g}" if least is not None else f" above {above:g}" if above is not None else ""
    )


def _as_declared(value: object, alternatives: tuple[Any, ...]) -> object:
    if value is False and any(
        get_origin(each) is Literal and "no" in get_args(each) for each in alternatives
    ):
        return "no"
    if isinstance(value, float) and float not in alternatives and int in alternatives and value.is_integer():
        return int(value)
    if not isinstance(value, str) or not {int, float} & set(alternatives) or str in alternatives:
        return value
    found = number(value)
    whole = isinstance(found, float) and float not in alternatives and found.is_integer()
    return int(found) if whole else found
