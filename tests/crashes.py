"""A process that is killed while it writes, at any byte of a file."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable

import torch


def killed(work: Callable[[], object], *, at_byte: int | None = None) -> bool:
    """Do ``work`` in a process of its own; whether it was killed before it ended.

    Args:
        work: what writes.
        at_byte: where in a file, whichever reaches it first.
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
