"""Training a stage: one loop for all three, which goes on where it was stopped."""

from __future__ import annotations

import json
import random
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info
from tqdm.auto import tqdm

from larimar_editor.training import saves
from larimar_editor.training.detector.examples import POSITIVES, Example, example
from larimar_editor.training.detector.stages import Stage
from larimar_editor.training.fused_lora import fused_lora
from larimar_editor.utils.device import bfloat16_is_fast
from larimar_editor.utils.json_files import log_from, numbered_records

WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    Attributes:
        steps: optimiser steps.
        batch_size: facts of a step.
        learning_rate: of AdamW, at its highest.
        warm_up: share of the steps in which the learning rate rises.
        average: share of the past in the moving average of the weights, which is what is kept at the end; of
            the first n steps (n + 1) / (n + 10), so that the start does not count for long.
        save_every: steps between saves.
        seed: of the order and of what is drawn.
    """

    steps: int = 2000
    batch_size: int = 32
    learning_rate: float = 1e-3
    warm_up: float = 0.05
    average: float = 0.995
    save_every: int = 200
    seed: int = 0

    def factor(self, step: int) -> float:
        """Of the learning rate at a step: up and down in straight lines."""
        rise = max(1, round(self.warm_up * self.steps))
        return min((step + 1) / rise, (self.steps - step) / max(1, self.steps - rise))


def read_facts(path: Path) -> list[dict]:
    """The facts of a file of JSON lines.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is no such fact; the message has file and line.
    """
    facts = []
    for number, fact in numbered_records(path):
        if not {"prompt", "subject", *POSITIVES[:1]} <= fact.keys():
            raise ValueError(f"{path}, line {number} is no fact of `larimar-editor data questions`")
        facts.append(fact)
    return facts


def train_stage(
    stage: Stage,
    facts: Sequence[dict],
    schedule: Schedule,
    folder: Path,
    until: int | None = None,
    workers: int = 0,
) -> None:
    """Train, with a save now and then; at the end the stage's weights are in ``weights.safetensors``.

    Args:
        stage: what is trained.
        facts: records of `larimar_editor.data.question_sources`.
        schedule: how long and how fast.
        folder: of this stage; saves in it are gone on from.
        until: see `saves.last_step`.
        workers: processes that draw examples while a step is computed, for a GPU that would wait for them; 0
            draws them in turn. What is drawn is the same.

    Raises:
        ValueError: no facts that have anything to tell apart, or a folder whose run has gone further than
            the schedule goes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    training = _Training.of(stage, schedule, folder)
    first = training.go_on()
    last = saves.last_step(schedule.steps, until)
    if _is_kept(folder, last):
        warnings.warn(
            f"{folder} has its {first} steps, and is not trained on: what is there is kept",
            stacklevel=2,
        )
        return
    (folder / WEIGHTS).unlink(missing_ok=True)  # of a shorter run
    _take_steps(training, facts, range(first, last), workers)
    if last == schedule.steps:
        training.write_weights()


def will_be_finished(folder: Path, schedule: Schedule, until: int | None = None) -> bool:
    """Whether a stage's folder has its weights once `train_stage` has trained there."""
    last = saves.last_step(schedule.steps, until)
    return last == schedule.steps or _is_kept(folder, last)


def _is_kept(folder: Path, last: int) -> bool:
    """Whether a stage is finished and has gone as far as it is to go, and so is not trained on."""
    state = saves.last(folder)
    return (folder / WEIGHTS).exists() and (saves.step_of(state) if state else 0) >= last


@dataclass(frozen=True)
class _Training:
    """A stage in training, and where it is kept.

    Attributes:
        stage: what is trained.
        schedule: how long and how fast.
        folder: of this stage.
        trained: its parameters that are trained, by name.
        averages: the moving average of each, in the same order, by the name that it is saved under.
        optimiser: AdamW over them.
    """

    stage: Stage
    schedule: Schedule
    folder: Path
    trained: dict[str, Tensor]
    averages: dict[str, Tensor]
    optimiser: torch.optim.Optimizer

    @classmethod
    def of(cls, stage: Stage, schedule: Schedule, folder: Path) -> _Training:
        """As at its first step."""
        trained: dict[str, Tensor] = {
            name: value for name, value in stage.network.named_parameters() if value.requires_grad
        }
        optimiser = torch.optim.AdamW(trained.values(), lr=schedule.learning_rate, weight_decay=0.01)
        averages = {f"average.{name}": value.detach().clone() for name, value in trained.items()}
        return cls(stage, schedule, folder, trained, averages, optimiser)

    def go_on(self) -> int:
        """Take up the last save, if there is one; returns the steps done. Raises as `saves.last_within`."""
        state = saves.last_within(self.folder, self.schedule.steps, self.folder)
        return saves.restore(state, self.trained | self.averages, self.optimiser) if state else 0

    def save(self, step: int) -> None:
        """Write the state after ``step`` steps."""
        saves.save(self.folder, step, self.trained | self.averages, self.optimiser)

    def take_step(self, step: int, examples: Sequence[Example]) -> float:
        """One step of the optimiser and of the averages; returns the loss."""
        schedule, trained = self.schedule, self.trained.values()
        for group in self.optimiser.param_groups:
            group["lr"] = schedule.learning_rate * schedule.factor(step)
        loss = _loss(self.stage, examples, schedule.seed + step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad()
        _move(self.averages.values(), trained, min(schedule.average, (step + 1) / (step + 10)))
        return float(loss.detach())

    def write_weights(self) -> None:
        """Put the averages in the parameters' place, and write the stage's weights."""
        _move(self.trained.values(), self.averages.values(), 0.0)
        weights = {name: value.to(torch.bfloat16) for name, value in self.stage.weights().items()}
        saves.save_tensors(self.folder / WEIGHTS, weights)


def _take_steps(training: _Training, facts: Sequence[dict], numbers: range, workers: int) -> None:
    """Take the steps with these numbers, with a line of metrics each and a save now and then."""
    stage, schedule, folder = training.stage, training.schedule, training.folder
    stage.network.train()
    began = time.time()
    drawn = DataLoader(
        _Drawn(facts, schedule),
        batch_size=None,
        sampler=numbers,
        num_workers=workers,
        collate_fn=list,
        prefetch_factor=4 if workers else None,
    )
    steps = tqdm(zip(numbers, drawn), initial=numbers.start, total=numbers.stop, unit="step")
    with fused_lora(stage.network), log_from(folder / "metrics.jsonl", numbers.start) as log:
        for step, examples in steps:
            loss, done = training.take_step(step, examples), step + 1
            line = {"step": done, "loss": loss, "seconds": round(time.time() - began, 1)}
            log.write(json.dumps(line) + "\n")
            log.flush()
            if done % schedule.save_every == 0 or done == numbers.stop:
                training.save(done)


def _loss(stage: Stage, examples: Sequence[Example], seed: int) -> Tensor:
    """The loss of a batch; what it draws, as the reader does, is the same for the same seed."""
    device = next(stage.network.parameters()).device
    fast = bfloat16_is_fast(device)
    with torch.random.fork_rng(), torch.autocast(device.type, dtype=torch.bfloat16, enabled=fast):
        torch.manual_seed(seed)
        return stage.loss(examples)


def _move(places: Iterable[Tensor], towards: Iterable[Tensor], share: float) -> None:
    """``share`` of what stands there, and the rest of what it moves towards."""
    with torch.no_grad():
        torch._foreach_lerp_([*places], [*towards], 1 - share)


def trained_weights(folder: Path) -> dict[str, Tensor]:
    """What a checkpoint holds of the stages that a run has trained, by name.

    Raises:
        ValueError: a damaged file.
    """
    return {
        f"{path.parent.name}.{name}": value
        for path in sorted(folder.glob(f"*/{WEIGHTS}"))
        for name, value in saves.load_tensors(path).items()
    }


@dataclass(frozen=True)
class _Drawn(Dataset):
    """The examples of each step, by its number."""

    facts: Sequence[dict]
    schedule: Schedule

    def __getitem__(self, step: int) -> list[Example]:
        examples = _batch(self.facts, self.schedule, step)
        for each in examples if get_worker_info() else ():
            _ = each.bare_pairs  # the names are looked up here, not where the steps are computed
        return examples


def _batch(facts: Sequence[dict], schedule: Schedule, step: int) -> list[Example]:
    """The same for the same step, whatever came before."""
    size = schedule.batch_size
    each = max(1, len(facts) // size)  # steps of one pass over the facts
    order = _order(len(facts), schedule.seed, step // each)
    rng = random.Random(f"{schedule.seed} {step} examples")
    chosen = order[(step % each) * size : (step % each + 1) * size]
    examples = [made for place in chosen if (made := example(facts[place], rng))]
    if not examples:
        raise ValueError("the facts have nothing that asks the same and nothing that does not")
    return examples


@lru_cache(maxsize=1)
def _order(facts: int, seed: int, passed: int) -> list[int]:
    """Of the facts, in the pass after so many; all its steps go by it."""
    return random.Random(f"{seed} {passed}").sample(range(facts), facts)
