"""A process that is killed while it writes: at any byte of a file, or before any step of the file system."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch

STEPS = ("open", "os.rename", "os.remove", "os.truncate", "os.mkdir")


def killed(
    work: Callable[[], object], *, at_byte: int | None = None, at_step: int | None = None, folder: Path
) -> bool:
    """Do ``work`` in a process of its own; whether it was killed before it ended.

    Args:
        work: what writes.
        at_byte: where in a file, whichever reaches it first.
        at_step: before which of `STEPS` that touch ``folder``, from 0.
    """
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(120)
            torch.set_num_threads(1)  # the threads of the parent's pool are not here
            if at_byte is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_FSIZE, (at_byte, resource.RLIM_INFINITY))
            if at_step is not None:
                sys.addaudithook(_Killer(at_step, str(folder)))
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXFSZ), "it hung"
        return True
    assert os.WEXITSTATUS(status) == 0, "it failed rather than being killed"
    return False


class _Killer:
    def __init__(self, step: int, folder: str):
        self.left, self.folder = step, folder

    def __call__(self, event: str, arguments: tuple) -> None:
        if event in STEPS and any(self.folder in str(argument) for argument in arguments):
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
