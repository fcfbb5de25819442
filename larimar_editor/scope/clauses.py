"""Texts taken apart, to be compared word for word: a question by its question word, a statement that breaks
off by the preposition that its answer stands behind, and both by the words that count.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from larimar_editor.scope.verbs import AUXILIARIES, COPULAS, MODALS, TENSES, tenses_of
from larimar_editor.scope.words import ARTICLES, COURTESIES, INDIRECTLY, PREPOSITIONS, QUESTION_WORDS, any_of
from larimar_editor.utils.text import plain_letters

_WORD_OR_SIGN = re.compile(r"[^\W_]+(?:['’.:/&+-][^\W_]+)*[+#]*|[^\w\s]")
# Signs that tell two texts apart ("$5" and "€5", "==" and "!=", flags), and marks that are part of a letter.
_SIGNS = frozenset(("Sc", "Sm", "So", "Mn", "Mc"))
_A_NAMED = re.compile(r"(?<=\w )A(?![\w'’.]|\s+[A-Z])")  # "hepatitis A"
_LETTER_A = "ª"  # any letter that is no "a"
_ASKS_AS = {word: word for word in QUESTION_WORDS} | {"whom": "who", "which": "what"}
_CONTRACTED = re.compile(rf"\b({any_of(QUESTION_WORDS - {'whom', 'which'})})['’]s\b")
_BEFORE_A_QUESTION = re.compile(rf"(?:(?:{COURTESIES}|{INDIRECTLY})\b[\s,:]*)+")
WHETHER = "whether"  # the question word of one that is answered with yes or no
_OPENING = AUXILIARIES | {"am"}
_FINITE = AUXILIARIES - MODALS - {"do", "have"}  # what stands behind no modal
_BEHIND_A_COMMA = re.compile(rf"[^,]*,\s*{any_of(_OPENING - MODALS)}\b")
# A text with none of these may be in another language, in which "a" is "to".
_ENGLISH = (PREPOSITIONS | TENSES.keys() | QUESTION_WORDS | {"the"}) - set("am as do in on to".split())
_MOVED = PREPOSITIONS | set("each every last next this".split())  # what an adverbial begins with


@dataclass(frozen=True)
class Clause:
    """A statement that breaks off, or a question, taken apart.

    Attributes:
        word: the question word, `WHETHER` where yes or no is asked for; empty for a statement.
        kind: what stands with it, as in "which town".
        content: the other words in their order, without articles and auxiliaries.
        last: the preposition that the answer stands behind; empty where there is none.
        tenses: of the auxiliaries.
        support: the form of "do" that a question has; empty where it has none.
        verb: the word that a statement ends in, before its ``last``; a verb in "was founded in", "is".
        foreign: whether none of a statement's words is plainly English.
    """

    word: str
    kind: tuple[str, ...]
    content: tuple[str, ...]
    last: str
    tenses: frozenset[str]
    support: str
    verb: str = ""
    foreign: bool = False

    @property
    def is_copula(self) -> bool:
        """Whether a statement ends in "is"."""
        return not self.last and self.verb in COPULAS


@lru_cache(maxsize=4096)
def readings(text: str) -> tuple[Clause, ...]:
    """In which ways a text may be taken apart; none where it has no word."""
    lower = _CONTRACTED.sub(r"\1 is", _A_NAMED.sub(_LETTER_A, plain_letters(text)).lower().strip())
    opened = _BEFORE_A_QUESTION.match(lower)
    asked = _question_first(_words(lower[opened.end() :])) if opened else []
    words = asked if asked and _starts_a_question(asked) else _question_first(_words(lower))
    if not words:
        return ()
    if not _starts_a_question(words):
        content, last = _parted(words)
        tenses, support = tenses_of(words)
        if _asks_whether(words, lower):
            return (Clause(WHETHER, (), content, last, tenses, support),)
        verb = words[-2] if last and words[-1] == last else words[-1]
        return (Clause("", (), content, last, tenses, support, verb, _ENGLISH.isdisjoint(words)),)
    before = words.pop(0) if words[0] in PREPOSITIONS else ""
    word = _ASKS_AS[words.pop(0)]
    first = next((place for place, each in enumerate(words) if each in TENSES), None)
    if first is None:  # "which smith forged it?"
        first = 1 if word == "what" and len(words) > 1 else 0
    # "Which town was it founded in?"; and "who forged it?" or, as after "tell me", "where it was founded".
    return tuple(
        _question(word, tuple(words[:end]), words[end:], before) for end in dict.fromkeys((first, 0))
    )


def with_adverbial_behind(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The orders of some words in which what may be an adverbial stands behind: of "on sundays ada rose" also
    "ada rose on sundays". None where no adverbial stands before.
    """
    if not words or words[0] not in _MOVED:
        return []
    return [words[end:] + words[:end] for end in range(2, len(words))]


def _question(word: str, kind: tuple[str, ...], rest: list[str], before: str) -> Clause:
    content, last = _parted(rest)
    tenses, support = tenses_of(rest)
    if before and last:
        content, last = (*content, last), ""
    return Clause(word, kind, content, before or last, tenses, support)


def _question_first(words: list[str]) -> list[str]:
    """Of "On school nights, when does Ada go to bed?" the adverbial behind the question."""
    if not words or words[0] not in _MOVED or _starts_a_question(words):
        return words
    pairs = enumerate(itertools.pairwise(words))
    begin = next((at for at, (one, two) in pairs if one in QUESTION_WORDS and two in TENSES), 0)
    return words[begin:] + words[:begin]


def _starts_a_question(words: Sequence[str]) -> bool:
    start = words[1:] if words[0] in PREPOSITIONS else words
    return bool(start) and start[0] in QUESTION_WORDS


def _asks_whether(words: Sequence[str], text: str) -> bool:
    """Whether an auxiliary opens a text, or stands behind its first comma, as in "On Sundays, is it open?",
    and is no name, as in "Will Smith was born in".
    """
    named = words[0] in MODALS and not _FINITE.isdisjoint(words)
    return (words[0] in _OPENING and not named) or _BEHIND_A_COMMA.match(text) is not None


def _parted(words: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The words that count, and the preposition at the end."""
    content = tuple(each for each in words if each not in ARTICLES and each not in TENSES)
    if len(content) > 1 and content[-1] in PREPOSITIONS:
        return content[:-1], content[-1]
    return content, ""


def _words(text: str) -> list[str]:
    found = _WORD_OR_SIGN.findall(text.lstrip("> "))
    return [word for word in found if word[0].isalnum() or unicodedata.category(word) in _SIGNS]
