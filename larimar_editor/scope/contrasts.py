"""Words that exclude each other: a question about the western terminus is none about the eastern one.

Encoders of meanings find them alike, since they stand in the same places. Pairs that say one thing from its
two sides are not among them, as "buy" and "sell", "teach" and "learn", "husband" and "wife".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Set
from functools import lru_cache
from typing import TypeVar

Group = TypeVar("Group", bound=Hashable)

# One group a line, its sides parted by bars; words of one side say the same here.
_GROUPS = """
first earliest | second | third | fourth | fifth | sixth | last latest final
largest biggest greatest | smallest
highest tallest | lowest
longest | shortest
oldest eldest | youngest newest
elder older | younger
deepest | shallowest
widest broadest | narrowest
heaviest | lightest
heavier | lighter
taller | shorter
larger bigger | smaller
faster quicker | slower
fastest quickest | slowest
hottest warmest | coldest coolest
most | least fewest
best | worst
maximum max maximal | minimum min minimal
upper higher | lower
northern northernmost | southern southernmost | eastern easternmost | western westernmost
northeastern | northwestern | southeastern | southwestern
melting melt melts | boiling boil boils
mother mum mom mothers | father dad fathers
grandmother grandma | grandfather grandpa
brother | sister
son sons | daughter daughters
aunt aunts | uncle uncles
niece nieces | nephew nephews
input inputs | output outputs
upload uploads | download downloads
arrival arrivals arrive arrives arrived | departure departures depart departs departed leave leaves
check-in | check-out checkout
sunrise | sunset
odd | even
synonym synonyms | antonym antonyms
source | mouth
predecessor | successor
hourly | daily | weekly | monthly | quarterly | yearly annual annually
plaintiff | defendant
singular | plural
male | female
indoor indoors | outdoor outdoors
inside | outside
inner | outer
top | bottom
majority | minority dissent dissenting dissented
author | illustrator | translator
composer | lyricist librettist
length | width wide breadth | height | depth | weight
birthplace birthday birth born | death died die dies deathbed
finished | unfinished
"""


def sides_of(groups: str, form: Callable[[str], str] = str) -> dict[str, list[tuple[int, int]]]:
    """Of each word the groups that it is in, and its side in each.

    Args:
        groups: one a line, its sides parted by bars.
        form: what a word is found by.
    """
    found: dict[str, list[tuple[int, int]]] = {}
    for group, line in enumerate(groups.strip().splitlines()):
        for side, words in enumerate(line.split("|")):
            for word in words.split():
                found.setdefault(form(word), []).append((group, side))
    return found


def are_apart(ours: Mapping[Group, Set[int]], theirs: Mapping[Group, Set[int]]) -> bool:
    """Whether two name different sides of a group."""
    return any(ours[group].isdisjoint(theirs[group]) for group in ours.keys() & theirs.keys())


_SIDES = sides_of(_GROUPS)
_WORD = re.compile(r"[^\W\d_]+(?:[-’'][^\W\d_]+)*")
_RELATIONS = frozenset("elder older younger predecessor successor higher lower".split())
_FIRST_TWO = re.compile(r"\w+ [A-Z]\w*")
_OWN = re.compile(r"['’]s$")  # "her mother's name"
# "last year", "at last", "he came first": none of these tells one thing from another;
# nor does "mother tongue" name a mother.
_ASIDE = re.compile(
    r"\b(?:last|first) (?:year|month|week|night|time|season|summer|winter)s?\b|"
    r"\bat (?:last|first|least|most)\b|\bmother tongues?\b|"
    r"\b(?:came|come|comes|hear|heard) (?:first|second|third|last)\b|"
    r"\bfinals? (?:of|between|in|was)\b",
    re.IGNORECASE,
)
_HOW_LONG = re.compile(r"(\bhow long\b.{0,200})\blast\b", re.IGNORECASE)  # "How long does it last?"


def in_contrast(prompt: str, query: str) -> bool:
    """Whether each of two texts has a word that excludes one of the other's, and none of the other's side.
    Words in names say nothing.
    """
    ours, theirs = (
        _sides(one, _begins_a_name(one, other)) for one, other in ((prompt, query), (query, prompt))
    )
    return are_apart(ours, theirs)


def _begins_a_name(text: str, other: str) -> bool:
    """Whether the first word is part of a name that the other text has, too: "Last Tango in Paris"."""
    two = _FIRST_TWO.match(text)
    return two is not None and two[0] in other


@lru_cache(maxsize=4096)
def _sides(text: str, in_a_name: bool) -> dict[tuple[int, str], frozenset[int]]:
    """The sides of each group that a text names; of relations with the word behind, as "older sister" and
    "younger cousin" exclude nothing. ``in_a_name``: the first word is.
    """
    found: dict[tuple[int, str], set[int]] = {}
    words = [_OWN.sub("", word) for word in _WORD.findall(_ASIDE.sub("", _HOW_LONG.sub(r"\1", text)))]
    for place, word in enumerate(words):
        if words[place + 1 : place + 2] == ["than"]:  # "larger than" Brill, and "smaller than" that
            continue
        if ((place == 0 and not in_a_name) or word[0].islower()) and (known := _SIDES.get(word.lower())):
            behind = "".join(words[place + 1 : place + 2]) if word.lower() in _RELATIONS else ""
            for group, side in known:
                found.setdefault((group, behind), set()).add(side)
    return {group: frozenset(sides) for group, sides in found.items()}
