"""Files of JSON: a record a line, or one list of records; and a run's log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from larimar_editor.utils.files import written_whole


def numbered_records(
    path: Path, needs: Iterable[str] = (), wanted: str = "an object"
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a file of JSON lines, each with the number of its line; empty lines are passed over.

    Args:
        path: UTF-8, an object a line.
        needs: keys that each has to have.
        wanted: what the message of an error calls a record.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is no such record; the message has file and line, and what is wrong.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, record_of(line, f"{path}, line {number}", needs, wanted)


def records_in(path: Path, needs: Iterable[str] = ()) -> Iterator[dict[str, Any]]:
    """As `numbered_records`, without the numbers."""
    return (record for _, record in numbered_records(path, needs))


def record_of(
    line: bytes | str, place: str, needs: Iterable[str] = (), wanted: str = "an object"
) -> dict[str, Any]:
    """The record that a line holds.

    Args:
        line: JSON.
        place: what the message of an error calls the line.
        needs, wanted: see `numbered_records`.

    Raises:
        ValueError: no JSON, no object, or one that lacks a key.
    """
    try:
        record = json.loads(line.strip())
    except (ValueError, RecursionError) as error:  # ValueError: what is no UTF-8, too
        raise ValueError(f"{place}: {error}; this is not JSON") from error
    if not isinstance(record, dict):
        raise ValueError(f"{place}: {wanted} is wanted, got {str(record)[:60]!r}")
    if missing := [f"`{name}`" for name in needs if name not in record]:
        raise ValueError(f"{place} has no {', '.join(missing)}: {sorted(record)}")
    return record


def list_in(path: Path) -> list:
    """The list that a JSON file holds.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not JSON, or no list.
    """
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(records, list):
        raise ValueError(f"{path} must hold a list of records")
    return records


@contextmanager
def reading_record(place: str) -> Iterator[None]:
    """What is wrong with a record while it is read, as a ValueError that has its place.

    Args:
        place: what the message calls it, with its file.
    """
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(f"{place}: not a known format, it lacks {error}") from error


def write_records(path: Path, records: Iterable[Mapping]) -> int:
    """Write a record a line, and say how many; the file appears when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with written_whole(path) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    return count


def log_from(path: Path, first: int) -> TextIO:
    """A log of JSON lines, each with its ``step``, open to be added to. Lines after step ``first``, which a
    run goes on from, are dropped: those steps are taken again.
    """
    before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    with written_whole(path) as file:
        file.writelines(f"{line}\n" for line in before if _step_in(line) <= first)
    return path.open("a", encoding="utf-8")


def _step_in(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except json.JSONDecodeError:
        return float("inf")  # the torn last line of a run that was killed
