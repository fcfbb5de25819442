"""Text: a prompt and its target, letters as they are read, and the end of a text that is too long."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Sequence
from functools import lru_cache

from anyascii import anyascii
from transformers import PreTrainedTokenizerBase

# Between up to five letters and a number of two digits or more.
_CODE = re.compile(r"(?<![^\W_])([^\W\d_]{1,5})-?(?=\d\d)")


class TruncationWarning(UserWarning):
    """A text is longer than the encoder takes; the message names the text and what was cut."""


class SpellingWarning(UserWarning):
    """The decoder's tokens cannot spell an answer; the message names the fact and what is said instead."""


def several(texts: Sequence[str]) -> Sequence[str]:
    """The same texts.

    Raises:
        TypeError: it is one text, which is a sequence of letters to Python.
    """
    if isinstance(texts, str):
        raise TypeError(f"a list of texts is wanted, got one text: [{texts!r}]")
    return texts


def prompt_and_target(prompt: str, target: str) -> str:
    """A prompt with what it is to be continued by, a space between them unless one is there."""
    gap = "" if prompt.endswith(" ") or target.startswith(" ") else " "
    return prompt + gap + target


def kept_answer(tokenizer: PreTrainedTokenizerBase, prompt: str, target: str, most: int) -> tuple[str, int]:
    """Prompt and target as one text, with at most so many tokens of the target, and how many those are.

    Of a longer one the first are kept, with a `TruncationWarning` that names the fact and what is cut.
    """
    text = prompt_and_target(prompt, target)
    ids = token_ids(tokenizer, text)
    asked = len(token_ids(tokenizer, prompt.rstrip(" ")))
    answer = max(1, len(ids) - asked)
    _warn_of_spelling(tokenizer, prompt, target, ids[asked:])
    if answer <= most:
        return text, answer
    cut = str(tokenizer.decode(ids[asked + most :]))
    warnings.warn(
        f"the answer to {prompt!r} has {answer} tokens, and {most} are kept (answer_tokens); cut from its "
        f"end: {_shortened(cut)!r}",
        TruncationWarning,
        stacklevel=5,
    )
    # A cut through a letter of several tokens leaves a mark of it.
    kept = str(tokenizer.decode(ids[: asked + most])).rstrip("\ufffd")
    return kept, max(1, len(token_ids(tokenizer, kept)) - asked)


def _warn_of_spelling(
    tokenizer: PreTrainedTokenizerBase, prompt: str, target: str, ids: Sequence[int]
) -> None:
    said = str(tokenizer.decode(list(ids)))
    if spelled(said) != spelled(target):
        warnings.warn(
            f"the decoder's tokens cannot spell the answer {_shortened(target)!r} to {prompt!r}: it will say "
            f"{_shortened(said.strip())!r}",
            SpellingWarning,
            stacklevel=6,
        )


def spelled(text: str) -> str:
    """A text's letters and signs, to compare what went through a tokenizer: however its accents are put
    together, and without white space.
    """
    return "".join(unicodedata.normalize("NFC", text).split())


def answer_ids(tokenizer: PreTrainedTokenizerBase, prompt: str, target: str) -> list[int]:
    """The tokens of a target behind its prompt."""
    return token_ids(tokenizer, prompt_and_target(prompt, target))[
        len(token_ids(tokenizer, prompt.rstrip(" "))) :
    ]


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """A text's tokens without special ones, however many."""
    return tokenizer(text, add_special_tokens=False, verbose=False).input_ids


def same_at_end(one: Sequence, other: Sequence) -> int:
    """How many of the last elements are the same in both."""
    pairs = enumerate(zip(reversed(one), reversed(other)))
    return next((count for count, (own, its) in pairs if own != its), min(len(one), len(other)))


def plain_letters(text: str) -> str:
    """A text with Latin letters as they are typed without accents: "Łódź" as "Lodz", "Kjær" as "Kjaer".
    Letters of other alphabets stay.
    """
    return text if text.isascii() else "".join(map(_plain_letter, unicodedata.normalize("NFC", text)))


def read_alike(text: str) -> str:
    """A text as the scope detector reads it: `plain_letters`, and a code's letters and number apart, however
    they are joined: "LX318" and "LX-318" as "LX 318".
    """
    return _CODE.sub(r"\1 ", plain_letters(text))


@lru_cache(maxsize=4096)
def _plain_letter(letter: str) -> str:
    return anyascii(letter) if unicodedata.name(letter, "").startswith("LATIN ") else letter


def cut_to(ids: list[int], limit: int, text: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The last ``limit`` tokens, where the answer is; warns with what was cut."""
    if len(ids) <= limit:
        return ids
    cut = _shortened(str(tokenizer.decode(ids[:-limit])))
    warnings.warn(
        f"{text[:60]!r}... has {len(ids)} tokens and the encoder takes {limit}; cut from its start: {cut!r}",
        TruncationWarning,
        stacklevel=3,
    )
    return ids[-limit:]


def _shortened(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:80]} ... {text[-80:]}"
