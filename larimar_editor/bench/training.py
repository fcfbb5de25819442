"""Tokens per second of a training step, against the same step written plainly."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.model.reading import Reading
from larimar_editor.training.loop import optimiser_of
from larimar_editor.training.rows import Rows
from larimar_editor.training.run import Run
from larimar_editor.utils.device import timed_call


def plain_loss(run: Run, rows: Rows) -> Tensor:
    """The memory term and the regulariser as anyone would write them: the model's own forward, all rows
    padded to the longest, logits of every token, PEFT's adapters."""
    model, objective = run.objective.larimar, run.settings.objective
    everywhere = torch.ones(len(rows.ids), dtype=torch.bool)
    Z = model.latent_encoder.encode(rows.texts).clone()
    logits = (
        model(rows.ids, reading=Reading(everywhere, Z[rows.memory]), use_cache=True).logits[:, :-1].float()
    )
    weights = rows.weights[:, 1:]
    each = F.cross_entropy(logits.transpose(1, 2), rows.ids[:, 1:], reduction="none")
    recalled, other = (weights * chosen[:, None] for chosen in (~rows.other, rows.other))
    loss = objective.memory * (each * recalled).sum() / recalled.sum().clamp_min(1e-9)
    if not objective.language_model:
        return loss
    with torch.no_grad():
        base = (
            model(rows.ids, reading=Reading.nothing(len(rows.ids), Z.shape[1]))
            .logits[:, :-1]
            .float()
            .log_softmax(-1)
        )
    divergence = F.kl_div(logits.log_softmax(-1), base, log_target=True, reduction="none").sum(-1)
    return loss + objective.language_model * (divergence * other).sum() / other.sum().clamp_min(1e-9)


def measure(run: Run, steps: int = 8) -> dict:
    """Time the two in turn on the same rows; the first of each is left out.

    Returns:
        tokens decoded per second (median over ``steps``) of the plain step and of the training step, and
        their ratio.
    """
    optimiser = optimiser_of(run)
    decoder = run.objective.larimar.decoder
    attention = decoder.config._attn_implementation
    rates: dict[str, list[float]] = {"plain": [], "training": []}
    for step in range(steps + 1):
        rows = next(run.rows(step))
        decoder.set_attn_implementation("sdpa")
        rates["plain"].append(_tokens_per_second(run, rows, optimiser, lambda rows: plain_loss(run, rows)))
        decoder.set_attn_implementation(attention)
        generator = torch.Generator(run.accelerator.device).manual_seed(step)
        rates["training"].append(
            _tokens_per_second(run, rows, optimiser, partial(_training_loss, run, generator))
        )
    plain, training = (statistics.median(values[1:]) for values in rates.values())
    return {
        "plain_tokens_per_second": round(plain, 1),
        "tokens_per_second": round(training, 1),
        "ratio": round(training / plain, 2),
    }


def _training_loss(run: Run, generator: torch.Generator, rows: Rows) -> Tensor:
    return run.objective(rows, 0.0, generator).total


def _tokens_per_second(
    run: Run, rows: Rows, optimiser: torch.optim.Optimizer, loss: Callable[[Rows], Tensor]
) -> float:
    """Tokens that one training step decodes a second."""

    def step() -> None:
        with run.autocast():
            value = loss(rows)
        value.backward()
        optimiser.step()
        optimiser.zero_grad()

    return rows.decoded / timed_call(step)[1]
