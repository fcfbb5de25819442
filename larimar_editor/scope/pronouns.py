"""Who or what a question is about where only a pronoun says it: "And where did she die?", in a chat in which
"When was Marie Curie born?" was asked before.

A detector finds such a question as near to a fact about anybody else: of "Where was she born?" it cannot see
that nobody is named. So it is read with the name where there is little doubt of it, which is where what was
asked before had one name, as its subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from larimar_editor.scope.naming import (
    is_a_name,
    is_about_a_name,
    may_be_a_name,
    places_of_names,
    subject_of,
    words_of,
)
from larimar_editor.scope.verbs import AUXILIARIES, COPULAS
from larimar_editor.scope.words import (
    ARTICLES,
    COURTESIES,
    INDIRECTLY,
    INTERJECTIONS,
    OWNERS,
    QUESTION_WORDS,
    SUBJECTS,
    USUAL_PREPOSITIONS,
    any_of,
)
from larimar_editor.utils.sentences import last_question, sentences

AUXILIARY = any_of(AUXILIARIES)
ASKING = rf"(?:{any_of(USUAL_PREPOSITIONS | {'until', 'since', 'under'})}\s+)?{any_of(QUESTION_WORDS)}\b"
# "Hello Kitty" is no greeting.
HEAD = (
    r"\W*(?:(?!(?:hi|hello|hey)\s+(?-i:[A-Z]))"
    rf"(?:{COURTESIES}|but|then|also|great(?=\W*[,.;!]))\b\W*)*"
)
_INDIRECTLY = rf"{INDIRECTLY}\b[\s,:]*"
_OPENING = re.compile(rf"^{HEAD}(?:{_INDIRECTLY})?", re.IGNORECASE)
# "They" may be people in general: "where do they eat haggis".
_THEY = rf"they(?=\s+[a-z]+(?:\s+{any_of(USUAL_PREPOSITIONS)})?\W*$)"
_PRONOUN = rf"(he|she|it|{any_of(OWNERS)}|{_THEY})\b"
_BY_A_PRONOUN = [
    re.compile(HEAD + pattern, re.IGNORECASE)
    for pattern in (
        rf"{_INDIRECTLY}{ASKING}(?:\s+[a-z-]+){{0,2}}?\s+{_PRONOUN}",
        rf"(?:{_INDIRECTLY})?{ASKING}(?:['’]s|\s+{AUXILIARY})(?:\s+[a-z-]+){{1,3}}?\s+of\s+({any_of(OWNERS)})\b",
        rf"(?:{ASKING}(?:\s+[a-z-]+){{0,3}}?(?:\s+{AUXILIARY}|['’]s)|{AUXILIARY})(?:n['’]t)?"
        rf"\s+{_PRONOUN}",
        _PRONOUN,
        rf"{ASKING}(?:\s+[a-z-]+){{1,3}}\s+(him|her|it|them)\b(?=\W*$)",
    )
]
# "What is it that ...", "How long does it take ...", "Is it true that ...", "Is it raining?", "Her Majesty";
# and "What time is it?", "What day is it today?", though not "What year was it founded?".
_OF_NOTHING = re.compile(
    r"\s+(?:that|takes?|took|true|possible|time|majesty|highness|(?:rain|snow)(?:s|ing|ed)?)\b",
    re.IGNORECASE,
)
_TIME_OF_DAY = re.compile(
    r"\btime\s+(?:(?:is|was)\s+it|it\s+(?:is|was))\b|"
    r"\b(?:day|date|month|year)\s+(?:(?:is|was)\s+it|it\s+(?:is|was))(?=\W*(?:now|today|again|tomorrow|yesterday)?\W*$)",
    re.IGNORECASE,
)
_SHORT = 8  # words; a longer question has room for what it is about: "How hot does it get before tin melts?"
LONGEST = 500  # characters of a question whose name is looked for
_FEW = 3  # words of a courtesy, as "Thanks a lot!"
_OWNED = re.compile(rf"\b{any_of(OWNERS)}\b", re.IGNORECASE)
_NEVER = re.compile(r"(?!)")
_BRINGS_UP = re.compile(rf"\b{any_of(ARTICLES | OWNERS.keys())}\b", re.IGNORECASE)
# Where what was asked for may be meant: "Who wrote Hamlet?", not "Who was Hamlet?"; "What did Jobs found?"
_WHO = re.compile(
    rf"\bwhom?\b(?!(?:['’]s|\s+{AUXILIARY})\s+(?:the\s|[A-Z]\S+\W*$|[A-Z]\S+\s+[A-Z]\S+\W*$))", re.IGNORECASE
)
_WHAT = re.compile(
    r"\b(?:what|which)\b.*\b(?:do|does|did)\b|"
    r"\b(?:born|die[sd]?|lives?|lived|married|study|studied|allergic|dr|mrs?|ms|prof)\b",
    re.IGNORECASE,
)
# "And who works there?", "How many rooms are there?", but not "Is there a pool?" and "Are you there?"
_THERE = re.compile(rf"{HEAD}(?:{ASKING}|{AUXILIARY}\b).*\s([a-z]+)\s+(there)\b(?=\W*$)", re.IGNORECASE)
_TO_WHERE = frozenset("come cycle drive fly get go goes ride sail travel walk".split())
_BEFORE_A_PLACE = frozenset("around from near to".split())
_ELSEWHERE = frozenset(  # "over there", "Is she there?"
    "anybody anyone down hello hey hi i in out over somebody someone up we you".split()
) | frozenset(SUBJECTS.values())
# What was asked for may be the place that is meant.
_WHERE = re.compile(
    r"\b(?:where|wherever|(?:what|which)\s+(?:city|country|island|place|region|state|town|village))\b|"
    + _WHAT.pattern,
    re.IGNORECASE,
)
_ARE = re.compile(r"\b(?:are|were|do|have)\s+$", re.IGNORECASE)
_PARTNERS = re.compile(r"\b(?:Brothers|Sisters|Sons|Partners)$")
_WHO_IS = re.compile(rf"{HEAD}who(?:['’]s|\s+(?:is|was))?\s+[a-z]", re.IGNORECASE)
_MAY_BE_NEW = frozenset("he she it".split())
_MAY_BE_ANOTHER = {"he": _WHO, "she": _WHO, "it": _WHAT, "there": _WHERE}


def is_about_a_pronoun(question: str) -> bool:
    """Whether a short sentence is about what a pronoun of the third person stands for, and names nothing:
    "When was she born?", "Its capital is", but not "Is it true that Ada rose at six?"
    """
    return _pronoun_of(question) is not None


def with_name(question: str, before: Iterable[str]) -> str | None:
    """A question with what its pronoun stands for: "And where did Marie Curie die?" None where it is not
    about a pronoun, or what was asked last, courtesies and questions about the same pronoun aside, does not
    have one name as its subject, or brings up another ("Does Emil have a wife?"); a name that is all in small
    letters is not seen.

    Args:
        before: what the user said before, the latest first.
    """
    found = _pronoun_of(question)
    subject = None if found is None else _named_before(_one_of(found), before)
    if found is None or subject is None:
        return None
    pronoun = found[1].lower()
    owning = pronoun in OWNERS and not (pronoun == "her" and found.end(1) == len(question.rstrip(" ?.!")))
    own = ("'" if subject.endswith("s") else "'s") if owning else ""
    start, end = found.span(1)
    return question[:start] + subject + own + question[end:]


def is_about_there(question: str) -> bool:
    """Whether a short question names no place, and ends in "there": "And who works there?" """
    return _there_in(question) is not None


def with_place(question: str, before: Iterable[str]) -> str | None:
    """As `with_name`, of a question that ends in "there": "And who works in the Hotel Almeria?" None also
    where what was asked before may be answered with a place, which may be meant.
    """
    found = _there_in(question)
    place = None if found is None else _named_before("there", before)
    if found is None or place is None:
        return None
    word = found[1].lower()
    start, end = found.span(2)
    if word in COPULAS:  # "How many rooms are there"
        return f"{question[:end]} in {place}{question[end:]}"
    how = "" if word in _BEFORE_A_PLACE else "to " if word in _TO_WHERE else "in "
    return f"{question[:start]}{how}{place}{question[end:]}"


def is_without_names(said: Iterable[str]) -> bool:
    """Whether sentences say too little to name anything, as "Thanks a lot!" """
    return all(
        len(words := words_of(part)) <= _FEW
        and not any(map(may_be_a_name, words[1:]))
        and _named_by(part) is None
        for part in said
    )


def _named_by(said: str) -> str | None:
    return subject_of(said) or named_alone(said)


def named_alone(said: str) -> str | None:
    """The name that is all of a sentence with a question mark: "Kvass?", but not "Really?"."""
    name = said.rstrip(" ?")
    asked = (
        name != said
        and name.lower() not in INTERJECTIONS
        and name.partition(" ")[0].lower() not in AUXILIARIES
    )
    return name if asked and is_a_name(name) else None


def without_orders(parts: Sequence[str]) -> list[str]:
    """Sentences without what is said behind a question: "Answer in English." """
    return [*parts[: last_question(parts) + 1]] or [*parts]


def _pronoun_of(question: str) -> re.Match | None:
    found = next(filter(None, (pattern.match(question) for pattern in _BY_A_PRONOUN)), None)
    if found is None or _OF_NOTHING.match(question, found.end()) or _TIME_OF_DAY.search(question):
        return None
    words = words_of(_OPENING.sub("", question.lower() if question.isupper() else question))
    # "Who directed Her?"
    titled = not (found[1].islower() or question.isupper() or words[0].startswith(found[1]))
    return None if titled or len(words) > _SHORT or is_about_a_name(words) else found


def _there_in(question: str) -> re.Match | None:
    found = _THERE.match(question)
    words = words_of(_OPENING.sub("", question))
    if found is None or found[1].lower() in _ELSEWHERE or len(words) > _SHORT or is_about_a_name(words):
        return None
    return found


def _one_of(found: re.Match) -> str:
    """ "he" of "him" and "his", and so on."""
    pronoun = found[1].lower()
    return SUBJECTS.get(pronoun, pronoun)


def _named_before(pronoun: str, before: Iterable[str]) -> str | None:
    """What the user last asked about, as far as "he", "she", "it", "they" or "there" may mean it."""
    for said in before:
        parts = without_orders(sentences(said))
        last, also = parts[-1], _pronoun_of(parts[-1])
        about_it_too = also is not None and _one_of(also) == pronoun
        named_another = _OWNED.search(last) is not None  # "And its capital?"
        person = pronoun in ("he", "she")
        if (about_it_too and (person or not named_another)) or (
            is_without_names(parts) and not named_another
        ):
            continue
        if len(last) > LONGEST:
            return None
        subject = None if _MAY_BE_ANOTHER.get(pronoun, _NEVER).search(last) else _named_by(last)
        if not person and _WHO_IS.match(last):
            subject = _last_name_of(last)
        if subject is None or (pronoun == "they" and not _is_of_many(subject, last)):
            return None
        # "Does Emil Brandt have a wife?" brings up another.
        behind = last[last.lower().rfind(subject.lower()) + len(subject) :]
        return None if pronoun in _MAY_BE_NEW and _BRINGS_UP.search(behind) else subject
    return None


def _last_name_of(question: str) -> str | None:
    """ "Orrery" of "Who maintains Orrery?" and of "Who is the head of Orrery?": what is no person there."""
    places = places_of_names(question)
    ends = len(places) == 1 and not words_of(question[places[0].stop :])
    return question[places[0]] if ends else None


def _is_of_many(name: str, question: str) -> bool:
    """ "The Beatles", "Brandt & Söhne", "Brandt Brothers"; "Manchester Rovers" behind "are"; not Paris."""
    several = name.lower().startswith("the ") or _ARE.search(question[: question.find(name)]) is not None
    return "&" in name or _PARTNERS.search(name) is not None or (several and name.endswith("s"))
