"""Programs in processes of their own that start at once: they are forked from one that has imported the
libraries, which takes ten seconds of a core.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["torch", "transformers", "sentence_transformers", "peft", "larimar_editor.training.loop"]
    + ["larimar_editor.evaluation.tables"]
)


def started(command: Sequence[str], folder: Path) -> ForkServerProcess:
    """``python COMMAND`` with ``folder`` as its working directory; what it says goes to ``folder/stdout`` and
    ``folder/stderr``.

    Args:
        command: a script and its arguments, or ``-m``, a module and its arguments.
        folder: also where a script is found.
    """
    process = _context.Process(target=_run, args=(list(command), folder))
    process.start()
    return process


def run(command: Sequence[str], folder: Path, timeout: float = 300) -> str:
    """As `started`, and done; what it printed.

    Raises:
        AssertionError: it failed, or took longer; with the end of what it said.
    """
    process = started(command, folder)
    process.join(timeout)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0, (command, process.exitcode, (folder / "stderr").read_text()[-3000:])
    return (folder / "stdout").read_text()


def _run(command: list[str], folder: Path) -> None:
    os.chdir(folder)
    for stream, name in ((1, "stdout"), (2, "stderr")):
        with open(name, "wb") as file:
            os.dup2(file.fileno(), stream)
    module = command[0] == "-m"
    sys.argv = command[1:] if module else command
    if module:
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(command[0], run_name="__main__")
