"""``larimar-editor facts``: the facts in a state's file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from tqdm.auto import tqdm

from larimar_editor.cli.options import CheckpointOption, DeviceOption, DtypeOption, SetOption, settings_of
from larimar_editor.utils.files import written_whole

if TYPE_CHECKING:
    from larimar_editor.model.larimar import LarimarForCausalLM
    from larimar_editor.state.fact import Fact
    from larimar_editor.state.file import StateFile

app = typer.Typer(
    help="The facts in a state's file: a memory of facts that outlives the process.", no_args_is_help=True
)

FileArgument = Annotated[Path, typer.Argument(help="The state's file.")]
_AT_ONCE = 1000  # facts that are read at once


@app.command(name="list")
def list_facts(file: FileArgument) -> None:
    """Print what is written, oldest first, as JSON lines."""
    with _opened(file, writes=False) as state:
        _print(state, state.ids())


@app.command()
def search(
    file: FileArgument,
    words: Annotated[str, typer.Argument(help="What stands in the prompt, the target or the subject.")],
    limit: Annotated[int, typer.Option(help="Facts at most.", min=1, max=2**63 - 1)] = 20,
) -> None:
    """Print facts in which some words stand, in any case, as JSON lines."""
    with _opened(file, writes=False) as state:
        _print(state, state.search(words, limit))


@app.command()
def write(
    file: FileArgument,
    prompt: Annotated[str, typer.Argument(help="What is to be continued, such as 'The capital of Peru is'.")],
    target_new: Annotated[str, typer.Argument(help="By what.")],
    subject: Annotated[Optional[str], typer.Option(help="What the prompt is about.")] = None,
    checkpoint: CheckpointOption = None,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    settings: SetOption = None,
) -> None:
    """Write one fact."""
    from larimar_editor.state.fact import Fact

    facts = [Fact.from_request({"prompt": prompt, "target_new": target_new, "subject": subject})]
    with _model(file, facts, checkpoint, dtype, device, settings) as model:
        typer.echo(_line(*model.write(facts)))


@app.command()
def forget(
    file: FileArgument,
    facts: Annotated[list[str], typer.Argument(help="Prompts, or ids as `list` shows them.")],
) -> None:
    """Forget facts."""
    with _opened(file) as state:
        ids = [_id_of(state, name) for name in facts]
        state.commit("forget", list(dict.fromkeys(ids)), [], {})
        typer.echo(json.dumps({"forgotten": ids, "facts": len(state)}))


@app.command()
def undo(file: FileArgument, steps: Annotated[int, typer.Option(help="How many.", min=1)] = 1) -> None:
    """Take back the last operations, the last one first."""
    with _opened(file) as state:
        if steps > state.undoable():
            raise ValueError(f"{file} has {state.undoable()} operations to undo, not {steps}")
        for _ in range(steps):
            state.undo()
        typer.echo(json.dumps({"undoable": state.undoable(), "facts": len(state)}))


@app.command(name="import")
def import_facts(
    file: FileArgument,
    source: Annotated[
        Path,
        typer.Argument(
            help="JSON lines with prompt, target_new and perhaps subject; a list of edits (.json); or the "
            "folder of a state that an older version wrote."
        ),
    ],
    checkpoint: CheckpointOption = None,
    block: Annotated[int, typer.Option(help="Facts that are written at once.", min=1)] = 256,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    settings: SetOption = None,
) -> None:
    """Write many facts, in blocks. One that is written already costs nothing, so an import that was stopped
    is taken up by the same command; nothing is written where a line is no fact.
    """
    from larimar_editor.state.lines import facts_in, write_in_blocks

    facts = facts_in(source)
    with _model(file, facts, checkpoint, dtype, device, settings) as model:
        first = model.edited_state.store.next_id
        with tqdm(total=len(facts), unit="fact") as bar:
            write_in_blocks(model, facts, block, bar.update)
        written = model.edited_state.store.next_id - first  # a new answer to a written prompt is one, too
        typer.echo(json.dumps({"read": len(facts), "written": written}))


@app.command()
def export(
    file: FileArgument,
    out: Annotated[Optional[Path], typer.Option(help="Where to; by default to the terminal.")] = None,
) -> None:
    """Write the facts as JSON lines, which `import` reads."""
    with _opened(file, writes=False) as state:
        ids = state.ids()
        if out is None:
            _print(state, ids)
            return
        if out.resolve() == state.path:
            raise typer.BadParameter(f"{out} is the state itself", param_hint="--out")
        with written_whole(out) as lines, tqdm(total=len(ids), unit="fact") as bar:
            for fact in _facts(state, ids):
                lines.write(_line(fact) + "\n")
                bar.update()
        typer.echo(json.dumps({"out": str(out), "facts": len(ids)}))


@app.command()
def compact(file: FileArgument) -> None:
    """Let go of what is forgotten, and of all that could be undone: what was forgotten is in the file until
    then.
    """
    with _opened(file) as state:
        before = file.stat().st_size
        state.compact()
        typer.echo(json.dumps({"facts": len(state), "bytes": file.stat().st_size, "bytes_before": before}))


@contextmanager
def _opened(path: Path, writes: bool = True) -> Iterator[StateFile]:
    from larimar_editor.state.file import StateFile

    if not path.exists():
        raise FileNotFoundError(f"no edited state in {path}")
    with closing(StateFile(path, None, writes)) as file:
        yield file


@contextmanager
def _model(
    path: Path,
    facts: list[Fact],
    checkpoint: str | None,
    dtype: Any,
    device: str,
    settings: list[str] | None,
) -> Iterator[LarimarForCausalLM]:
    """A model with a file open that these facts are to be written to: none is made where one could not be."""
    from larimar_editor.model.loading import load_larimar

    model, _ = load_larimar(checkpoint, dtype, settings_of(settings), device)
    model.checked(facts)
    model.open_state(path)
    try:
        yield model
    finally:
        model.close_state(keep=False)


def _id_of(file: StateFile, name: str) -> int:
    from larimar_editor.state.fact import key_of

    found = [id for id in file.ids_of(key_of(name)) if file.is_written(id)]
    if not found and name.isdecimal() and int(name) < 2**63 and file.is_written(int(name)):
        found = [int(name)]
    if not found:
        raise ValueError(f"cannot forget {name!r}: it is not written. `facts list` shows what is.")
    return found[0]


def _facts(file: StateFile, ids: list[int]) -> Iterator[Fact]:
    for start in range(0, len(ids), _AT_ONCE):
        yield from file.facts(ids[start : start + _AT_ONCE])


def _print(file: StateFile, ids: list[int]) -> None:
    for fact in _facts(file, ids):
        sys.stdout.write(_line(fact) + "\n")


def _line(fact: Fact) -> str:
    from larimar_editor.state.lines import line_of

    return line_of(fact)
