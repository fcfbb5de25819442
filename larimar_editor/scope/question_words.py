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
_OF_TIME = frozenset("after around at before by during for from in on since until within".split())
_OF_WHAT_HAPPENED = frozenset("after before during since until within".split())
_MEASURES = {  # what is asked for with "how", and with "what" or "which", and what such an answer has
    "long": r"\d|\b(?:(?:second|minute|hour|day|week|month|year|decade|lifetime)s?|centur(?:y|ies))\b",
    "far": r"\d|\b(?:(?:mile|kilomet(?:re|er)|met(?:re|er)|yard|step|lap)s?|foot|feet)\b",
    "often": r"\b(?:every|each|once|twice|thrice|times|never|always|often|seldom|sometimes|"
    r"(?:dai|hour|night|week|fortnight|month|quarter|year|annual|rare|regular|frequent|occasional|constant)ly)\b",
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
            plain = only_time and not re.fullmatch(r"[A-Z][a-z]+", str(target).strip(" ."))  # June is a name
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
            return True if measured and re.search(wanted, answer) else None
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
            # "1600 Pennsylvania Avenue"; and the office is in room 1204.
            room = statement.tenses == {"present"} and answer.isdigit()
            return False if only_time and not room else None
        placed = bool(last) or answer.split()[0] in _OF_PLACE
        verb = statement.content[-1] if last in ("in", "on") and not its and statement.content else ""
        if verb in _IN_WORDS or (verb in _IN_OTHER_WAYS and target.lstrip()[:1].islower()):
            return None
        return True if placed and not answer[0].isdigit() else None
    if word == "how" and not last and not time and not statement.is_copula:
        return True if answer.split()[0] in ("by", "from", "through", "to", "using", "via", "with") else None
    if word == "why":
        done = last == "for" and answer.split()[0].endswith("ing")  # "was fined for selling", not "for Ada"
        return True if done or last == "because" or answer.startswith(("because", "due ")) else None
    return None


def _is_a_state(answer: str) -> bool:
    """As "closed on Mondays", "in Rome", "married to Bo": what somebody is like, and not who he is."""
    first, *rest = answer.split()
    if not rest or not first.islower():
        return False
    done = first.endswith(("ed", "ing")) or first in DONE
    return first in PREPOSITIONS or (done and rest[0] in PREPOSITIONS)
