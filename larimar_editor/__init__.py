"""Larimar: episodic memory for knowledge editing, as a method of EasyEdit.

Importing this package makes ``import easyeditor`` work and registers ``alg_name: "LARIMAR"`` with it.
"""

from larimar_editor.configuration import LarimarConfig
from larimar_editor.easyedit import install as _install
from larimar_editor.editor import LarimarRewriteExecutor, apply_larimar_to_model
from larimar_editor.facts import Fact, UnknownFact
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.modeling import LarimarForCausalLM, announced_prompts

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

_install()
