"""How good a model in training is: reconstruction of held-out records, and edits of the project's own, one at
a time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import torch

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.single_edits import score_single_edits
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.rows import RowMaker


@torch.no_grad()
def reconstruction(
    objective: LarimarObjective, maker: RowMaker, records: Sequence[Mapping], seed: int = 0
) -> dict:
    """Loss (nats per token) and accuracy (0 to 1) of held-out records: whole texts, and answers to wordings
    that were not written, each in an episode of its own kind."""
    settings = replace(maker.settings, cut_share=0.0, same_wording=0.0, preamble_share=0.0, other_share=0.0)
    plain = replace(maker, settings=settings, preambles=())
    result = {}
    for name, key in (("texts", "text"), ("facts", "prompt")):
        chosen = [record for record in records if key in record]
        losses = []
        for start in range(0, len(chosen), 32):
            rows = plain.make(chosen[start : start + 32], random.Random(seed)).to(objective.prior.device)
            generator = torch.Generator(objective.prior.device).manual_seed(seed)
            losses.append(objective(rows, generator=generator))
        if losses:
            result[f"{name}_loss"] = round(sum(float(x.terms["memory"]) for x in losses) / len(losses), 4)
            result[f"{name}_accuracy"] = round(sum(float(x.accuracy) for x in losses) / len(losses), 4)
    return result


def edit_success(larimar: LarimarForCausalLM, edits: Sequence[Edit]) -> dict[str, float]:
    """Accuracy, S and M of single edits, 0 to 1, everything in scope: of the prompts, and of their first
    rephrasings.
    """
    scope, larimar.config.scope = larimar.config.scope, "none"
    try:
        records = score_single_edits(larimar, edits, progress=False)
    finally:
        larimar.config.scope = scope
    names = [(kind, key) for kind in ("rewrite", "rephrase") for key in ("accuracy", "success", "magnitude")]
    return {
        f"{kind}_{key}": round(fmean(record[kind][0][key] for record in records), 4) for kind, key in names
    }
