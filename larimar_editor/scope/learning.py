"""A linear map after the scope detector's sentence encoder that brings wordings of one fact together.

A general sentence encoder puts "The mother tongue of A is" nearer to "The mother tongue of B is" than to "A
grew up speaking". The map is learned from made-up facts in several wordings
(`larimar_editor.data.hard_negatives`), never from edits that are evaluated; the encoder itself stays as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

POSITIVES = ("rephrase_prompt",)
NEGATIVES = ("locality_prompt", "near_prompt")


def train_metric(
    embed: Callable[[Sequence[str]], Tensor],
    facts: Sequence[Mapping],
    *,
    steps: int = 800,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    pull: float = 0.1,
    each: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> Tensor:
    """Learn the map by logistic regression of "same fact?" on the cosine after it.

    Each fact's prompt is compared with its own other wordings, with its locality prompts (another subject),
    with near names (the most similar other subjects), and with the prompts of the other facts of a batch.

    Args:
        embed: texts to unit embeddings ``(N, E)``.
        facts: records with ``prompt``, ``rephrase_prompt``, ``locality_prompt`` and ``near_prompt``, the last
            three lists.
        steps, batch_size, learning_rate: of AdamW; the learning rate falls to 0 linearly.
        pull: strength of the pull towards the identity.
        each: rephrasings, locality prompts and near names taken of a fact.
        seed: of the order.
        progress: whether to show a progress bar.

    Returns:
        ``(E, E)`` float32; apply it as ``normalize(embedding @ map.T)``.

    Raises:
        ValueError: fewer than two facts, or one that lacks a kind of prompt.
    """
    if len(facts) < 2 or not all(fact.get(kind) for fact in facts for kind in POSITIVES + NEGATIVES):
        raise ValueError(f"the map needs at least two facts, each with {', '.join(POSITIVES + NEGATIVES)}")
    columns = [[fact["prompt"] for fact in facts]]
    columns += [
        [_nth(fact[kind], i) for fact in facts] for kind in POSITIVES + NEGATIVES for i in range(each)
    ]
    prompts, *compared = _embedded(embed, columns, progress)
    identity = torch.eye(prompts.shape[1], device=prompts.device)
    change = torch.zeros_like(identity, requires_grad=True)
    slope = torch.tensor(
        [10.0, -6.0], device=prompts.device, requires_grad=True
    )  # of the cosine, and constant
    optimiser = torch.optim.AdamW([change, slope], lr=learning_rate, weight_decay=0.0)
    generator = torch.Generator().manual_seed(seed)
    for step in tqdm(range(steps), desc="metric", unit="step", disable=not progress):
        chosen = torch.randperm(len(facts), generator=generator)[:batch_size].to(prompts.device)
        anchors, *against = [
            F.normalize(rows[chosen] @ (identity + change).T, dim=1) for rows in (prompts, *compared)
        ]
        loss = _same_or_not(anchors, against, slope, each) + pull * change.square().sum() / len(change)
        optimiser.zero_grad()
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = learning_rate * (1 - step / steps)
        optimiser.step()
    return (identity + change).detach()


def _same_or_not(anchors: Tensor, against: Sequence[Tensor], slope: Tensor, each: int) -> Tensor:
    """Cross-entropy of "same fact?"; each kind of pair counts alike, however many there are."""
    cosines = torch.stack([(anchors * rows).sum(1) for rows in against]).split(each)
    apart = ~torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
    kinds = [(part, 1.0 if place < len(POSITIVES) else 0.0) for place, part in enumerate(cosines)]
    kinds.append(((anchors @ anchors.T)[apart], 0.0))
    logits = [(slope[0] * cosine + slope[1], label) for cosine, label in kinds]
    losses = (
        F.binary_cross_entropy_with_logits(logit, torch.full_like(logit, label)) for logit, label in logits
    )
    return sum(losses, start=slope.new_zeros(()))


def _nth(texts: Sequence[str], place: int) -> str:
    return texts[place % len(texts)]


def _embedded(
    embed: Callable[[Sequence[str]], Tensor],
    columns: Sequence[Sequence[str]],
    progress: bool,
    batch: int = 256,
) -> list[Tensor]:
    """Embeddings of each column's texts; a text that comes twice is embedded once, and like lengths go
    together.
    """
    texts = sorted({text for column in columns for text in column}, key=lambda text: (len(text), text))
    parts = tqdm(range(0, len(texts), batch), desc="embedding", unit="batch", disable=not progress)
    rows = torch.cat([embed(texts[start : start + batch]) for start in parts])
    place = {text: i for i, text in enumerate(texts)}
    return [rows[[place[text] for text in column]] for column in columns]
