"""``larimar-editor calibrate``: the scope detector's threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.cli.options import CheckpointOption


def calibrate(
    checkpoint: CheckpointOption = None,
    detector: Annotated[Literal["external", "internal"], typer.Option(help="Scope detector.")] = "external",
    data: Annotated[
        Optional[Path],
        typer.Option(
            help="Edits with rephrasings and locality prompts (EasyEdit's, ROME's or ZsRE format). By "
            "default the project's own."
        ),
    ] = None,
    limit: Annotated[Optional[int], typer.Option(help="Use the first edits only.", min=1)] = None,
    train: Annotated[
        int,
        typer.Option(
            help="Made-up facts to learn the external detector's map from first, 80 or more; 0 learns none.",
            min=0,
        ),
    ] = 0,
    false_accepts: Annotated[
        Optional[float],
        typer.Option(
            help="Share of locality prompts that may be accepted; by default the equal-error point.",
            min=0,
            max=0.5,
        ),
    ] = None,
    out: Annotated[Optional[Path], typer.Option(help="Folder to write the calibrated checkpoint to.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write it to the folder that --checkpoint names.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the made-up facts.")] = 0,
) -> None:
    """Find the scope detector's threshold, with its equal-error rate and F1.

    The internal detector is trained first, on all relations but every third, and measured on the others. The
    external detector's sentence encoder stays as it is; --train learns a linear map after it, from facts made
    by rule. Without --data the threshold then comes from such facts too: a map learned from three quarters of
    the relations is tried on the other quarter, whose locality prompts are the same question about the most
    similar names. Other questions about the fact's own subject are counted besides: the detector tells them
    from rephrasings badly.
    """
    if 0 < train < 80:
        raise typer.BadParameter(f"--train needs at least 80 facts to learn from and to try, got {train}")
    if detector == "internal" and (train or false_accepts is not None):
        raise typer.BadParameter("--train and --false-accepts are of the external detector")
    if write and checkpoint is None:
        raise typer.BadParameter("--write needs --checkpoint, the folder to change; --out writes another one")
    target = Path(checkpoint) if write and checkpoint is not None and out is None else out
    if target is not None and target.resolve() in {folder.resolve() for folder in CHECKPOINTS.values()}:
        raise typer.BadParameter(f"{target} ships with larimar_editor; choose another --out")
    if write and out is None and checkpoint in CHECKPOINTS:
        raise typer.BadParameter(f"{checkpoint} ships with larimar_editor; --out FOLDER writes another one")
    from larimar_editor.data.edits import load_edits
    from larimar_editor.model.checkpoint import stored_dtype
    from larimar_editor.model.loading import load_larimar
    from larimar_editor.scope.calibration import calibrate_external, calibrate_internal

    model, folder = load_larimar(checkpoint, "float32", {})
    if detector == "external":
        given = None if train and data is None else load_edits(data, limit)
        report, weights = calibrate_external(
            model.detectors.external.model, model.detectors.weights, given, train, false_accepts, seed
        )
    else:
        result, weights = calibrate_internal(
            model.queries.latents, model.config.latent_size, load_edits(data, limit)
        )
        report = result.to_dict()
    typer.echo(json.dumps({"detector": detector, "checkpoint": folder, "facts": train} | report))
    if target is not None:
        model.detectors.weights = dict(model.detectors.weights) | weights
        model.config.scope, model.config.scope_threshold = detector, report["threshold"]
        model.save_pretrained(target, dtype=stored_dtype(Path(folder)))
