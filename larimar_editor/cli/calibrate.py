"""``larimar-editor calibrate``: the scope detector's threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.cli.options import CheckpointOption, DeviceOption
from larimar_editor.data.calibrating import (
    MADE_UP_CASES,
    QUESTIONS_ACCEPTED,
    SUBJECTS_ACCEPTED,
    TRAINING_CASES,
)


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
        Optional[int],
        typer.Option(help=f"Cases at most, of each kind; {MADE_UP_CASES} made-up ones.", min=1),
    ] = None,
    questions: Annotated[
        Optional[float],
        typer.Option(
            help="Share of other questions about a written subject that may be accepted; "
            f"{QUESTIONS_ACCEPTED} by default.",
            min=0,
            max=0.5,
        ),
    ] = None,
    subjects: Annotated[
        Optional[float],
        typer.Option(
            help="Share of the same questions about other subjects that may be accepted; "
            f"{SUBJECTS_ACCEPTED} by default.",
            min=0,
            max=0.5,
        ),
    ] = None,
    train: Annotated[
        Optional[int],
        typer.Option(
            help="Made-up facts that the internal detector is trained on first; "
            f"{TRAINING_CASES:,} by default.",
            min=1,
        ),
    ] = None,
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
    target = _target(checkpoint, out, write)
    unread: dict[str, object] = {"--train": train} if detector == "external" or data is not None else {}
    if detector == "internal":
        unread |= {"--questions": questions, "--subjects": subjects}
    if given := [name for name, value in unread.items() if value is not None]:
        beside = " and --data" if data is not None else ""
        typer.echo(f"{', '.join(given)}: not read with --detector {detector}{beside}", err=True)
    from larimar_editor.data.question_sources import questions as all_questions
    from larimar_editor.model.detector import StoredDetector
    from larimar_editor.model.loading import load_larimar
    from larimar_editor.scope.calibration import sets_of_cases, training_cases

    stored, sets = StoredDetector(checkpoint, device), sets_of_cases(data, limit, seed)
    if detector == "external":
        rates = {"questions": questions, "subjects": subjects}
        found = stored.calibrate(sets, **{name: rate for name, rate in rates.items() if rate is not None})
    else:
        training = training_cases(all_questions(), train or TRAINING_CASES, seed) if data is None else None
        model, _ = load_larimar(stored.folder, "float32", {}, device)
        found = stored.make_internal(model.queries.latents, sets, training)
    typer.echo(json.dumps({"detector": detector, "checkpoint": str(stored.folder)} | found))
    if target is not None:
        stored.save(target)


def _target(checkpoint: str | None, out: Path | None, write: bool) -> Path | None:
    """Where the calibrated checkpoint goes; None: nowhere."""
    if write and out is not None:
        raise typer.BadParameter("--write changes the folder of --checkpoint, --out writes another: give one")
    if write and checkpoint is None:
        raise typer.BadParameter("--write needs --checkpoint, the folder to change; --out writes another one")
    target = CHECKPOINTS.get(str(checkpoint), Path(str(checkpoint))) if write else out
    if target is not None and target.resolve() in {folder.resolve() for folder in CHECKPOINTS.values()}:
        raise typer.BadParameter(
            f"{checkpoint if write else out} ships with larimar_editor; --out FOLDER writes another one"
        )
    if write and target is not None and not target.is_dir():
        raise typer.BadParameter(
            f"--write changes a folder, and {checkpoint} is none; --out FOLDER writes one"
        )
    return target
