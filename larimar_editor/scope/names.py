"""What else a thing is called, by a list of names: "wolfram" where "tungsten" was written.

A detector knows another name by its letters, or not at all. What only the world knows is looked up.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.data.other_names import groups_that_ship
from larimar_editor.utils.text import plain_letters

_WORD = re.compile(r"[^\W_]+")
_ARTICLE = re.compile(r"\bthe\s+$", re.IGNORECASE)
_OF_SEVERAL_WORDS = re.compile(r"(?!(?:the|an?) )\S+ ")
_BYNAME = re.compile(r" the [A-Z]")  # "Charles the Bald"
_MOST_WORDS = 7
# Names that are words as well, unless they stand as names do: "US", "IT", "WHO".
_WORDS_TOO = frozenset(
    "a am an and any are as at be but by can did do for had has he her his hi how i id if in is it its la "
    "ma may me my no not of off on one or our out pa so the to up us use was way we who will you".split()
)
_PARTICLES = frozenset("al bin da de del della den der di du ibn la le van von zu".split())
_OPENERS = _WORDS_TOO | frozenset(
    "about after before does from name says tell that then what when where which while who whom whose why "
    "with were are been were near under since during into over whats".split()
)


@dataclass(frozen=True)
class _Found:
    """A name in a text: where it stands, and its words in lower case."""

    start: int
    end: int
    key: str


class OtherNames:
    """Names of the same thing.

    Args:
        groups: the names of each thing.
    """

    def __init__(self, groups: Iterable[Sequence[str]]):
        self._written: dict[str, set[str]] = defaultdict(set)
        self._groups: dict[str, set[int]] = defaultdict(set)
        self._usual: list[str] = []
        for group in groups:
            names = [plain for name in group if (plain := _words(name))]
            place = self._one_of_the_same({name.casefold() for name in names})
            if place == len(self._usual):
                self._usual.append(plain_letters(group[0]))
            for name in names:
                self._groups[name.casefold()].add(place)
                self._written[name.casefold()].add(name)

    def __len__(self) -> int:
        return len(self._groups)

    def _one_of_the_same(self, keys: Iterable[str]) -> int:
        """The group that has two of these names already, or a new one's place."""
        shared = Counter(place for key in keys for place in self._groups.get(key, ()))
        place, count = shared.most_common(1)[0] if shared else (0, 0)
        return place if count > 1 else len(self._usual)

    def usual(self, text: str) -> str:
        """A text, with each thing in it called by its usual name, the first of its group: two texts about one
        thing are alike then, whatever they call it. Only proper nouns are, that stand as they are listed;
        what is the usual name of anything, or a part of its thing's, stays.
        """
        parts, end = [], 0
        no_capitals = text == text.lower()
        for found in _apart(self._found_in(text)):
            name = _words(text[found.start : found.end])
            usual = self._usual_of(found.key)
            listed = name in self._written[found.key] and name != name.lower()
            plain = listed or (no_capitals and _OF_SEVERAL_WORDS.match(found.key))
            if usual is not None and plain and len(name) > 2:
                parts += [text[end : found.start], usual]
                end = found.end
        return "".join([*parts, text[end:]])

    def as_called_in(self, prompt: str, query: str) -> str:
        """A query, with each thing in it called as a written prompt calls it; the query itself where both
        call it the same, or nothing in it has another name.

        Args:
            prompt: the written prompt: "Tungsten melts at".
            query: "What is the melting point of wolfram?"
        """
        asked = list(self._found_in(query))
        if not asked:
            return query
        written = list(self._found_in(prompt))
        here, there = ({found.key for found in each} for each in (asked, written))
        parts, end = [], 0
        for found in _apart(asked):
            name = next((name for name in written if self._other(found.key, name.key)), None)
            if name is None or found.key in there or name.key in here:
                continue
            called, start = prompt[name.start : name.end], found.start
            if name.start == 0 and called[0].lower() + called[1:] in self._written[name.key]:
                called = called[0].lower() + called[1:]
            if called[0].isupper():  # a proper noun has an article, or has none
                start = _with_article(query, start)
                called = prompt[_with_article(prompt, name.start) : name.start].lower() + called
            parts += [query[end:start], called]
            end = found.end
        return "".join([*parts, query[end:]])

    def _usual_of(self, key: str) -> str | None:
        """The usual name of a thing that is called so; None where this is one, or a part of it."""
        usual = [self._usual[place] for place in sorted(self._groups[key])]
        return None if any(_within(key, _words(name).casefold()) for name in usual) else usual[0]

    def _other(self, one: str, other: str) -> bool:
        """Whether two are names of one thing; of a name and a part of it the letters tell."""
        same_thing = not self._groups[one].isdisjoint(self._groups[other])
        return same_thing and not _within(one, other) and not _within(other, one)

    def _found_in(self, text: str) -> Iterator[_Found]:
        """Every name in a text, longest first."""
        words = list(_WORD.finditer(text))
        plain = [plain_letters(word[0]) for word in words]
        lower = [word.casefold() for word in plain]
        shouted_or_not = lower == plain or not any(word.islower() for word in plain)
        for length in range(min(_MOST_WORDS, len(words)), 0, -1):
            for first in range(len(words) - length + 1):
                key = " ".join(lower[first : first + length])
                if key not in self._groups:
                    continue
                found = _Found(words[first].start(), _end(text, words[first], words[first + length - 1]), key)
                as_it_stands = _words(text[found.start : found.end])
                if length == 1 and not self._as_listed(key, as_it_stands, shouted_or_not):
                    continue
                before, after = (_beside(text, words, place, found) for place in (first - 1, first + length))
                if _of_a_name(after) or _BYNAME.match(text, found.end):
                    continue
                if length > 1 or not _of_a_name(before):
                    yield found

    def _as_listed(self, key: str, name: str, shouted_or_not: bool) -> bool:
        """Whether a word is a name here: in capitals where the name has some."""
        at_a_start = name[0].lower() + name[1:]
        listed = not self._written[key].isdisjoint({name, at_a_start})
        return listed or (shouted_or_not and key not in _WORDS_TOO)


@lru_cache(maxsize=1)
def names_that_ship() -> OtherNames:
    """The names that come with the package; see `larimar_editor.data.other_names`."""
    return OtherNames(groups_that_ship())


def _words(name: str) -> str:
    return " ".join(_WORD.findall(plain_letters(name)))


def _end(text: str, first: re.Match, last: re.Match) -> int:
    """Where a name ends, with the full stop of "U.K."."""
    stops = text[last.end() : last.end() + 1] == "." and text[first.end() : first.end() + 1] == "."
    return last.end() + (stops and first is not last)


def _within(part: str, whole: str) -> bool:
    return {*part.split()} <= {*whole.split()}


def _apart(found: Iterable[_Found]) -> list[_Found]:
    """Those that do not lie in a longer one, in the order of the text."""
    kept: list[_Found] = []
    for each in found:
        if all(each.end <= other.start or other.end <= each.start for other in kept):
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


def _beside(text: str, words: Sequence[re.Match], at: int, name: _Found) -> str:
    """The word at a place, where it belongs to the same phrase as the name; nothing where there is none."""
    if not 0 <= at < len(words):
        return ""
    start, end = sorted((words[at].span(), (name.start, name.end)))
    return words[at][0] if text[start[1] : end[0]].isspace() else ""


def _of_a_name(word: str) -> bool:
    """Whether what stands beside it makes a name a part of a longer one: "Emil von Behring"."""
    return word in _PARTICLES or (word[:1].isupper() and word.casefold() not in _OPENERS)


def _with_article(text: str, start: int) -> int:
    before = _ARTICLE.search(text, 0, start)
    return before.start() if before else start
