"""The edited state in a folder: ``state.json``, a safetensors file and, where edits are journaled, a journal.

``state.json`` names the other files and is replaced in one step, when they are on the disk: a crash at any
point leaves the old state or the new one. Both it and the tensors carry a SHA-256, so that damage is an error
and not another state.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import Fact, FactStore, UnknownFact
from larimar_editor.state.journal import Journal, read_journal
from larimar_editor.utils.files import flush

FORMAT_VERSION = 3

_DESCRIPTION = "state.json"
_NAME = re.compile(r"state-[0-9a-f]{32}\.safetensors|journal-[0-9a-f]{32}\.bin")
_COLUMNS = ("value", "weight", "scope")
_FACT: dict[str, tuple[type, ...]] = {
    "prompt": (str,),
    "target_new": (str,),
    "id": (int,),
    "written_at": (int, float),
    "subject": (str, type(None)),  # lacking in states of before there were subjects
}


@dataclass(frozen=True)
class Snapshot:
    """The files of a state: its tensors, and its journal if it has one."""

    tensors: Path
    journal: Path | None


def save_state(state: EditedState, folder: str | Path, origin: Mapping) -> None:
    """Save to ``folder``, made if need be, replacing a state that is there.

    Args:
        state: what to save.
        folder: where.
        origin: what made its encodings (`EpisodicMemory.origin`); a state loads only where that is the same.

    Raises:
        OSError: it cannot be written, or a model keeps its journal there; what was in the folder is still
            there.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = hold(folder)
    try:
        write_snapshot(state, folder, origin, journal=False)
    finally:
        lock.release()


def load_state(like: EditedState, folder: str | Path, origin: Mapping) -> EditedState:
    """The state in ``folder``, its journal replayed, with the settings and devices of ``like``.

    Raises:
        FileNotFoundError: no state there.
        ValueError: a damaged state, one of a newer format, one of another origin, or one whose sizes are not
            those of ``like``.
    """
    state, files = read_snapshot(like, Path(folder), origin)
    return state if files.journal is None else replayed(state, files.journal)


def read_snapshot(like: EditedState, folder: Path, origin: Mapping) -> tuple[EditedState, Snapshot]:
    """The state in ``folder`` without what its journal has, and its files; otherwise as `load_state`."""
    description, tensors = _read(folder)
    _check_origin(description.get("origin"), origin, folder)
    try:
        state = _restored(like, description, tensors)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the edited state in {folder} does not fit or is damaged: {error}") from error
    name = description.get("journal")
    journal = None if name is None else folder / _inside(name, folder)
    return state, Snapshot(folder / _inside(description["tensors"], folder), journal)


def replayed(state: EditedState, journal: Path) -> EditedState:
    """``state`` after the operations of its journal.

    Raises:
        ValueError: the journal is missing or damaged, or does not fit the state.
    """
    if not journal.exists():
        raise ValueError(
            f"the edited state in {journal.parent} is damaged: its journal {journal.name} is missing"
        )
    for number, done in enumerate(read_journal(journal, state.memory.M.device)):
        try:
            state = done.applied_to(state)
        except (KeyError, TypeError, ValueError, RuntimeError, UnknownFact) as error:
            raise ValueError(
                f"record {number} of {journal} does not fit the state before it: {error}"
            ) from error
    return state


def has_state(folder: str | Path) -> bool:
    """Whether there is an edited state in ``folder``."""
    return (Path(folder) / _DESCRIPTION).exists()


def write_snapshot(state: EditedState, folder: Path, origin: Mapping, journal: bool) -> Snapshot:
    """Put a whole state into ``folder``, which `hold` holds, with an empty journal if it is to have one.

    Raises:
        OSError: it could not be written; what was in the folder is still there, or this is (see
            `tensors_in_force`).
    """
    number = uuid.uuid4().hex
    tensors, log = folder / f"state-{number}.safetensors", folder / f"journal-{number}.bin"
    try:
        save_file(
            {name: value.detach().cpu().contiguous() for name, value in _tensors(state).items()}, tensors
        )
        flush(tensors)
        description = {
            "format_version": FORMAT_VERSION,
            "tensors": tensors.name,
            "tensors_sha256": _sha256_of(tensors),
            "journal": log.name if journal else None,
            "origin": dict(origin),
            "memory": {"rows_written": state.memory.rows_written, "updates": state.memory.updates},
            "next_id": state.store.next_id,
            "facts": [asdict(fact) for fact in state.store.facts()],
        }
        description["sha256"] = _sha256(description)
        if journal:
            Journal(log).close()
        flush(folder)
        _replace_text(folder / _DESCRIPTION, json.dumps(description, ensure_ascii=False, indent=1))
    except BaseException:
        if tensors_in_force(folder) != tensors.name:
            tensors.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        raise
    for other in folder.iterdir():
        if _NAME.fullmatch(other.name) and other.name not in (tensors.name, log.name):
            with suppress(OSError):  # what is left over is left over until the next time
                other.unlink()
    return Snapshot(tensors, log if journal else None)


def _tensors(state: EditedState) -> dict[str, Tensor]:
    tensors = {f"memory.{name}": tensor for name, tensor in state.memory.tensors().items()}
    tensors |= {"reference.rows": state.reference.rows, "reference.in_use": state.reference.in_use}
    if len(state.store):
        rows = torch.nonzero(state.store.alive).flatten()
        columns = {name: state.store.column(name) for name in _COLUMNS} | {"value": state.values()}
        tensors |= {f"store.{name}": column[rows] for name, column in columns.items()}
    return tensors


def _read(folder: Path) -> tuple[dict, dict[str, Tensor]]:
    """Description and tensors; again where another process has saved meanwhile and removed what was being
    read.
    """
    before = _stamp(folder)
    try:
        return _read_once(folder)
    except ValueError:
        if _stamp(folder) == before:
            raise
    return _read(folder)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Another one once the description has been replaced."""
    try:
        status = (folder / _DESCRIPTION).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _read_once(folder: Path) -> tuple[dict, dict[str, Tensor]]:
    path = folder / _DESCRIPTION
    if not path.exists():
        raise FileNotFoundError(f"no edited state in {folder}: {_DESCRIPTION} is missing")
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        version = description["format_version"]
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"format_version {version!r}")
        if version <= FORMAT_VERSION:
            tensors = _read_tensors(description, version, folder)
    except (KeyError, TypeError, ValueError, SafetensorError, OSError, RecursionError) as error:
        raise ValueError(f"the edited state in {folder} is damaged: {error}") from error
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{path} has format {version}; this version of larimar_editor reads up to {FORMAT_VERSION}"
        )
    return description, tensors


def _read_tensors(description: dict, version: int, folder: Path) -> dict[str, Tensor]:
    path = folder / _inside(description["tensors"], folder)
    if version > 1:  # the first format had no sums
        recorded = description.pop("sha256")
        if recorded != _sha256(description):
            raise ValueError(f"{_DESCRIPTION} is not what was written: its SHA-256 differs")
        if description["tensors_sha256"] != _sha256_of(path):
            raise ValueError(f"{path.name} is not what was written: its SHA-256 differs")
    return load_file(path)


def _restored(like: EditedState, description: Mapping, tensors: Mapping[str, Tensor]) -> EditedState:
    device = like.memory.M.device
    facts = [_fact(values) for values in description["facts"]]
    ids = [fact.id for fact in facts]
    next_id = _natural("next_id", description["next_id"])
    if any(a >= b for a, b in zip([0, *ids], [*ids, next_id])):
        raise ValueError(f"ids must rise from 1 and stay below next_id, {next_id}")
    if len({fact.key for fact in facts}) < len(facts):
        raise ValueError("a prompt is written twice")
    width = tensors["memory.M"].shape[-1]
    if width < like.memory.core_size:
        raise ValueError(f"memory.M has {width} columns, this model's has {like.memory.core_size} or more")
    empty = like.cleared()
    expected = _tensors(replace(empty, memory=empty.memory.widened(width)))
    for name in (*(f"memory.{name}" for name in like.memory.tensors()), "reference.rows", "reference.in_use"):
        _check(name, tensors[name], expected[name].shape, expected[name].dtype)
    sizes = {"value": width, "weight": like.memory.num_rows}
    columns = {}
    for name in _COLUMNS if facts else ():
        column = tensors[f"store.{name}"]
        _check(f"store.{name}", column, (len(facts), sizes.get(name, column.shape[-1])), torch.float32)
        columns[name] = column.to(device)
    counts: dict[str, Any] = {
        name: _natural(name, description["memory"][name]) for name in ("rows_written", "updates")
    }
    if counts["rows_written"] != len(facts):
        raise ValueError(f"{counts['rows_written']} pairs are written for {len(facts)} facts")
    moved: dict[str, Any] = {name: tensors[f"memory.{name}"].to(device) for name in like.memory.tensors()}
    memory = replace(like.memory, **moved, **counts)
    reference = like.reference.with_rows(tensors["reference.rows"].to(device), tensors["reference.in_use"])
    return EditedState(memory, reference, FactStore.restored(facts, columns, next_id))


def _fact(values: Mapping) -> Fact:
    if values.keys() | {"subject"} != _FACT.keys():
        raise ValueError(f"a fact has {', '.join(_FACT)}, got {', '.join(map(str, values))}")
    values = dict[str, Any]({"subject": None}) | dict(values)
    for name, kind in _FACT.items():
        if not isinstance(values[name], kind) or isinstance(values[name], bool):
            raise TypeError(f"{name} of a fact cannot be {values[name]!r}")
    return Fact(**values)


def _natural(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} cannot be {value!r}")
    return value


def _check(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if tensor.shape != shape or tensor.dtype != dtype:
        raise ValueError(
            f"{name} is of shape {tuple(tensor.shape)} and {tensor.dtype}, this model's is {tuple(shape)} "
            f"and {dtype}"
        )
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} has a number that is not finite")


def _check_origin(recorded: Mapping | None, wanted: Mapping, folder: Path) -> None:
    if recorded is None:  # the first format did not say
        return
    if not isinstance(recorded, dict):
        raise ValueError(f"the edited state in {folder} is damaged: origin {recorded!r}")
    other = [
        f"{key}: {recorded.get(key)!r} there, {wanted.get(key)!r} here"
        for key in wanted
        if recorded.get(key) != wanted[key]
    ]
    if other:
        raise ValueError(
            f"the edited state in {folder} was made by another model or other settings: {'; '.join(other)}"
        )


def _inside(name: object, folder: Path) -> str:
    """A file's name, if it is one of ours and so one that no path leads out of the folder by."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{_DESCRIPTION} of {folder} names a file {name!r}, which is not one of a state's")
    return name


def tensors_in_force(folder: Path) -> str | None:
    """Name of the tensors' file of the state in ``folder``; None where there is none that can be read."""
    try:
        return json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))["tensors"]
    except (OSError, ValueError, KeyError):
        return None


def hold(folder: Path) -> FileLock:
    """The lock of a folder, taken; every writer takes it.

    Raises:
        OSError: another has it.
    """
    lock = FileLock(folder / "lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(
            f"{folder} is in use: a model keeps its journal there, or is saving; take another folder"
        ) from None
    return lock


def _sha256(description: Mapping) -> str:
    text = json.dumps(description, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace_text(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    flush(temporary)
    os.replace(temporary, path)
    flush(path.parent)
