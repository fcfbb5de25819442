"""``larimar-editor serve``: an edited model behind transformers' server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import CheckpointOption, DeviceOption, DtypeOption, SetOption, settings_of


def serve(
    checkpoint: CheckpointOption = None,
    facts: Annotated[
        Optional[Path],
        typer.Option(help="A state's file, JSON lines or a file of edits: what is in the model's memory."),
    ] = None,
    file: Annotated[
        Optional[Path],
        typer.Option(
            help="A state's file that clients may edit by /v1/facts, in place of --facts; made if need be."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="What clients call the model.")] = "larimar",
    host: Annotated[
        str, typer.Option(help="Address; this machine only unless told otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    settings: SetOption = None,
) -> None:
    """Serve an edited model by OpenAI's protocol (chat completions, completions, responses; streamed or not),
    with the server of transformers' own command line.
    """
    try:
        import uvicorn

        from larimar_editor.tools.server import application
    except ImportError as error:
        raise ModuleNotFoundError(
            f"the server needs more, or newer, packages ({error}): pip install '.[serve]' in a checkout",
            name=error.name,
        ) from error
    from larimar_editor.tools.opening import closing_state, open_larimar

    if file is not None and facts is not None:
        raise typer.BadParameter(
            "--facts is read, and --file is edited: `larimar-editor facts import` joins them"
        )
    model = open_larimar(checkpoint, facts, dtype, device, **settings_of(settings))
    with closing_state(model):
        if file is not None:
            model.open_state(file)
        typer.echo(f"{len(model.edited_state.store)} facts; http://{host}:{port}/v1, model {name}")
        app = application(model, name, edits=file is not None)
        uvicorn.run(app, host=host, port=port, log_level="warning")
