"""``larimar-editor eval``: the tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import (
    AskedOption,
    CheckpointOption,
    CounterFactOption,
    MethodsDeviceOption,
    PlainTextOption,
    SetOption,
    UntimedOption,
    ZsreOption,
    device_named,
    methods_devices,
    settings_of,
)
from larimar_editor.evaluation.tables import NAMES
from larimar_editor.model.settings import Dtype


def evaluate(
    name: Annotated[str, typer.Argument(help=f"Table or figure: {', '.join(NAMES)}; or all.")],
    hparams: Annotated[
        str, typer.Option(help="Larimar's YAML file, or the name of one that ships.")
    ] = "LARIMAR/smollm2-135m",
    checkpoint: CheckpointOption = None,
    set_: SetOption = None,
    out: Annotated[
        Path, typer.Option(help="Folder; each evaluation has one of its name in it. Scored cases are kept.")
    ] = Path("results/eval"),
    counterfact: CounterFactOption = None,
    zsre: ZsreOption = None,
    text: PlainTextOption = None,
    facts: Annotated[
        Optional[Path],
        typer.Option(
            help="Facts for longcontext, one a line, a tab before the answer. By default those that ship."
        ),
    ] = None,
    asked: AskedOption = None,
    limit: Annotated[Optional[int], typer.Option(help="Use the first cases only.", min=1)] = None,
    baselines: Annotated[
        int,
        typer.Option(
            help="Cases for EasyEdit's own methods, at most: some take a minute each; 0 runs none.", min=0
        ),
    ] = 4,
    minutes: Annotated[
        Optional[float],
        typer.Option(
            help="Of editing, for each of EasyEdit's own methods in lifelong, in place of --baselines: "
            "asked when so many facts are written as Larimar is asked after, and at the end.",
            min=0,
        ),
    ] = None,
    dtype: Annotated[
        Optional[Dtype], typer.Option(help="Decoder dtype; by default the YAML file's: fp16 or float32.")
    ] = None,
    device: Annotated[
        Optional[str],
        typer.Option(
            help="cpu, cuda, cuda:N or N for a CUDA device; by default the YAML file's.",
            callback=device_named,
        ),
    ] = None,
    methods_on: MethodsDeviceOption = None,
    untimed: UntimedOption = False,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
) -> None:
    """A table or figure: records, summary, table in Markdown, LaTeX and CSV, figure. A run that was stopped
    goes on.
    """
    if name not in (*NAMES, "all"):
        raise typer.BadParameter(
            f"no evaluation {name!r}; there are {', '.join(NAMES)} and all", param_hint="NAME"
        )
    from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
    from larimar_editor.evaluation.harness.baselines import NoBaselines
    from larimar_editor.evaluation.harness.context import Context
    from larimar_editor.evaluation.harness.evaluation import DATA, run_in_turn, unread
    from larimar_editor.evaluation.tables import find
    from larimar_editor.hparams import LarimarHyperParams, find_hparams

    file = find_hparams(hparams)
    values = LarimarHyperParams.from_hparams(str(file))
    device = device or str(device_named(str(values.device)))
    beside = EasyEditBaselines(
        devices=methods_devices(methods_on or device), log=typer.echo, timed=not untimed
    )
    context = Context(
        hparams=file,
        counterfact=counterfact,
        zsre=zsre,
        text=text,
        facts=facts,
        out=out,
        limit=limit,
        baseline_cases=baselines,
        dtype=dtype or ("float16" if values.fp16 else "float32"),
        device=device,
        seed=seed,
        settings=settings_of(set_),
        checkpoint=checkpoint,
        baselines=beside if baselines else NoBaselines(),
        asked=tuple(asked or ()),
        minutes=minutes,
        methods_device=methods_on,
    )
    reads = DATA if name == "all" else find(name).reads
    if passed_over := unread(context, reads):
        options = ", ".join(f"--{'data' if each == 'asked' else each}" for each in passed_over)
        typer.echo(f"{name} does not read {options}; it reads {', '.join(reads) or 'what ships'}", err=True)
    if minutes is not None and name not in ("lifelong", "all"):
        typer.echo(f"{name} does not read --minutes; lifelong does", err=True)
    chosen = [find(each) for each in (NAMES if name == "all" else [name])]
    if empty := run_in_turn(chosen, context, out, typer.echo):
        raise ValueError(f"no row of {', '.join(empty)} was measured; the lines above say why")
