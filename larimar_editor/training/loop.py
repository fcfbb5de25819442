"""The training run: reads top to bottom, goes on where it was interrupted."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator, DistributedType
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.data.edits import load_edits
from larimar_editor.model.encoders import DecoderStateEncoder, TransformerEncoder
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_decoder
from larimar_editor.training import probe, saves
from larimar_editor.training.chats import answered
from larimar_editor.training.episodes import kl_strength
from larimar_editor.training.latents import Latents
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.parameters import set_learning_rates, trained_parameters
from larimar_editor.training.rows import RowMaker, Rows
from larimar_editor.training.run_log import Metrics, plot_training
from larimar_editor.training.settings import Optimisation, TrainingSettings
from larimar_editor.training.sources import Stream, open_sources
from larimar_editor.training.starts import regress, start

# Settings that a run may go on with though it was begun with others: how long, how fast, how often looked at.
_MAY_CHANGE = {"optimisation", "evaluate_every", "save_every", "cache_latents"}


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


def open_run(settings: TrainingSettings, out: Path, device: str = "auto", dtype: str = "auto") -> Run:
    """Load the decoder and build the run.

    Args:
        settings: the run's settings.
        out: its folder.
        device: "auto", what accelerate finds, or "cpu".
        dtype: of a frozen decoder; see `larimar_editor.model.loading.decoder_dtype`.

    Raises:
        As `prepare`.
    """
    # DeepSpeed would turn every weight into bfloat16; the loop keeps those that are trained in float32, and
    # uses autocast.
    deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    accelerator = Accelerator(
        cpu=device == "cpu",
        mixed_precision="no" if deepspeed else settings.optimisation.precision,
        gradient_accumulation_steps=1,  # the loop adds passes up itself
    )
    full = settings.model.get("decoder_mode") == "full"
    decoder, tokenizer = load_decoder(settings.decoder, "float32" if full else dtype, str(accelerator.device))
    return prepare(settings, out, decoder, tokenizer, accelerator)


def prepare(
    settings: TrainingSettings,
    out: Path,
    decoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    accelerator: Accelerator,
) -> Run:
    """Build the run.

    Raises:
        ValueError: settings that do not fit together, or texts too few for them.
        FileNotFoundError: a text or a checkpoint that is not there.
    """
    optimisation = settings.optimisation
    _check_passes(settings, optimisation.accumulation, accelerator.num_processes)
    if accelerator.distributed_type == DistributedType.DEEPSPEED:
        _configure_deepspeed(accelerator, optimisation)
    if settings.rows.chat_share and answered(tokenizer, [{"role": "user", "content": "Who?"}], "Ada") is None:
        raise ValueError(
            "rows: chat_share wants chats, and the tokenizer has no chat template, or none in which an "
            "answer stands behind its question: set it to 0"
        )
    larimar = start(settings, decoder.to(accelerator.device), tokenizer)
    records, text = open_sources(settings.sources, settings.seed)
    stream = Stream(settings.sources, records, optimisation.texts_per_step, settings.held_out, settings.seed)
    layout, most = larimar.latent_encoder.layout, larimar.config.answer_tokens
    needed = layout.needed if layout and most else lambda tokens: larimar.config.memory_slots
    maker = RowMaker(tokenizer, settings.rows, text, needed, most if layout else 0)
    if accelerator.device.type == "cpu":
        # Fused attention's backward pass is the slowest part of a step there.
        decoder.set_attn_implementation("eager")
    objective = LarimarObjective(
        larimar,
        settings.objective,
        _latents(settings, larimar, stream, out, accelerator),
        optimisation.gradient_checkpointing,
        optimisation.bucket_tokens,
    )
    return Run(settings, out, objective, stream, maker, accelerator)


def _check_passes(settings: TrainingSettings, accumulation: int, processes: int) -> None:
    """Each pass of each process has texts, and as many as an episode is of."""
    texts, sources = settings.optimisation.texts_per_step, len(settings.sources)
    passes = f"{accumulation} passes of {processes} processes"
    fewest = texts - sources + 1  # a source's share may be no whole number
    if fewest < accumulation * processes:
        raise ValueError(
            f"texts_per_step {texts}, of which {sources} sources give {fewest} at least, is too few for "
            f"{passes}"
        )
    a_pass, episode = texts // (accumulation * processes), settings.objective.episode_length
    if a_pass < min(episode, texts):
        raise ValueError(
            f"texts_per_step {texts} over {passes} leaves {a_pass} texts for an episode, which is of one "
            f"pass of one process, and episode_length is {episode}: take more texts_per_step, or fewer of "
            "the others"
        )


def _configure_deepspeed(accelerator: Accelerator, optimisation: Optimisation) -> None:
    if optimisation.precision == "fp16":
        raise ValueError("precision: fp16 does not go with DeepSpeed here; use bf16 or no")
    passes = accelerator.num_processes * optimisation.accumulation
    accelerator.state.deepspeed_plugin.deepspeed_config |= {
        "train_micro_batch_size_per_gpu": optimisation.texts_per_step // passes,
        "gradient_accumulation_steps": optimisation.accumulation,
        "gradient_clipping": optimisation.clip,
    }


def _latents(
    settings: TrainingSettings,
    larimar: LarimarForCausalLM,
    stream: Stream,
    out: Path,
    accelerator: Accelerator,
):
    encoder = larimar.latent_encoder
    if settings.optimisation.encoder_learning_rate:
        if not isinstance(encoder, TransformerEncoder):
            raise ValueError(
                "encoder_learning_rate must be 0 with decoder states, which have nothing to train; or use "
                "encoder_type: transformer"
            )
        return lambda rows: encoder.with_gradients(rows.texts)
    keep = settings.cache_latents and stream.offset(len(stream.sizes))
    folder = out / f"latents-{accelerator.process_index}" if keep else None
    return Latents(encoder, stream.offset(len(stream.sizes)), folder)


def train(run: Run, until: int | None = None, progress: bool = True) -> dict:
    """Train to the last step, from the last save on if there is one, and write the checkpoint.

    Args:
        run: of `prepare`.
        until: stop after this many steps in all, saved; the last step when None.
        progress: whether to show a progress bar.

    Returns:
        the last evaluation.

    Raises:
        ValueError: the run has gone further than its steps, or was begun with other settings.
    """
    settings, optimisation = run.settings, run.settings.optimisation
    main = run.accelerator.is_main_process
    newest = _newest_state(run)
    if main:
        _note_settings(settings, run.out, begun=newest is not None)
    if settings.start == "regression":
        _regress(run, progress and main, begun=newest is not None)
    plain = optimiser_of(run)
    start = {name: value.detach().clone() for name, value in run.trained.items()} if optimisation.keep else {}
    under_way = _resumed(run, plain, newest)
    last = optimisation.steps if until is None else min(until, optimisation.steps)
    result = _take_steps(run, under_way, last, progress and main)
    if main and last == optimisation.steps:
        _keep_share(run, start)
        finish(run)
    run.accelerator.wait_for_everyone()
    return {"step": last} | result


def _newest_state(run: Run) -> Path | None:
    """The save that the run goes on from; None at its beginning.

    Raises:
        ValueError: it has gone further than the run's steps.
    """
    newest, steps = saves.last(run.out / "states"), run.settings.optimisation.steps
    if newest is not None and (gone := saves.step_of(newest)) > steps:
        raise ValueError(
            f"the run in {run.out} has gone {gone} steps, further than steps: {steps}; choose another --out"
        )
    return newest


def _note_settings(settings: TrainingSettings, out: Path, begun: bool) -> None:
    """Keep what a run is made of beside it; one that was begun goes on with the same.

    Raises:
        ValueError: the run was begun with other data, another start or another objective.
    """
    path = out / "settings.json"
    values = json.loads(json.dumps(dataclasses.asdict(settings), default=str))
    if begun and path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        changed = [key for key in values if key not in _MAY_CHANGE and before.get(key) != values[key]]
        if changed:
            raise ValueError(
                f"the run in {out} was begun with other settings ({', '.join(changed)}): choose another --out"
            )
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def _regress(run: Run, progress: bool, begun: bool) -> None:
    """Regress the encoder; a run that was begun has it from then."""
    larimar, kept = run.objective.larimar, run.out / "regressed.safetensors"
    target = DecoderStateEncoder(larimar.states, larimar.projection)
    texts = lambda step: [text for rows in run.rows(step) for text in rows.texts]
    encoder = larimar.latent_encoder
    assert isinstance(encoder, TransformerEncoder), "as `starts` has made sure"
    if begun and kept.exists():
        encoder.load_state_dict(load_file(kept))
        return
    errors = regress(encoder, texts, target.encode, run.settings.regression_steps, progress=progress)
    run.out.mkdir(parents=True, exist_ok=True)
    (run.out / "regression.json").write_text(json.dumps(errors))
    if run.accelerator.is_main_process:
        save_file({name: value.contiguous() for name, value in encoder.state_dict().items()}, kept)


def optimiser_of(run: Run) -> torch.optim.AdamW:
    """AdamW over what the run trains; all else is frozen from here on."""
    groups = trained_parameters(run.objective, run.settings)
    return torch.optim.AdamW(groups, weight_decay=run.settings.optimisation.weight_decay)


@dataclass(frozen=True)
class _UnderWay:
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


def _resumed(run: Run, plain: torch.optim.Optimizer, newest: Path | None) -> _UnderWay:
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
    return _UnderWay(module, optimiser, plain, first)


def _take_steps(run: Run, under_way: _UnderWay, last: int, progress: bool) -> dict:
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
            _save(run, done, under_way.plain)
    bar.close()
    return result


def _step(run: Run, under_way: _UnderWay, step: int) -> dict[str, float]:
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


def _save(run: Run, step: int, optimiser: torch.optim.Optimizer) -> None:
    states = run.out / "states"
    if run.is_deepspeed:  # its optimiser is spread over the processes, and it alone can put it together again
        folder = states / f"step-{step:08d}"
        run.accelerator.save_state(str(folder))
        if run.accelerator.is_main_process:
            saves.note_step(folder, step)
    elif run.accelerator.is_main_process:
        saves.save(states, step, run.trained, optimiser)
    run.accelerator.wait_for_everyone()
    if run.is_deepspeed and run.accelerator.is_main_process:  # now that every process' part is there
        saves.remove_others(folder)


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


def finish(run: Run) -> Path:
    """Write the checkpoint folder from the run's present weights, as float16, and the curves."""
    larimar = run.objective.larimar
    run.take_prior()
    sample = run.objective.latents(run.maker.make(run.stream.evaluation(64), random.Random(0))).detach()
    core = sample[:, : larimar.config.latent_size]
    larimar.config.latent_norm = float(core.norm(dim=1).mean())
    larimar.save_pretrained(run.out / "checkpoint", dtype=torch.float16)
    plot_training(run.out)
    return run.out / "checkpoint"


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
