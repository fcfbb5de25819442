"""Who does it, and to whom it is done: "Driftbox acquired" does not say who acquired Driftbox, nor "Ada is
the boss of" who Ada's boss is.

Encoders of meanings find such questions alike, since they have the same words. Where one asks for the other
side of what was written, word for word but for the form of a verb, it is told here: by what stands before its
verb, and what behind. So it is with relations whose two sides have names of their own, as "the tenant of" and
"the landlord of", and with the way from one place to another.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.scope.clauses import Clause, readings
from larimar_editor.scope.contrasts import are_apart, sides_of
from larimar_editor.scope.verbs import base_of, may_be_done
from larimar_editor.scope.words import PREPOSITIONS
from larimar_editor.utils.text import plain_letters

_JOINING = PREPOSITIONS | {"than", "like"}
_OWN = re.compile(r"['’]s?$")
_NAMES_IT = frozenset("name list identify give state".split())
_RELATIVES = frozenset("that which who".split())
_ASKING = frozenset("who whom what which".split())
_AS_ONE = {  # verbs that say the same here
    base_of(word): base_of(line.split()[0])
    for line in """
acquire buy purchase
beat defeat overcome
kill murder slay assassinate
founded established
own possess
employ hire
teach instruct tutor
inspire influence
write pen
succeed replace
cause trigger
create invent design
""".strip().splitlines()
    for word in line.split()
}
# Of these both sides may be asked for in the same words: whom Ada married, married Ada. The last line's are
# used that way by those who learn English: "What means that word?"
_OF_BOTH = frozenset(
    map(
        base_of,
        """
marry wed date meet border adjoin neighbour neighbor touch resemble match equal rhyme rival divorce join kiss
hug sibling brother sister cousin spouse partner friend colleague twin roommate classmate enemy opponent
counterpart synonym antonym opposite equivalent namesake ally peer companion competitor same similar identical
adjacent next known called nicknamed related relative parallel equidistant close near engaged connect link
attach tie wire bind perpendicular congruent inverse anagram contemporary coworker teammate flatmate housemate
face play fight compete intersect cross away across apart far door mile kilometer kilometre km hour minute
sight
mean cost weigh measure say read total
""".split(),
    )
)
_BOTH_WAYS = frozenset("with beside near between opposite as like against".split())
_PARTING = _JOINING | set("and or versus vs plus equals".split())
_NAME = re.compile(r"\b[A-Z][^\W_]*")
# The names of a relation's two sides, of one and the same thing or person: "the tenant of the flat".
_SIDES = """
parent mother father | child children son daughter kid subsidiary
grandparent grandmother grandfather | grandchild grandchildren grandson granddaughter
aunt uncle | niece nephew
godparent godmother godfather | godchild godchildren godson goddaughter
ancestor forebear forefather | descendant
teacher tutor mentor instructor | student pupil apprentice disciple mentee
employer boss manager supervisor superior | employee subordinate underling
landlord landlady | tenant lodger renter
buyer purchaser | seller vendor
lender creditor | borrower debtor
sender | recipient addressee receiver
giver donor | recipient receiver
host hostess | guest
winner victor | loser runner-up
killer murderer assassin | victim
interviewer | interviewee
supplier | customer
guardian | ward
cause | effect consequence result
"""
# What one and the same does, or the reverse of it.
_DEEDS = """
buy purchase | sell
lend | borrow
send give | receive get
import | export
win | lose
ask | answer
throw | catch
teach | learn
love like adore | hate dislike detest
precede | follow
earn | spend
attack | defend
"""
# There is one of it both ways.
_EITHER_WAY = re.compile(
    r"\b(?:distances?|far|kilomet(?:re|er)s?|km|miles?|roads?|routes?|bridges?|tunnels?|lines?|railways?|"
    r"railroads?|tracks?|paths?|trails?|borders?|canals?|cables?|pipelines?|walls?|between|"
    r"highways?|motorways?|freeways?|streets?|pass|straits?|channels?|corridors?|marriages?|weddings?|engagements?|differences?|operators?|operates|"
    r"connect(?:s|ed|ing)?|link(?:s|ed|ing)?|join(?:s|ed|ing)?)\b",
    re.IGNORECASE,
)
_PLACE = 4  # words at most of one of two that are exchanged
_LONG = 24  # words of a clause from which on it is not taken apart


@dataclass(frozen=True)
class _Reading:
    """A way to read a text as a deed or a relation of which one side is named and the other is asked for.

    Attributes:
        named: the words of the side that is named.
        what: the bases of the words for deed or relation.
        joined: the preposition before the side that stands behind; empty where there is none.
        first: whether the named side stands before the verb, or is what is said to be something.
        passive: whether it is done to what stands before.
    """

    named: tuple[str, ...]
    what: tuple[str, ...]
    joined: str
    first: bool
    passive: bool

    @property
    def frame(self) -> str | tuple[bool, str]:
        """What has to be the same of two readings to compare their sides."""
        does = self.joined == ("by" if self.passive else "")
        return "does" if does else (self.passive, self.joined)

    @property
    def side(self) -> bool:
        """Which of the two sides is named; of what somebody does, whether it is the one who does it."""
        return self.first != (self.passive and self.joined == "by")

    @property
    def is_of_both(self) -> bool:
        return self.joined in _BOTH_WAYS or not _OF_BOTH.isdisjoint(self.what)


@dataclass(frozen=True)
class _Read:
    """The readings of a text: of each deed or relation in its frame, and those which have a reverse."""

    by_deed: Mapping[tuple, Sequence[_Reading]]
    relations: Sequence[tuple[_Reading, Mapping[int, Set[int]]]]
    deeds: Sequence[tuple[_Reading, Mapping[int, Set[int]]]]


def asks_for_the_other_side(prompt: str, query: str) -> bool:
    """Whether a query names the side that a written prompt names, but as the other one: "Who acquired
    Driftbox?" where "Driftbox acquired" was written; or asks for the reverse of it: "Who is the tenant of the
    flat?" where "The landlord of the flat is" was; or where two are exchanged.
    """
    if _are_exchanged(prompt, query):
        return True
    ours, theirs = _read(prompt), _read(query)
    pairs = [
        (mine, its)
        for key in ours.by_deed.keys() & theirs.by_deed.keys()
        for mine, its in itertools.product(ours.by_deed[key], theirs.by_deed[key])
        if _one_named(mine, its)
    ]
    if any(mine.side == its.side for mine, its in pairs):
        return False
    return (
        any(not mine.is_of_both for mine, _ in pairs)
        or _reversed(ours.relations, theirs.relations)
        or _reversed(ours.deeds, theirs.deeds, same_things=True)
    )


def _one_named(one: _Reading, other: _Reading) -> bool:
    """Whether what one names begins or ends as what the other does: "the play Ravenmoor", "Ravenmoor"."""
    short, long = sorted((one.named, other.named), key=len)
    return long[: len(short)] == short or long[-len(short) :] == short


def _reversed(
    ours: Sequence[tuple[_Reading, Mapping[int, Set[int]]]],
    theirs: Sequence[tuple[_Reading, Mapping[int, Set[int]]]],
    same_things: bool = False,
) -> bool:
    """Whether both name one side, the one of a relation or deed and the other of its reverse."""
    return any(
        mine.side == its.side
        and _one_named(mine, its)
        and not (same_things and mine.what[1:] != its.what[1:])
        and are_apart(groups, others)
        for (mine, groups), (its, others) in itertools.product(ours, theirs)
    )


_OF_RELATIONS, _OF_DEEDS = sides_of(_SIDES, base_of), sides_of(_DEEDS, base_of)


def _groups(table: Mapping[str, Sequence[tuple[int, int]]], words: Sequence[str]) -> Mapping[int, Set[int]]:
    found: dict[int, set[int]] = {}
    for group, side in itertools.chain.from_iterable(table.get(word, ()) for word in words):
        found.setdefault(group, set()).add(side)
    return found


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    by_deed: dict[tuple, list[_Reading]] = {}
    relations, deeds = [], []
    for reading in dict.fromkeys(itertools.chain.from_iterable(map(_readings_of, readings(text)))):
        by_deed.setdefault((reading.what, reading.frame), []).append(reading)
        if reading.joined == "of" and (groups := _groups(_OF_RELATIONS, reading.what)):
            relations.append((reading, groups))
        elif reading.first and not reading.passive and (groups := _groups(_OF_DEEDS, reading.what[:1])):
            deeds.append((reading, groups))
    return _Read(by_deed, relations, deeds)


def _readings_of(clause: Clause) -> Iterator[_Reading]:
    """What stands first is named where a verb or a preposition ends the clause, and asked for where a
    question word, or a statement's "is", stands for it.
    """
    content, last = clause.content, clause.last
    if clause.word not in ("", "who", "what") or len(clause.tenses) > 1 or len(content) > _LONG:
        return
    if content[:1] == ("whose",):  # "Whose boss is Ada?"
        for at in range(2, len(content)):
            yield _reading(content[at:], content[1:at], "of", True, False)
        return
    is_done = not clause.support and bool(clause.tenses & {"present", "past"} or "by" in (*content, last))
    is_named = clause.is_copula and not last
    told = _relative(clause)
    if told is not None:
        content, is_named = told, False
        is_done = is_done and not (clause.word or clause.is_copula)  # whose "is" may stand before
    elif not clause.word and not _ASKING.isdisjoint(content):  # "At the feast, who cuts the cake?"
        return
    if len(content) > 1 and not last and content[-1] in _JOINING:
        content, last = content[:-1], content[-1]
    if not is_named:
        begin = range(2, len(content)) if content[:1] and content[0] in PREPOSITIONS else ()
        for start in (0, *begin):  # "On Sundays Ada trains"
            for at in range(start + 1, len(content)):
                if clause.support or _says(content[at], last, is_done):
                    what = content[at:] + content[:start]
                    yield _reading(content[start:at], what, last, True, is_done)
    if (is_named or clause.word or told is not None) and not (last or clause.support):
        yield from _asked_first(content, is_done)


def _relative(clause: Clause) -> tuple[str, ...] | None:
    """What stands behind "that" in "the name of the company that acquired it"; None where nothing does."""
    content = clause.content
    at = next((at for at, word in enumerate(content[:5]) if at and word in _RELATIVES), None)
    if at is None or not (clause.word or clause.is_copula or (content[0] in _NAMES_IT and not clause.last)):
        return None
    return content[at + 1 :]


def _asked_first(content: tuple[str, ...], is_done: bool) -> Iterator[_Reading]:
    """As "acquired Driftbox", "the boss of Ada", "Ada's boss"."""
    for end in range(1, len(content)):
        owner = content[end - 1]
        if _OWN.search(owner):
            yield _reading((*content[: end - 1], _OWN.sub("", owner)), content[end:], "of", False, is_done)
    for start in range(1, len(content)):
        joined = content[start - 1] if start > 1 and content[start - 1] in _JOINING else ""
        if content[start] in _JOINING or not _says(content[0], joined, is_done):
            continue
        what = content[: start - 1] if joined else content[:start]
        for end in range(start + 1, len(content) + 1):
            if content[end : end + 1] == () or content[end] in PREPOSITIONS:
                yield _reading(content[start:end], what + content[end:], joined, False, is_done)


def _says(word: str, joined: str, is_done: bool) -> bool:
    """Whether a word may begin what is said of the side that is named: a verb, or after "is" whatever has its
    preposition, as "north of" and "mother of".
    """
    if word in _JOINING:
        return False
    return may_be_done(word) or bool(joined if is_done else word.endswith("s"))


def _reading(
    named: tuple[str, ...], what: tuple[str, ...], joined: str, first: bool, is_done: bool
) -> _Reading:
    return _Reading(named, tuple(map(_base, what)), joined, first, is_done and may_be_done(what[0]))


@lru_cache(maxsize=4096)
def _base(word: str) -> str:
    base = base_of(word)
    return _AS_ONE.get(base, base)


def _are_exchanged(prompt: str, query: str) -> bool:
    """Whether two stand the other way round about a word: "from Rome to Oslo" where "from Oslo to Rome" was
    written, "How much does Bo owe Ada?" where "Ada owes Bo" was.
    """
    clauses = [
        (ours.content, theirs.content)
        for ours, theirs in itertools.product(readings(prompt), readings(query))
        if len(ours.content) <= _LONG >= len(theirs.content)
    ]
    shared = [(*pair, at, place) for pair in clauses for at, place in _shared(*pair)]
    if not shared or _EITHER_WAY.search(prompt) or _EITHER_WAY.search(query):
        return False
    names = {word.lower() for word in _NAME.findall(plain_letters(prompt))}
    return any(_stand_about(*each, names) for each in shared)


def _shared(ours: Sequence[str], theirs: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where both have the same verb, or "to", with something on either side."""
    there: dict[str, list[int]] = {}
    for place, word in enumerate(theirs[1:-1], 1):
        there.setdefault(_base(word), []).append(place)
    for at, word in enumerate(ours[1:-1], 1):
        between = _base(word)
        if between in there and between not in _OF_BOTH and (word == "to" or word not in _PARTING):
            yield from ((at, place) for place in there[between])


def _stand_about(ours: Sequence[str], theirs: Sequence[str], at: int, place: int, names: Set[str]) -> bool:
    """Whether what stands before a word in one stands behind it in the other, and the reverse: names, or
    what is after "from" and "to".
    """
    for whence, whither in itertools.product(range(1, min(_PLACE, at) + 1), range(1, min(_PLACE, place) + 1)):
        first, second = ours[at - whence : at], ours[at + 1 : at + 1 + whither]
        turned = first == theirs[place + 1 :][:whence] and second == theirs[place - whither : place]
        way = ours[at] == "to" and ours[: at - whence][-1:] == ("from",)
        if turned and first != second and (way or (first[0] in names and second[0] in names)):
            return True
    return False
