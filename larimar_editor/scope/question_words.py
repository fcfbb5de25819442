"""Whether a question word asks for such an answer: "when" for 1932, "where" for Rome, "why" for a reason."""

from __future__ import annotations

import re

from larimar_editor.scope.clauses import Clause
from larimar_editor.scope.small_words import MONTHS, PREPOSITIONS, WEEKDAY
from larimar_editor.scope.times import (
    NUMBER,
    PART_OF_TIME,
    PERIOD,
    SHORT_DATE,
    is_nothing_but_a_time,
    names_a_time,
)
from larimar_editor.scope.verbs import DONE

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
    "long": r"\b(?:(?:second|minute|hour|day|week|month|year|decade|lifetime)s?|centur(?:y|ies))\b|"
    + _LENGTH,
    "far": _LENGTH + r"|\b(?:steps?|laps?)\b",
    "often": r"\b(?:every|each|once|twice|thrice|never|always|often|seldom|sometimes|(?:\d|[a-z]+) times|"
    r"(?:bi)?(?:dai|hour|night|week|fortnight|month|quarter|year|annual)ly|"
    r"(?:rare|regular|frequent|occasional|constant)ly)\b",
    "much": r"\d|\b(?:half|nothing|(?:hundred|thousand|million|billion)s?)\b",
}
_PLACES = frozenset(
    "building city continent country county place region room state street town village".split()
)
_TIMES = {
    "year": r"\b(?:1\d{3}|20\d\d)\b|\b\d+ (?:bc|ad)\b",
    "month": rf"\b(?:{MONTHS})\b",
    "day": rf"\b(?:{MONTHS}|{WEEKDAY})\b",
    "date": rf"\b(?:{MONTHS})\b",
    "time": r"\d[:.]\d\d|\d\s?[ap]\.?m\b|o['’]clock|noon|midnight|midday",
}
# "plays chess" does not say which instrument she plays.
_OF_MANY_KINDS = frozenset(
    "play plays played study studies studied support supports supported acquire acquires acquired buy "
    "buys bought own owns owned win wins won like likes liked love loves loved hate hates hated prefer "
    "prefers preferred use uses used want wants wanted teach teaches taught write writes wrote wear "
    "wears wore read reads run runs ran lead leads led hold holds held have know knows knew see sees "
    "saw make makes made follow follows followed take takes took get gets got keep keeps kept lose "
    "loses lost join joins joined".split()
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
    word, kind = question.word, " ".join(question.kind)
    last, its = statement.last, question.last
    time = target is not None and names_a_time(target)
    only_time = target is not None and time and is_nothing_but_a_time(target)
    if word in ("who", "what") and not kind:
        if time and (word == "who" or last in _OF_TIME):
            # June is a name, and "recorded by" The 1975.
            plain = only_time and last != "by" and not re.fullmatch(r"[^\W\d]+", str(target).strip(" ."))
            return False if word == "who" and plain else None
        if statement.is_copula and target and _is_a_state(target):
            return None
        return True if last == its else None
    if not target or its not in ("", last):
        return None
    answer = target.lower()
    if kind:
        wanted = {"how": _MEASURES, "what": _TIMES}.get(word, {}).get(kind)
        if wanted is not None:
            # "Ada is 34" does not say how long she is; "the term of the lease is" says how long it is.
            measured = not statement.is_copula or "of" in statement.content
            if word == "how":
                behind = last in _BEFORE_A_MEASURE[kind] and its == ""
            else:
                behind = only_time and last in ("", *_OF_TIME)  # not "leaves from platform 9.30"
            return True if behind and measured and re.search(wanted, answer) else None
        plain = word == "what" and not (last or its or statement.is_copula) and kind not in _PLACES
        plain = plain and _OF_MANY_KINDS.isdisjoint(statement.content)
        return True if plain and len(question.kind) == 1 and not time else None
    if word == "when" and last in ("", *_OF_TIME):
        if time:
            return True if only_time else None  # "was recorded by" June Carter
        vague = any(part.search(answer) for part in (NUMBER, PART_OF_TIME, PERIOD))
        # "weekdays", "payday", "childhood": without a capital it may be any time.
        named = re.search(r"[A-Z]", target) is not None and not SHORT_DATE.search(target)
        return None if vague or not named or last in _OF_WHAT_HAPPENED else False
    if word == "where" and (last in ("", *_OF_PLACE) or last == its):
        if time or PERIOD.search(answer):
            # "1600 Pennsylvania Avenue"; and the office is in room 1204, or Ada works at Century 21.
            room = answer.isdigit() and (statement.tenses == {"present"} or last == "at")
            named = re.search(r"[A-Z][a-z]+ \d", target) is not None and last == "at"
            return False if only_time and not room and not named else None
        placed = last in (its, *_PLAINLY_OF_PLACE) if last else answer.split()[0] in _OF_PLACE
        verb = statement.content[-1] if last in ("in", "on") and not its and statement.content else ""
        otherwise = verb in _IN_OTHER_WAYS and target.lstrip()[:1].islower()
        if verb in _IN_WORDS or otherwise or (last == "on" and verb == "based"):
            return None
        return True if placed and not answer[0].isdigit() else None
    if word == "how" and not last and not time and not statement.is_copula:
        return True if answer.split()[0] in ("by", "using", "via") else None
    if word == "why":
        first = target.split()[0]
        done = last == "for" and first.endswith("ing") and first.islower()  # "was fined for selling"
        return True if done or last == "because" or answer.startswith(("because", "due ")) else None
    return None


def _is_a_state(answer: str) -> bool:
    """As "closed on Mondays", "in Rome", "married to Bo": what somebody is like, and not who he is."""
    first, *rest = answer.split()
    if not rest or not first.islower():
        return False
    done = first.endswith(("ed", "ing")) or first in DONE
    return first in PREPOSITIONS or (done and rest[0] in PREPOSITIONS)
