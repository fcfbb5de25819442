"""A linear map after the scope detector's sentence encoder that brings wordings of one fact together.

A general sentence encoder puts "The mother tongue of A is" nearer to "The mother tongue of B is" than to "A grew up
speaking". The map is learned from made-up facts in several wordings (`larimar_editor.training.relations`), never from
edits that are evaluated; the encoder itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm


def train_metric(
    embed: Callable[[Sequence[str]], Tensor],
    facts: Sequence[Mapping],
    *,
    steps: int = 600,
    batch_size: int = 256,
    rate: float = 1e-3,
    pull: float = 0.1,
    wordings: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> Tensor:
    """Learn the map by logistic regression of "same fact?" on the cosine after it.

    Each fact's prompt is compared with its own other wordings, with its neighbours (same wording, another subject), and with
    the prompts of the other facts of a batch.

    Args:
        embed: texts to unit embeddings ``(N, E)``.
        facts: records with ``prompt``, ``rephrase_prompt`` and ``locality_prompt``.
        steps, batch_size, rate: of AdamW; the rate falls to 0 linearly.
        pull: strength of the pull towards the identity.
        wordings: rephrasings taken of a fact.
        seed: of the order.
        progress: whether to show a progress bar.

    Returns:
        ``(E, E)`` float32; apply it as ``normalize(embedding @ map.T)``.

    Raises:
        ValueError: fewer than two facts, or one without a rephrasing or a neighbour.
    """
    if len(facts) < 2 or not all(fact["rephrase_prompt"] and fact["locality_prompt"] for fact in facts):
        raise ValueError("the map needs at least two facts, each with a rephrasing and a neighbour")
    prompts = _embedded(embed, [fact["prompt"] for fact in facts], progress)
    positives = [_embedded(embed, [_nth(fact["rephrase_prompt"], i) for fact in facts], progress) for i in range(wordings)]
    neighbours = [_embedded(embed, [_nth(fact["locality_prompt"], i) for fact in facts], progress) for i in range(wordings)]
    identity = torch.eye(prompts.shape[1], device=prompts.device)
    change = torch.zeros_like(identity, requires_grad=True)
    slope = torch.tensor([10.0, -6.0], device=prompts.device, requires_grad=True)  # of the cosine, and constant
    optimiser = torch.optim.AdamW([change, slope], lr=rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    for step in tqdm(range(steps), desc="metric", unit="step", disable=not progress):
        chosen = torch.randint(len(facts), (batch_size,), generator=generator).to(prompts.device)
        mapped = [F.normalize(rows[chosen] @ (identity + change).T, dim=1) for rows in (prompts, *positives, *neighbours)]
        anchors, *against = mapped
        logits = torch.cat([(anchors * rows).sum(1, keepdim=True) for rows in against] + [anchors @ anchors.T], dim=1)
        same = torch.zeros_like(logits)
        same[:, :wordings] = 1
        same[:, 2 * wordings :] = (chosen[:, None] == chosen).float()
        loss = F.binary_cross_entropy_with_logits(slope[0] * logits + slope[1], same, reduction="none")
        # Each kind of pair counts alike, however many there are.
        kinds = (loss[:, :wordings], loss[:, wordings : 2 * wordings], loss[:, 2 * wordings :])
        total = sum(kind.mean() for kind in kinds) + pull * change.square().sum() / len(change)
        optimiser.zero_grad()
        total.backward()
        for group in optimiser.param_groups:
            group["lr"] = rate * (1 - step / steps)
        optimiser.step()
    return (identity + change).detach()


def _nth(texts: Sequence[str], place: int) -> str:
    return texts[place % len(texts)]


def _embedded(embed: Callable[[Sequence[str]], Tensor], texts: Sequence[str], progress: bool, batch: int = 256) -> Tensor:
    parts = tqdm(range(0, len(texts), batch), desc="embedding", unit="batch", disable=not progress)
    return torch.cat([embed(texts[start : start + batch]) for start in parts])
