"""``larimar-editor results``: what the documentation shows, measured and written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import (
    AskedOption,
    CounterFactOption,
    DeviceOption,
    MethodsDeviceOption,
    MethodsOption,
    PlainTextOption,
    UntimedOption,
    ZsreOption,
    methods_devices,
    names_in,
)


def results(
    counterfact: CounterFactOption = None,
    zsre: ZsreOption = None,
    text: PlainTextOption = None,
    asked: AskedOption = None,
    only: Annotated[
        Optional[str], typer.Option(help="Tables to make, as in compare,scope; by default all of the plan.")
    ] = None,
    plan: Annotated[Path, typer.Option(help="YAML file of what is measured.")] = Path("configs/results.yaml"),
    out: Annotated[
        Path, typer.Option(help="Folder of records and tables; what is in it already is not made again.")
    ] = Path("docs/results"),
    pages: Annotated[
        Optional[list[Path]],
        typer.Option("--page", help="Page whose tables are cut from the results; may be given again."),
    ] = None,
    write_only: Annotated[
        bool, typer.Option("--write-only", help="Measure nothing: write the pages from what is there.")
    ] = False,
    replace_tables: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Remove tables of another checkpoint, data or environment, and make them again.",
        ),
    ] = False,
    methods: MethodsOption = None,
    device: DeviceOption = "cpu",
    methods_on: MethodsDeviceOption = None,
    untimed: UntimedOption = False,
) -> None:
    """Make the tables of the documentation, and write its pages from them. A run that was stopped goes on.
    Where a table was made with another checkpoint, other data or in another environment nothing is measured,
    but with --replace.

    The page of results is OUT with .md behind it; it opens with what stands in `introduction.md` in OUT, and
    ends with `closing.md`.
    """
    from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
    from larimar_editor.evaluation.harness.baselines import NoBaselines
    from larimar_editor.evaluation.harness.context import Context
    from larimar_editor.evaluation.harness.evaluation import made_otherwise, start_again
    from larimar_editor.evaluation.published.pages import Published
    from larimar_editor.evaluation.published.plan import Plan
    from larimar_editor.evaluation.tables import find
    from larimar_editor.hparams import find_hparams
    from larimar_editor.utils.files import find_config

    planned = Plan.read(find_config(plan))
    chosen = names_in(only)
    if chosen and (unknown := set(chosen) - {each.name for each in planned.tables}):
        raise typer.BadParameter(f"not planned: {', '.join(sorted(unknown))}", param_hint="--only")
    context = Context(
        find_hparams("LARIMAR/smollm2-135m"),
        counterfact,
        zsre,
        text,
        out=out,
        device=device,
        asked=tuple(asked or ()),
    )
    wanted = [] if write_only else [each for each in planned.tables if chosen is None or each.name in chosen]
    runs = {
        each.name: replace(
            context,
            dtype=each.dtype or planned.dtype,
            limit=each.limit,
            baseline_cases=each.baselines,
            minutes=each.minutes,
            baselines=EasyEditBaselines(
                names_in(methods),
                methods_devices(methods_on or each.methods_device or device),
                typer.echo,
                not untimed,
            )
            if each.baselines
            else NoBaselines(),
        )
        for each in wanted
    }
    if not replace_tables and (
        other := [name for name, run in runs.items() if made_otherwise(out / name, run, find(name).reads)]
    ):
        raise typer.BadParameter(
            f"{out} has {', '.join(other)} of another checkpoint, other data or another environment: "
            "--out FOLDER makes them elsewhere, --replace in their place",
            param_hint="--out",
        )
    for name, run in runs.items():
        if replace_tables and start_again(out / name, run, find(name).reads):
            typer.echo(f"{name}: what was there was made otherwise, and is made again")
        find(name).run(run, out / name)
    published = Published(out, planned, context.which_larimar()["checkpoint"])
    page = out.with_suffix(".md")
    around = (_text(out / "introduction.md", "# Results"), _text(out / "closing.md"))
    page.write_text(published.page(*around), encoding="utf-8")
    typer.echo(f"written: {page}")
    for path in pages or ():
        path.write_text(published.fill(path.read_text(encoding="utf-8")), encoding="utf-8")
        typer.echo(f"written: {path}")


def _text(path: Path, default: str = "") -> str:
    return path.read_text(encoding="utf-8") if path.exists() else default
