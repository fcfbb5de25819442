"""Which words of a sentence are a name, by their capitals, and which name it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from larimar_editor.scope.verbs import AUXILIARIES, COPULAS, MODALS, SUPPORT, may_be_done
from larimar_editor.scope.words import (
    ARTICLES,
    COURTEOUSLY,
    FEASTS,
    MONTHS,
    OPENERS,
    OURS,
    PARTICLES,
    PREPOSITIONS,
    QUESTION_WORDS,
    SUBJECTS,
    WEEKDAY,
    any_of,
)

_WORD = re.compile(r"[^\W_]+(?:[-'’.&][^\W_]+)*(?:[+#]+(?:['’]s)?)?")  # also "C++"
_CONTRACTED = re.compile(r"['’](?:s|re|d|ll|ve|m)$")
_DETERMINERS = ARTICLES | OURS
_BEFORE_A_SUBJECT = AUXILIARIES | frozenset("about when where why how whether if".split())
_NO_NOUN = AUXILIARIES | QUESTION_WORDS | frozenset("that this i me you we and".split())
_NO_NAMES = OPENERS | _NO_NOUN | SUBJECTS.keys() | frozenset(SUBJECTS.values())
_BEFORE_A_VERB = SUPPORT | MODALS
# Without those that may be adjectives: "the past president Lena Orr".
_PLAIN_PREPOSITIONS = PREPOSITIONS - set("down inside off opposite out outside past up".split())
_BEFORE_TIMES = frozenset("in at on during since".split())  # and seldom before what a question is about
_JOINTS = PARTICLES | {"of", "the"}
_NO_PART = _DETERMINERS | {"and", "or"}
_BEFORE_CAPITALS = ARTICLES | PREPOSITIONS  # "the US", "of IT", but not "Where WAS Ada born?"
_OPENING = re.compile(rf"{COURTEOUSLY}(?:(?:but|then|also)\W+)*", re.IGNORECASE)
_DAY_OR_NUMBER = re.compile(
    rf"\d|(?:{WEEKDAY}s?|{any_of(MONTHS)}|{any_of(FEASTS)}|christmas|easter)$", re.IGNORECASE
)
_NO_SMALL_NAMES = _NO_NAMES | frozenset(
    "today tomorrow yesterday tonight again really ever currently originally there here".split()
)
_FEW = 3  # words of a name in small letters
_FAR = 4  # words between an article and the name that ends its phrase: "the night ferry to Askerholm"


def words_of(text: str) -> list[str]:
    """Its words, joined ones ("Smith-Jones", "U.K", "Ada's") as one."""
    return _WORD.findall(text)


def may_be_a_name(word: str) -> bool:
    """Whether a word, not the first of its sentence, begins as names and numbers do."""
    bare = _CONTRACTED.sub("", word).casefold()
    return (word[0].isupper() or word[0].isdigit()) and bare not in _NO_NAMES


def subject_of(sentence: str) -> str | None:
    """What a sentence is about: its one name, with its article, where it stands behind "is" or "about" or
    begins the sentence.
    """
    read = _Read(sentence)
    for begin, word in enumerate(read.plain):
        if begin and not read.is_before_a_subject(begin - 1):
            continue
        first = read.name_of_phrase(begin)
        last = read.end_of_name(first)
        if last is None or read.owns(last) or (last == 0 and not read.is_followed_by_is()):
            continue
        if read.names_beside(first, last):
            return None
        if begin == first - 1 and read.is_cut(begin, last):
            if not read.ends_in_a_noun(begin, last):
                return None
            last += 1
        if word.lower() in ("a", "an") and read.prepositions(begin, first):  # "an appointment with Dr. Osei"
            return None
        opening = word if first == begin else word.lower()
        return opening + sentence[read.words[begin].end() : read.words[last].end()]
    return None


def is_about_a_name(words: Sequence[str]) -> bool:
    """Whether one of a question's words, the first aside, may name what it is about: not "Sundays" in "Is it
    open on Sundays?"
    """
    return any(
        may_be_a_name(word) and not (before.lower() in _BEFORE_TIMES and _DAY_OR_NUMBER.match(word))
        for before, word in pairwise(words)
    )


def is_a_time(word: str) -> bool:
    """Whether it is a weekday, a month or a feast: "Christmas"."""
    return _DAY_OR_NUMBER.match(word) is not None and not word[0].isdigit()


def is_a_name(phrase: str) -> bool:
    """Whether a phrase is one name, with an article or without: "Peru", "the Halcyon Drift", "my sister
    Priya"; not "the mayor", and not "the mayor of Lima".
    """
    read = _Read(f"of {phrase}")  # its first word has no capital that is a sentence's
    return len(read.words) > 1 and read.span_of_name(1) == (1, len(read.words) - 1)


def may_name_in_small_letters(phrase: str) -> bool:
    """Whether a phrase may be a name that is not given its capitals: "peru", "sv altbruck"."""
    words = words_of(phrase)
    return phrase == phrase.lower() and 0 < len(words) <= _FEW and not _NO_SMALL_NAMES & {*words}


def places_of_names(sentence: str) -> list[slice]:
    """Where names stand in a sentence, each with its article and without "'s"; of "the CEO of Acme" what is
    behind "of".
    """
    read, places, begin = _Read(sentence), [], 0
    while begin < len(read.words):
        span = read.span_of_name(begin)
        if span is None or (span[1] == 0 and not (read.owns(0) or read.is_followed_by_is())):
            begin += 1
        elif (role := read.role_at(begin)) is not None:
            begin = role + 2
        else:
            last = span[1]
            places.append(slice(read.words[begin].start(), read.words[last].start() + len(read.plain[last])))
            begin = last + 1
    return places


class _Read:
    """A sentence as its words.

    Attributes:
        words: where they are.
        plain: each without "'s" and the like.
        names: which of them may be names, or parts of one, in their order.
    """

    def __init__(self, sentence: str):
        self.sentence, self.words = sentence, list(_WORD.finditer(sentence))
        self.plain = [_CONTRACTED.sub("", word[0]) for word in self.words]
        names = {at for at, word in enumerate(self.plain) if may_be_a_name(word)}
        opened = _OPENING.match(sentence)[0]  # type: ignore[index]
        start = len(words_of(opened))
        if any(word[0].islower() for word in self.plain):
            places = range(start + 1, len(self.plain))
            for at in (*places, *reversed(places)):
                if self._is_of_a_name(at, names):
                    names.add(at)
        self.names = sorted(names)
        if self._says_of_a_name(start):
            self.names.pop()

    def _says_of_a_name(self, start: int) -> bool:
        """Whether the last word says something of the name before it, as in "Is Adele British?" """
        end = len(self.plain) - 1
        if start + 1 >= end or self.plain[start].lower() not in COPULAS:
            return False
        first = self.name_of_phrase(start + 1)
        return first < end and end - 1 in self.names and self.end_of_name(first) == end

    def _is_of_a_name(self, at: int, names: set[int]) -> bool:
        """Whether a word that may be another stands as names do: "the US", "the Isle of Man", "Let It Be"."""
        word, before = self.plain[at], self.plain[at - 1]
        if not word[0].isupper() or word.lower() in _NO_PART:
            return False
        capitals = len(word) > 1 and word.isupper() and before in _BEFORE_CAPITALS
        joined = before in _JOINTS and at - 2 in names
        behind = at - 1 in names and self._are_beside(at - 1)
        ahead = at + 1 in names and word != "I" and self._are_beside(at)  # "Elizabeth I", not "do I Google"
        return capitals or joined or behind or ahead

    def _are_beside(self, at: int) -> bool:
        """Whether nothing but a space is between a word, which does not own, and the next."""
        gap = self.sentence[self.words[at].end() : self.words[at + 1].start()]
        return gap.isspace() and not self.owns(at)

    def owns(self, at: int) -> bool:
        """ "Marie Curie's" """
        return self.plain[at] != self.words[at][0]

    def is_before_a_subject(self, at: int) -> bool:
        word = self.words[at][0]
        return word.lower() in _BEFORE_A_SUBJECT or _CONTRACTED.search(word) is not None

    def is_followed_by_is(self) -> bool:
        """Whether a first word is the subject: every sentence begins with a capital, as "Thanks for that"."""
        return len(self.plain) > 1 and self.plain[1].lower() in AUXILIARIES

    def names_beside(self, first: int, last: int) -> bool:
        """Whether a question may be about another name than this, or about a number."""
        others = [at for at in self.names if at and not first <= at <= last]
        return any(self.plain[at - 1].lower() not in _BEFORE_TIMES for at in others)

    def name_of_phrase(self, begin: int) -> int:
        """Where the name begins that a phrase ends in, as "the night ferry to Askerholm"; the phrase's own
        beginning where it has no article.
        """
        if self.plain[begin].lower() not in _DETERMINERS:
            return begin
        first = next((at for at in range(begin + 1, begin + 2 + _FAR) if at in self.names), begin)
        between = {word.lower() for word in self.plain[begin + 1 : first]}
        return begin if between & (_NO_NOUN | _DETERMINERS) else first

    def span_of_name(self, begin: int) -> tuple[int, int] | None:
        """First and last word of the name that begins here, with its article and the nouns between; None of
        what has a preposition, as "the mayor of Lima".
        """
        first = self.name_of_phrase(begin)
        last = self.end_of_name(first)
        return None if last is None or self.prepositions(begin, first) else (begin, last)

    def prepositions(self, begin: int, end: int) -> frozenset[str]:
        """Those among the words from one to before another."""
        return _PLAIN_PREPOSITIONS & {word.lower() for word in self.plain[begin:end]}

    def role_at(self, begin: int) -> int | None:
        """Where the word is of a phrase like "the CEO", where "of" follows it, or of "Capital of Chile?", if
        that is all; else None.
        """
        at = self.name_of_phrase(begin)
        is_whole = at == 0 and self.end_of_name(0) == len(self.plain) - 1
        is_role = (self.plain[at].isupper() or is_whole) and self.plain[at + 1 : at + 2] == ["of"]
        return at if is_role else None

    def is_cut(self, article: int, last: int) -> bool:
        """Whether a noun may follow that belongs to the name, as in "Who is the German chancellor?" """
        behind = self.plain[last + 1] if last + 1 < len(self.plain) else ""
        auxiliary = self.plain[article - 1].lower() if article > 0 else ""
        done = auxiliary in COPULAS and may_be_done(behind)  # "was the Eiffel Tower built"
        verb = auxiliary in _BEFORE_A_VERB or done
        return behind.islower() and not (verb or behind in _NO_NOUN or behind in _PLAIN_PREPOSITIONS)

    def ends_in_a_noun(self, article: int, last: int) -> bool:
        """Whether the word behind a name is its noun, as in "How old is the Cape Morn lighthouse?", where
        what is said of it stands before.
        """
        noun, before = self.plain[-1], [word.lower() for word in self.plain[max(0, article - 3) : article]]
        asked = before[:1] == ["how"] and before[2:3] != [] and before[2] in COPULAS
        ends = last + 2 == len(self.plain) and not (noun.endswith("ly") or noun in _NO_SMALL_NAMES)
        return asked and ends and not may_be_done(noun)

    def end_of_name(self, first: int) -> int | None:
        """The last word of a name: of "Statue of Liberty", of "Orrery 3.2"."""
        words = self.words
        if first not in self.names or not words[first][0][0].isupper():
            return None
        last = first
        for at in range(first + 1, len(words)):
            gap = self.sentence[words[at - 1].end() : words[at].start()]
            if re.search(r"[^\s&.]", gap) or ("." in gap and len(words[at - 1][0]) > 3):
                break
            if at in self.names:
                last = at
            elif words[at][0].lower() not in _JOINTS or at - last > 2:
                break
        return last
