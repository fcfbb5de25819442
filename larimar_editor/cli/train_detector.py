"""``larimar-editor train-detector``: the scope detector's stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.cli.options import CheckpointOption, DeviceOption


def train_detector(
    data: Annotated[Path, typer.Argument(help="JSON lines made by `larimar-editor data questions`.")],
    out: Annotated[
        Path, typer.Option(help="Folder of the run. A run that was interrupted goes on from its last save.")
    ] = Path("runs/detector"),
    stage: Annotated[
        Optional[Literal["candidates", "look", "reader"]],
        typer.Option(
            help="The stage to train; by default the first two, one after the other. The reader learns from "
            "what the checkpoint's second stage is unsure of."
        ),
    ] = None,
    encoder: Annotated[
        Optional[str],
        typer.Option(help="Sentence encoder, by name or folder; by default the checkpoint's for the stage."),
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimiser steps of each stage.", min=1)] = 2400,
    batch_size: Annotated[int, typer.Option(help="Facts of a step.", min=2)] = 32,
    learning_rate: Annotated[float, typer.Option(help="AdamW's, at its highest.", min=0)] = 1.5e-3,
    until: Annotated[
        Optional[int], typer.Option(help="Stop each stage after this many steps in all, saved.", min=1)
    ] = None,
    rank: Annotated[
        Optional[int],
        typer.Option(help="Of the changes; by default 20 (candidates), 48 (look) and 16 (reader).", min=1),
    ] = None,
    go_on: Annotated[
        bool,
        typer.Option(
            "--go-on",
            help="Begin with the checkpoint's own detector, not with the bare encoder, also where --rank is "
            "higher than its; a stage that is not trained stays as it is there.",
        ),
    ] = False,
    keep: Annotated[
        float,
        typer.Option(
            help="Share of the checkpoint's own detector in what goes --into: a mean of weights often errs "
            "less on what neither was shown.",
            min=0,
            max=1,
        ),
    ] = 0.0,
    show_answers: Annotated[
        bool,
        typer.Option(
            help="Whether the second stage that goes --into is shown the facts' answers in use. It learns "
            "with and without them, and a mean with one that never saw any (--keep) may do better without."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the order and of what is drawn.")] = 0,
    device: DeviceOption = "cpu",
    workers: Annotated[
        int,
        typer.Option(help="Processes that draw examples, for a GPU that would wait for them.", min=0),
    ] = 0,
    checkpoint: CheckpointOption = None,
    into: Annotated[
        Optional[Path],
        typer.Option(
            help="Folder for the checkpoint with the new detector; `larimar-editor calibrate` comes next."
        ),
    ] = None,
) -> None:
    """Train the scope detector: a first stage that finds candidates, a second that looks at them closely, and
    a third, the reader, by which a larger encoder decides where the second is unsure.

    All are changes of low rank to a sentence encoder, which itself stays as it is.
    """
    from larimar_editor.training.detector.loop import Schedule, read_facts
    from larimar_editor.training.detector.run import DetectorRun

    if keep and not go_on:
        raise typer.BadParameter("--keep needs --go-on: it is of the detector that the run began with")
    if into is None and (keep or not show_answers):
        typer.echo("--keep and --no-show-answers are not read: they are of what goes --into", err=True)
    schedule = Schedule(steps, batch_size, learning_rate, seed=seed)
    run = DetectorRun.of(out, checkpoint, stage, encoder, device, go_on)
    if into is not None:
        run.refuse_in_part(schedule, until)
    run.train(read_facts(data), schedule, rank, until, workers)
    typer.echo(json.dumps(run.report()))
    if into is not None:
        run.write(into, keep, show_answers)
