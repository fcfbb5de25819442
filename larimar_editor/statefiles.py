"""The edited state in a folder: ``state.json``, a safetensors file and, where edits are journaled, a journal.

``state.json`` names the other files and is replaced in one step, when they are on the disk: a crash at any point leaves
the old state or the new one. Both it and the tensors carry a SHA-256, so that damage is an error and not another state.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.facts import Fact, FactStore, UnknownFact
from larimar_editor.journal import Journal, read_journal
from larimar_editor.operations import Operation
from larimar_editor.state import EditedState

FORMAT_VERSION = 2

_DESCRIPTION = "state.json"
_NAME = re.compile(r"state-[0-9a-f]{32}\.safetensors|journal-[0-9a-f]{32}\.bin")
_MEMORY = ("M", "key_covariance", "inverse", "moments")
_COLUMNS = ("value", "weight", "scope")
_FACT: dict[str, tuple[type, ...]] = {"prompt": (str,), "target_new": (str,), "id": (int,), "written_at": (int, float)}

# A journal is folded into a new snapshot when it is larger than the last snapshot, and than this.
_LEAST_JOURNAL_BYTES = 16 * 2**20


def save_state(state: EditedState, folder: str | Path, origin: Mapping) -> None:
    """Save to ``folder``, made if need be, replacing a state that is there.

    Args:
        state: what to save.
        folder: where.
        origin: what made its encodings (`EpisodicMemory.origin`); a state loads only where that is the same.

    Raises:
        OSError: it cannot be written, or a model keeps its journal there; what was in the folder is still there.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = _held(folder)
    try:
        _write(state, folder, origin, journal=False)
    finally:
        lock.release()


def load_state(like: EditedState, folder: str | Path, origin: Mapping) -> EditedState:
    """The state in ``folder``, its journal replayed, with the settings and devices of ``like``.

    Raises:
        FileNotFoundError: no state there.
        ValueError: a damaged state, one of a newer format, one of another origin, or one whose sizes are not those of ``like``.
    """
    folder = Path(folder)
    description, tensors = _read(folder)
    _check_origin(description.get("origin"), origin, folder)
    try:
        state = _restored(like, description, tensors)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the edited state in {folder} does not fit or is damaged: {error}") from error
    if description.get("journal") is None:
        return state
    path = folder / _inside(description["journal"], folder)
    if not path.exists():
        raise ValueError(f"the edited state in {folder} is damaged: its journal {path.name} is missing")
    for number, done in enumerate(read_journal(path, like.memory.M.device)):
        try:
            state = done.applied_to(state)
        except (KeyError, TypeError, ValueError, RuntimeError, UnknownFact) as error:
            raise ValueError(f"record {number} of {path} does not fit the state before it: {error}") from error
    return state


class JournaledFolder:
    """A folder that has the edited state at every moment: a snapshot, and a journal of what was done since.

    One at a time, of any process, holds a folder.

    Args:
        folder: where; a state that is there is loaded.
        like: settings and devices, and the first state of a folder that has none.
        origin: see `save_state`.

    Attributes:
        state: the state that is in the folder.

    Raises:
        OSError: held by another, or not writable.
        ValueError: as `load_state`.
    """

    def __init__(self, folder: str | Path, like: EditedState, origin: Mapping):
        self.folder, self.origin = Path(folder), dict(origin)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _held(self.folder)
        self._journal: Journal | None = None
        try:
            if has_state(self.folder):
                self._go_on(like)
            else:
                self.snapshot(like)
        except BaseException:
            self.close()
            raise

    def record(self, done: Operation, after: EditedState) -> None:
        """Put an operation into the journal, which made ``after`` of `state`.

        Raises:
            OSError: it could not be written; the folder is as it was.
        """
        if self._journal is None:  # a snapshot failed when it was in force already
            return self.snapshot(after)
        self._journal.append(done)
        self.state = after
        if self._journal.size > max(self._snapshot_bytes, _LEAST_JOURNAL_BYTES):
            try:
                self.snapshot(after)
            except OSError as error:
                warnings.warn(f"the journal in {self.folder} grows on, as no snapshot could be written: {error}", stacklevel=2)

    def snapshot(self, state: EditedState) -> None:
        """Put a whole state there, with an empty journal.

        Raises:
            OSError: it could not be written; the folder has the state that it had, or this one.
        """
        before = _named(self.folder)
        try:
            path = _write(state, self.folder, self.origin, journal=True)
            journal = Journal(path)
        except BaseException:
            if _named(self.folder) != before:
                self._close_journal()
            raise
        self._close_journal()
        self._journal, self.state, self._snapshot_bytes = journal, state, _bytes_of_tensors(self.folder)

    def close(self) -> None:
        """Let go of the folder, which keeps the state."""
        self._close_journal()
        self._lock.release()

    def __deepcopy__(self, memo: dict) -> None:
        """None: the copy of a model has no journal, as two of them would tear it."""

    def _go_on(self, like: EditedState) -> None:
        description, _ = _read(self.folder)
        name = description.get("journal")
        if name is None:
            self.snapshot(load_state(like, self.folder, self.origin))
            return
        path = self.folder / _inside(name, self.folder)
        if path.exists():
            self._journal = Journal(path)  # cuts a torn last record, and says so
        self.state = load_state(like, self.folder, self.origin)
        self._snapshot_bytes = _bytes_of_tensors(self.folder)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def has_state(folder: str | Path) -> bool:
    """Whether there is an edited state in ``folder``."""
    return (Path(folder) / _DESCRIPTION).exists()


def _write(state: EditedState, folder: Path, origin: Mapping, journal: bool) -> Path:
    """Snapshot; returns the path of its journal, made empty if it is to have one."""
    number = uuid.uuid4().hex
    tensors, log = folder / f"state-{number}.safetensors", folder / f"journal-{number}.bin"
    try:
        save_file({name: value.detach().cpu().contiguous() for name, value in _tensors(state).items()}, tensors)
        _flush(tensors)
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
        _flush(folder)
        _replace_text(folder / _DESCRIPTION, json.dumps(description, ensure_ascii=False, indent=1))
    except BaseException:
        if _named(folder) != tensors.name:
            tensors.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
        raise
    for other in folder.iterdir():
        if _NAME.fullmatch(other.name) and other.name not in (tensors.name, log.name):
            with suppress(OSError):  # what is left over is left over until the next time
                other.unlink()
    return log


def _tensors(state: EditedState) -> dict[str, Tensor]:
    tensors = {f"memory.{name}": getattr(state.memory, name) for name in _MEMORY}
    tensors |= {"reference.rows": state.reference.rows, "reference.in_use": state.reference.in_use}
    if len(state.store):
        rows = torch.nonzero(state.store.alive).flatten()
        tensors |= {f"store.{name}": state.store.column(name)[rows] for name in _COLUMNS}
    return tensors


def _read(folder: Path) -> tuple[dict, dict[str, Tensor]]:
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
        raise ValueError(f"{path} has format {version}; this version of larimar_editor reads up to {FORMAT_VERSION}")
    return description, tensors


def _read_tensors(description: dict, version: int, folder: Path) -> dict[str, Tensor]:
    path = folder / _inside(description["tensors"], folder)
    if version > 1:  # the first format had no sums
        said = description.pop("sha256")
        if said != _sha256(description):
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
    held = _tensors(like)
    for name in (*(f"memory.{name}" for name in _MEMORY), "reference.rows", "reference.in_use"):
        _check(name, tensors[name], held[name].shape, held[name].dtype)
    sizes = {"value": like.memory.latent_size, "weight": like.memory.num_rows}
    columns = {}
    for name in _COLUMNS if facts else ():
        column = tensors[f"store.{name}"]
        _check(f"store.{name}", column, (len(facts), sizes.get(name, column.shape[-1])), torch.float32)
        columns[name] = column.to(device)
    counts: dict[str, Any] = {name: _natural(name, description["memory"][name]) for name in ("rows_written", "updates")}
    if counts["rows_written"] != len(facts):
        raise ValueError(f"{counts['rows_written']} pairs are written for {len(facts)} facts")
    moved: dict[str, Any] = {name: tensors[f"memory.{name}"].to(device) for name in _MEMORY}
    memory = replace(like.memory, **moved, **counts)
    reference = like.reference.with_rows(tensors["reference.rows"].to(device), tensors["reference.in_use"])
    return EditedState(memory, reference, FactStore.restored(facts, columns, next_id))


def _fact(values: Mapping) -> Fact:
    if values.keys() != _FACT.keys():
        raise ValueError(f"a fact has {', '.join(_FACT)}, got {', '.join(map(str, values))}")
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
            f"{name} is of shape {tuple(tensor.shape)} and {tensor.dtype}, this model's is {tuple(shape)} and {dtype}"
        )
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} has a number that is not finite")


def _check_origin(found: Mapping | None, wanted: Mapping, folder: Path) -> None:
    if found is None:  # the first format did not say
        return
    if not isinstance(found, dict):
        raise ValueError(f"the edited state in {folder} is damaged: origin {found!r}")
    other = [f"{key}: {found.get(key)!r} there, {wanted.get(key)!r} here" for key in wanted if found.get(key) != wanted[key]]
    if other:
        raise ValueError(f"the edited state in {folder} was made by another model or other settings: {'; '.join(other)}")


def _inside(name: object, folder: Path) -> str:
    """A file's name, if it is one of ours and so one that no path leads out of the folder by."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{_DESCRIPTION} of {folder} names a file {name!r}, which is not one of a state's")
    return name


def _named(folder: Path) -> str | None:
    """The tensors' file that the description in force names."""
    try:
        return json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))["tensors"]
    except (OSError, ValueError, KeyError):
        return None


def _held(folder: Path) -> FileLock:
    lock = FileLock(folder / "lock", thread_local=False)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(f"{folder} is in use: a model keeps its journal there; close it, or take another folder") from None
    return lock


def _bytes_of_tensors(folder: Path) -> int:
    return (folder / str(_named(folder))).stat().st_size


def _sha256(description: Mapping) -> str:
    text = json.dumps(description, ensure_ascii=True, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace_text(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    _flush(temporary)
    os.replace(temporary, path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
