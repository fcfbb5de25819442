"""``larimar-editor bench``: how long things take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.bench import PARTS
from larimar_editor.cli.options import CheckpointOption, DeviceOption, DtypeOption, names_in


def bench(
    checkpoint: CheckpointOption = None,
    out: Annotated[Path, typer.Option(help="Folder for bench.json, table.md and figure.png.")] = Path(
        "results/bench"
    ),
    parts: Annotated[
        Optional[str], typer.Option(help=f"Comma-separated: {', '.join(PARTS)}. By default all but training.")
    ] = None,
    training: Annotated[
        Optional[Path],
        typer.Option(help="YAML file of a training run, whose steps the part `training` times."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="As far as blocks of 10,000, K = 8,192 and a million prompts.")
    ] = False,
    dtype: DtypeOption = "float32",
    device: DeviceOption = "cpu",
) -> None:
    """How long editing and reading take and how that grows, beside the encoder and the bare decoder of the
    same run.
    """
    chosen = tuple(names_in(parts) or PARTS[:-1])
    if unknown := [part for part in chosen if part not in PARTS]:
        raise typer.BadParameter(
            f"no part {unknown[0]!r}; there are {', '.join(PARTS)}", param_hint="--parts"
        )
    if "training" in chosen and training is None:
        raise typer.BadParameter(
            "the part training needs a YAML file, such as configs/training/smollm2-135m.yaml",
            param_hint="--training",
        )
    if training is not None and "training" not in chosen:
        typer.echo("--training is not read: the part training is not among --parts", err=True)
    from larimar_editor.bench import run

    report = run.run(
        run.Subject(checkpoint, dtype, device, training, out),
        chosen,
        run.FULL if full else run.USUAL,
        typer.echo,
    )
    typer.echo(run.write(report, out))
