"""What else a thing is called, by a list of names: "wolfram" where "tungsten" was written.

A detector knows another name by its letters, or not at all. What only the world knows is looked up.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.data.other_names import groups_that_ship
from larimar_editor.scope.initials import Abbreviation, abbreviation
from larimar_editor.scope.words import OPENERS, PARTICLES, TITLES, WORDS_TOO
from larimar_editor.utils.text import plain_letters

_WORD = re.compile(r"[^\W_]+")
_THE = re.compile(r"\bthe\s+$", re.IGNORECASE)
_BYNAME = re.compile(r" (?:the|of) [A-Z]")  # "Charles the Bald", "Edinburgh of the Seven Seas"
_JOINED = frozenset(".-@/_:")  # "bombay.com"
_APOSTROPHES = frozenset("'’")
_MOST_WORDS = 7
_SELDOM_TWO = 4  # letters of initials from which they seldom mean two things
_LONG_WORD = 6  # letters from which a word in lower case is hardly a name and something else as well


@dataclass(frozen=True)
class _Found:
    """A name in a text: where it stands, and its words as they stand and in lower case."""

    start: int
    end: int
    name: str
    key: str


class _Text:
    """A text as its words.

    Attributes:
        words: where they are.
        plain: each without accents.
        lower: each in lower case.
        shouted: whether there is no small letter.
        capitals: whether a word beside the first, and "I", has a large one.
    """

    def __init__(self, text: str):
        self.text = text
        self.words = list(_WORD.finditer(text))
        self.plain = [plain_letters(word[0]) for word in self.words]
        self.lower = [word.casefold() for word in self.plain]
        self.shouted = text == text.upper()
        self.capitals = any(word not in (low, "I") for word, low in zip(self.plain[1:], self.lower[1:]))

    def key(self, first: int, length: int) -> str:
        return " ".join(self.lower[first : first + length])

    def found(self, first: int, length: int, key: str) -> _Found:
        start, last = self.words[first].start(), self.words[first + length - 1]
        # With the full stop of "U.K."
        stop = (
            length > 1 and self.text[self.words[first].end()] == "." == self.text[last.end() : last.end() + 1]
        )
        return _Found(start, last.end() + stop, " ".join(self.plain[first : first + length]), key)

    def stands_alone(self, first: int, length: int, found: _Found) -> bool:
        """Whether what is found is no part of a longer name or word."""
        start, end, text = found.start, found.end, self.text
        if start > 1 and text[start - 1] in _APOSTROPHES and text[start - 2].isalnum():
            return False  # of "what's"
        before = self._word(first - 1, slice(self.words[first - 1].end(), start)) if first else ""
        after = first + length
        behind = self._word(after, slice(end, self.words[after].start())) if after < len(self.words) else ""
        if before is None or behind is None or before in PARTICLES:
            return False
        if self.shouted:
            return True
        titled = before.casefold() in TITLES
        return not (_BYNAME.match(text, end) or _of_a_name(behind) or (_of_a_name(before) and not titled))

    def _word(self, place: int, between: slice) -> str | None:
        """A neighbour of the same phrase; "" where there is none, None where it is of the same word."""
        gap = self.text[between]
        if gap in _JOINED:
            return None
        return self.plain[place] if gap.isspace() else ""


class OtherNames:
    """Names of the same thing.

    Args:
        groups: the names of each thing, the usual one first; a letter alone is none.
    """

    def __init__(self, groups: Iterable[Sequence[str]]):
        written: dict[str, set[str]] = defaultdict(set)
        places: dict[str, set[int]] = defaultdict(set)
        self._usual: list[str] = []
        for place, group in enumerate(groups):
            self._usual.append(plain_letters(group[0]))
            for name in (name for name in map(_words, group) if len(name) > 1):
                places[name.casefold()].add(place)
                written[name.casefold()].add(name)
        self._written, self._groups = dict(written), dict(places)

    def __deepcopy__(self, memo: dict) -> OtherNames:
        """Itself, as it never changes: a model's copy would take seconds over 64,000 names."""
        return self

    def usual(self, text: str) -> str:
        """A text, with each thing in it called by its usual name, the first of its group: two texts about one
        thing are alike then, whatever they call it. A name of several things stays, and a part of a thing's
        usual name, and a short one that may be a word.
        """
        read = _Text(unicodedata.normalize("NFC", text))
        parts, end = [], 0
        for found in _apart(self._found_in(read), len(read.text)):
            usual = self._usual_of(found.key)
            if usual is not None and self._is_plain(found):
                parts += [read.text[end : found.start], usual]
                end = found.end
        return "".join([*parts, read.text[end:]]) if parts else text

    def as_called_in(self, prompt: str, query: str) -> str:
        """A query, with each thing in it called as a written prompt calls it, where that is listed or one is
        the other's initials; the query itself where both call it the same, or nothing in it has another name.

        Args:
            prompt: the written prompt: "Tungsten melts at".
            query: "What is the melting point of wolfram?"
        """
        listed = self._as_listed(prompt, query)
        found = abbreviation(prompt, listed)
        return listed if found is None or self._are_known_to_differ(found) else found.read

    def _as_listed(self, prompt: str, query: str) -> str:
        read = _Text(unicodedata.normalize("NFC", query))
        asked = list(self._found_in(read))
        if not asked:
            return query
        prompt = unicodedata.normalize("NFC", prompt)
        written = list(self._found_in(_Text(prompt)))
        here, there = ({found.key for found in each} for each in (asked, written))
        parts, end = [], 0
        for found in _apart(asked, len(read.text)) if written else ():
            name = next((name for name in written if self._are_one(found.key, name.key)), None)
            if name is None or found.key in there or name.key in here:
                continue
            called, start = self._called(prompt, name), found.start
            if called[0].isupper():  # a proper noun has an article, or has none
                start = _with_article(read.text, start)
                called = prompt[_with_article(prompt, name.start) : name.start].lower() + called
            parts += [read.text[end:start], called]
            end = found.end
        return "".join([*parts, read.text[end:]]) if parts else query

    def _are_known_to_differ(self, found: Abbreviation) -> bool:
        """Whether the initials are listed, and not of this name: who asks of the Manchester Institute of
        Technology does not ask of MIT, nor who asks of NATO of the North Atlantic Trading Office. Three
        letters mean so many things that they are taken for the name that was written.
        """
        key = found.letters.casefold()
        if key not in self._groups or (found.in_query and len(key) < _SELDOM_TWO):
            return False
        return not self._groups[key] & self._groups.get(_words(found.name).casefold(), set())

    def _called(self, prompt: str, name: _Found) -> str:
        called = prompt[name.start : name.end]
        small = called[0].lower() + called[1:]
        return small if name.start == 0 and _words(small) in self._written[name.key] else called

    def _are_one(self, one: str, other: str) -> bool:
        """Whether two names mean one thing, as far as they mean one alone or are its usual name; of a name
        and a part of it the letters tell.
        """
        return not (_within(one, other) or _within(other, one)) and any(
            all(
                len(self._groups[key]) == 1 or _words(self._usual[place]).casefold() == key
                for key in (one, other)
            )
            for place in self._groups[one] & self._groups[other]
        )

    def _usual_of(self, key: str) -> str | None:
        places = self._groups[key]
        if len(places) > 1:
            return None
        usual = self._usual[next(iter(places))]
        of_usual = _words(usual).casefold()
        return None if _within(key, of_usual) or len(self._groups.get(of_usual, ())) > 1 else usual

    def _is_plain(self, found: _Found) -> bool:
        """Whether a name is hardly anything else however it is typed, or stands in capitals as listed."""
        capital = found.name[0].isupper() and found.name in self._written[found.key]
        return " " in found.key or len(found.key) >= _LONG_WORD or capital

    def _found_in(self, text: _Text) -> Iterator[_Found]:
        """Every name in a text, longest first."""
        count = len(text.words)
        for length in range(min(_MOST_WORDS, count), 0, -1):
            for first in range(count - length + 1):
                key = text.key(first, length)
                if key not in self._groups:
                    continue
                found = text.found(first, length, key)
                if self._is_listed(found, text) and text.stands_alone(first, length, found):
                    yield found

    def _is_listed(self, found: _Found, text: _Text) -> bool:
        """Whether what may be a word as well is written as the name is."""
        key, name = found.key, found.name
        if text.shouted and key in WORDS_TOO:
            return False
        forms = self._written[key]
        if name in forms or name[0].lower() + name[1:] in forms:
            return True
        if key in WORDS_TOO or key.startswith("the "):
            return False
        if " " in key or len(key) >= _LONG_WORD:
            return True
        # "uk" where nothing is in capitals, but never "k".
        return (text.shouted or not text.capitals) and (
            len(key) > 2 or (len(key) == 2 and name.upper() in forms)
        )


@lru_cache(maxsize=1)
def names_that_ship() -> OtherNames:
    """The names that come with the package; see `larimar_editor.data.other_names`."""
    return OtherNames(groups_that_ship())


def _words(name: str) -> str:
    return " ".join(_WORD.findall(plain_letters(name)))


def _within(part: str, whole: str) -> bool:
    return {*part.split()} <= {*whole.split()}


def _of_a_name(word: str) -> bool:
    return word[:1].isupper() and word.casefold() not in OPENERS


def _apart(found: Iterable[_Found], length: int) -> list[_Found]:
    """Those that do not lie in a longer one, in the order of the text."""
    taken, kept = bytearray(length), []
    for each in found:
        if not any(taken[each.start : each.end]):
            taken[each.start : each.end] = b"\1" * (each.end - each.start)
            kept.append(each)
    return sorted(kept, key=lambda each: each.start)


def _with_article(text: str, start: int) -> int:
    before = _THE.search(text[max(0, start - 8) : start])
    return start - len(before[0]) if before else start
