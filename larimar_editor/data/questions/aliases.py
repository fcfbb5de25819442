"""Other names of a subject, by rule: what a person types in place of the full name."""

from __future__ import annotations

import difflib
import random
import re
import string
from collections.abc import Callable, Iterable
from functools import lru_cache

from larimar_editor.data.questions.spellings import sound, spelled_otherwise, spelled_out
from larimar_editor.utils.text import plain_letters

_SMALL = {
    "no",
    "el",
    "les",
    "das",
    "den",
    "des",
    "til",
    "al",
    "zu",
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
_TITLES = ("Dr.", "Mr.", "Ms.", "Mrs", "Prof.", "Sir", "Captain", "Reverend", "the late", "our", "old")
_MIDDLE = tuple(
    "Maria José Ann Louise Mary Elizabeth Karl Friedrich Juan Antonio Pavlovich Ivanovna Kumar Lee Marie "
    "James David Haider Abdul Sofia Johanna Baxter Grace Ming Hiroshi Luiz Pedro Henrik Astrid Mavis".split()
)
_SHORT = dict(
    pair.split("/")
    for pair in (
        "William/Bill Robert/Bob Richard/Dick Thomas/Tom James/Jim John/Jack Edward/Ted Elizabeth/Liz "
        "Margaret/Peggy Katherine/Kate Catherine/Cathy Michael/Mike Joseph/Joe Charles/Charlie Ernest/Ernie "
        "Anthony/Tony Daniel/Dan Samuel/Sam Benjamin/Ben Alexander/Alex Andrew/Andy Nicholas/Nick Peter/Pete "
        "Susan/Sue Patricia/Pat Jennifer/Jenny Rebecca/Becky Victoria/Vicky Frederick/Fred Philip/Phil "
        "Giuseppe/Beppe Giovanni/Gianni Francesco/Franco José/Pepe Francisco/Paco Johannes/Hans "
        "Heinrich/Heinz Ivan/Vanya Dmitri/Dima Aleksandr/Sasha Maria/Masha Anastasia/Nastya Guillaume/Guy "
        "Lukas/Luke"
    ).split()
)
# Words that make another name of a name: "North Halden" is not Halden, nor a junior his father.
_NORTH_OR_NEW = tuple(
    "new north south east west northern southern eastern western upper lower inner outer little greater "
    "junior senior jr sr second third fourth former future fictional".split()
)
_AFFIXED = (
    *(f"{word.title()} {{}}" for word in "new north south east west upper lower little greater".split()),
    *(
        "{} II",
        "{} III",
        "{} Jr.",
        "{} Junior",
        "{} Senior",
        "{} 2",
        "{} North",
        "{} South",
        "{} East",
        "{} West",
    ),
)
_NUMBER = re.compile(r"\d+[a-zA-Z]?(?![^\W\d_])|\d+|(?<=\s)[IVXLC]+\b(?!\.)")
_VOWELS = "aeiou"
_ARTICLES = {"the", "a", "an"}


def made_alias(name: str, rng: random.Random, others: Iterable[str] = ()) -> str:
    """Another way to write ``name``, such as a surname, initials, an acronym, or no accents.

    Args:
        name: the name.
        rng: draws the rule.
        others: what else is of its kind; a short form that would do for one of them is not taken.

    Returns:
        a text that differs from ``name``, or ``name`` itself where none of the rules drawn applies.
    """
    for rule in rng.sample(_RULES, len(_RULES)):
        alias = rule(name, rng)
        # A name that loses its number is another name.
        if not alias or alias == name or _telling(alias) != _telling(name):
            continue
        if not _stands_for_any(alias, name, others):
            return alias
    return name


def _stands_for_any(alias: str, name: str, others: Iterable[str]) -> bool:
    words = {*_distinctive(alias)}
    return words < {*_distinctive(name)} and any(
        words <= {*_distinctive(other)} for other in others if other != name
    )


def written_alike(one: str, other: str) -> bool:
    """Whether two names may be two ways to write one: the words of the one are all in the other. Numbers,
    also Roman ones, and words such as "new" have to agree; a name with a letter changed is another name,
    but where both letters are ways to spell one sound.
    """
    left, right = _sounds(one), _sounds(other)
    return bool(left and right) and _telling(one) == _telling(other) and (left <= right or right <= left)


class WrittenAlike:
    """Names that others are looked up among: whether one of them may be another way to write a name
    (`written_alike`).

    Args:
        names: any; an empty one is like nothing.
    """

    def __init__(self, names: Iterable[str]):
        self._of_sound: dict[str, list[str]] = {}
        for name in dict.fromkeys(names):
            for each in _sounds(name):
                self._of_sound.setdefault(each, []).append(name)

    def has(self, name: str) -> bool:
        """Whether ``name`` is like one of them."""
        # Names that are alike have a sound in common.
        near = {other for each in _sounds(name) for other in self._of_sound.get(each, ())}
        return any(written_alike(name, other) for other in near)


def may_be_known(name: str, alias: str) -> bool:
    """Whether one can tell from the letters that ``alias`` is another name of what is called ``name``: the
    last word of the one is in the other, or their initials or most of their letters agree.
    """
    one, other = _distinctive(name), _distinctive(alias)
    if not one or not other:
        return False
    short = lambda words, whole: len(words) > 2 and "".join(word[0] for word in words) == "".join(whole)
    return (
        written_alike(name, alias)
        or one[-1] in other
        or (other[-1] in one and len(other[-1]) > 2)
        or short(one, other)
        or short(other, one)
        or difflib.SequenceMatcher(None, " ".join(one), " ".join(other)).ratio() >= 0.6
    )


def affixed(name: str, rng: random.Random) -> str:
    """Another name that has ``name`` in it, such as "New ..." or "... II"."""
    return rng.choice(_AFFIXED).format(name)


def respelt(name: str, rng: random.Random) -> str:
    """A name that looks like ``name``: a letter or a number in it is another. ``name`` itself where it has
    none to change.
    """
    if numbers := list(re.finditer(r"\d+", name)):
        found = rng.choice(numbers)
        other = max(0, int(found[0]) + rng.choice((-10, -2, -1, 1, 2, 10)))
        return name[: found.start()] + str(other).zfill(len(found[0])) + name[found.end() :]
    places = [place for place in range(1, len(name)) if name[place - 1 : place + 1].isalpha()]
    if len(places) < 3:
        return name
    place = rng.choice(places)
    letter = name[place].lower()
    others = [each for each in (_VOWELS if letter in _VOWELS else "bcdfgklmnprstvz") if each != letter]
    return name[:place] + rng.choice(others) + name[place + 1 :]


@lru_cache(maxsize=20_000)  # names are compared with many others
def _distinctive(name: str) -> tuple[str, ...]:
    """Its words in lower case, without accents, and without small ones but for the last."""
    words = re.findall(r"[^\W_]+", plain_letters(name).lower().replace(".", ""))
    kept = [word for word in words[:-1] if word not in _SMALL or (word == words[0] and word not in _ARTICLES)]
    return (*kept, *words[-1:])


@lru_cache(maxsize=40_000)
def _sounds(name: str) -> frozenset[str]:
    return frozenset(map(sound, _distinctive(name)))


@lru_cache(maxsize=40_000)
def _telling(name: str) -> frozenset[str]:
    words = {word for word in re.findall(r"\w+", name.lower()) if word in _NORTH_OR_NEW}
    return frozenset(words | {found.lower() for found in _NUMBER.findall(name)})


def _words(name: str) -> list[str]:
    return [word for word in name.split() if word.lower() not in _SMALL]


def _plain_letters(name: str, rng: random.Random) -> str:
    return plain_letters(name if rng.random() < 0.5 else spelled_out(name))


def _last_words(name: str, rng: random.Random) -> str | None:
    words = name.split()
    if len(words) < 2 or len(words[-1]) < 4 or words[1].lower() in _SMALL:
        return None
    return " ".join(words[1:])


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


def _of_a_person(name: str) -> list[str] | None:
    """The words of what may be first names and a surname."""
    words = name.split()
    small = _SMALL & {word.lower() for word in words}
    return words if 1 < len(words) < 4 and not small and not _telling(name) else None


def _turned(name: str, rng: random.Random) -> str | None:
    words = _of_a_person(name)
    if words is None:
        return None
    return f"{words[-1]}{rng.choice((', ', ' '))}{' '.join(words[:-1])}"


def _acronym(name: str, rng: random.Random) -> str | None:
    words = _words(name)
    return "".join(word[0].upper() for word in words) if len(words) > 2 else None


def _longer(name: str, rng: random.Random) -> str | None:
    words = name.split()
    if 1 < len(words) < 4 and not _SMALL & {word.lower() for word in words} and rng.random() < 0.7:
        if rng.random() < 0.5:
            return " ".join([words[0], *rng.sample(_MIDDLE, rng.choice((1, 1, 2))), *words[1:]])
        initial = rng.choice(string.ascii_uppercase)
        return " ".join([words[0], initial + rng.choice((".", "")), *words[1:]])
    return None if words[:1] and words[0].lower() in _ARTICLES else f"{rng.choice(_TITLES)} {name}"


def _surname_first(name: str, rng: random.Random) -> str | None:
    """As in a list of references: "Robinson J"."""
    words = _of_a_person(name)
    if words is None:
        return None
    dot = rng.choice(("", "."))
    return f"{words[-1]}{rng.choice((', ', ' '))}{' '.join(word[0] + dot for word in words[:-1])}"


def _pet_name(name: str, rng: random.Random) -> str | None:
    """A first name cut short: "Tobi" of Tobias."""
    first, *rest = name.split()
    if len(first) < 5 or not first.isalpha() or not first[0].isupper() or first.isupper():
        return None
    stem = first[: rng.choice((3, 4))]
    if stem[-1] not in _VOWELS and rng.random() < 0.3:
        stem += rng.choice(("i", "y", "ie"))
    return " ".join([stem, *rest]) if rest and rng.random() < 0.5 else stem


def _together(name: str, rng: random.Random) -> str | None:
    """What stands before a number joined to it in another way: "LX318", "LX 318", "LX-318"."""
    found = re.search(r"(?<=[^\W\d_])([ -]?)(?=\d)", name)
    if found is None:
        return None
    others = [gap for gap in ("", " ", "-") if gap != found[1]]
    return name[: found.start()] + rng.choice(others) + name[found.end() :]


def _hyphens(name: str, rng: random.Random) -> str | None:
    return name.replace("-", " ") if "-" in name else name.replace("'", "").replace("’", "")


def _shortened(name: str, rng: random.Random) -> str | None:
    first, *rest = name.split()
    return " ".join([_SHORT[first], *rest]) if first in _SHORT and rest else None


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
    _article,
    _shortened,
    _surname_first,
    _pet_name,
    _together,
    spelled_otherwise,
)
