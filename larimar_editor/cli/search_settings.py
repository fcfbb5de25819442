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
    from larimar_editor.easyedit.baselines.search import (
        GRIDS,
        number,
        search,
        table,
        trial_of,
        values_in,
        with_values,
    )
    from larimar_editor.easyedit.finding import find_easyedit
    from larimar_editor.hparams import find_hparams

    source = find_easyedit()
    typer.echo(f"EasyEdit: {source.version} ({source.found_by}), {source.package}")
    (method,) = methods_named([method])
    given = settings_of(grid, "--try")
    if alone := [name for name, values in given.items() if not isinstance(values, list) or not values]:
        raise typer.BadParameter(f"--try {alone[0]} needs a list of values, such as {alone[0]}=[0.1, 0.5]")
    wanted = {name: [number(value) for value in values] for name, values in given.items()}
    if method == "IKE":
        raise typer.BadParameter("IKE edits nothing: it has no settings that single edits could be scored by")
    wanted = wanted or dict(GRIDS.get(method, {}))
    if not wanted:
        raise typer.BadParameter(f"what to search of {method} is not known: name it with --try")
    folder = find_hparams(Path("LARIMAR") / "smollm2-135m").parents[1] if hparams is None else hparams
    if not chosen_methods([method], folder, model, typer.echo):
        raise typer.BadParameter(f"{method} cannot be run; see above")
    file, tuned_on = hparams_file(folder, method, model), load_edits(data)[-edits:]
    here = out / method
    trial = trial_of(method, file, tuned_on, here, next(iter(methods_devices(device)), None), typer.echo)
    tried = []
    for found in search(trial, values_in(file, list(wanted)), wanted):
        tried.append(found)
        typer.echo(f"{found.score:.3f}  {dict(found.values)}")
        frame = table(tried)
        frame.to_csv(here / "tried.csv", index=False)
        (here / "tried.md").write_text(
            frame.to_markdown(index=False, floatfmt=".4g") + "\n", encoding="utf-8"
        )
    if max(each.score for each in tried) < 0:
        raise ValueError(f"{method} failed with all values; the logs are in {here}")
    name = "the project's own edits" if data is None else data.name
    about = (
        f"`larimar-editor search-settings {method} --edits {edits}`: rewrite / rephrase / "
        f"locality accuracy, mean over the last {len(tuned_on)} of {name}."
    )
    best = here / f"{model}.yaml"
    best.write_text(with_values(file.read_text(encoding="utf-8"), tried, about), encoding="utf-8")
    typer.echo(f"written: {here}/tried.csv, tried.md, {best}")
