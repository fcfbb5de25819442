"""Which part of a batch is the query: the prompt alone, never an answer that stands after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property

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


@dataclass(frozen=True, eq=False)
class Prompts:
    """The query of each row of a batch: what is announced, the first ``lengths`` columns, those whose
    ``labels`` are -100, or all of it.

    Args:
        tokenizer: the decoder's.
        rows: B.
        ids: ``(B, T)``; None only where prompts are announced.
        attention_mask: ``(B, T)``, or longer where there is a cache.
        lengths: ``(B,)`` int, columns that are the prompt, padding counted.
        labels: ``(B, T)``.

    Raises:
        ValueError: by each method, where prompts are announced for another number of rows, or there are
            neither ids nor an announcement.
    """

    tokenizer: PreTrainedTokenizerBase
    rows: int
    ids: Tensor | None
    attention_mask: Tensor | None = None
    lengths: Tensor | None = None
    labels: Tensor | None = None

    def queries(self, turns: ChatTurns | None = None) -> list[str]:
        """As text; of a chat in the template whose ``turns`` these are its last question."""
        if (announced := self._announced) is not None:
            return questions_in(announced, turns)
        bare = self.tokenizer.batch_decode(_without_ends(self.tokenizer, self._ids_asked))
        if turns is None:
            return bare
        # What is no chat, or one in which nobody asks anything, is the query as it is.
        whole = self.tokenizer.batch_decode(self._ids_asked)
        return [turns.last_question(text) or query for text, query in zip(whole, bare)]

    def at_line_start(self) -> list[bool]:
        """Whether what follows each prompt opens a line, as the assistant's turn of most chat templates does.
        The given text tells, up to ``lengths``; an announced prompt only where there are none.
        """
        announced = self._announced
        if announced is not None and (self.lengths is None or self.ids is None):
            return [text.endswith("\n") for text in announced]
        ends = self.tokenizer.batch_decode([row[-1:] for row in self._ids_asked])
        return [text.endswith("\n") for text in ends]

    def answer_starts(self) -> list[int]:
        """The column at which each row's answer begins, or would begin. 0 for an announced prompt that the
        row does not begin with, as one that stands in a chat.
        """
        announced, there = self._announced, self._there
        if announced is not None and self.lengths is None:
            prompts = [token_ids(self.tokenizer, text.rstrip(" ")) for text in announced]
            return [_end_of(*row) for row in zip(prompts, self._known_ids.tolist(), there.tolist())]
        asks = self._asks
        return [_first_behind(*row) for row in zip(asks.tolist(), (there & ~asks).tolist())]

    @property
    def _announced(self) -> tuple[str, ...] | None:
        announced = _ANNOUNCED.get()
        if announced is not None and len(announced) != self.rows:
            raise ValueError(f"{len(announced)} prompts are announced for a batch of {self.rows}")
        return announced

    @property
    def _known_ids(self) -> Tensor:
        if self.ids is None:
            raise ValueError(
                "inputs_embeds cannot be read as a query: pass input_ids as well, one for each column, or "
                "announce the prompts"
            )
        return self.ids

    @cached_property
    def _ids_asked(self) -> list[list[int]]:
        # The text is needed on the host, by the tokenizers of encoder and detector.
        return [row[mask].tolist() for row, mask in zip(self._known_ids, self._asks)]

    @cached_property
    def _there(self) -> Tensor:
        """Bool ``(B, T)``, columns that are no padding."""
        ids = self._known_ids
        there = torch.ones_like(ids, dtype=torch.bool)
        if self.attention_mask is not None and self.attention_mask.ndim == 2:
            there &= self.attention_mask[:, -ids.shape[1] :].bool()
        return there

    @cached_property
    def _asks(self) -> Tensor:
        """Bool ``(B, T)``, columns that are the prompt."""
        there = self._there
        if self.lengths is not None:
            columns = torch.arange(there.shape[1], device=there.device)
            return there & (columns < self.lengths.to(there.device)[:, None])
        if self.labels is None:
            return there
        asks = there & (self.labels == -100)  # where padding is labelled so, it alone is no prompt
        return torch.where(asks.any(dim=1, keepdim=True), asks, there)  # of a row that is all labels, all


def _first_behind(asks: list[bool], says: list[bool]) -> int:
    begins = asks.index(True) if any(asks) else 0
    if any(says[begins:]):
        return says.index(True, begins)
    return len(asks) - asks[::-1].index(True) if any(asks) else 0


def _end_of(prompt: list[int], ids: list[int], there: list[bool]) -> int:
    first = there.index(True) if any(there) else 0
    starts = (first, first + 1)  # with BOS or without
    return next((at + len(prompt) for at in starts if ids[at : at + len(prompt)] == prompt), 0)


def _without_ends(tokenizer: PreTrainedTokenizerBase, rows: list[list[int]]) -> list[list[int]]:
    """Without what a tokenizer puts around a text. Another special token may be what somebody typed."""
    around = {*tokenizer("").input_ids, tokenizer.eos_token_id, tokenizer.pad_token_id}
    inside = [[place for place, id in enumerate(ids) if id not in around] for ids in rows]
    return [ids[kept[0] : kept[-1] + 1] if kept else [] for ids, kept in zip(rows, inside)]
