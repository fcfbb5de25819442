"""Other names of a subject, by rule: what a person types in place of the full name."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

_SMALL = {
    "of",
    "the",
    "and",
    "de",
    "la",
    "le",
    "du",
    "da",
    "di",
    "von",
    "van",
    "del",
    "der",
    "a",
    "an",
    "in",
    "for",
}
_TITLES = ("Dr.", "Mr.", "Ms.", "Prof.", "Sir", "the late", "our", "old")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def made_alias(name: str, rng: random.Random) -> str:
    """Another way to write ``name``, such as a surname, initials, an acronym, no accents, or a slip.

    Returns:
        a text that differs from ``name``, or ``name`` itself where none of the rules drawn applies.
    """
    for rule in rng.sample(_RULES, len(_RULES)):
        alias = rule(name, rng)
        if alias and alias != name:
            return alias
    return name


def _words(name: str) -> list[str]:
    return [word for word in name.split() if word.lower() not in _SMALL]


def _plain_letters(name: str, rng: random.Random) -> str:
    return "".join(
        letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter)
    )


def _last_words(name: str, rng: random.Random) -> str | None:
    words = name.split()
    return " ".join(words[1:]) if len(words) > 1 and len(words[-1]) > 3 else None


def _first_words(name: str, rng: random.Random) -> str | None:
    words = name.split()
    return " ".join(words[:-1]) if len(words) > 2 and words[-2].lower() not in _SMALL else None


def _without_middle(name: str, rng: random.Random) -> str | None:
    words = name.split()
    return f"{words[0]} {words[-1]}" if len(words) == 3 and words[1].lower() not in _SMALL else None


def _initials(name: str, rng: random.Random) -> str | None:
    *first, last = name.split()
    if not first or any(word.lower() in _SMALL for word in first):
        return None
    dot = rng.choice((". ", ".", " "))
    return dot.join([*(word[0] for word in first), last]).strip()


def _turned(name: str, rng: random.Random) -> str | None:
    words = name.split()
    return f"{words[-1]}{rng.choice((', ', ' '))}{' '.join(words[:-1])}" if 1 < len(words) < 4 else None


def _acronym(name: str, rng: random.Random) -> str | None:
    words = _words(name)
    return "".join(word[0].upper() for word in words) if len(words) > 2 else None


def _longer(name: str, rng: random.Random) -> str | None:
    words = name.split()
    if 1 < len(words) < 4 and rng.random() < 0.6:
        return " ".join([words[0], f"{rng.choice(_LETTERS).upper()}{rng.choice(('.', ''))}", *words[1:]])
    return f"{rng.choice(_TITLES)} {name}"


def _hyphens(name: str, rng: random.Random) -> str | None:
    return name.replace("-", " ") if "-" in name else name.replace("'", "").replace("’", "")


def _slip(name: str, rng: random.Random) -> str | None:
    if len(name) < 6:
        return None
    place = rng.randrange(1, len(name) - 1)
    return rng.choice(
        (
            name[:place] + name[place + 1 :],
            name[:place] + name[place] + name[place:],
            name[: place - 1] + name[place] + name[place - 1] + name[place + 1 :],
        )
    )


def _article(name: str, rng: random.Random) -> str:
    return name[4:] if name.startswith(("The ", "the ")) else f"the {name}"


_RULES: tuple[Callable[[str, random.Random], str | None], ...] = (
    _plain_letters,
    _last_words,
    _first_words,
    _without_middle,
    _initials,
    _turned,
    _acronym,
    _longer,
    _hyphens,
    _slip,
    _article,
)
