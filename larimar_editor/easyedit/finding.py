"""Where EasyEdit is: the checkout that ``EASYEDIT_HOME`` names, else an installed package."""

from __future__ import annotations

import hashlib
import importlib.machinery
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HOW_TO_GET_IT = (
    "EasyEdit was not found. Set EASYEDIT_HOME to a checkout of its repository, or install its release: "
    "pip install --no-deps easyeditor==0.0.1.dev0"
)


@dataclass(frozen=True)
class EasyEditSource:
    """Where EasyEdit is and which one it is.

    Attributes:
        package: folder of the ``easyeditor`` package.
        found_by: "EASYEDIT_HOME" or "installed".
        release_2023: whether it is the release of October 2023, which has to be mended.
    """

    package: Path
    found_by: str
    release_2023: bool

    @classmethod
    def at(cls, package: Path, found_by: str) -> EasyEditSource:
        """The source in a folder. Only the main branch knows ``sequential_edit``.

        Raises:
            ImportError: a main branch of before June 2026, which undoes edits in another way.
        """
        editors = package / "editors"
        if "sequential_edit" not in (editors / "editor.py").read_text(encoding="utf-8"):
            return cls(package, found_by, release_2023=True)
        if "restore_after_edit" not in (editors / "utils.py").read_text(encoding="utf-8"):
            raise ImportError(
                f"{package.parent} is a main branch of EasyEdit from before 24 June 2026, on which Larimar's "
                "edits would not be undone: update it, or use the release of 2023",
                name="easyeditor",
            )
        return cls(package, found_by, release_2023=False)

    @property
    def version(self) -> str:
        """What people call it."""
        return "release of 2023" if self.release_2023 else "main branch"

    @property
    def code(self) -> str:
        """Digest of its methods and its evaluation: two clones of one version may differ in them."""
        return _code_in(self.package)

    @property
    def search_path(self) -> list[str]:
        """What to search for the package."""
        return [str(self.package.parent)]


@cache
def _code_in(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for part in ("models", "evaluate") for path in (package / part).rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def find_easyedit() -> EasyEditSource:
    """Look for EasyEdit without importing it.

    Raises:
        ModuleNotFoundError: it is nowhere, or ``EASYEDIT_HOME`` holds none; the message says what to do.
    """
    home = os.environ.get("EASYEDIT_HOME")
    if home:
        package, found_by = Path(home) / "easyeditor", "EASYEDIT_HOME"
        if not (package / "__init__.py").exists():
            raise ModuleNotFoundError(f"EASYEDIT_HOME={home} holds no easyeditor package", name="easyeditor")
    else:
        spec = importlib.machinery.PathFinder.find_spec("easyeditor")
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(_HOW_TO_GET_IT, name="easyeditor")
        package, found_by = Path(spec.submodule_search_locations[0]), "installed"
    return EasyEditSource.at(package, found_by)
