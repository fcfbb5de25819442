"""What a run goes on from, on disk: its state (what is trained and the optimiser's moments), whole or not at
all; what it is made of; and how far it goes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.utils.files import flush, undamaged, written, written_whole

_STATE, _SETTINGS = "state.safetensors", "settings.json"


def folder_of(states: Path, step: int) -> Path:
    """Where a run whose states are in a folder has that after ``step`` steps."""
    return states / f"step-{step:08d}"


def save(folder: Path, step: int, trained: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> None:
    """Write the state after ``step`` optimiser steps; the state before it is removed only then.

    Args:
        folder: the run's folder of states.
        step: steps done.
        trained: parameters by name, and what else is to come back.
        optimiser: AdamW over the parameters.

    Raises:
        OSError: it could not be written, as on a full disk; the state before it is still there.
    """
    tensors: dict[str, Tensor] = {f"parameter.{name}": value.detach() for name, value in trained.items()}
    for name, value in trained.items():
        tensors |= {f"{key}.{name}": moment for key, moment in optimiser.state.get(value, {}).items()}
    new = folder_of(folder, step)
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save_tensors(unfinished / _STATE, tensors)
    note_step(unfinished, step)
    for path in (*unfinished.iterdir(), unfinished):
        flush(path)
    unfinished.replace(new)
    flush(folder)
    remove_others(new)


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a file of tensors, whole or not at all.

    Raises:
        OSError: it could not be written, as on a full disk; what was there is still there.
    """
    partial = path.with_name(f".{path.name}.new")
    try:
        with written(path):
            save_file({name: tensor.cpu().contiguous() for name, tensor in tensors.items()}, partial)
        flush(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load_tensors(path: Path) -> dict[str, Tensor]:
    """What `save_tensors` wrote.

    Raises:
        ValueError: a damaged file.
    """
    with undamaged(path):
        return load_file(path)


def note_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep what a run is made of beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    with written_whole(folder / _SETTINGS) as file:
        file.write(json.dumps(settings, indent=2) + "\n")


def noted_settings(folder: Path) -> dict[str, Any]:
    """What `note_settings` kept; nothing where it did not."""
    path = folder / _SETTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def refuse_other_settings(folder: Path, before: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """A run that was begun goes on with the same.

    Raises:
        ValueError: one of ``settings`` is another than ``before``.
    """
    if changed := [name for name, value in settings.items() if before.get(name) != value]:
        raise ValueError(
            f"the run in {folder} was begun with other settings ({', '.join(changed)}): choose another --out"
        )


def remove_others(state: Path) -> None:
    """Remove every other state of a run: this one is whole."""
    for old in state.parent.glob("step-*"):
        if old != state:
            shutil.rmtree(old)


def last(folder: Path) -> Path | None:
    """The newest whole state, or None."""
    return max((path.parent for path in folder.glob("step-*/state.json")), default=None)


def last_within(folder: Path, steps: int, out: Path) -> Path | None:
    """The newest whole state, which a run goes on from; None at its beginning.

    Args:
        folder: its folder of states.
        steps: how many it is of.
        out: its folder, for the message.

    Raises:
        ValueError: it has gone further than its steps.
    """
    state = last(folder)
    if state is not None and (gone := step_of(state)) > steps:
        raise ValueError(
            f"the run in {out} has gone {gone} steps, further than {steps}: choose another --out"
        )
    return state


def last_step(steps: int, until: int | None) -> int:
    """The step that a run of ``steps`` stops after, and is saved at: ``until``, counted from its beginning
    (0 takes none), or its last where that is None or before it.
    """
    return steps if until is None else min(until, steps)


def restore(state: Path, trained: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> int:
    """Put a state back in place; returns its step.

    Raises:
        ValueError: a damaged state, or one of another run's parameters; nothing is put in place.
    """
    tensors = load_tensors(state / _STATE)
    expected = {f"parameter.{name}": value.shape for name, value in trained.items()}
    stored = {name: value.shape for name, value in tensors.items() if name.startswith("parameter.")}
    names = sorted(expected.keys() | stored.keys())
    if differing := [name for name in names if expected.get(name) != stored.get(name)]:
        raise ValueError(
            f"{state} is of a run that trains other parameters, or of other shapes: {differing[:4]}; choose "
            "another --out"
        )
    for name, value in trained.items():
        with torch.no_grad():
            value.copy_(tensors[f"parameter.{name}"])
        moments = {
            key: tensors[f"{key}.{name}"]
            for key in ("step", "exp_avg", "exp_avg_sq")
            if f"{key}.{name}" in tensors
        }
        if moments:
            optimiser.state[value] = {k: v if k == "step" else v.to(value.device) for k, v in moments.items()}
    return step_of(state)


def note_step(state: Path, step: int) -> None:
    """Mark a state as whole, and as that after ``step`` steps."""
    (state / "state.json").write_text(json.dumps({"step": step}))


def step_of(state: Path) -> int:
    """Steps done when the state was saved."""
    return json.loads((state / "state.json").read_text())["step"]
