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
from larimar_editor.scope.verbs import forms_of, may_be_done
from larimar_editor.scope.words import MONTHS, PREPOSITIONS, SCALES, WEEKDAY, any_of

_OF_PLACE = PREPOSITIONS - set(
    "about as because by during for from into of since to until with within without".split()
)
# "Named after", "voted against": what stands behind may be a place, or not.
_PLAINLY_OF_PLACE = _OF_PLACE - set("against after before over past under upon across".split())
_OF_TIME = frozenset("after around at before by during for from in on since until within".split())
_OF_WHAT_HAPPENED = frozenset("after before during since until within".split())
_LENGTH = (
    r"\b(?:(?:mile|kilomet(?:re|er)|(?:centi|milli)?met(?:re|er)|yard)s?|foot|feet|inch(?:es)?)\b|"
    r"\d\s?(?:km|m|cm|mm|mi|ft|in)\b"
)
# Behind which prepositions a measure may stand: "for two hours", "within 45 days".
_BEFORE_A_MEASURE = {"long": ("", "for", "within"), "far": ("", "for"), "often": ("",), "much": ("", "for")}
_MEASURES = {  # what is asked for with "how", and with "what" or "which", and what such an answer has
    "long": rf"\b(?:{UNIT_OF_TIME}|lifetimes?)\b|{_LENGTH}",
    "far": rf"{_LENGTH}|\b(?:steps?|laps?)\b",
    "often": r"\b(?:every|each|once|twice|thrice|never|always|often|seldom|sometimes|(?:\d|[a-z]+) times|"
    rf"{HOW_OFTEN}|(?:rare|regular|frequent|occasional|constant)ly)\b",
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
# "plays chess" does not say which instrument she plays.
_OF_MANY_KINDS = frozenset(
    form
    for verb in (
        "acquire buy follow get hate hold join keep know lead like lose love make own play prefer read run "
        "see study support take teach use want wear win write"
    ).split()
    for form in forms_of(verb)
)
# Behind these "in" may say in which language,
_IN_WORDS = frozenset(
    "written wrote writes sung sings sang spoken speaks spoke published printed performed".split()
)
# and behind these, before a small letter, of what or how: in finance, in black and white.
_IN_OTHER_WAYS = frozenset(
    "shot filmed painted released works worked work graduated graduates majored majors studied studies "
    "specialises specialised specializes specialized trades traded deals dealt believes believed dressed "
    "ends ended results resulted came comes participated participates competed competes invested invests "
    "sold programmed coded measured paid served covered interested experienced".split()
)


def fits_the_answer(statement: Clause, question: Clause, target: str | None) -> bool | None:
    """Whether the question word, or what stands with it, asks for such an answer; None where it is not plain.

    Args:
        statement: what the answer completes.
        question: the same words as a question.
        target: the answer; None where it is not known.
    """
    if question.word in ("who", "what") and not question.kind:
        return _fits_who(statement, question, target)
    if not target or question.last not in ("", statement.last):
        return None
    fits = _fits_a_kind if question.kind else _FITS[question.word]
    return fits(statement, question, target)


def _fits_who(statement: Clause, question: Clause, target: str | None) -> bool | None:
    """Of "who" and "what" alone."""
    last = statement.last
    if target is not None and names_a_time(target) and (question.word == "who" or last in _OF_TIME):
        # June is a name, and "recorded by" The 1975.
        one_word = re.fullmatch(r"[^\W\d]+", target.strip(" .")) is not None
        plain = question.word == "who" and last != "by" and not one_word and is_nothing_but_a_time(target)
        return False if plain else None
    if statement.is_copula and target and _is_a_state(target):
        return None
    return True if last == question.last else None


def _fits_a_kind(statement: Clause, question: Clause, target: str) -> bool | None:
    """Of "how long", "which year", "which town"."""
    kind, last = " ".join(question.kind), statement.last
    wanted = {"how": _MEASURES, "what": _TIMES}.get(question.word, {}).get(kind)
    if wanted is None:
        return True if _is_the_only_kind(statement, question) and not names_a_time(target) else None
    # "Ada is 34" does not say how long she is; "the term of the lease is" says how long it is.
    if statement.is_copula and "of" not in statement.content:
        return None
    if question.word == "how":
        behind = last in _BEFORE_A_MEASURE[kind] and not question.last
    else:  # not "leaves from platform 9.30"
        behind = last in ("", *_OF_TIME) and _is_only_a_time(target)
    return True if behind and re.search(wanted, target.lower()) else None


def _is_the_only_kind(statement: Clause, question: Clause) -> bool:
    """Whether the verb says that the answer is of the kind that stands with "which", whatever it is."""
    bare = not (statement.last or question.last or statement.is_copula)
    of_one_word = len(question.kind) == 1 and _PLACES.isdisjoint(question.kind)
    return question.word == "what" and bare and of_one_word and _OF_MANY_KINDS.isdisjoint(statement.content)


def _fits_when(statement: Clause, question: Clause, target: str) -> bool | None:
    if statement.last not in ("", *_OF_TIME):
        return None
    if names_a_time(target):
        return True if is_nothing_but_a_time(target) else None  # "was recorded by" June Carter
    vague = any(part.search(target.lower()) for part in (NUMBER, PART_OF_TIME, PERIOD))
    # "weekdays", "payday", "childhood": without a capital it may be any time.
    named = re.search(r"[A-Z]", target) is not None and not SHORT_DATE.search(target)
    return None if vague or not named or statement.last in _OF_WHAT_HAPPENED else False


def _fits_where(statement: Clause, question: Clause, target: str) -> bool | None:
    last, its, answer = statement.last, question.last, target.lower()
    if last not in ("", its, *_OF_PLACE):
        return None
    if names_a_time(target) or PERIOD.search(answer):
        # "1600 Pennsylvania Avenue"; and the office is in room 1204, or Ada works at Century 21.
        room = answer.isdigit() and (statement.tenses == {"present"} or last == "at")
        named = re.search(r"[A-Z][a-z]+ \d", target) is not None and last == "at"
        return False if _is_only_a_time(target) and not room and not named else None
    if not its and _says_otherwise(statement, target):
        return None
    placed = last in (its, *_PLAINLY_OF_PLACE) if last else answer.split()[0] in _OF_PLACE
    return True if placed and not answer[0].isdigit() else None


def _says_otherwise(statement: Clause, target: str) -> bool:
    """Whether "in" or "on" stands before no place: "written in French", "works in finance", "based on"."""
    verb = statement.content[-1] if statement.last in ("in", "on") and statement.content else ""
    in_small_letters = target.lstrip()[:1].islower()
    based_on = statement.last == "on" and verb == "based"
    return verb in _IN_WORDS or (verb in _IN_OTHER_WAYS and in_small_letters) or based_on


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
