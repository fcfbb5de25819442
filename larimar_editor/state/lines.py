"""Many facts at once: as JSON lines, written in blocks, and from folders that older versions wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from larimar_editor.data.edits import numbered_edits
from larimar_editor.state.fact import Fact
from larimar_editor.utils.json_files import numbered_records

_JOURNAL_START, _RECORD = b"LARIMARJ", b"LJR1"


def facts_in(source: Path) -> list[Fact]:
    """The facts of a file of JSON lines, of a list of edits (``.json``), or of the folder of a state that an
    older version wrote; of several with one prompt the last.

    Raises:
        FileNotFoundError: no such file.
        ValueError: what is no fact, with its place.
    """
    if source.is_dir():
        return facts_in_folder(source)
    if source.suffix != ".json":
        return facts_in_lines(source)
    requests = ((f"record {number}", edit.request) for number, edit in numbered_edits(source))
    return _last_of_each(source, requests)


def facts_in_lines(path: Path) -> list[Fact]:
    """The facts of a file of JSON lines, each an object with ``prompt``, ``target_new`` and perhaps
    ``subject``; of several with one prompt the last.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is no fact, with its number.
    """
    records = numbered_records(path, wanted="an object with 'prompt' and 'target_new'")
    return _last_of_each(path, ((f"line {number}", request) for number, request in records))


def _last_of_each(path: Path, requests: Iterable[tuple[str, Mapping]]) -> list[Fact]:
    """The facts of a file's requests, each given with its place; of several with one prompt the last."""
    found: dict[str, Fact] = {}
    for place, request in requests:
        try:
            fact = Fact.from_request(request)
        except ValueError as error:
            raise ValueError(f"{path}, {place}: {error}") from error
        found[fact.key] = fact
    return list(found.values())


def line_of(fact: Fact) -> str:
    """A fact as a line that `facts_in_lines` reads, without its end."""
    values: dict[str, Any] = {"prompt": fact.prompt, "target_new": fact.target_new}
    if fact.subject is not None:
        values["subject"] = fact.subject
    return json.dumps(values | {"id": fact.id, "written_at": fact.written_at}, ensure_ascii=False)


class TakesFacts(Protocol):
    """As `larimar_editor.LarimarForCausalLM` does."""

    def checked(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Those that would be written; an error where one could not be."""

    def write(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Write them all, or none."""


def write_in_blocks(
    model: TakesFacts,
    facts: Sequence[Mapping | Fact],
    block: int = 256,
    wrote: Callable[[int], object] = lambda count: None,
) -> int:
    """Write many facts, so many at once; how many there were.

    Args:
        model: what they are written to.
        facts: what is written; all are checked before the first is.
        block: facts that are written together: for progress, and as much as one `undo` takes back. What a
            write holds in memory at once is not for this to say.
        wrote: told how many, after each block.

    Raises:
        ValueError: one that is no request; none is written.
    """
    model.checked(facts)
    for start in range(0, len(facts), block):
        part = facts[start : start + block]
        model.write(part)
        wrote(len(part))
    return len(facts)


def facts_in_folder(folder: Path) -> list[Fact]:
    """The facts of an edited state in a folder, as versions of larimar_editor before there were state files
    wrote it (formats 1 to 3), its journal included. Their numbers are left there: they are to be written
    anew.

    Raises:
        FileNotFoundError: no state there.
        ValueError: a damaged one.
    """
    path = folder / "state.json"
    if not path.exists():
        raise FileNotFoundError(f"no edited state in {folder}: state.json is missing")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        facts = {fact["id"]: Fact(**fact) for fact in description["facts"]}
        journal = description.get("journal")
        next_id = description["next_id"]
        for record in _records(folder / Path(journal).name) if journal else ():
            done = json.loads(record["description"])
            if record["name"] == "write":
                keys = {Fact(**fact).key for fact in done["facts"]}
                facts = {id: fact for id, fact in facts.items() if fact.key not in keys}
                for fact in done["facts"]:
                    facts[next_id] = Fact(**fact | {"id": next_id, "written_at": done["written_at"]})
                    next_id += 1
            elif record["name"] == "forget":
                for id in done["ids"]:
                    del facts[id]
            else:
                facts = {}
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"the edited state in {folder} is damaged: {error}") from error
    return list(facts.values())


def _records(path: Path) -> Iterator[dict]:
    """What the records of a journal say of themselves; a torn last one was never reported as done."""
    data, place = path.read_bytes(), len(_JOURNAL_START)
    if not data.startswith(_JOURNAL_START):
        raise ValueError(f"{path.name} is no journal")
    header = len(_RECORD) + 8 + 8 + 4 + 4
    while place + header <= len(data):
        if data[place : place + 4] != _RECORD:
            raise ValueError(f"{path.name} has no record at byte {place}")
        length = int.from_bytes(data[place + 12 : place + 20], "little")
        body = data[place + header : place + header + length]
        if len(body) < length:
            return
        size = int.from_bytes(body[:8], "little")
        yield json.loads(body[8 : 8 + size])["__metadata__"]
        place += header + length
