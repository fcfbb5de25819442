"""Files that survive a crash, and configuration files that ship."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_PACKAGE = Path(__file__).parents[1]
# In an installed package, and in a checkout.
_CONFIGS = (_PACKAGE / "configs_files", _PACKAGE.parent / "configs")


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file to write, which takes the place of what is at ``path`` once it is whole; nothing does where
    writing fails. What is no file, as a pipe or ``/dev/stdout``, is written as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with partial.open("w", encoding="utf-8") as stream:
            yield stream
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def find_config(path: str | Path) -> Path:
    """A configuration file by its path or, where there is none, of that name among those that ship, such as
    ``configs/training/smollm2-135m.yaml``.

    Raises:
        FileNotFoundError: neither.
    """
    given = Path(path)
    name = given.relative_to("configs") if given.parts[:1] == ("configs",) else given
    for each in (given, *(folder / name for folder in _CONFIGS)):
        if each.is_file():
            return each
    ship = sorted(
        f"configs/{each.relative_to(folder)}" for folder in _CONFIGS for each in folder.rglob("*.yaml")
    )
    raise FileNotFoundError(f"no file {given}; there ship {', '.join(ship)}")


def flush(path: Path) -> None:
    """Put a file, or a folder's list of names, on the disk; the latter not on Windows, which cannot."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
