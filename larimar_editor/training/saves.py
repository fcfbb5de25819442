"""What a run goes on from, on disk: its state (what is trained and the optimiser's moments), whole or not at
all; and how far it goes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.utils.files import flush


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
    """
    tensors: dict[str, Tensor] = {f"parameter.{name}": value.detach() for name, value in trained.items()}
    for name, value in trained.items():
        tensors |= {f"{key}.{name}": moment for key, moment in optimiser.state.get(value, {}).items()}
    new = folder_of(folder, step)
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    save_file(
        {name: tensor.cpu().contiguous() for name, tensor in tensors.items()},
        unfinished / "state.safetensors",
    )
    note_step(unfinished, step)
    for path in (*unfinished.iterdir(), unfinished):
        flush(path)
    unfinished.replace(new)
    flush(folder)
    remove_others(new)


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
        ValueError: a state of another run's parameters.
    """
    tensors = load_file(state / "state.safetensors")
    expected = {f"parameter.{name}" for name in trained}
    stored = {name for name in tensors if name.startswith("parameter.")}
    if stored != expected:
        raise ValueError(
            f"{state} is of a run that trains other parameters: {sorted(stored ^ expected)[:4]}; choose "
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
