"""Something to be imported as soon as another module is, whoever imports that."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys


def after_import(module: str, then: str) -> None:
    """Import the module ``then`` right after ``module``; at once where that is loaded already.

    Calling it again changes nothing.
    """
    if module in sys.modules:
        importlib.import_module(then)
    elif not any(isinstance(finder, _Finder) and finder.names == (module, then) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(module, then))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, module: str, then: str):
        self.names = module, then

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.names[0]:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.names[1])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: str):
        self.loader, self.then = loader, then

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module) -> None:
        self.loader.exec_module(module)
        package = self.then.split(".")[0] + "."
        ours = [each for name, each in list(sys.modules.items()) if name.startswith(package)]
        # Where a module of the same package is what imports ``module``, ``then`` may need that one whole: it
        # comes by itself.
        if not any(getattr(each.__spec__, "_initializing", False) for each in ours):
            importlib.import_module(self.then)

    def __getattr__(self, name):
        return getattr(self.loader, name)
