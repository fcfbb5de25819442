"""Files that survive a crash, and configuration files that ship."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import yaml
from safetensors import SafetensorError


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file to write, which takes the place of what is at ``path`` once it is whole and on the disk;
    nothing does where writing fails. What is no file, as a pipe or ``/dev/stdout``, is written as it is.
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
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
        flush(target.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Reading a file of tensors; a ValueError with its path where it is damaged."""
    try:
        yield
    except (FileNotFoundError, PermissionError):
        raise
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Writing a file of tensors; an OSError with its path where that fails, as on a full disk."""
    try:
        yield
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}") from error


def shipped_folders(name: str) -> tuple[Path, Path]:
    """Where the files of one of the checkout's folders are: in an installed package, and in a checkout."""
    package = Path(__file__).parents[1]
    return package / f"{name}_files", package.parent / name


def find_shipped(path: Path, name: str) -> Path | None:
    """A file by its path or, where there is none, of that name among those of `shipped_folders`; it may begin
    with the folder's name, and before that with steps upwards, as in scripts of a folder "examples". None
    where neither is.
    """
    parts = tuple(itertools.dropwhile(lambda part: part == "..", path.parts))
    inside = Path(*parts[1:]) if parts[:1] == (name,) else path
    return next(
        (each for each in (path, *(at / inside for at in shipped_folders(name))) if each.is_file()), None
    )


def find_config(path: str | Path) -> Path:
    """A configuration file by its path, or the name of one that ships, such as
    ``configs/training/smollm2-135m.yaml``.

    Raises:
        FileNotFoundError: neither.
    """
    if (found := find_shipped(Path(path), "configs")) is not None:
        return found
    ship = sorted(
        f"configs/{each.relative_to(at)}" for at in shipped_folders("configs") for each in at.rglob("*.yaml")
    )
    raise FileNotFoundError(f"no file {path}; there ship {', '.join(ship)}")


def load_yaml(path: Path) -> Any:
    """What a YAML file holds, by libyaml where it is at hand, which takes a tenth of the time.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not YAML; the message has the file.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no text, or no such date
        raise ValueError(f"{path} is not YAML: {error}") from error


def load_mapping(path: Path) -> dict[str, Any]:
    """The keys and values that a YAML file holds; errors as `load_yaml`, and a ValueError where it holds
    something else.
    """
    values = load_yaml(path)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold keys and values")
    return values


def flush(path: Path) -> None:
    """Put a file, or a folder's list of names, on the disk; the latter not on Windows, which cannot."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
