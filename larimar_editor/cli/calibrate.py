"""``larimar-editor calibrate``: the scope detector's threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.cli.options import CheckpointOption, DeviceOption


def calibrate(
    checkpoint: CheckpointOption = None,
    detector: Annotated[Literal["external", "internal"], typer.Option(help="Scope detector.")] = "external",
    data: Annotated[
        Optional[Path],
        typer.Option(
            help="Edits with rephrasings and locality prompts (EasyEdit's, ROME's, ZsRE's or KnowEdit's "
            "format), or SimpleQuestions' text. By default made-up facts, of kinds that nothing else uses, "
            "and 120 typed by hand."
        ),
    ] = None,
    limit: Annotated[
        Optional[int], typer.Option(help="Cases at most, of each kind; 600 made-up ones.", min=1)
    ] = None,
    questions: Annotated[
        float,
        typer.Option(
            help="Share of other questions about a written subject that may be accepted.", min=0, max=0.5
        ),
    ] = 0.02,
    subjects: Annotated[
        float,
        typer.Option(
            help="Share of the same questions about other subjects that may be accepted.", min=0, max=0.5
        ),
    ] = 0.01,
    train: Annotated[
        int, typer.Option(help="Made-up facts that the internal detector is trained on first.", min=1)
    ] = 1500,
    device: DeviceOption = "cpu",
    out: Annotated[Optional[Path], typer.Option(help="Folder to write the calibrated checkpoint to.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write it to the folder that --checkpoint names.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the made-up facts.")] = 0,
) -> None:
    """Find the scope detector's thresholds: the lowest that keep the stated shares of false accepts. They are
    printed, and written where --out or --write says so.

    It prints the shares that are accepted of every sort of prompt: rewordings and aliases, which should be,
    and other questions, other subjects, names that are alike, negations and two hops, which should not; of
    all cases together and, at the same rates, of the made-up and of the typed ones alone. The
    external detector's first stage gets a threshold of its own besides, scope_cosine. The internal detector
    is trained first and gets the equal-error point: on made-up facts or, with --data, on two thirds of its
    wordings.
    """
    if write and checkpoint is None:
        raise typer.BadParameter("--write needs --checkpoint, the folder to change; --out writes another one")
    target = Path(checkpoint) if write and checkpoint is not None and out is None else out
    if target is not None and target.resolve() in {folder.resolve() for folder in CHECKPOINTS.values()}:
        raise typer.BadParameter(f"{target} ships with larimar_editor; choose another --out")
    if write and out is None and checkpoint not in CHECKPOINTS and not Path(str(checkpoint)).is_dir():
        raise typer.BadParameter(
            f"--write changes a folder, and {checkpoint} is none; --out FOLDER writes one"
        )
    if write and out is None and checkpoint in CHECKPOINTS:
        raise typer.BadParameter(f"{checkpoint} ships with larimar_editor; --out FOLDER writes another one")
    from larimar_editor.data.question_sources import questions as asked
    from larimar_editor.data.scope_cases import TYPED_TO_CALIBRATE, scope_cases
    from larimar_editor.model.detector import StoredDetector
    from larimar_editor.model.loading import load_larimar
    from larimar_editor.scope import calibration

    stored = StoredDetector(checkpoint, device)
    if data is None:
        made_up = calibration.made_up_cases(asked(), limit or 600, seed)
        sets = {"made up": made_up, "typed": scope_cases(TYPED_TO_CALIBRATE, limit)}
    else:
        sets = {"given": scope_cases(data, limit)}
    report: dict = {"detector": detector, "checkpoint": str(stored.folder)}
    if detector == "external":
        report |= stored.calibrate(sets, questions, subjects)
    else:
        model, _ = load_larimar(stored.folder, "float32", {}, device)
        encode, size = model.queries.latents, model.config.latent_size
        if data is None:
            made_up = calibration.training_cases(asked(), train, seed)
            internal, weights = calibration.train_internal(encode, size, made_up)
            result, _ = calibration.calibrate_sets(calibration.Judge(internal), sets, None, None)
        else:
            result, weights = calibration.calibrate_internal(encode, size, sets["given"])
        stored.config.scope, stored.config.scope_threshold = "internal", result.threshold
        report["scope_threshold"] = result.to_dict()
        stored.detectors.weights = dict(stored.detectors.weights) | weights
    typer.echo(json.dumps(report))
    if target is not None:
        stored.save(target)
