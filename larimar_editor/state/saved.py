"""Edited states from files and into files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import FactStore
from larimar_editor.state.file import StateFile
from larimar_editor.state.fixed import Fixed
from larimar_editor.state.on_file import EntriesOnFile


def save_state(state: EditedState, path: str | Path, origin: Mapping[str, str]) -> None:
    """Save to a file, in place of a state that is there; nothing can be undone in it.

    Args:
        state: what to save.
        path: where.
        origin: what made its numbers (`EpisodicMemory.origin`); a state loads only where that is the same.

    Raises:
        OSError, ValueError: as `StateFile`; what was in the file is still there.
    """
    rows = state.store.alive_rows()
    file = StateFile(path, None)
    try:
        file.replace(origin, state.store.taken(rows), state.store.columns(rows), state.store.next_id)
    finally:
        file.close(keep=False)


def load_state(like: EditedState, path: str | Path, origin: Mapping[str, str]) -> EditedState:
    """The state in a file, all of it in memory, with the settings and device of ``like``.

    Raises:
        OSError, ValueError: as `StateFile` and `state_in`.
    """
    file = StateFile(path, origin, writes=False)
    try:
        state = state_in(file, like)
        file.close()
    finally:
        file.close(keep=False)
    return state


def state_in(file: StateFile, like: EditedState) -> EditedState:
    """The state in an open file, whose facts and latents are read when they are asked for.

    A fixed memory is made anew by the file's operations, one after the other, to the bit as they made it at
    first.

    Raises:
        ValueError: a damaged file.
        OSError: it could not be read.
    """
    ids = file.ids()
    columns = file.columns(ids)
    memory = like.memory.cleared()
    if isinstance(memory, Fixed):
        memory, weights = _replayed(memory, file)
        if ids:
            columns["weight"] = torch.stack([weights[id] for id in ids])
    columns = {name: column.to(like.device) for name, column in columns.items()}
    return EditedState(memory, FactStore.restored(EntriesOnFile(file, ids), columns, file.next_id))


def _replayed(memory: Fixed, file: StateFile) -> tuple[Fixed, dict[int, Tensor]]:
    """A memory after a file's operations, and the weights that facts were written with, by id."""
    weights: dict[int, Tensor] = {}
    for done in file.operations():
        if done.forgotten:
            gone = torch.stack([weights[id] for id in done.forgotten])
            memory = memory.less(file.values(done.forgotten), gone)
        if done.written:
            columns = file.columns(done.written)
            keys = columns.get("key", columns["scope"]).to(memory.device)
            memory, made = memory.written(file.values(done.written), keys)
            weights |= zip(done.written, made["weight"])
    return memory, weights
