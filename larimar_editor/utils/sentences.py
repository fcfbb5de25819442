"""The sentences of a text, as people type them: with abbreviations, titles that end with a mark, and none of
the capitals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

MARKS = ".!?。！？؟۔।"  # that end a sentence
QUESTION_MARKS = "?？؟"
# Behind a mark; behind one in quotes or brackets, before no small letter; at once where there are no spaces.
_END = re.compile(
    rf"(?<=[{MARKS}])\s+|(?<=[.!?][\"”’')\]»])\s+(?![a-z\s])|(?<=[。！？])(?![。！？”’」』）)\]]|$)|\n+"
)
_NEAR = 40  # letters around a mark that are looked at
_LAST_WORD = re.compile(r"(?<![\w'’])[\w.&'’-]*(?=[.!?…]+$)|$")
_NEXT_WORD = re.compile(r"[\w'’]*")
_A_QUESTION_ON = re.compile(r"[^.!?]*\?")
_ROMAN = re.compile(r"(?!I$)[IVXLC]+$")

# How a sentence begins, and not what goes on behind a name.
_OPENERS = frozenset(
    "the it he she they we i this that these those there my our your his her its their you who whom whose "
    "what whats which where when why how do does did can could please tell name give say answer find explain "
    "describe thank thanks then now later after but so".split()
)
_ASKING = frozenset("who whom whose what whats which where when why how".split())
_IN_A_TITLE = frozenset("is was are were has had by stars starred premiered aired".split())  # and goes on
# What is short for another word: before whatever stands there; before a name; before a number; before a
# number or a small letter; and at the end of a name, which may be the sentence's.
_ALWAYS = frozenset("vs feat ca approx cf e.g i.e".split())
_BEFORE_A_NAME = frozenset(
    "mr mrs ms dr st mt ft prof rev gen maj adm col capt cmdr lt sgt gov sen hon mme mlle sra srta".split()
)
_BEFORE_A_NUMBER = frozenset("no nr vol op fig ch".split())
_MONTHS = frozenset("jan feb mar apr jun jul aug sep sept oct nov dec".split())
_BEFORE_MORE = frozenset("etc al".split())
_AT_THE_START = frozenset("art sec para max min".split())  # "Art. 12 allows", "Max. speed is"
_BEFORE_OF = frozenset("dept univ assn assoc".split())
_DEGREE = re.compile(r"[A-Z]\w*(?:\.[A-Z]\w*)+")  # "the M.Sc. thesis"
# "At 5 p.m. Ada meets Bo": what stands before "p.m." where nothing is said yet but when.
_WHEN = re.compile(
    r"(?:(?i:about|after|around|at|before|between|by|each|every|from|in|of|on|since|to|until)\s+"
    r"(?:(?:an?|the|each|every|last|next|this|her|his|its|my|our|their|your)\s+(?:[a-z]+\s+){0,2}|[a-z]+\s+)?"
    r"(?:[A-Z\d]\S*\s+)*(?:[ap]\.m\.\s+)?(?:(?:morning|afternoon|evening|night)s?\s+)?)+"
)
_STATES = frozenset("Calif Conn Fla Mass Ore Penn Tenn Wash".split())
_BEHIND_A_NAME = frozenset("inc ltd co corp bros jr sr".split())


def sentences(text: str) -> list[str]:
    """The sentences of a text, stripped; the text itself when nothing is left of it.

    The start of an answer says nothing without its question: where a question comes before it ("What does A
    play? They play"), both together stand in its place, the last. So with a label ("Answer:"), whatever it
    follows.
    """
    parts = [part for part in _parts(text) if part] or [text]
    if len(parts) > 1 and (is_label(parts[-1]) or _opens_an_answer(*parts[-2:])):
        parts[-1] = f"{parts[-2]} {parts[-1]}"
    return parts


def is_question(sentence: str) -> bool:
    """Whether a question mark stands behind its last letter."""
    for letter in reversed(sentence):
        if letter in QUESTION_MARKS:
            return True
        if letter.isalnum() or letter == "_":
            return False
    return False


def last_question(parts: Sequence[str]) -> int:
    """The place of the last of some sentences that is one; -1 where none is."""
    return max((place for place, part in enumerate(parts) if is_question(part)), default=-1)


def is_label(text: str) -> bool:
    """Whether a text is but what stands before an answer, as "Answer:" or "A:"."""
    return text.endswith((":", "：")) and len(text.split()) < 3


def _opens_an_answer(before: str, text: str) -> bool:
    return before.endswith(tuple(QUESTION_MARKS)) and not text.endswith(tuple(MARKS))


def _parts(text: str) -> list[str]:
    parts, start = [], 0
    for end in _END.finditer(text):
        if "\n" not in end[0] and _goes_on(text, start, end.start(), end.end()):
            continue
        parts.append(text[start : end.start()].strip())
        start = end.end()
    return [*parts, text[start:].strip()]


def _goes_on(text: str, start: int, end: int, begin: int) -> bool:
    """Whether the mark before ``end`` is in a sentence, from ``start``, that goes on at ``begin``."""
    before, after = text[max(0, end - _NEAR) : end], text[begin : begin + _NEAR]
    word, following = _LAST_WORD.search(before)[0], _NEXT_WORD.match(after)[0]  # type: ignore[index]
    opens = following.lower() in _OPENERS
    if before.endswith("..."):
        return following.islower() and not opens
    if before.endswith("."):
        if word.lower() in ("a.m", "p.m") and not opens and end - start < 2 * _NEAR:
            said = text[start : end - len(word) - 1].lstrip()
            if _WHEN.fullmatch(said):
                return True
        return _is_short(word, following, opens, alone=not before[: -len(word) - 1].strip())
    # A title that ends with a mark: "Airplane! was directed by", "Who Wants to Be a Millionaire? is".
    titled = word[:1].isupper() and following.islower()
    if before.endswith("!"):
        return titled and not opens and not before.endswith("!!")
    in_title = titled and following in _IN_A_TITLE
    return before.endswith("?") and in_title and not _A_QUESTION_ON.match(text, begin)


def _is_short(word: str, following: str, opens: bool, alone: bool) -> bool:
    """Whether a point belongs to a word before it, by what follows; ``alone``: nothing stands before it."""
    last, small = word.rsplit(".")[-1], word.lower()
    number, lower = following[:1].isdigit(), following.islower()
    if word in _STATES or small in _BEFORE_MORE:
        return number or (lower and not opens)
    if small in _BEFORE_A_NAME:
        return word[:1].isupper() or not opens
    if small in _BEFORE_A_NUMBER:
        return number or _ROMAN.match(following) is not None
    if small in _AT_THE_START:
        return alone and (number or lower)
    if small in _BEFORE_OF:  # "the Dept. of Energy"
        return following == "of"
    if word == "v":  # "Brown v. Board of Education"
        return not opens
    if small in _BEHIND_A_NAME:
        return bool(following) and not opens and following not in ("In", "On", "At")
    # Initials: "J. R. R. Tolkien"; "5 p.m. they met", where a small letter or a number follows.
    initial = len(last) == 1 and (last.isupper() or (last.islower() and (number or lower)))
    asks = following[:1].isupper() and following.lower() in _ASKING  # "I got plan B. What is it?"
    degree = lower and _DEGREE.fullmatch(word) is not None
    return small in _ALWAYS or degree or (small in _MONTHS and number) or (initial and not asks)
