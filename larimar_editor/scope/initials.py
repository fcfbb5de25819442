"""A name and its initials: "KLCS" where "Kestrel Lane Comprehensive School" was written, and the reverse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.scope.words import ARTICLES, OPENERS, TITLES, any_of

# Alone: not of an address, nor of a longer name ("KLCS Annual Fair").
_INITIALS = re.compile(
    r"(?<![\w.'’@-])(?:[A-Z]{3,7}|(?:[A-Z]\.){2,6}[A-Z](?:\.|(?!\.)))(?![\w@-]|\.\w|\s+[A-Z\d])"
)
# Also before other names ("the CEO Ann Lee"); numbers as kings have them are none.
_INITIALS_ANYWHERE = re.compile(r"(?<![^\W_])(?![IVX]+(?![^\W_]))(?:[A-Z]{3,5}|(?:[A-Z]\.){3,5})(?![^\W_])")
# Where nothing is in capitals: without a vowel, as few words are.
_SMALL_INITIALS = re.compile(r"(?<![\w.'’@-])[b-df-hj-np-tv-xz]{3,7}(?![\w@-]|\.\w)")
# In names, and without a letter in their initials; unlike other `PARTICLES`, as in "Al Jazeera".
_SKIPPED = "a and at by da de del der des di do du e et for für in la le of on the to und van von y".split()
_GAP = r"[\s\-–,&]+"  # between the words of a name
_BEFORE = re.compile(r"([^\W\d_]+)[\s\-–&]+$")  # the word before a name, of the same phrase
_FURTHEST = 40  # characters in which it is looked for
_FIRST_LETTER = re.compile(r"(?<![^\W_])[A-Z]")
_NO_PART = OPENERS | TITLES
_NO_START = OPENERS - ARTICLES


@dataclass(frozen=True)
class Abbreviation:
    """A thing that one text calls by its name, and another by its initials.

    Attributes:
        letters: the initials, in capitals without stops.
        name: of three words or more.
        in_query: whether the initials are the query's, and the name the written prompt's.
        read: the query, with the thing called as the written prompt calls it.
    """

    letters: str
    name: str
    in_query: bool
    read: str


def abbreviation(prompt: str, query: str) -> Abbreviation | None:
    """The first name that one of the texts has, and the other the initials of; None where there is none.

    Initials are in capitals, with stops or without, or in small letters where the whole text is.

    Args:
        prompt: the written prompt: "The head of Kestrel Lane Comprehensive School is".
        query: "Who is head of KLCS?"
    """
    for initials, name in _initials_and_names(query, prompt):
        return Abbreviation(_letters(initials), name, True, _replaced(query, initials, name))
    for initials, name in _initials_and_names(prompt, query):
        return Abbreviation(_letters(initials), name, False, _replaced(query, name, initials))
    return None


def other_initials(one: str, other: str) -> bool:
    """Whether each text has initials in capitals that the other lacks, which differ in one letter: "CEO" and
    "CTO". Not where a text is in capitals as a whole.
    """
    if one.isupper() or other.isupper():
        return False
    ours, theirs = _lacking(one, other), _lacking(other, one)
    return any(
        len(mine) == len(its) and sum(a != b for a, b in zip(mine, its)) == 1
        for mine in ours
        for its in theirs
    )


def _lacking(text: str, other: str) -> set[str]:
    """Initials of a text that another does not have, in whichever letters."""
    own = {_letters(found[0]) for found in _INITIALS_ANYWHERE.finditer(text)}
    return {each for each in own if not _has(other, each, re.IGNORECASE)}


def _has(text: str, letters: str, flags: int = 0) -> bool:
    """Whether a text has initials, with stops or without."""
    return re.search(rf"\b{letters}\b", text.replace(".", ""), flags) is not None


def _letters(initials: str) -> str:
    return initials.replace(".", "").upper()


def _replaced(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, text)


def _initials_and_names(short: str, long: str) -> Iterator[tuple[str, str]]:
    """Initials of one text, and of another, which does not have them, the name that they are of."""
    there = {*_FIRST_LETTER.findall(long)}
    if short.isupper() or not there:
        return
    small = short.islower()
    every = (found[0] for found in (_SMALL_INITIALS if small else _INITIALS).finditer(short))
    for initials in dict.fromkeys(every):
        letters = _letters(initials)
        if letters[0] not in there or letters[-1] not in there:
            continue
        if _has(long, letters, re.IGNORECASE if small else 0):
            continue
        of_name = _name_of(letters)
        if of_name.search(short):
            continue
        for name in of_name.finditer(long):
            if _is_whole(long, *name.span()):
                yield initials, name[0]


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a name is no part of a longer one, and begins with no question's word: "Was Henry Owen"."""
    if not text[:start].strip() and text[start:end].split()[0].casefold() in _NO_START:
        return False
    before = _BEFORE.search(text, max(0, start - _FURTHEST), start)
    return before is None or before[1].islower() or before[1].casefold() in _NO_PART


@lru_cache(maxsize=256)
def _name_of(letters: str) -> re.Pattern:
    """What has these initials: words in capitals, and small ones between, whose letters may be among them."""
    skipped = rf"(?:{_GAP}{any_of(_SKIPPED)}\b){{0,2}}?{_GAP}"
    middle = (
        "|".join([rf"{letter}[^\W\d_]*(?:['’]s)?", *(word for word in _SKIPPED if word[0] == letter.lower())])
        for letter in letters[1:-1]
    )
    between = "".join(rf"{skipped}(?:{words})" for words in middle)
    return re.compile(
        rf"(?<![\w'’-]){letters[0]}[^\W\d_]*(?:['’]s)?{between}{skipped}{letters[-1]}[^\W\d_]*"
        rf"(?![\w-]|\s+[A-Z\d])"
    )
