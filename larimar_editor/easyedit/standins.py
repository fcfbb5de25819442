"""Empty stand-ins for packages that EasyEdit imports for multimodal editing only.

They exist while EasyEdit is being imported, answer no one else, and never shadow a package that is installed.
What EasyEdit keeps of them raises a clear error when it is really used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Iterator

MULTIMODAL_PACKAGES = ("timm", "torchvision", "iopath", "fairscale", "cv2", "av", "qwen_vl_utils", "zhipuai")

# A subpackage of the 2023 release that needs a transformers of its time, again for multimodal editing only.
RELEASE_2023_SUBPACKAGES = ("easyeditor.trainer.blip2_models",)


class _Absent(type):
    """A class that stands for anything of an absent package: it can be named, inherited and annotated
    with.
    """

    def __getattr__(cls, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{cls.__qualname__}.{name}")

    def __call__(cls, *args, **kwargs):
        stands_for = next(base.__qualname__ for base in cls.__mro__ if base.__dict__.get("_stands_for"))
        package = stands_for.split(".")[0]
        raise ImportError(
            f"{stands_for} was used, but {package} is not installed. EasyEdit needs it for multimodal "
            "editing only; "
            f"install {package} to use that."
        )


def _absent(name: str) -> type:
    return _Absent(name, (), {"__qualname__": name, "_stands_for": True})


class _Module(types.ModuleType):
    __path__: list[str] = []  # noqa: RUF012, as modules have it
    __version__ = "0"

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots: tuple[str, ...]):
        self.roots = roots

    def find_spec(self, fullname, path=None, target=None):
        if (
            any(fullname == root or fullname.startswith(root + ".") for root in self.roots)
            and _asked_by_easyedit()
        ):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        return None


def _asked_by_easyedit() -> bool:
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("importlib"):
            return name.split(".")[0] == "easyeditor"
        frame = frame.f_back
    return False


@contextlib.contextmanager
def stand_ins(extra: tuple[str, ...] = ()) -> Iterator[None]:
    """Within this block EasyEdit finds stand-ins for those of its multimodal packages that are not
    installed.
    """
    _settle_other_lookups()
    # Of all finders: what is installed to be edited has one of its own.
    absent = tuple(
        name
        for name in MULTIMODAL_PACKAGES
        if name not in sys.modules and importlib.util.find_spec(name) is None
    )
    finder = _Finder(absent + extra)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in list(sys.modules.items()):
            if isinstance(module, _Module) and not name.startswith("easyeditor."):
                del sys.modules[name]


def _settle_other_lookups() -> None:
    """Let these libraries look for their optional packages now: they remember the answer, and it must be the
    truth.
    """
    transformers, *_ = map(importlib.import_module, ("transformers", "peft", "sentence_transformers"))
    for name in MULTIMODAL_PACKAGES:
        getattr(transformers.utils, f"is_{name}_available", lambda: None)()
