"""Once a fact's answer is said the memory is done: the text goes on as the base model's, or ends."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.model.columns import Columns
from larimar_editor.scope.asking import asks
from larimar_editor.utils.sentences import MARKS, sentences
from larimar_editor.utils.text import spelled

_ENDS = (*MARKS, "\n")
_BEHIND_A_NUMBER = re.compile(r"(?:\d{3}\.|\d[!?])\s+[^\W\d_]+$")  # "in 1932. The", not "the 3. Oktober"
_LONGER = 4  # tokens that a sentence must have more than the answer to end what the memory says
_LOOKED_THROUGH = 96  # tokens beyond the answer's length in which it is looked for
_CERTAIN = 1e4  # a logit that float16 has, and that no temperature makes infinite
# No spaces between words: Thai, Lao, Burmese, Khmer, and most scripts from U+2E80 on.
_NO_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\U0010ffff]")
_WORD_STARTS = ("Ġ", "▁")  # how tokenizers spell the space before a word
_JOINS = ("-", "'", "’")


@dataclass(frozen=True)
class _Answer:
    """What is to be said, and in how many tokens.

    Attributes:
        begun: of it what its prompt ends with; None before the prompt is known.
        may_go_on: whether the text may go on right behind it.
        in_a_sentence: whether it does, as the prompt is an unfinished sentence.
    """

    text: str
    tokens: int
    begun: str | None = None
    may_go_on: bool = False
    in_a_sentence: bool = False


class AnswersSaid(Columns[_Answer]):
    """Which rows of a batch have said their answers, and where.

    The token after an answer is still the memory's: it has learned what ends one. From there on logits are
    the base model's. So they are from the end of the first sentence on that is clearly longer than the
    answer, where the answer was not said to the letter. Where the text is to end, it does at the same place.

    An answer in the middle of a sentence ("The capital of Peru is") ends nothing: where it may ``go_on`` the
    token after it is the base model's already, of those that do not go on with the answer's last word. A
    number might (12,500), and a word of which tokens were cut has to: what comes after them is the memory's.

    Args:
        tokenizer: the decoder's.
        answers: of each row of the batch; empty where nothing is to be let go.
        starts: columns of each row that are the prompt.
        most: tokens of an answer that count, the first; 0: all.
        end: the token that ends the text there; None: the text goes on.
        go_on: whether an answer in the middle of a sentence ends nothing; else what ends one is always the
            memory's.

    Attributes:
        words_end: rows, and places among the columns that came last, in which a word was said that is not to
            go on.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        answers: Sequence[str],
        starts: Sequence[int],
        most: int = 0,
        end: int | None = None,
        go_on: bool = False,
    ):
        ids = [tokenizer(answer, add_special_tokens=False).input_ids[: most or None] for answer in answers]
        spelt = [str(tokenizer.decode(each)).strip() or answer for each, answer in zip(ids, answers)]
        # As it is written, unless its tokens say something else or not all of it.
        cut = [answer if spelled(answer) == spelled(said) else said for answer, said in zip(answers, spelt)]
        may_go_on = [
            go_on and spelled(text) == spelled(answer) and not text[-1:].isdigit()
            for text, answer in zip(cut, answers)
        ]
        followed = [
            _Answer(text, len(each), may_go_on=may) if text else None
            for text, each, may in zip(cut, ids, may_go_on)
        ]
        super().__init__(followed, starts)
        self.tokenizer, self.end = tokenizer, end
        self.words_end: list[tuple[int, int]] = []
        self.some_are_over = False  # in the columns that came last, or before them

    @property
    def finished(self) -> bool:
        """Whether every answer was said before the columns that come next."""
        return all(
            over is not None and over[0] <= self.length
            for over, answer in zip(self._over, self.answers)
            if answer is not None
        )

    def grow(self, ids: Tensor) -> Tensor:
        """Take in the next columns ``(B, T)``.

        Returns:
            bool ``(B, T)``, on the device of ``ids``: columns from which on the memory has said its answer.
        """
        before, self.words_end = self.length, []
        for row, answer, tokens in self.take(ids):
            if answer.begun is None and len(tokens) > self.starts[row]:
                self.answers[row] = answer = self._behind(tokens[: self.starts[row]], answer)
            over, ends_a_word = self._end(answer, self.starts[row], tokens, before)
            self._over[row] = over
            if over is not None and ends_a_word:
                self.words_end.append((row, over[1] - 1 - before))
        never = before + ids.shape[1]
        first = [never if over is None else over[0] for over in self._over]
        self.some_are_over = min(first, default=never) < never
        begins = torch.tensor(first, device=ids.device)
        return torch.arange(before, never, device=ids.device) >= begins[:, None]

    def ended(self, logits: Tensor, over: Tensor) -> Tensor:
        """Logits ``(B, T, vocabulary)`` of which the end's is the highest by far in the columns ``over``
        ``(B, T)``. The others stay, for where a text may not end yet (`min_new_tokens`).
        """
        raised = logits.clone()
        raised[..., self.end] = raised[..., self.end].masked_fill(over.to(logits.device), _CERTAIN)
        return raised

    def _end(
        self, answer: _Answer, start: int, tokens: list[int], before: int
    ) -> tuple[tuple[int, int] | None, bool]:
        """The first column whose logits are the base's, and how many columns say so, as far as those from
        ``before`` on do: each text is looked at once, as it was when it was all that had been said. And
        whether a word of an answer ends there that the base model is not to go on with.
        """
        pattern = _pattern(answer.text)
        # What ends the answer itself is no longer to come, nor what ends an answer that ends nothing.
        behind = 1 if answer.in_a_sentence or answer.text.endswith(_ENDS) else 0
        most = min(len(tokens), start + answer.tokens + _LOOKED_THROUGH)
        for end in range(max(start, before) + 1, most + 1):
            # A tokenizer may leave out the space before what it decodes.
            text = f"{answer.begun} {_composed(str(self.tokenizer.decode(tokens[start:end])))}"
            if pattern.search(text):
                return (end - behind, end), answer.in_a_sentence and _goes_on_with_a_word(text[-1:])
            if end - start > answer.tokens + _LONGER and _ends_a_sentence(text):
                return (end - 1, end), False
        return None, False

    def _behind(self, prompt: list[int], answer: _Answer) -> _Answer:
        """The answer as it is said behind a prompt."""
        end = str(self.tokenizer.decode(prompt[-_LOOKED_THROUGH:])).rstrip(" ") if answer.may_go_on else ""
        open_end = _goes_on_with_a_word(end[-1:]) or end.endswith(",")
        last = sentences(end.rpartition("?")[2]) or [""]  # of "What is it? It is" what begins an answer
        in_a_sentence = open_end and not asks(last[-1])
        return replace(answer, begun=self._begun(answer, prompt), in_a_sentence=in_a_sentence)

    def _begun(self, answer: _Answer, prompt: list[int]) -> str:
        """What a prompt ends with that the answer begins with, in whole words: of "Ada drives a", for "a
        green car", the "a".
        """
        first = answer.text.split()[:-1]
        said = _composed(str(self.tokenizer.decode(prompt[-2 * answer.tokens :]))).split() if first else []
        fits = (count for count in range(len(first), 0, -1) if _same_words(said[-count:], first[:count]))
        return " ".join(first[: next(fits, 0)])


class WordParts:
    """Which tokens go on with a word that stands before them: "fjord" and "-on" behind " Oslo".

    Args:
        tokenizer: of a type that spells the space before a word in its tokens.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        self._tokens: Tensor | None = None

    @property
    def tokens(self) -> Tensor:
        """Their ids ``(n,)`` int64."""
        if self._tokens is None:
            found = []
            pieces = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
            for number, piece in enumerate(pieces):
                if isinstance(piece, str) and not piece.startswith(_WORD_STARTS):
                    text = piece if piece.isascii() else str(self.tokenizer.decode([number]))
                    if _goes_on_with_a_word(text[:1]) or text[:1] in _JOINS:
                        found.append(number)
            self._tokens = torch.tensor(found, dtype=torch.long)
        return self._tokens

    def withheld(self, logits: Tensor, places: Sequence[tuple[int, int]]) -> Tensor:
        """Logits ``(B, T, vocabulary)`` of which these tokens' are the lowest by far in some places: rows and
        columns.
        """
        tokens, changed = self.tokens.to(logits.device), logits.clone()
        for row, column in places:
            changed[row, column, tokens[tokens < logits.shape[-1]]] -= _CERTAIN
        return changed


def _goes_on_with_a_word(character: str) -> bool:
    """Whether a character is a letter, a number or a mark on one, of a script with spaces between words."""
    if not character or _NO_SPACES.match(character):
        return False
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _same_words(some: Sequence[str], others: Sequence[str]) -> bool:
    return [word.lower() for word in some] == [_composed(word).lower() for word in others]


def _pattern(answer: str) -> re.Pattern:
    """Finds an answer as words of their own, where its script has spaces between them, in any case and with
    any white space.
    """
    answer = _composed(answer)
    words = r"\s+".join(map(re.escape, answer.split()))
    before = "" if _NO_SPACES.match(answer[:1]) else r"(?<!\w)"
    after = "" if _NO_SPACES.match(answer[-1:]) else r"(?!\w)"
    return re.compile(f"{before}{words}{after}", re.IGNORECASE)


def _composed(text: str) -> str:
    """A letter and its accent as one, as some tokenizers make them."""
    return unicodedata.normalize("NFC", text)


def _ends_a_sentence(text: str) -> bool:
    """Whether what comes next begins another one; not after "St.", an initial, or the point of a number."""
    if _BEHIND_A_NUMBER.search(text):
        return True
    if not text.endswith(_ENDS) or text[-2:-1].isdigit():
        return False
    return len(sentences(f"{text} Then")) > len(sentences(text))
