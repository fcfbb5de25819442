"""Out of `torch.inference_mode`, for what is to last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def outside_inference() -> Iterator[None]:
    """Leave `torch.inference_mode` for a while, without gradients: what is made in it can never be changed.

    Where there is a lock, it stands beside that, and does not enter it: by itself a
    `larimar_editor.utils.locks.Lock` is left whatever comes between.
    """
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield
