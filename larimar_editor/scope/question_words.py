"""Whether a question word asks for such an answer: "when" for 1932, "where" for Rome, "why" for a reason."""

from __future__ import annotations

import re
from collections.abc import Callable

from larimar_editor.scope.clauses import Clause
from larimar_editor.scope.times import (
    CLOCK,
    HOW_OFTEN,
    IN_AN_ERA,
    NUMBER,
    PART_OF_TIME,
    PERIOD,
    SHORT_DATE,
    UNIT_OF_TIME,
    YEAR,
    is_nothing_but_a_time,
    names_a_time,
)
from larimar_editor.scope.units import LONG_NAMES, SHORT_NAMES
from larimar_editor.scope.verbs import forms_of, may_be_done
from larimar_editor.scope.words import (
    ARTICLES,
    MONTHS,
    NUMBERS,
    OURS,
    OWNERS,
    PREPOSITIONS,
    SCALES,
    WEEKDAY,
    any_of,
)

_OF_PLACE = PREPOSITIONS - set(
    "about as because by during for from into of since to until with within without".split()
)
# "Named after", "voted against": what stands behind may be a place, or not.
_PLAINLY_OF_PLACE = _OF_PLACE - set("against after before over past under upon across".split())
_OF_TIME = frozenset("after around at before by during for from in on since until within".split())
# Where "when" alone asks for what stands behind; "before 1900" is asked for with "before when".
_AT_A_TIME = frozenset("around at by during in on".split())
_LENGTH = rf"\b{any_of(LONG_NAMES['length'])}(?:e?s)?\b|\d\s?{any_of(SHORT_NAMES['length'])}\b"
_SHORT_TIME = rf"\d\s?{any_of(SHORT_NAMES['time'])}s?\b"
# Behind which prepositions a measure may stand: "for two hours", "within 45 days".
_BEFORE_A_MEASURE = {"long": ("", "for", "within"), "far": ("", "for"), "often": ("",), "much": ("",)}
_MEASURES = {  # what is asked for with "how", and with "what" or "which", and what such an answer has
    "long": rf"\b(?:{UNIT_OF_TIME}|lifetimes?)\b|{_SHORT_TIME}|{_LENGTH}",
    "far": rf"{_LENGTH}|\b(?:steps?|laps?)\b",
    "often": r"\b(?:every|each|once|twice|thrice|never|always|often|seldom|sometimes|"
    rf"(?:\d+|{any_of(NUMBERS)}|dozens?(?: of)?|many|several|few) times|{HOW_OFTEN}|"
    r"(?:rare|regular|frequent|occasional|constant)ly)\b",
    "much": rf"\d|\b(?:half|nothing|{any_of(('hundred', *SCALES))}s?)\b",
}
_PLACES = frozenset(
    "building city continent country county place region room state street town village".split()
)
_TIMES = {
    "year": rf"\b(?:{YEAR}|{IN_AN_ERA})\b",
    "month": rf"\b{any_of(MONTHS)}\b",
    "day": rf"\b(?:{any_of(MONTHS)}|{WEEKDAY})\b",
    "date": rf"\b{any_of(MONTHS)}\b",
    "time": CLOCK,
}
# Of verbs that say of what kind a thing is, the kinds.
_KINDS = dict.fromkeys(forms_of("carry"), ("cargo", "freight", "load"))
_DETERMINERS = ARTICLES | OURS | OWNERS.keys()
_STAYING = frozenset("am are be been is was were".split()).union(
    *map(forms_of, "bury hang hold keep lie live meet put sit stand store".split())
)
# Behind which verbs "in" or "on" is of place: not in "written in French", "works in finance".
_IN_PLACE = {
    "on": _STAYING,
    "in": _STAYING.union("based born built copied found founded hidden located released".split()),
}
_LANGUAGE = re.compile(
    r"\b(?:\w+(?:ish|ese|ian|ean)|arabic|czech|dutch|french|german|greek|hebrew|hindi|icelandic|latin|mandarin|"
    r"norse|thai|urdu|welsh)\W*$",
    re.IGNORECASE,
)


def fits_the_answer(statement: Clause, question: Clause, target: str | None) -> bool | None:
    """Whether the question word, or what stands with it, asks for such an answer; None where it is not plain.

    Args:
        statement: what the answer completes.
        question: the same words as a question.
        target: the answer; None where it is not known.
    """
    if question.word in ("who", "what") and not question.kind:
        fits = says_who_or_what(statement, question, target)
        return fits if not fits or statement.last == question.last else None
    if not target or question.last not in ("", statement.last):
        return None
    fits_word = _fits_a_kind if question.kind else _FITS[question.word]
    return fits_word(statement, question, target)


def says_who_or_what(statement: Clause, question: Clause, target: str | None) -> bool | None:
    """Whether such an answer says who or what, whatever preposition stands behind: not "on Fridays" or "very
    tall". Arguments and what is returned as of `fits_the_answer`, but True without an answer.
    """
    if not target:
        return True
    last, who = statement.last, question.word == "who"
    if names_a_time(target) and (who or last in _OF_TIME):
        # June is a name, as "recorded by" The 1975.
        named = re.fullmatch(r"[^\W\d_]+|The .*", target.strip(" ."), re.DOTALL) is not None
        plain = who and last != "by" and not named and is_nothing_but_a_time(target)
        return False if plain else None
    if statement.is_copula:
        unsure = _is_a_state(target) or (not _names_a_relation(statement) and _is_bare(target))
    elif last:
        unsure = who and last == "by" and _is_bare(target)  # "by accident"
    else:
        first = target.split()[0]
        unsure = first in PREPOSITIONS or (_is_only_a_time(target) and not target.isdigit())
    return None if unsure else True


def _fits_a_kind(statement: Clause, question: Clause, target: str) -> bool | None:
    """Of "how long", "which year", "which town"."""
    kind, last = " ".join(question.kind), statement.last
    wanted = {"how": _MEASURES, "what": _TIMES}.get(question.word, {}).get(kind)
    if wanted is None:
        return True if _is_of_the_kind(statement, question, target) and not names_a_time(target) else None
    # "Ada is 34" does not say how long she is; "the term of the lease is" says how long it is.
    if statement.is_copula and "of" not in statement.content:
        return None
    if question.word == "how":
        # No capital behind the first letter: "The Weekly", "Three Times a Lady".
        answer = target[:1].lower() + target[1:]
        behind = last in _BEFORE_A_MEASURE[kind] and not question.last
    else:  # not "leaves from platform 9.30"
        answer = target.lower()
        behind = _is_at_a_time(statement, question) and _is_only_a_time(target)
    return True if behind and re.search(wanted, answer) else None


def _is_of_the_kind(statement: Clause, question: Clause, target: str) -> bool:
    """Whether the answer is of the kind that stands with "which", by its last word or by the verb."""
    bare = not (statement.last or question.last or statement.is_copula)
    of_one_word = len(question.kind) == 1 and _PLACES.isdisjoint(question.kind)
    if question.word != "what" or not bare or not of_one_word:
        return False
    named = target.lower().strip(" .").endswith(f" {question.kind[0]}")  # "the world record"
    return named or any(question.kind[0] in _KINDS.get(word, ()) for word in statement.content)


def _is_at_a_time(statement: Clause, question: Clause) -> bool:
    """Whether what stands behind may say when, and not until or since when, unless that is asked for."""
    last = statement.last
    return last in ("", *_AT_A_TIME) or (last in _OF_TIME and last == question.last)


def _fits_when(statement: Clause, question: Clause, target: str) -> bool | None:
    if not _is_at_a_time(statement, question):
        return None
    if names_a_time(target):
        return True if is_nothing_but_a_time(target) else None  # "was recorded by" June Carter
    vague = any(part.search(target.lower()) for part in (NUMBER, PART_OF_TIME, PERIOD))
    first, *rest = target.split()
    # "weekdays", "the Neolithic", "EOD": any of them may be a time; Rome behind "in" is none, nor is Bo Falk
    # behind "by".
    named = re.search(r"[A-Z]", target) is not None and not target.isupper()
    plain = first.lower() != "the" if statement.last == "in" else statement.last == "by" and rest != []
    an_event = first.lower() == "the" and not "".join(rest[:1]).islower()  # "by the Glorious Twelfth"
    return False if named and plain and not an_event and not vague and not SHORT_DATE.search(target) else None


def _fits_where(statement: Clause, question: Clause, target: str) -> bool | None:
    last, its, answer = statement.last, question.last, target.lower()
    if last not in ("", its, *_OF_PLACE):
        return None
    if names_a_time(target) or PERIOD.search(answer):
        # "1600 Pennsylvania Avenue"; and the office is in room 1204, or Ada works at Century 21.
        room = answer.isdigit() and (statement.tenses == {"present"} or last == "at")
        named = re.search(r"[A-Z][a-z]+ \d", target) is not None and last == "at"
        return False if _is_only_a_time(target) and not room and not named else None
    if not _is_in_place(statement, target):
        return None
    placed = last in (its, *_PLAINLY_OF_PLACE) if last else answer.split()[0] in _OF_PLACE
    return True if placed and not answer[0].isdigit() else None


def _is_in_place(statement: Clause, target: str) -> bool:
    """Whether "in" or "on", where the answer stands behind one or begins with it, is plainly of place."""
    if statement.last:
        preposition, named, verbs, before = statement.last, target, {statement.verb}, _DETERMINERS
    else:
        first, _, named = target.partition(" ")
        preposition, verbs = first.lower(), {*statement.content, statement.verb}
        before = _DETERMINERS - {"a", "an"}  # "built in a hurry"
    if preposition not in _IN_PLACE:
        return True
    plain = any(not word.islower() or word in before for word in named.split()[:1])  # "lives in fear"
    return plain and not verbs.isdisjoint(_IN_PLACE[preposition]) and not _LANGUAGE.search(named)


def _fits_how(statement: Clause, question: Clause, target: str) -> bool | None:
    if statement.last or names_a_time(target) or statement.is_copula:
        return None
    return True if target.lower().split()[0] in ("by", "using", "via") else None


def _fits_why(statement: Clause, question: Clause, target: str) -> bool | None:
    first = target.split()[0]
    done = statement.last == "for" and first.endswith("ing") and first.islower()  # "was fined for selling"
    because = statement.last == "because" or target.lower().startswith(("because", "due "))
    return True if done or because else None


_FITS: dict[str, Callable[[Clause, Clause, str], bool | None]] = {
    "when": _fits_when,
    "where": _fits_where,
    "how": _fits_how,
    "why": _fits_why,
}


def _is_only_a_time(answer: str) -> bool:
    return names_a_time(answer) and is_nothing_but_a_time(answer)


def _is_a_state(answer: str) -> bool:
    """As "closed on Mondays", "in Rome", "married to Bo": what somebody is like, and not who he is."""
    first, *rest = answer.split()
    if not rest or not first.islower():
        return False
    done = first.endswith("ing") or may_be_done(first)
    return first in PREPOSITIONS or (done and rest[0] in PREPOSITIONS)


def _names_a_relation(statement: Clause) -> bool:
    """Whether what something is to something else is told, as "the mayor of Tarn" and "Ada's boss"."""
    return any(word == "of" or word.endswith(("'s", "’s")) for word in statement.content)


def _is_bare(answer: str) -> bool:
    """Whether it begins in a small letter, with no article, owner or number: "vegetarian", "very tall"."""
    first = answer.split()[0]
    return first.islower() and first not in _DETERMINERS and not any(map(str.isdigit, first))
