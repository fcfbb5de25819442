"""``larimar-editor results``: what the documentation shows, measured and written."""

from __future__ import annotations

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
    from larimar_editor.evaluation.harness.context import Context
    from larimar_editor.evaluation.published.making import Making
    from larimar_editor.evaluation.published.pages import Published
    from larimar_editor.evaluation.published.plan import Plan, Planned
    from larimar_editor.hparams import find_hparams
    from larimar_editor.utils.files import find_config

    if out.name in ("", ".."):
        raise typer.BadParameter(
            f"{out} has no name, after which the page of results is named: give the folder's own",
            param_hint="--out",
        )
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
        methods_device=methods_on,
    )

    def beside(table: Planned, methods_device: str | None) -> EasyEditBaselines:
        where = methods_devices(methods_device or device)
        say = lambda line: typer.echo(f"{table.name}: {line}")
        return EasyEditBaselines(names_in(methods), where, say, not untimed)

    making = Making.of(planned, context, beside, [] if write_only else chosen)
    if not replace_tables and (other := making.made_otherwise()):
        raise typer.BadParameter(
            f"{out} has {', '.join(other)} of another checkpoint, other data or another environment: "
            "--out FOLDER makes them elsewhere, --replace in their place",
            param_hint="--out",
        )
    making.run(typer.echo, again=replace_tables)
    for path in Published(out, planned, context.which_larimar()["checkpoint"]).write(pages or ()):
        typer.echo(f"written: {path}")
