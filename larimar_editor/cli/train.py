"""``larimar-editor train``: a training run from a YAML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.cli.options import DtypeOption, SetOption, settings_of


def train(
    settings: Annotated[
        Path, typer.Argument(help="YAML file of the run, or the name of one that ships: configs/training/...")
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the run. A run that was interrupted goes on from its last save.")
    ] = Path("runs/larimar"),
    set_: SetOption = None,
    until: Annotated[
        Optional[int], typer.Option(help="Stop after this many steps in all, saved.", min=1)
    ] = None,
    device: Annotated[
        Literal["auto", "cpu"],
        typer.Option(help="auto: what accelerate finds; CUDA_VISIBLE_DEVICES chooses among several GPUs."),
    ] = "auto",
    dtype: DtypeOption = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build everything, take two steps, save nothing.")
    ] = False,
) -> None:
    """Train a Larimar; start it with `accelerate launch -m larimar_editor.cli train` for several
    processes.
    """
    from larimar_editor.training import loop
    from larimar_editor.training.opening import open_run
    from larimar_editor.training.settings import TrainingSettings

    run = open_run(TrainingSettings.from_yaml(settings, settings_of(set_)), out, device, dtype)
    report = loop.dry_run(run) if dry_run else loop.train(run, until)
    if run.accelerator.is_main_process:
        typer.echo(json.dumps({"out": str(out)} | report))
