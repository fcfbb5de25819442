"""Files that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Put a file, or a folder's list of names, on the disk; the latter not on Windows, which cannot."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
