"""A training run: what is trained, on what, and what is kept of it in its folder."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedType
from torch import nn

from larimar_editor.model.checkpoint import local_checkpoint
from larimar_editor.training import saves
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.rows import RowMaker, Rows
from larimar_editor.training.run_log import plot_training
from larimar_editor.training.settings import TrainingSettings
from larimar_editor.training.sources import Stream

# Settings that a run may go on with though it was begun with others: how long, how fast, how often looked at.
# Of the optimisation all but texts_per_step, by which records are taken.
_MAY_CHANGE = {"optimisation", "evaluate_every", "save_every"}


@dataclass
class Run:
    """A run ready to go: what is trained, on what, and where its files are.

    Attributes:
        settings: the run's settings.
        out: its folder: ``states/``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoint/``.
        objective: the module in training.
        stream: records of each step.
        maker: records to rows.
        accelerator: accelerate's.
    """

    settings: TrainingSettings
    out: Path
    objective: LarimarObjective
    stream: Stream
    maker: RowMaker
    accelerator: Accelerator

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """What is trained, by name."""
        return {name: value for name, value in self.objective.named_parameters() if value.requires_grad}

    @property
    def states(self) -> Path:
        """Where it is saved."""
        return self.out / "states"

    @property
    def is_deepspeed(self) -> bool:
        """Whether DeepSpeed runs the optimiser."""
        return self.accelerator.distributed_type == DistributedType.DEEPSPEED

    def autocast(self) -> contextlib.AbstractContextManager:
        """The forward pass' precision; trained weights are float32 whatever it is."""
        if self.is_deepspeed:
            on = self.settings.optimisation.precision == "bf16"
            return torch.autocast(self.accelerator.device.type, torch.bfloat16, enabled=on)
        return self.accelerator.autocast()

    def take_prior(self) -> None:
        """Give the model the prior memory as it is now, where one is trained or is what it reads by."""
        larimar = self.objective.larimar
        if self.settings.objective.train_prior or larimar.config.reference == "prior":
            larimar.prior = self.objective.prior.detach().clone()

    def rows(self, step: int) -> Iterator[Rows]:
        """This process' rows of a step, one per accumulation pass."""
        accelerator, parts = self.accelerator, self.settings.optimisation.accumulation
        records = self.stream.step(step)
        for part in range(parts):
            place = part * accelerator.num_processes + accelerator.process_index
            mine = records[place :: parts * accelerator.num_processes]
            rng = random.Random(f"{self.settings.seed} {step} {place}")
            yield self.maker.make(mine, rng).to(accelerator.device)


def refuse_other_settings(run: Run) -> None:
    """A run that was begun goes on with the same settings.

    Raises:
        ValueError: the run was begun with other data, another start or another objective; in every process.
    """
    if before := saves.noted_settings(run.out):
        saves.refuse_other_settings(run.out, _kept(before), _kept(_values(run)))


def note_settings(run: Run) -> None:
    """Keep what a run is made of beside it."""
    # Every process compares, before the first writes: if that alone refused, the others would wait for it.
    run.accelerator.wait_for_everyone()
    if run.accelerator.is_main_process:
        saves.note_settings(run.out, _values(run))


def _values(run: Run) -> dict[str, Any]:
    """Its settings as JSON gives them back."""
    return json.loads(json.dumps(dataclasses.asdict(run.settings), default=str))


def _kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that stay as the run goes on."""
    kept = {name: value for name, value in values.items() if name not in _MAY_CHANGE}
    return kept | {"optimisation.texts_per_step": values["optimisation"]["texts_per_step"]}


@dataclass(frozen=True)
class UnderWay:
    """What takes a run's steps.

    Attributes:
        module: the objective, as accelerate runs it.
        optimiser: AdamW, as accelerate runs it.
        plain: the same AdamW as it is saved.
        first: steps that were taken before.
    """

    module: nn.Module
    optimiser: torch.optim.Optimizer
    plain: torch.optim.Optimizer
    first: int


def resumed(run: Run, plain: torch.optim.Optimizer, newest: Path | None) -> UnderWay:
    """The run as its newest save left it, given to accelerate; DeepSpeed puts a state back after that."""
    first = 0
    if newest is not None and not run.is_deepspeed:
        first = saves.restore(newest, run.trained, plain)
    module, optimiser = run.accelerator.prepare(run.objective, plain)
    # No layer's dropout, now or after an evaluation: a run that goes on would draw another.
    module.eval()
    if newest is not None and run.is_deepspeed:
        run.accelerator.load_state(str(newest))
        first = saves.step_of(newest)
    return UnderWay(module, optimiser, plain, first)


def save_run(run: Run, step: int, optimiser: torch.optim.Optimizer) -> None:
    """Write what `resumed` takes up after ``step`` steps."""
    if run.is_deepspeed:  # its optimiser is spread over the processes, and it alone can put it together again
        folder = saves.folder_of(run.states, step)
        run.accelerator.save_state(str(folder))
        if run.accelerator.is_main_process:
            saves.note_step(folder, step)
    elif run.accelerator.is_main_process:
        saves.save(run.states, step, run.trained, optimiser)
    run.accelerator.wait_for_everyone()
    if run.is_deepspeed and run.accelerator.is_main_process:  # now that every process' part is there
        saves.remove_others(folder)


def is_finished(run: Run) -> bool:
    """Whether the run's folder has the checkpoint of its last step, as `finish` wrote it or as it was changed
    since.
    """
    there = local_checkpoint(run.out / "checkpoint") is not None and (run.out / "state.json").exists()
    return there and saves.step_of(run.out) == run.settings.optimisation.steps


def finish(run: Run) -> Path:
    """Write the checkpoint folder from the run's present weights, as float16, and the curves."""
    larimar = run.objective.larimar
    run.take_prior()
    sample = run.objective.latents(run.maker.make(run.stream.evaluation(64), random.Random(0))).detach()
    core = sample[:, : larimar.config.latent_size]
    larimar.config.latent_norm = float(core.norm(dim=1).mean())
    larimar.save_pretrained(run.out / "checkpoint", dtype=torch.float16)
    saves.note_step(run.out, run.settings.optimisation.steps)
    plot_training(run.out)
    return run.out / "checkpoint"
