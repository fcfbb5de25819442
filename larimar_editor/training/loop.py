"""The training loop: reads top to bottom, goes on where it was interrupted."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from larimar_editor.data.edits import load_edits
from larimar_editor.model.encoders import DecoderStateEncoder, TransformerEncoder
from larimar_editor.training import probe, saves
from larimar_editor.training.episodes import kl_strength
from larimar_editor.training.parameters import set_learning_rates, trained_parameters
from larimar_editor.training.run import (
    Run,
    UnderWay,
    finish,
    is_finished,
    note_settings,
    refuse_other_settings,
    resumed,
    save_run,
)
from larimar_editor.training.run_log import Metrics
from larimar_editor.training.starts import regress


def train(run: Run, until: int | None = None, progress: bool = True) -> dict:
    """Train to the last step, from the last save on if there is one, and write the checkpoint. That of a run
    which was at its last step stays as it is.

    Args:
        run: of `larimar_editor.training.opening.prepare`.
        until: see `saves.last_step`.
        progress: whether to show a progress bar.

    Returns:
        the last evaluation, with the steps that the run has gone.

    Raises:
        ValueError: the run has gone further than its steps, or was begun with other settings.
    """
    settings, optimisation = run.settings, run.settings.optimisation
    main = run.accelerator.is_main_process
    newest = saves.last_within(run.states, optimisation.steps, run.out)
    if newest is not None:
        refuse_other_settings(run)
    if settings.start == "regression":
        _regress(run, progress and main, begun=newest is not None)
    plain = optimiser_of(run)
    start = {name: value.detach().clone() for name, value in run.trained.items()} if optimisation.keep else {}
    under_way = resumed(run, plain, newest)
    note_settings(run)
    last = max(under_way.first, saves.last_step(optimisation.steps, until))
    result = _take_steps(run, under_way, last, progress and main)
    if main and under_way.first == optimisation.steps and is_finished(run):
        warnings.warn(
            f"{run.out} has its {last} steps, and its checkpoint stays as it is: remove that to have it "
            "written anew",
            stacklevel=2,
        )
    elif main and last == optimisation.steps:
        _keep_share(run, start)
        finish(run)
    run.accelerator.wait_for_everyone()
    return {"step": last} | result


def _regress(run: Run, progress: bool, begun: bool) -> None:
    """Regress the encoder; a run that was begun has it from then."""
    larimar, kept = run.objective.larimar, run.out / "regressed.safetensors"
    target = DecoderStateEncoder(larimar.states, larimar.projection)
    texts = lambda step: [text for rows in run.rows(step) for text in rows.texts]
    encoder = larimar.latent_encoder
    assert isinstance(encoder, TransformerEncoder), "as `starts` has made sure"
    if begun and kept.exists():
        encoder.load_state_dict(saves.load_tensors(kept))
        return
    errors = regress(encoder, texts, target.encode, run.settings.regression_steps, progress=progress)
    if run.accelerator.is_main_process:  # whose encoder is every process' from the first step on
        run.out.mkdir(parents=True, exist_ok=True)
        (run.out / "regression.json").write_text(json.dumps(errors), encoding="utf-8")
        saves.save_tensors(kept, encoder.state_dict())


def optimiser_of(run: Run) -> torch.optim.AdamW:
    """AdamW over what the run trains; all else is frozen from here on."""
    groups = trained_parameters(run.objective, run.settings)
    return torch.optim.AdamW(groups, weight_decay=run.settings.optimisation.weight_decay)


def _take_steps(run: Run, under_way: UnderWay, last: int, progress: bool) -> dict:
    """Go on up to step ``last``, with what is logged, evaluated and saved on the way; returns the last
    evaluation.
    """
    settings, first = run.settings, under_way.first
    metrics = Metrics(run.out, first) if run.accelerator.is_main_process else None
    bar = tqdm(total=last, initial=first, desc="training", unit="step", disable=not progress)
    result: dict = {}
    for step in range(first, last):
        values, done = _step(run, under_way, step), step + 1
        bar.set_postfix(
            loss=f"{values['memory']:.3f}",
            acc=f"{values['accuracy']:.3f}",
            tok_s=f"{values['tokens_per_second']:.0f}",
            refresh=False,
        )
        bar.update()
        if metrics:
            metrics.write(done, "train", values)
        if done % settings.evaluate_every == 0 or done == settings.optimisation.steps:
            result = evaluate(run)
            if metrics:
                metrics.write(done, "evaluation", result)
                bar.write(json.dumps({"step": done} | result))
        if done % settings.save_every == 0 or done == last:
            if metrics:
                metrics.flush()
            save_run(run, done, under_way.plain)
    bar.close()
    return result


def _step(run: Run, under_way: UnderWay, step: int) -> dict[str, float]:
    """One step of the optimiser; what is logged of it."""
    began = time.perf_counter()
    optimisation, objective = run.settings.optimisation, run.settings.objective
    strength = kl_strength(step, optimisation.steps, objective.kl, objective.kl_cycles)
    factor = set_learning_rates(under_way.optimiser, step, optimisation)
    values = _passes(run, under_way.module, step, strength)
    if optimisation.clip:
        values["gradient_norm"] = float(
            run.accelerator.clip_grad_norm_(list(run.trained.values()), optimisation.clip)
        )
    under_way.optimiser.step()
    under_way.optimiser.zero_grad()
    seconds = time.perf_counter() - began
    return values | {
        "sigma_w": float(run.objective.sigma_w.detach()),
        "learning_rate_factor": factor,
        "seconds": seconds,
        "tokens_per_second": values["tokens"] / seconds,
    }


def _passes(run: Run, module: nn.Module, step: int, strength: float) -> dict[str, float]:
    """Forward and backward of one step's accumulation passes; the terms' means, and the tokens decoded
    here.
    """
    accelerator, count = run.accelerator, run.settings.optimisation.accumulation
    sums: dict[str, float] = {"tokens": 0}
    for number, rows in enumerate(run.rows(step)):
        generator = torch.Generator(accelerator.device)
        generator.manual_seed(hash((run.settings.seed, step, number, accelerator.process_index)) % (1 << 63))
        # Processes exchange gradients once a step, in the last pass. DeepSpeed counts passes, and divides by
        # them, itself.
        several = number < count - 1 and not run.is_deepspeed
        if run.is_deepspeed:  # it steps where accelerate says that gradients are exchanged
            accelerator.gradient_state._set_sync_gradients(number == count - 1)
        with accelerator.no_sync(module) if several else contextlib.nullcontext():
            with run.autocast():
                losses = module(rows, strength, generator)
            accelerator.backward(losses.total if run.is_deepspeed else losses.total / count)
        sums["tokens"] += rows.decoded
        for name, value in (
            losses.terms | {"accuracy": losses.accuracy, "total": losses.total.detach()}
        ).items():
            sums[name] = sums.get(name, 0.0) + float(value) / count
    return sums


def _keep_share(run: Run, start: Mapping[str, Tensor]) -> None:
    """Take the mean with what training started from, by ``optimisation.keep``."""
    trained = run.trained
    with torch.no_grad():
        for name, value in start.items():
            trained[name].lerp_(value.to(trained[name].device), run.settings.optimisation.keep)


def evaluate(run: Run) -> dict:
    """Held-out reconstruction and edit success on the project's own edits."""
    run.take_prior()
    with run.autocast():
        result = probe.reconstruction(run.objective, run.maker, run.stream.evaluation(run.settings.held_out))
    return result | probe.edit_success(run.objective.larimar, load_edits())


def dry_run(run: Run) -> dict:
    """Two optimiser steps on this process' share, and nothing written: do settings, data and processes fit
    together? (What processes did not exchange in the first shows in the second.)
    """
    module, optimiser = run.accelerator.prepare(run.objective, optimiser_of(run))
    for step in range(2):
        values = _passes(run, module, step=step, strength=run.settings.objective.kl)
        optimiser.step()
        optimiser.zero_grad()
    return values | {
        "processes": run.accelerator.num_processes,
        "distributed": run.accelerator.distributed_type.name,
    }
