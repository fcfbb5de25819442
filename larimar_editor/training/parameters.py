"""What a run trains, and how fast: the optimiser's parameter groups, and their learning rates at a step."""

from __future__ import annotations

import math

import torch
from torch import nn

from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.settings import Optimisation, TrainingSettings


def trained_parameters(objective: LarimarObjective, settings: TrainingSettings) -> list[dict]:
    """Parameter groups of the optimiser, float32 and with gradients; every other parameter is frozen.
    ``full_lr`` of a group is its learning rate before the schedule.
    """
    larimar, rates = objective.larimar, settings.optimisation
    objective.requires_grad_(False)
    groups = []

    def group(name: str, module: nn.Module | list[nn.Parameter], learning_rate: float) -> None:
        parameters = list(module.parameters()) if isinstance(module, nn.Module) else module
        if learning_rate and parameters:
            for parameter in parameters:
                parameter.data = parameter.data.float()
                parameter.requires_grad_(True)
            groups.append({"name": name, "params": parameters, "lr": learning_rate, "full_lr": learning_rate})

    if larimar.config.decoder_mode == "full":
        group("decoder", larimar.decoder, rates.decoder_learning_rate)
    if larimar.adapters is not None:
        group("decoder", list(larimar.adapters.weights().values()), rates.decoder_learning_rate)
    group("projection", larimar.projection, rates.projection_learning_rate)
    if larimar.embedding is not None:
        group("embedding", larimar.embedding, rates.projection_learning_rate)
    if isinstance(larimar.latent_encoder, nn.Module):
        # Where queries attend, the network's own pooler gives nothing, and would get no gradient.
        pooled = larimar.config.encoder_pooling == "queries"
        named = larimar.latent_encoder.named_parameters()
        used = [value for name, value in named if not (pooled and name.startswith("network.pooler."))]
        group("encoder", used, rates.encoder_learning_rate)
    wanted = (
        (objective.prior, settings.objective.train_prior),
        (objective.log_sigma_w, settings.objective.train_sigma_w and settings.objective.sigma_w > 0),
    )
    group("memory", [parameter for parameter, on in wanted if on], rates.memory_learning_rate)
    if not groups:
        raise ValueError("nothing is trained: every learning rate is 0")
    return groups


def set_learning_rates(optimiser: torch.optim.Optimizer, step: int, optimisation: Optimisation) -> float:
    """Give the groups of `trained_parameters` their learning rates at a step; returns the factor on them."""
    factor = learning_rate_factor(step, optimisation)
    for group in optimiser.param_groups:
        group["lr"] = group["full_lr"] * factor
    return factor


def learning_rate_factor(step: int, optimisation: Optimisation) -> float:
    """Factor on the learning rates at a step: a linear warm-up, then the schedule, down to 0 at the last
    step.
    """
    if step < optimisation.warmup:
        return (step + 1) / (optimisation.warmup + 1)
    left = 1 - (step - optimisation.warmup) / max(1, optimisation.steps - optimisation.warmup)
    return {"cosine": 0.5 - 0.5 * math.cos(math.pi * left), "linear": left, "constant": 1.0}[
        optimisation.schedule
    ]
