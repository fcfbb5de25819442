"""``larimar-editor search-settings``: fair settings for a method of EasyEdit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import (
    HparamsOption,
    MethodDeviceOption,
    ModelOption,
    methods_devices,
    settings_of,
)


def search_settings(
    method: Annotated[str, typer.Argument(help="Of EasyEdit's, such as ROME.")],
    edits: Annotated[int, typer.Option(help="How many edits to tune on.", min=2)] = 6,
    data: Annotated[
        Optional[Path],
        typer.Option(
            help="Edits to tune on, in any format that is read; not those of an evaluation. By default the "
            "last of the project's own 60, of which `compare` without --data takes the first."
        ),
    ] = None,
    grid: Annotated[
        Optional[list[str]],
        typer.Option(
            "--try",
            help='A setting and its values, as in --try "v_lr=[0.1, 0.5]"; again for another. By default the '
            "two or three that matter of the method.",
        ),
    ] = None,
    hparams: HparamsOption = None,
    model: ModelOption = "smollm2-135m",
    device: MethodDeviceOption = None,
    out: Annotated[
        Path, typer.Option(help="Folder for table, file and records. What is finished is not run again.")
    ] = Path("results/settings"),
) -> None:
    """Search the settings of one of EasyEdit's methods, on edits that nothing is measured with.

    One setting after another, the best value kept.

    It writes OUT/METHOD/tried.csv and .md, and OUT/METHOD/MODEL.yaml: the file with the best values, by the
    mean of EasyEdit's rewrite, rephrase and locality accuracy, and with all that was tried as a comment. Put
    it in place of the file that was searched from.
    """
    from larimar_editor.data.edits import load_edits
    from larimar_editor.easyedit.baselines.jobs import chosen_methods, hparams_file, methods_named
    from larimar_editor.easyedit.baselines.search import grid_of, search_and_write
    from larimar_editor.easyedit.finding import find_easyedit
    from larimar_editor.hparams import find_hparams

    source = find_easyedit()
    typer.echo(f"EasyEdit: {source.version} ({source.found_by}), {source.package}")
    (method,) = methods_named([method])
    wanted = grid_of(method, settings_of(grid, "--try"))
    folder = find_hparams(Path("LARIMAR") / "smollm2-135m").parents[1] if hparams is None else hparams
    if not chosen_methods([method], folder, model, typer.echo):
        raise typer.BadParameter(f"{method} cannot be run; see above")
    file, tuned_on = hparams_file(folder, method, model), load_edits(data)[-edits:]
    whose = "the project's own edits" if data is None else data.name
    about = (
        f"`larimar-editor search-settings {method} --edits {edits}`: rewrite / rephrase / "
        f"locality accuracy, mean over the last {len(tuned_on)} of {whose}."
    )
    on = next(iter(methods_devices(device)), None)
    best = search_and_write(method, file, tuned_on, wanted, out / method, on, about, typer.echo)
    typer.echo(f"written: {best.parent}/tried.csv, tried.md, {best}")
