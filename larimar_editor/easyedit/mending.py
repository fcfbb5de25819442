"""Changes EasyEdit as it is imported, where it could not run otherwise. No file on disk is changed.

The release of 2023 writes ``f"cuda:{device}"`` wherever it moves a tensor, so that it runs on no CPU, and
loads every Llama tokenizer with the SentencePiece class, which splits byte-level vocabularies wrongly. Both
versions score generation with a part of NLTK that has to be downloaded.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import re

_CUDA_NAME = re.compile(r"""f(["'])cuda:\{([^{}"']+)\}\1""")
_HELPER = "_larimar_device_name"


def device_name(device: int | str) -> str:
    """The name torch knows of EasyEdit's ``device``: "cpu" stays, an index is a CUDA device."""
    device = str(device)
    return f"cuda:{device}" if device.isdigit() else device


def mended(source: str) -> str:
    """The source with every ``f"cuda:{...}"`` replaced by a call of `device_name`."""
    return _CUDA_NAME.sub(rf"{_HELPER}(\2)", source)


class MendingLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from its mended source, without the bytecode cache."""

    def get_code(self, fullname: str):
        """The code object, compiled from the mended source."""
        source = self.get_data(self.path)
        text = mended(importlib.util.decode_source(source))
        return compile(text, self.path, "exec", dont_inherit=True)

    def exec_module(self, module) -> None:
        """Run the module with `device_name` in it."""
        setattr(module, _HELPER, device_name)
        super().exec_module(module)


def mended_spec(fullname: str, path) -> importlib.machinery.ModuleSpec | None:
    """The spec of a module of the release of 2023, with the mending loader."""
    spec = importlib.machinery.PathFinder.find_spec(fullname, path)
    if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        spec.loader = MendingLoader(fullname, spec.loader.path)
    return spec


class _AnyTokenizer(type):
    def __instancecheck__(cls, instance) -> bool:
        return isinstance(instance, importlib.import_module("transformers").PreTrainedTokenizerBase)


class LlamaTokenizer(metaclass=_AnyTokenizer):
    """In place of transformers' in the release of 2023: whatever tokenizer the folder itself names."""

    @staticmethod
    def from_pretrained(*args, **kwargs):
        """As ``AutoTokenizer.from_pretrained``."""
        return importlib.import_module("transformers").AutoTokenizer.from_pretrained(*args, **kwargs)


class OfflineNltk:
    """NLTK as EasyEdit's fluency score uses it, also where NLTK's sentence model was never downloaded.

    Words are then split without splitting into sentences first, which leaves a full stop inside the text
    attached to its word.
    """

    def __init__(self, nltk):
        self._nltk = nltk

    def __getattr__(self, name: str):
        return getattr(self._nltk, name)

    def word_tokenize(self, text: str) -> list[str]:
        """As ``nltk.word_tokenize``."""
        try:
            return self._nltk.word_tokenize(text)
        except LookupError:
            return self._nltk.word_tokenize(text, preserve_line=True)
