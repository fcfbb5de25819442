"""What a question means that says only what is new in it: "And Peru?" after "What is the capital of Chile?",
"And in which year?" after "Where was Marie Curie born?", "And where did she die?" after that; "And who
cleans there?" after "When does the Hotel Almeria close?"

Alone such a question is near to many facts, and asks none. So it is read with what was asked before, where
there is little doubt how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, tee

from larimar_editor.scope.asking import asks
from larimar_editor.scope.naming import (
    is_a_name,
    is_a_time,
    may_be_a_name,
    may_name_in_small_letters,
    places_of_names,
    words_of,
)
from larimar_editor.scope.pronouns import (
    ASKING,
    AUXILIARY,
    HEAD,
    LONGEST,
    is_about_a_pronoun,
    is_about_there,
    is_without_names,
    named_alone,
    with_name,
    with_place,
    without_orders,
)
from larimar_editor.scope.verbs import participle_of
from larimar_editor.scope.words import ARTICLES, COURTEOUSLY, COURTESIES, USUAL_PREPOSITIONS, any_of
from larimar_editor.utils.sentences import is_question, sentences

_MOST = 8  # turns that are looked back
_LONG = 200  # characters; who leaves something to the turn before says less
_GAP = r"[^\w+#]"  # "C++" and "C#" are names
_AFTER = r"(?:then|please|too|as\s+well|now|exactly|already|by\s+any\s+chance|do\s+you\s+know)"
_TAIL = rf"(?:{_GAP}+{_AFTER})*{_GAP}*$"
_IN = any_of(USUAL_PREPOSITIONS | {"about"})
_OTHER = r"(?:what|how)\s+about|as\s+for|(?:the\s+)?same(?:\s+question)?\s+(?:for|about)"
_ANOTHER = re.compile(  # "And Peru?", "What about the Halcyon Drift?", "And in Bergen, please?"
    rf"{HEAD}(?:(?:{_OTHER})\s+)?(?:(?P<behind>{_IN}|through)\s+)?(?P<name>[^\W_].*?)(?:['’]s)?{_TAIL}",
    re.IGNORECASE,
)
_OPENED = re.compile(rf"\W*(?:(?:{COURTESIES}|great)\W+)*?(?:and|or|but|{_OTHER})\b", re.IGNORECASE)
_DOUBTS = re.compile(  # "But Lima?": is that not the answer?
    rf"{COURTEOUSLY}but\b(?!\W+(?:{_OTHER})\b)", re.IGNORECASE
)
_AND = frozenset("y e et und en och og ja ve ou oder".split())  # in other languages
_KIND = rf"(?:\s+(?!(?:about|one|else|now|next|come|{AUXILIARY})\b)[a-z-]+){{1,3}}?"
_OF_NO_KIND = rf"(?!(?:what|how)\s+(?:happened|for|so|kind|many|much){_TAIL})"  # though "How many times?" is
_OTHERWISE = re.compile(  # "And when?", "In which year?", "With whom?", "How many times?"
    rf"(?P<asking>{HEAD}(?:when|where|why|how|(?:since|until|till)\s+when|from\s+where|"
    rf"(?:{_IN}|between|under)\s+whom|"
    rf"(?:(?:{_IN}|under|until|since)\s+|{_OF_NO_KIND})(?:what|which|how){_KIND})){_TAIL}",
    re.IGNORECASE,
)
_ASKED = re.compile(rf"(?:{HEAD}{ASKING}(?:\s+[a-z-]+){{0,3}}?\s+|{HEAD}){AUXILIARY}\s+", re.IGNORECASE)
_WHO_DID = re.compile(rf"{HEAD}(?:who|(?:what|which)(?:\s+[a-z-]+){{0,2}}?)\s+([a-z]+)\s+$", re.IGNORECASE)
_ENDS_IN = re.compile(rf".*\b(?P<behind>{_IN}|through)\s+(?P<name>[^\W_].*?){_GAP}*$")
_NUMBER = re.compile(r"\d[\d.,]*\b")


def said_in_full(asked: str, before: Iterable[str]) -> str:
    """What a user asks, with what it leaves to what was asked before: what a pronoun stands for
    (`with_name`), where "there" is (`with_place`), what is asked about another thing, what else is asked
    about the same. Unchanged where nothing is left to it, where it stands behind what may name something, and
    in doubt.

    Args:
        asked: what the user says now.
        before: what he said before, the latest first; read as far as it is wanted, up to 8 turns.
    """
    parts = sentences(asked)
    *others, question = without_orders(parts)
    about_a_pronoun = is_about_a_pronoun(question)
    if about_a_pronoun and others and named_alone(others[-1]):
        full = with_name(question, others[-1:])
    elif not is_without_names(others):
        return asked
    else:
        reading = with_name if about_a_pronoun else with_place if is_about_there(question) else _as_before
        full = reading(question, _in_full(islice(before, _MOST)))
    if full is None:
        return asked
    behind = parts[len(others) + 1 :]
    # The start of an answer has its question with it.
    rest = behind[0].removeprefix(question).strip() if behind else ""
    at = asked.rfind(question, 0, asked.rfind(rest) if rest else len(asked))
    if at < 0:
        return " ".join([*others, full, *behind])
    return asked[:at] + full + asked[at + len(question) :]


def _in_full(before: Iterator[str]) -> Iterator[str]:
    """What was said before, each with what was said before that."""
    while (said := next(before, None)) is not None:
        earlier, before = tee(before)
        yield said_in_full(said, earlier)


def _as_before(question: str, before: Iterable[str]) -> str | None:
    if len(question) > _LONG:
        return None
    opened = _OPENED.match(question) is not None
    if not (opened or is_question(question)):
        return None
    otherwise, another = _OTHERWISE.match(question), _ANOTHER.match(question)
    if otherwise is not None and not any(map(may_be_a_name, words_of(otherwise["asking"])[1:])):
        return _asked_otherwise(otherwise["asking"], _asked_last(before))
    # Every question begins with a capital: "Price?" may be no name.
    plain = another is not None and not opened and not another["behind"] and " " not in another["name"]
    if another is None or plain or _DOUBTS.match(question) or not _may_be_another(another["name"]):
        return None
    if not opened and words_of(another["name"].lower())[0] in _AND:
        return None
    earlier = _asked_last(before)
    place = _place_of(another["name"], another["behind"], earlier)
    if place is not None and _is_part(another["name"], earlier, place):
        return None
    return None if place is None else earlier[: place.start] + another["name"] + earlier[place.stop :]


def _may_be_another(name: str) -> bool:
    return is_a_name(name) or may_name_in_small_letters(name) or _NUMBER.fullmatch(name) is not None


def _asked_last(before: Iterable[str]) -> str:
    """The last question before, courtesies aside; empty where none was asked."""
    for said in before:
        parts = without_orders(sentences(said))
        if not is_without_names(parts):
            return parts[-1] if len(parts[-1]) <= LONGEST and asks(parts[-1]) else ""
    return ""


def _place_of(name: str, behind: str | None, earlier: str) -> slice | None:
    """Where a question names what another name takes the place of: its only one; of several the one behind
    the same preposition, or that begins with the same word ("Windows 10"). Of a time only another time.
    """
    if _NUMBER.fullmatch(name):
        numbers = [slice(*found.span()) for found in _NUMBER.finditer(earlier)]
        return numbers[0] if len(numbers) == 1 else None
    places = places_of_names(earlier)
    if not is_a_name(name):
        ends = _ENDS_IN.search(earlier)
        if ends is None or places or not may_name_in_small_letters(ends["name"]):
            return None
        elsewhere = behind is not None and behind.lower() != ends["behind"].lower()
        a_time = is_a_time(name) and not is_a_time(ends["name"])
        return None if elsewhere or a_time else slice(*ends.span("name"))
    if is_a_time(name):
        places = [place for place in places if is_a_time(earlier[place])]
    if behind is not None:
        before = [words_of(earlier[: place.start])[-1:] for place in places]
        there = [place for place, word in zip(places, before) if word and word[0].lower() == behind.lower()]
        if there or behind.lower() in words_of(earlier.lower()):
            return there[0] if len(there) == 1 else None
        if is_a_time(name):  # "And on Monday?"
            return None
    alike = [place for place in places if words_of(earlier[place])[0] == words_of(name)[0]]
    chosen = places if len(places) == 1 else alike
    return chosen[0] if len(chosen) == 1 else None


def _is_part(name: str, earlier: str, place: slice) -> bool:
    """Whether a name is like the part before an "of": of "Section 4 of the Lease" another section, of "the
    Isle of Man" another isle.
    """
    whole = f"{earlier[place]} {earlier[place.stop :].lstrip()}"
    first = lambda text: next((word for word in words_of(text.lower()) if word not in ARTICLES), "")
    numbered = _NUMBER.search(name) is not None and _NUMBER.fullmatch(name) is None
    return (numbered or first(name) == first(earlier[place])) and " of " in whole[: len(earlier[place]) + 5]


def _asked_otherwise(asking: str, earlier: str) -> str | None:
    """ "Where was Marie Curie born?" with another question word, where its name is who does something, or to
    whom it is done; of "Who built the Halcyon Drift?" "And when was the Halcyon Drift built?"
    """
    begin = _ASKED.match(earlier)
    for place in places_of_names(earlier):
        rest = earlier[place.stop :]
        done = _WHO_DID.match(earlier[: place.start])
        if begin is not None and begin.end() == place.start and words_of(rest) and rest[0] not in "'’":
            auxiliary = words_of(begin[0])[-1].lower()
            return f"{asking} {auxiliary} {earlier[place.start :]}"
        if done is not None and not words_of(rest) and (participle := participle_of(done[1].lower())):
            return f"{asking} was {earlier[place]} {participle}?"
    return None
