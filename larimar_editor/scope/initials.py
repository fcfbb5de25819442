"""A name and its initials: "KLCS" where "Kestrel Lane Comprehensive School" was written, and the reverse."""

from __future__ import annotations

import re
from functools import lru_cache

from larimar_editor.scope.small_words import OPENERS

# Alone: not of an address, nor of a longer name ("KLCS Annual Fair").
_INITIALS = re.compile(
    r"(?<![\w.'’@-])(?:[A-Z]{3,7}|(?:[A-Z]\.){2,6}[A-Z]\.?|[a-z]{4,7})(?![\w@-]|\.\w|\s+[A-Z\d])"
)
_SMALL = "a and at by da de del der des di do du e et for für in la le of on the to und van von y".split()
_GAP = r"[\s\-–,&]+"  # between the words of a name
_BEFORE = re.compile(rf"([^\W\d_]+){_GAP}$")


def as_abbreviated_in(prompt: str, query: str) -> str:
    """A query, with a name of three words or more in place of its initials, or the initials in place of the
    name, as a written prompt has it; the query itself where both have the same, or neither.

    Args:
        prompt: the written prompt: "The head of Kestrel Lane Comprehensive School is".
        query: "Who is head of KLCS?", in capitals unless nothing in it is.
    """
    if (found := _initials_and_name(query, prompt)) is not None:
        (start, end), name = found
        return query[:start] + prompt[slice(*name)] + query[end:]
    if (found := _initials_and_name(prompt, query)) is not None:
        (start, end), initials = found[1], prompt[slice(*found[0])]
        return query[:start] + initials + query[end:]
    return query


def _initials_and_name(short: str, long: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where a text has initials, and where another, that does not have them, the name that they are of."""
    if short.isupper():
        return None
    for found in _INITIALS.finditer(short):
        letters = found[0].replace(".", "").upper()
        small = found[0].islower()
        if small and (found[0] in OPENERS or not short.islower()):
            continue
        if re.search(rf"\b{letters}\b", long.replace(".", ""), re.IGNORECASE):
            continue
        of_name = _name_of(letters)
        if of_name.search(short):
            continue
        for name in of_name.finditer(long):
            before = _BEFORE.search(long[: name.start()])
            if before is None or before[1].islower() or before[1].casefold() in OPENERS:
                return found.span(), name.span()
    return None


@lru_cache(maxsize=4096)
def _name_of(letters: str) -> re.Pattern:
    """What has these initials: words in capitals, and small ones between, whose letters may be among them."""
    skipped = rf"(?:{_GAP}(?:{'|'.join(_SMALL)})\b){{0,2}}?{_GAP}"
    middle = (
        "|".join([rf"{letter}[^\W\d_]*(?:['’]s)?", *(word for word in _SMALL if word[0] == letter.lower())])
        for letter in letters[1:-1]
    )
    between = "".join(rf"{skipped}(?:{words})" for words in middle)
    return re.compile(
        rf"(?<![\w'’-]){letters[0]}[^\W\d_]*(?:['’]s)?{between}{skipped}{letters[-1]}[^\W\d_]*"
        rf"(?![\w-]|\s+[A-Z\d])"
    )
