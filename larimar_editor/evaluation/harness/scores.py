"""What a model says of a target after a prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading
from larimar_editor.utils.text import prompt_and_target


@dataclass(frozen=True)
class TargetScore:
    """What the model says of one target after one prompt.

    Attributes:
        log_probability: mean over the target's tokens, nats.
        accuracy: share of the target's tokens that are the most probable, given those before, 0 to 1.
        predicted: the most probable tokens.
    """

    log_probability: float
    accuracy: float
    predicted: tuple[int, ...]

    def as_before(self, before: TargetScore) -> float:
        """Share of the target's tokens for which the model says what another score of the same has, 0 to
        1.
        """
        return fmean(one == other for one, other in zip(self.predicted, before.predicted, strict=True))


def target_scores(
    model: LarimarForCausalLM, pairs: Sequence[tuple[str, str]], reading: Reading | None = None
) -> list[TargetScore]:
    """Score targets after prompts, all in one pass.

    Args:
        model: the query is the prompt alone.
        pairs: prompts and targets; a space is put between them.
        reading: readouts of these rows; by default the model reads its own memory.
    """
    if reading is None:
        reading = model.read([prompt for prompt, _ in pairs])
    return score_pairs(
        model.tokenizer,
        pairs,
        lambda ids, mask, counts: (
            model(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                prompt_lengths=(mask.sum(1) - torch.tensor(counts)).to(model.device),
                reading=reading,
                use_cache=False,
            ).logits
        ),
    )


@torch.no_grad()
def score_pairs(
    tokenizer: PreTrainedTokenizerBase,
    pairs: Sequence[tuple[str, str]],
    logits_of: Callable[[Tensor, Tensor, list[int]], Tensor],
) -> list[TargetScore]:
    """Score targets after prompts by any model.

    Args:
        tokenizer: the model's.
        pairs: prompts and targets; a space is put between them.
        logits_of: ids and mask ``(N, T)``, padded on the right, and the number of target tokens of each row,
            to logits ``(N, T, vocabulary)``.
    """
    rows, counts = rows_of(tokenizer, pairs)
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), 1
    logits = logits_of(ids, mask, counts)
    return [
        score_of(logits[i, len(row) - count - 1 : len(row) - 1], row[-count:])
        for i, (row, count) in enumerate(zip(rows, counts))
    ]


def rows_of(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]]
) -> tuple[list[list[int]], list[int]]:
    """Tokens of each prompt with its target, and how many of them are the target's, with its space."""
    rows = [tokenizer(prompt_and_target(prompt, target)).input_ids for prompt, target in pairs]
    prompts = [tokenizer(prompt.rstrip(" ")).input_ids for prompt, _ in pairs]
    return rows, [len(row) - len(prompt) for row, prompt in zip(rows, prompts)]


def score_of(logits: Tensor, target: list[int]) -> TargetScore:
    """Score a target's ``t`` tokens from the logits ``(t, vocabulary)`` of the places before each."""
    labels = torch.tensor(target, device=logits.device)
    scores, predicted = logits.float().log_softmax(-1), logits.argmax(-1)
    return TargetScore(
        scores.gather(1, labels[:, None]).mean().item(),
        (predicted == labels).float().mean().item(),
        tuple(predicted.tolist()),
    )
