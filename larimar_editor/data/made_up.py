"""Answers that stand on no list: pieces of running text, names put together from the letters of others,
codes, dates and amounts. A decoder that is to say any answer has to see more than can be written down.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

_ORDER = 3  # letters that the next one of a made-up name hangs on
_MOST_LETTERS = 14
_WORDS_OF_PIECE = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 13)
_WORDS_OF_NAME = (1, 1, 1, 2, 2, 3)
_AROUND = ".,;:!?\"'()[]“”‘’–—- "  # a piece of text is cut out without these
_MONTHS = "January February March April May June July August September October November December".split()
_UNITS = (
    "km kg metres euros dollars miles pounds litres hours minutes days people % °C mm tonnes seats".split()
)


class MadeUpAnswers:
    """Draws answers that nobody wrote.

    Args:
        texts: running text that pieces are cut from.
        names: whose letters made-up names are put together from.

    Raises:
        ValueError: no text, or no name.
    """

    def __init__(self, texts: Iterable[str], names: Iterable[str]):
        self._texts = [words for text in texts if (words := text.split())]
        self._next: dict[str, list[str]] = defaultdict(list)
        for word in sorted({word for name in names for word in name.split() if word.isalpha()}):
            letters = " " * _ORDER + word.lower() + "\n"
            for end in range(_ORDER, len(letters)):
                self._next[letters[end - _ORDER : end]].append(letters[end])
        if not self._texts or not self._next:
            raise ValueError("made-up answers need some text and some names")

    def draw(self, rng: random.Random) -> str:
        """An answer of one to some thirty tokens."""
        return rng.choices((self._piece, self._name, _number), (0.3, 0.5, 0.2))[0](rng)

    def _piece(self, rng: random.Random) -> str:
        while True:
            words, count = rng.choice(self._texts), rng.choice(_WORDS_OF_PIECE)
            start = rng.randrange(max(1, len(words) - count + 1))
            piece = " ".join(words[start : start + count]).strip(_AROUND)
            # One sentence: what comes after an answer's full stop is not the answer's.
            if any(letter.isalnum() for letter in piece) and not any(
                end in piece for end in (". ", "? ", "! ")
            ):
                return piece

    def _name(self, rng: random.Random) -> str:
        words = [self._word(rng) for _ in range(rng.choice(_WORDS_OF_NAME))]
        return " ".join(words) if rng.random() < 0.1 else " ".join(word.capitalize() for word in words)

    def _word(self, rng: random.Random) -> str:
        while True:
            letters = " " * _ORDER
            while letters[-1] != "\n" and len(letters) < _ORDER + _MOST_LETTERS:
                letters += rng.choice(self._next[letters[-_ORDER:]])
            if len(word := letters.strip()) > 2:
                return word


def _number(rng: random.Random) -> str:
    amount = rng.choice((rng.randrange(100), rng.randrange(10_000), rng.randrange(10_000_000)))
    year, day, month = rng.randrange(1200, 2100), rng.randrange(1, 29), rng.choice(_MONTHS)
    kinds: Sequence[str] = (
        f"{amount:,} {rng.choice(_UNITS)}",
        f"{amount}",
        f"{amount / 100:.{rng.choice((1, 2))}f} {rng.choice(_UNITS)}",
        f"{year}",
        f"{day} {month} {year}",
        f"{month} {year}",
        f"{month} {day}",
        f"{rng.randrange(24)}:{rng.randrange(60):02d}",
        f"{_letters(rng)}{rng.choice(('-', ' ', ''))}{rng.randrange(10_000)}",
        f"{rng.randrange(100)}-{_letters(rng)}-{rng.randrange(1000)}",
    )
    return rng.choice(kinds)


def _letters(rng: random.Random) -> str:
    return "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=rng.randrange(1, 4)))
