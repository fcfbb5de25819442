"""``larimar-editor convert-original``: a checkpoint of the original implementation as one of this."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from larimar_editor.checkpoints import DETECTOR
from larimar_editor.cli.options import DetectorOption, SetOption, settings_of


def convert_original(
    checkpoint: Annotated[
        Path, typer.Argument(help="Lightning file (.ckpt) of github.com/IBM/larimar's code.")
    ],
    out: Annotated[Path, typer.Option(help="Checkpoint folder to write.")],
    decoder: Annotated[
        Optional[str],
        typer.Option(
            help="GPT-2 or GPT-J that it was trained from, by name or folder; by default as it says."
        ),
    ] = None,
    encoder: Annotated[Optional[str], typer.Option(help="BERT that it was trained from, likewise.")] = None,
    detector: DetectorOption = DETECTOR,
    settings: SetOption = None,
) -> None:
    """Make a checkpoint of one that the original implementation trained. Nothing in the file is run.

    No such checkpoint has been released; this was tested on files of the same structure.
    """
    from larimar_editor.model.checkpoint import external_detector_of
    from larimar_editor.model.original import convert_original as convert

    weights, own = external_detector_of(None if detector == "none" else detector)
    chosen: dict[str, Any] = own | settings_of(settings)
    model = convert(checkpoint, out, decoder, encoder, weights, **chosen)
    config = model.config
    report = {
        "checkpoint": str(out),
        "decoder": model.decoder.config.model_type,
        "latent_size": config.latent_size,
        "memory_rows": config.memory_rows,
    }
    typer.echo(json.dumps(report))
