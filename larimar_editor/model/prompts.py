"""Which part of a batch is the query: the prompt alone, never an answer that stands after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.model.chat import ChatTurns
from larimar_editor.utils.text import several, token_ids

_ANNOUNCED: ContextVar[tuple[str, ...] | None] = ContextVar("larimar_prompts", default=None)


@contextlib.contextmanager
def announced_prompts(prompts: Sequence[str]) -> Iterator[None]:
    """Within this block, batches hold these prompts, each followed by something that the query must not see.

    For evaluation code that joins prompt and target before it calls the model: one prompt per row of the
    batch.
    """
    token = _ANNOUNCED.set(tuple(prompts))
    try:
        yield
    finally:
        _ANNOUNCED.reset(token)


def questions_in(texts: Sequence[str], turns: ChatTurns | None) -> list[str]:
    """Of each text that is a chat its last question; what is no chat, or one in which nobody asks anything,
    is left as it is.

    Raises:
        TypeError: one text, where texts are wanted.
    """
    return [(turns.last_question(text) if turns else None) or text for text in several(texts)]


def prompts_of(
    tokenizer: PreTrainedTokenizerBase,
    input_ids: Tensor | None,
    attention_mask: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    labels: Tensor | None = None,
    *,
    turns: ChatTurns | None = None,
) -> list[str]:
    """The query of each row: announced, up to ``prompt_lengths``, where ``labels`` are -100, or all of it;
    of a chat its last question.

    Args:
        tokenizer: the decoder's.
        input_ids: ``(B, T)``; None only where prompts are announced.
        attention_mask: ``(B, T)``, or longer where there is a cache.
        prompt_lengths: ``(B,)`` int, columns that are the prompt, padding counted.
        labels: ``(B, T)``.
        turns: of the decoder's chat template.

    Raises:
        ValueError: announced prompts for another number of rows, or neither ids nor an announcement.
    """
    announced = _announced_for(input_ids)
    if announced is not None:
        return questions_in(announced, turns)
    # The text is needed on the host, by the tokenizers of encoder and detector.
    rows = _prompt_ids(input_ids, attention_mask, prompt_lengths, labels)
    bare = tokenizer.batch_decode(_without_ends(tokenizer, rows))
    if turns is None:
        return bare
    # What is no chat, or one in which nobody asks anything, is the query as it is.
    return [turns.last_question(text) or whole for text, whole in zip(tokenizer.batch_decode(rows), bare)]


def at_line_start(
    tokenizer: PreTrainedTokenizerBase,
    input_ids: Tensor | None,
    attention_mask: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    labels: Tensor | None = None,
) -> list[bool]:
    """Whether what follows each prompt opens a line, as the assistant's turn of most chat templates does. The
    given text tells, up to ``prompt_lengths``; an announced prompt only where there are none.

    Args and raises: see `prompts_of`.
    """
    announced = _announced_for(input_ids)
    if announced is not None and (prompt_lengths is None or input_ids is None):
        return [text.endswith("\n") for text in announced]
    rows = _prompt_ids(input_ids, attention_mask, prompt_lengths, labels)
    return [text.endswith("\n") for text in tokenizer.batch_decode([row[-1:] for row in rows])]


def answer_starts(
    tokenizer: PreTrainedTokenizerBase,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    prompt_lengths: Tensor | None = None,
    labels: Tensor | None = None,
) -> list[int]:
    """The column at which each row's answer begins, or would begin. 0 for an announced prompt that the row
    does not begin with, as one that stands in a chat.

    Args and raises: see `prompts_of`.
    """
    announced = _announced_for(input_ids)
    there = _is_prompt(input_ids, attention_mask, None, None)
    if announced is not None and prompt_lengths is None:
        rows = zip(announced, input_ids.tolist(), there.tolist())
        return [_end_of(token_ids(tokenizer, text.rstrip(" ")), own, kept) for text, own, kept in rows]
    asks = _is_prompt(input_ids, attention_mask, prompt_lengths, labels)
    return [_first_behind(*row) for row in zip(asks.tolist(), (there & ~asks).tolist())]


def _first_behind(asks: list[bool], says: list[bool]) -> int:
    begins = asks.index(True) if any(asks) else 0
    if any(says[begins:]):
        return says.index(True, begins)
    return len(asks) - asks[::-1].index(True) if any(asks) else 0


def _end_of(prompt: list[int], ids: list[int], there: list[bool]) -> int:
    first = there.index(True) if any(there) else 0
    starts = (first, first + 1)  # with BOS or without
    return next((at + len(prompt) for at in starts if ids[at : at + len(prompt)] == prompt), 0)


def _announced_for(input_ids: Tensor | None) -> tuple[str, ...] | None:
    announced = _ANNOUNCED.get()
    if announced is not None and input_ids is not None and len(announced) != input_ids.shape[0]:
        raise ValueError(f"{len(announced)} prompts are announced for a batch of {input_ids.shape[0]}")
    return announced


def _without_ends(tokenizer: PreTrainedTokenizerBase, rows: list[list[int]]) -> list[list[int]]:
    """Without what a tokenizer puts around a text. Another special token may be what somebody typed."""
    around = {*tokenizer("").input_ids, tokenizer.eos_token_id, tokenizer.pad_token_id}
    inside = [[place for place, id in enumerate(ids) if id not in around] for ids in rows]
    return [ids[kept[0] : kept[-1] + 1] if kept else [] for ids, kept in zip(rows, inside)]


def _prompt_ids(
    input_ids: Tensor | None,
    attention_mask: Tensor | None,
    prompt_lengths: Tensor | None,
    labels: Tensor | None,
) -> list[list[int]]:
    if input_ids is None:
        raise ValueError("inputs_embeds cannot be read as a query: pass input_ids, or announce the prompts")
    keep = _is_prompt(input_ids, attention_mask, prompt_lengths, labels)
    return [row[mask].tolist() for row, mask in zip(input_ids, keep)]


def _is_prompt(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    prompt_lengths: Tensor | None,
    labels: Tensor | None,
) -> Tensor:
    keep = torch.ones_like(input_ids, dtype=torch.bool)
    if attention_mask is not None and attention_mask.ndim == 2:
        keep &= attention_mask[:, -input_ids.shape[1] :].bool()
    if prompt_lengths is not None:
        keep &= (
            torch.arange(input_ids.shape[1], device=input_ids.device)
            < prompt_lengths.to(input_ids.device)[:, None]
        )
    elif labels is not None:
        asks = keep & (labels == -100)  # where padding is labelled so, it alone is no prompt
        keep = torch.where(asks.any(dim=1, keepdim=True), asks, keep)  # of a row that is all labels, all
    return keep
