"""``larimar-editor compare``: Larimar beside EasyEdit's own methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import (
    HparamsOption,
    MethodDeviceOption,
    MethodsOption,
    ModelOption,
    UntimedOption,
    methods_devices,
    names_in,
)


def compare(
    edits: Annotated[int, typer.Option(help="How many edits.", min=1)] = 10,
    data: Annotated[
        Optional[Path],
        typer.Option(
            help="CounterFact in EasyEdit's or ROME's format, or ZsRE. By default the project's own edits."
        ),
    ] = None,
    methods: MethodsOption = None,
    hparams: HparamsOption = None,
    model: ModelOption = "smollm2-135m",
    device: MethodDeviceOption = None,
    untimed: UntimedOption = False,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for table, plot, records and logs. Finished cases in it are not run again."
        ),
    ] = Path("results/compare"),
) -> None:
    """Larimar, ROME, FT and what else EasyEdit has, on the same model and edits, through EasyEdit's
    BaseEditor.

    The table `compare` of `eval`, with a choice of methods.
    """
    from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
    from larimar_editor.easyedit.finding import find_easyedit
    from larimar_editor.evaluation.harness.context import Context
    from larimar_editor.evaluation.tables import find
    from larimar_editor.hparams import find_hparams

    if hparams is not None and hparams.is_file():
        raise typer.BadParameter(
            f"{hparams} is a file; wanted is the folder that has LARIMAR/{model}.yaml, ROME/{model}.yaml",
            param_hint="--hparams",
        )
    source = find_easyedit()
    typer.echo(f"EasyEdit: {source.version} ({source.found_by}), {source.package}")
    file = find_hparams(Path("LARIMAR") / model) if hparams is None else hparams / "LARIMAR" / f"{model}.yaml"
    context = Context(
        file,
        counterfact=data,
        out=out,
        limit=edits,
        baseline_cases=edits,
        baselines=EasyEditBaselines(names_in(methods), methods_devices(device), typer.echo, not untimed),
        methods_device=device,
    )
    summary = find("compare").run(context, out)
    if not summary["rows"]:
        raise ValueError("no method could be run; the lines above say why")
    typer.echo((out / "table.md").read_text(encoding="utf-8"))
    typer.echo(f"written: {out}/table.md, .tex, .csv, figure.png, summary.json, records.jsonl")
