"""One module per table or figure, each with its ``EVALUATION``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from larimar_editor.evaluation.harness.evaluation import Evaluation

NAMES = (
    "compare",
    "counterfact",
    "zsre",
    "ablation",
    "scope",
    "subjects",
    "knowedit",
    "portability",
    "lengths",
    "realworld",
    "fluency",
    "sequential",
    "holdout",
    "batch",
    "forgetting",
    "leakage",
    "longcontext",
    "robustness",
    "rephrase",
    "perplexity",
    "stream",
    "lifelong",
)


def find(name: str) -> Evaluation:
    """The evaluation of that name.

    Raises:
        ValueError: no such evaluation; the message names those that are.
    """
    if name not in NAMES:
        raise ValueError(f"no evaluation {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}").EVALUATION
