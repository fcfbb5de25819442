"""``larimar-editor demo``: a page in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from larimar_editor.cli.options import CheckpointOption, DeviceOption, DtypeOption, SetOption, settings_of


def demo(
    file: Annotated[
        Optional[Path], typer.Option(help="The state's file; by default demo.db in the cache folder.")
    ] = None,
    checkpoint: CheckpointOption = None,
    host: Annotated[
        str, typer.Option(help="Address; this machine only unless told otherwise.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 7860,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "cpu",
    settings: SetOption = None,
) -> None:
    """Write facts and ask, base model and edited model side by side, in a browser."""
    try:
        from larimar_editor.tools.demo.page import page
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the demo needs {error.name}: pip install '.[demo]' in a checkout", name=error.name
        ) from error
    from larimar_editor.pretrained.embedded import cache_folder
    from larimar_editor.tools.demo.workbench import Workbench
    from larimar_editor.tools.opening import closing_state, open_larimar

    model = open_larimar(checkpoint, None, dtype, device, **settings_of(settings))
    with closing_state(model):
        blocks = page(Workbench(model, file or cache_folder() / "demo.db"))
        blocks.launch(server_name=host, server_port=port, share=False, inbrowser=browser, quiet=False)
