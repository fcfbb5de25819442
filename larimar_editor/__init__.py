"""Larimar: episodic memory for knowledge editing, as a method of EasyEdit.

Importing this package costs next to nothing: what it offers is loaded when it is first used. From then on
``import easyeditor`` works, with ``alg_name: "LARIMAR"`` among its methods, and transformers' ``AutoConfig``
and ``AutoModelForCausalLM`` know Larimar's checkpoints.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from larimar_editor.easyedit.installing import install as _install
from larimar_editor.model.registration import register_with_transformers as _register_with_transformers

if TYPE_CHECKING:
    from larimar_editor.editor import LarimarRewriteExecutor, apply_larimar_to_model
    from larimar_editor.hparams import LarimarHyperParams
    from larimar_editor.model.configuration import LarimarConfig
    from larimar_editor.model.larimar import LarimarForCausalLM
    from larimar_editor.model.prompts import announced_prompts
    from larimar_editor.state.fact import Fact
    from larimar_editor.state.facts import UnknownFact

__version__ = "0.1.0"

__all__ = [
    "Fact",
    "LarimarConfig",
    "LarimarForCausalLM",
    "LarimarHyperParams",
    "LarimarRewriteExecutor",
    "UnknownFact",
    "announced_prompts",
    "apply_larimar_to_model",
]

_HOME = {
    "Fact": "state.fact",
    "LarimarConfig": "model.configuration",
    "LarimarForCausalLM": "model.larimar",
    "LarimarHyperParams": "hparams",
    "LarimarRewriteExecutor": "editor",
    "UnknownFact": "state.facts",
    "announced_prompts": "model.prompts",
    "apply_larimar_to_model": "editor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        try:  # a room, as when everything was imported at once
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


_install()
_register_with_transformers()
