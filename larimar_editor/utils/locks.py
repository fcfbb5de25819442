"""One thread at a time: in a model, and in whatever its copies share."""

from __future__ import annotations

import threading

from torch import nn

_LOCK = "_larimar_lock"


# The class behind threading.RLock: entered and left without a line of Python, so that nothing can come
# between.
class Lock(type(threading.RLock())):  # type: ignore[misc]
    """A re-entrant lock that may stand among the attributes of something that is copied or pickled: the copy
    gets one of its own.
    """

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


def decoder_lock(decoder: nn.Module) -> Lock:
    """The lock of a decoder, which every Larimar around it takes: adapters are switched on the decoder
    itself.
    """
    return decoder.__dict__.setdefault(_LOCK, Lock())
