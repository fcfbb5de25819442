"""What a run starts from: the closed form, noise, or an encoder regressed onto the closed form's latents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional as F
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.checkpoints import DETECTOR
from larimar_editor.model.checkpoint import checkpoint_folder, external_detector_of
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.encoders import TransformerEncoder
from larimar_editor.model.key_values import StateShape, signature
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.training.settings import TrainingSettings


def start(
    settings: TrainingSettings, decoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> LarimarForCausalLM:
    """The model at step 0, before any regression.

    Raises:
        ValueError: a start that needs a checkpoint without one, or another kind of checkpoint; a regression
            without a transformer encoder; a slot's code of another size than the closed form's; or as
            `check_projection`.
        FileNotFoundError: no such checkpoint.
    """
    if settings.start != "noise" and not settings.checkpoint:
        raise ValueError(
            f"start: {settings.start} needs `checkpoint`, a folder, such as `larimar-editor fit` writes"
        )
    if settings.start == "regression" and settings.optimisation.keep:
        raise ValueError("optimisation.keep takes a mean with the start, which start: regression trains")
    if settings.start == "trained":
        there = LarimarConfig.from_pretrained(checkpoint_folder(str(settings.checkpoint)))
        # Before its weights are read, which such settings may not fit; for other starts once they are made.
        check_projection(settings, there.to_dict() | dict(settings.model))
        changed: dict[str, Any] = {"base_model_name_or_path": settings.decoder} | dict(settings.model)
        return LarimarForCausalLM.from_pretrained(
            str(settings.checkpoint), decoder=decoder, tokenizer=tokenizer, **changed
        )
    with torch.random.fork_rng():  # adapters and new encoder layers are drawn
        torch.manual_seed(settings.seed)
        return (_from_noise if settings.start == "noise" else _from_closed_form)(settings, decoder, tokenizer)


def check_projection(settings: TrainingSettings, config: Mapping[str, Any]) -> None:
    """W_M is not trained where it is the encoder as well.

    Args:
        config: a model's, by name.

    Raises:
        ValueError: it is.
    """
    tied = config["tied_projection"] and config["encoder_type"] == "decoder-states"
    if tied and settings.optimisation.projection_learning_rate:
        raise ValueError(
            "tied_projection: true would change the encoder as W_M is trained: start: closed-form parts the "
            "two of a closed form; elsewhere set tied_projection: false under `model`, or "
            "optimisation.projection_learning_rate to 0"
        )


def decoder_mode(settings: TrainingSettings) -> str:
    """What a run does with the decoder: as ``model`` says, or else the checkpoint that is trained on.

    Raises:
        FileNotFoundError: no such checkpoint.
    """
    given = settings.model.get("decoder_mode")
    if given or settings.start != "trained" or not settings.checkpoint:
        return given or "frozen"
    return LarimarConfig.from_pretrained(checkpoint_folder(settings.checkpoint)).decoder_mode


def _from_closed_form(
    settings: TrainingSettings, decoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> LarimarForCausalLM:
    there = LarimarConfig.from_pretrained(checkpoint_folder(str(settings.checkpoint)))
    kind = (there.decoder_mode, there.encoder_type, there.tied_projection)
    if kind != ("frozen", "decoder-states", True):
        raise ValueError(
            f"{settings.checkpoint} is no closed form, and start: {settings.start} would leave out what was "
            "trained: start: trained goes on from it"
        )
    closed = LarimarForCausalLM.from_pretrained(
        str(settings.checkpoint), decoder=decoder, tokenizer=tokenizer
    )
    if settings.start == "regression" and settings.model.get("encoder_type") != "transformer":
        raise ValueError(
            "start: regression trains a transformer encoder; set encoder_type: transformer under `model`"
        )
    own = {
        "base_model_name_or_path": settings.decoder,
        "tied_projection": settings.start == "regression",
    }
    values = closed.config.to_dict() | own | dict(settings.model)
    values.pop("model_type")
    config = LarimarConfig(**values)
    if config.latent_size != config.memory_slots * closed.projection.code_size:
        raise ValueError(
            f"model: latent_size {config.latent_size} is not memory_slots {config.memory_slots} times the "
            f"{closed.projection.code_size} numbers of a slot's code in {settings.checkpoint}"
        )
    model = LarimarForCausalLM(config, decoder, tokenizer)
    model.projection.load_state_dict(closed.projection.state_dict())
    model.analysis.load_state_dict(closed.analysis.state_dict())
    model.detectors.weights = closed.detectors.external_weights
    return model


def _from_noise(
    settings: TrainingSettings, decoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> LarimarForCausalLM:
    defaults: dict[str, Any] = {
        "base_model_name_or_path": settings.decoder,
        "encoder_type": "transformer",
        "latent_size": 768,
        "memory_slots": 1,
    }
    weights, of_detector = external_detector_of(DETECTOR, settings.model)
    values = defaults | of_detector | dict(settings.model)
    config = LarimarConfig(decoder_signature=signature(decoder, StateShape.of(decoder)), **values)
    model = LarimarForCausalLM(config, decoder, tokenizer)
    model.detectors.weights = weights
    # The attention sink's own states are a neutral place to start from.
    sink = model.states.bos().flatten()
    model.projection.mean.data.copy_(sink)
    model.projection.basis.data.normal_(std=config.latent_size**-0.5)
    model.projection.scale.data.fill_(float(sink.std()))
    model.analysis.load_state_dict(model.projection.state_dict())
    return model


def regress(
    encoder: TransformerEncoder,
    batches: Callable[[int], list[str]],
    target: Callable[[list[str]], torch.Tensor],
    steps: int,
    learning_rate: float = 1e-4,
    progress: bool = True,
) -> list[float]:
    """Train ``encoder`` to give ``target``'s latents; no decoder pass beyond the target's own.

    Args:
        encoder: trained in place, in evaluation mode.
        batches: texts of a step.
        target: texts to latents ``(N, C)``.
        steps: optimiser steps.
        learning_rate: AdamW's; it falls to 0 linearly.

    Returns:
        relative squared error of each step: squared error over the target's variance, 1 for the best
        constant.
    """
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    errors = []
    encoder.eval()  # no layer's dropout, as in the main loop
    for step in tqdm(range(steps), desc="regression", unit="step", disable=not progress):
        texts = batches(step)
        wanted = target(texts).detach()
        loss = F.mse_loss(encoder.with_gradients(texts), wanted)
        loss.backward()
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
        errors.append(float(loss.detach() / wanted.var(dim=0).mean().clamp_min(1e-12)))
    return errors
