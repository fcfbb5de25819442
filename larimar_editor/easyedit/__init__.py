"""All that knows EasyEdit: finding it, making it importable, registering, evaluation and timing.

``import larimar_editor`` calls `install`, which costs nothing until ``easyeditor`` is imported. Then EasyEdit is looked for,
first in the checkout that ``EASYEDIT_HOME`` names, then among the installed packages; it is made importable, and
"LARIMAR" is registered with it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.easyedit.mending import mended_spec
from larimar_editor.easyedit.standins import RELEASE_2023_SUBPACKAGES, stand_ins

LOG = logging.getLogger(__name__)

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

    @property
    def search_path(self) -> list[str]:
        """What to search for the package."""
        return [str(self.package.parent)]


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
    return EasyEditSource(package, found_by, release_2023=not (package / "util" / "device.py").exists())


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for ``easyeditor`` and, for the release of 2023, for all of its modules."""

    source: EasyEditSource | None = None

    def find_spec(self, fullname, path=None, target=None):
        if fullname == "easyeditor":
            self.source = find_easyedit()
            spec = importlib.machinery.PathFinder.find_spec(fullname, self.source.search_path)
            spec.loader = _Loader(spec.loader, self.source)
            return spec
        if fullname.startswith("easyeditor.") and self.source is not None and self.source.release_2023:
            return mended_spec(fullname, path)
        return None


class _Loader(importlib.abc.Loader):
    """Imports EasyEdit with stand-ins about, then registers Larimar."""

    def __init__(self, loader, source: EasyEditSource):
        self.loader, self.source = loader, source

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module) -> None:
        extra = RELEASE_2023_SUBPACKAGES if self.source.release_2023 else ()
        handlers = list(logging.getLogger().handlers)
        with stand_ins(extra):
            self.loader.exec_module(module)
        # EasyEdit configures the root logger when it is imported; a library's host decides that.
        logging.getLogger().handlers[:] = handlers
        _register(self.source)

    def __getattr__(self, name):
        return getattr(self.loader, name)


def _register(source: EasyEditSource) -> None:
    from larimar_editor.easyedit.registration import available_methods, register

    register(source)
    version = "release of 2023" if source.release_2023 else "main branch"
    LOG.info("EasyEdit (%s, %s): %s; methods: %s", version, source.found_by, source.package, ", ".join(available_methods()))


def install() -> None:
    """Make ``import easyeditor`` find EasyEdit and register Larimar with it. Calling it again changes nothing."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if file := getattr(sys.modules.get("easyeditor"), "__file__", None):
        package = Path(file).parent
        _register(EasyEditSource(package, "installed", not (package / "util" / "device.py").exists()))
