"""Settings at the door: each check returns the value, or raises ValueError with the setting's name."""

from __future__ import annotations

import math
from collections.abc import Sequence


def one_of(name: str, value: object, known: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return value


def text(name: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def whole(name: str, value: object, least: int) -> int:
    """A whole number of at least ``least``."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def number(name: str, value: object, least: float = -math.inf, above: float = -math.inf) -> float:
    """A finite number of at least ``least`` and above ``above``."""
    bound = f" of at least {least}" if least > -math.inf else f" above {above}" if above > -math.inf else ""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value < least
        or value <= above
    ):
        raise ValueError(f"{name} must be a number{bound}, got {value!r}")
    return value
