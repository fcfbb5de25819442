"""``larimar-editor easyedit-patch``: the proposal to EasyEdit, applied to a checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def easyedit_patch(
    checkout: Annotated[Path, typer.Argument(help="A checkout of EasyEdit's main branch.")],
) -> None:
    """Write what a pull request to EasyEdit would hold: a registry line, hyperparameters, an example, a test
    and a line in its README. `git diff` in the checkout shows it.
    """
    from larimar_editor.easyedit.proposal import write_proposal

    for name in write_proposal(checkout):
        typer.echo(name)
