"""``larimar-editor fit``: a checkpoint for a decoder, in closed form."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.cli.options import (
    DECODER,
    DecoderOption,
    DetectorOption,
    DeviceOption,
    DtypeOption,
    TextOption,
)
from larimar_editor.model.settings import FIT_KEY_GAIN, FIT_VALUE_GAIN


def fit(
    text: TextOption = None,
    model: DecoderOption = DECODER,
    out: Annotated[Path, typer.Option(help="Checkpoint folder to write; its weights are float16.")] = Path(
        "checkpoints/larimar"
    ),
    sentences: Annotated[int, typer.Option(help="Sentences to use.", min=1)] = 6000,
    slots: Annotated[
        int, typer.Option(help="P: memory slots, the last tokens of a fact that are kept.", min=1)
    ] = 4,
    code_size: Annotated[int, typer.Option(help="C / P: numbers per slot.", min=1)] = 768,
    key_gain: Annotated[
        float, typer.Option(help="Factor on a memory key's deviation from the mean key.", min=0)
    ] = FIT_KEY_GAIN,
    value_gain: Annotated[float, typer.Option(help="The same for values.", min=0)] = FIT_VALUE_GAIN,
    batch_size: Annotated[int, typer.Option(help="Sentences per decoder pass.", min=1)] = 64,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    detector: DetectorOption = next(iter(CHECKPOINTS)),
    scope_threshold: Annotated[
        Optional[float], typer.Option(help="Threshold of the external scope detector; see `calibrate`.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Choice of sentences and the randomised PCA.")] = 0,
) -> None:
    """Make a Larimar checkpoint for a decoder in closed form: no gradient, about a minute for a small
    decoder.
    """
    import torch

    from larimar_editor.data.texts import SENTENCES, read_sentences
    from larimar_editor.model.checkpoint import checkpoint_folder, external_detector_of
    from larimar_editor.model.closed_form import fit as closed_form
    from larimar_editor.model.loading import load_decoder

    start = time.perf_counter()
    decoder, tokenizer = load_decoder(model, dtype, device)
    chosen = read_sentences(text or SENTENCES, limit=sentences, seed=seed)
    weights: dict[str, torch.Tensor] = {}
    settings: dict[str, Any] = {}
    if detector != "none":
        weights, settings = external_detector_of(checkpoint_folder(detector))
    if scope_threshold is not None:
        settings["scope_threshold"] = scope_threshold
    larimar = closed_form(
        decoder,
        tokenizer,
        chosen,
        name=model,
        code_size=code_size,
        memory_slots=slots,
        key_gain=key_gain,
        value_gain=value_gain,
        batch_size=batch_size,
        seed=seed,
        **settings,
    )
    larimar.detectors.weights = weights
    larimar.save_pretrained(out, dtype=torch.float16)
    report = {
        "checkpoint": str(out),
        "sentences": len(chosen),
        "latent_size": larimar.config.latent_size,
        "explained_variance": larimar.config.explained_variance,
        "seconds": round(time.perf_counter() - start, 1),
    }
    typer.echo(json.dumps(report))
