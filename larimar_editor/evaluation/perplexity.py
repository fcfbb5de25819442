"""Perplexity of plain text with facts in memory, against the base model's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from larimar_editor.episodic import Reading
from larimar_editor.modeling import LarimarForCausalLM


@torch.no_grad()
def score_text(model: LarimarForCausalLM, text: str, window: int = 256, limit: int | None = None, progress: bool = True) -> dict:
    """Perplexity over windows of a text, each its own query, with what the model has written, and of the base model.

    Args:
        model: the model with its facts.
        text: the text.
        window: tokens per window; the first of each is not predicted.
        limit: windows taken, from the start; all when None.

    Returns:
        ``windows``, ``windows_in_scope``, ``perplexity`` and ``base_perplexity`` of all windows, those two of the windows
        out of scope (``..._out_of_scope``), and ``identical``: whether out of scope every logit equalled the base model's, to
        the bit.
    """
    ids = torch.tensor(model.tokenizer(text, verbose=False).input_ids)
    windows = [part for part in ids.split(window) if len(part) > 1][:limit]
    sums = {"all": torch.zeros(2, dtype=torch.float64), "outside": torch.zeros(2, dtype=torch.float64)}
    tokens = {"all": 0, "outside": 0}
    identical, inside = True, 0
    for part in tqdm(windows, desc="perplexity", unit="window", disable=not progress):
        row = part[None].to(model.device)
        reading = model.episodic.read(model.tokenizer.batch_decode(row))
        base = model(row, reading=Reading.nothing(1, model.config.latent_size), use_cache=False).logits
        edited = model(row, reading=reading, use_cache=False).logits
        loss = torch.tensor([_nats(edited, row), _nats(base, row)], dtype=torch.float64)
        groups: Sequence[str] = ("all",) if bool(reading.in_scope[0]) else ("all", "outside")
        for group in groups:
            sums[group] += loss
            tokens[group] += len(part) - 1
        if bool(reading.in_scope[0]):
            inside += 1
        else:
            identical &= torch.equal(base, edited)
    mean = {group: (sums[group] / max(1, tokens[group])).exp().tolist() for group in sums}
    return {
        "windows": len(windows),
        "windows_in_scope": inside,
        "perplexity": mean["all"][0],
        "base_perplexity": mean["all"][1],
        "perplexity_out_of_scope": mean["outside"][0],
        "base_perplexity_out_of_scope": mean["outside"][1],
        "identical": identical and math.isfinite(mean["outside"][0]),
    }


def _nats(logits: Tensor, ids: Tensor) -> float:
    return float(F.cross_entropy(logits[0, :-1].float(), ids[0, 1:], reduction="sum"))
