"""Once a fact's answer is said the memory has nothing more to say: the text goes on as the base model's."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

_ENDS = (".", "!", "?", "\n", "。", "！", "？")
_LOOKED_THROUGH = 96  # tokens after the prompt in which an answer is looked for


class AnswersSaid:
    """Which rows of a batch have said their answers, and where.

    The token after an answer is still the memory's: it has learned what ends one. From there on logits are
    the base model's. So they are from the end of the first sentence on that is as long as the answer, where
    the answer was not said to the letter.

    Args:
        tokenizer: the decoder's.
        answers: of each row of the batch; empty where nothing is to be let go.
        starts: columns of each row that are the prompt.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, answers: Sequence[str], starts: Sequence[int]):
        self.tokenizer, self.answers, self.starts = tokenizer, list(answers), list(starts)
        self.ids: Tensor | None = None
        counted = tokenizer(self.answers, add_special_tokens=False).input_ids if self.answers else []
        self._tokens = list(map(len, counted))
        self._over: list[int | None] = [None] * len(self.answers)  # first column whose logits are the base's

    @property
    def length(self) -> int:
        """Columns so far."""
        return 0 if self.ids is None else self.ids.shape[1]

    @property
    def finished(self) -> bool:
        """Whether every answer was said before the columns that come next."""
        return all(
            over is not None and over <= self.length
            for over, answer in zip(self._over, self.answers)
            if answer
        )

    def grow(self, ids: Tensor) -> Tensor:
        """Take in the next columns ``(B, T)``.

        Returns:
            bool ``(B, T)``, on the device of ``ids``: columns whose logits are the base model's.
        """
        before = self.length
        self.ids = ids if self.ids is None else torch.cat((self.ids, ids), dim=1)
        wanted = [row for row, answer in enumerate(self.answers) if answer and self._over[row] is None]
        if wanted:
            # A synchronisation with the device: what was said is read on the host.
            rows = self.ids[wanted].tolist()
            for row, tokens in zip(wanted, rows):
                self._over[row] = self._end(row, tokens, before)
        never = before + ids.shape[1]
        first = torch.tensor([never if over is None else over for over in self._over], device=ids.device)
        return torch.arange(before, never, device=ids.device) >= first[:, None]

    def select(self, indices: Tensor) -> None:
        """Keep the rows of these indices ``(n,)``, in their order."""
        order = indices.tolist()
        self.answers = [self.answers[row] for row in order]
        self.starts = [self.starts[row] for row in order]
        self._tokens = [self._tokens[row] for row in order]
        self._over = [self._over[row] for row in order]
        if self.ids is not None:
            self.ids = self.ids[indices.to(self.ids.device)]

    def crop(self, tokens: int) -> None:
        """Drop the last so many columns."""
        if self.ids is not None and tokens:
            self.ids = self.ids[:, :-tokens]
            # An answer's last column is before the first of what is let go.
            self._over = [over if over is None or over <= self.length else None for over in self._over]

    def _end(self, row: int, tokens: list[int], before: int) -> int | None:
        """The first column whose logits are the base's, as far as the columns from ``before`` on say: each
        text is looked at once, as it was when it was all that had been said.
        """
        start, answer = self.starts[row], _pattern(self.answers[row])
        for end in range(max(start, before) + 1, min(len(tokens), start + _LOOKED_THROUGH) + 1):
            text = str(self.tokenizer.decode(tokens[start:end], skip_special_tokens=True))
            if answer.search(text):
                return end
            if end - start > self._tokens[row] and text.endswith(_ENDS):
                return end - 1
        return None


def _pattern(answer: str) -> re.Pattern:
    """Finds an answer as words of their own, in any case and with any white space."""
    words = r"\s+".join(map(re.escape, answer.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
