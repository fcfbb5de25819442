"""A run's state on disk: what is trained and the optimiser's moments, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from larimar_editor.utils.files import flush


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
    new = folder / f"step-{step:08d}"
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
