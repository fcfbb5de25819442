"""Probabilities under a model that any of EasyEdit's methods has edited, before EasyEdit takes the edit
back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.scores import TargetScore, score_pairs, target_scores
from larimar_editor.evaluation.harness.single_edits import pairs_of, record_of
from larimar_editor.model.larimar import LarimarForCausalLM

_BATCH = 8  # so that the logits of scoring are not what takes most memory


class Probe:
    """Scores an edit's prompts, rephrasings and locality prompts as
    `larimar_editor.evaluation.harness.single_edits` does for Larimar.

    Args:
        tokenizer: the model's.
    """

    def __init__(self, tokenizer) -> None:
        self.tokenizer = tokenizer
        self.base: list[TargetScore] = []
        self.edited: list[TargetScore] = []

    def before(self, model, edit: Edit) -> None:
        """Score the model before the edit."""
        self.edit, self.base, self.edited = edit, scores(model, self.tokenizer, pairs_of(edit)), []

    def after(self, model) -> None:
        """Score the same prompts under the edited model; `record` puts both together."""
        self.edited = scores(model, self.tokenizer, pairs_of(self.edit))

    def record(self) -> dict:
        """The record of the edit that was scored last."""
        return record_of(self.edit, self.edited, self.base)


def scores(model, tokenizer, pairs: Sequence[tuple[str, str]]) -> list[TargetScore]:
    """Scores of targets after prompts, under a model of any of EasyEdit's methods."""
    if isinstance(model, LarimarForCausalLM) and pairs:
        return target_scores(model, pairs)
    # One by one where the model is wrapped: GRACE looks at one place of the input, the same in all rows of a
    # batch.
    size = _BATCH if isinstance(model, PreTrainedModel) else 1
    parts = [pairs[start : start + size] for start in range(0, len(pairs), size)]
    return [
        score
        for part in parts
        for score in score_pairs(tokenizer, part, lambda *given: _logits(model, *given))
    ]


def _logits(model, ids: torch.Tensor, mask: torch.Tensor, counts: list[int]) -> torch.Tensor:
    grace = type(model).__name__ == "GRACE"
    inner = model.model if grace else model
    if grace:
        _layer(model).key_id = ids.shape[1] - counts[0] - 1
    device = next(inner.parameters()).device
    return inner(input_ids=ids.to(device), attention_mask=mask.to(device)).logits


def _layer(grace):
    """GRACE's adapter: ``grace.layer`` is its place, such as ``model.layers[4].mlp.down_proj.weight``,
    without ``.weight``.
    """
    return grace.model.get_submodule(grace.layer.replace("[", ".").replace("]", ""))
