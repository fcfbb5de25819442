"""``import easyeditor`` made to work, with "LARIMAR" among its methods, whenever it comes.

``import larimar_editor`` calls `install`, which costs nothing until ``easyeditor`` is imported. Then EasyEdit
is looked for and made importable, and Larimar is registered with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from larimar_editor.easyedit.finding import EasyEditSource, find_easyedit
from larimar_editor.easyedit.mending import mended_spec
from larimar_editor.easyedit.standins import RELEASE_2023_SUBPACKAGES, stand_ins

LOG = logging.getLogger(__name__)


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
        with stand_ins(extra), _root_logger_left_alone():
            self.loader.exec_module(module)
        _register(self.source)

    def __getattr__(self, name):
        return getattr(self.loader, name)


@contextlib.contextmanager
def _root_logger_left_alone() -> Iterator[None]:
    """EasyEdit configures the root logger when it is imported, where nobody has yet; a library's host decides
    that. What it gives the root logger within this block becomes its own loggers'.
    """
    root, own = logging.getLogger(), logging.getLogger("easyeditor")
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        given = [each for each in root.handlers if each not in handlers]
        root.handlers[:] = handlers
        root.setLevel(level)
        own.setLevel(logging.INFO)
        for handler in given if not own.handlers else ():
            handler.addFilter(_shown_by_no_other)
            own.addHandler(handler)


def _shown_by_no_other(record: logging.LogRecord) -> bool:
    """Of a logger without handlers of its own, as long as the host gives the root logger none."""
    return not logging.getLogger().handlers and not logging.getLogger(record.name).handlers


def _register(source: EasyEditSource) -> None:
    # Only now: the model, and torch with it, is needed as soon as EasyEdit is there, and not before.
    registration = importlib.import_module("larimar_editor.easyedit.registration")
    registration.register(source)
    methods = ", ".join(registration.available_methods())
    LOG.info("EasyEdit (%s, %s): %s; methods: %s", source.version, source.found_by, source.package, methods)


def install() -> None:
    """Make ``import easyeditor`` find EasyEdit and register Larimar with it. Calling it again changes
    nothing.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    if file := getattr(sys.modules.get("easyeditor"), "__file__", None):
        _register(EasyEditSource.at(Path(file).parent, "installed"))
