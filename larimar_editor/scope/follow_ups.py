"""What a question means that says only what is new in it: "And Peru?" after "What is the capital of Chile?",
"And in which year?" after "Where was Marie Curie born?", "And where did she die?" after that.

Alone such a question is near to many facts, and asks none. So it is read with what was asked before, where
there is little doubt how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, tee

from larimar_editor.scope.asking import asks
from larimar_editor.scope.naming import is_a_name, place_of_name, words_of
from larimar_editor.scope.pronouns import ASKING, AUXILIARY, HEAD, is_without_names, with_name, without_orders
from larimar_editor.utils.sentences import sentences

_MOST = 8  # turns that are looked back
_ANOTHER = re.compile(  # "And Peru?", "What about the Halcyon Drift?", "And in Peru?"
    rf"{HEAD}(?:(?:what|how)\s+about\s+)?(?:(?:of|in|for|with|at|about|on|by|from|to)\s+)?"
    r"(?P<name>[^\W_].*?)(?:['’]s)?(?:\W+(?:then|please))?\W*$",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(  # "And when?", "In which year?", "And with whom?"
    rf"{HEAD}(?P<asking>when|where|(?:since|until)\s+when|from\s+where|(?:by|with|for|to|from)\s+whom|"
    r"(?:(?:in|on|at|to|from|for|by|of|with|until|since|under)\s+)?(?:what|which|how)\s+[a-z]+)\W*$",
    re.IGNORECASE,
)
_ASKED = re.compile(rf"{HEAD}{ASKING}(?:\s+[a-z-]+){{0,3}}?(?=\s+{AUXILIARY}\s)", re.IGNORECASE)


def said_in_full(asked: str, before: Iterable[str]) -> str:
    """What a user asks, with what its last sentence leaves to what was asked before: what a pronoun stands
    for (`with_name`), what is asked about another thing, what else is asked about the same. Unchanged where
    nothing is left to it, where that sentence stands behind one that may name something, and in doubt.

    Args:
        asked: what the user says now.
        before: what he said before, the latest first; read as far as it is wanted, up to 8 turns.
    """
    *others, question = sentences(asked)
    if not is_without_names(others):
        return asked
    earlier = _in_full(islice(before, _MOST))
    full = with_name(question, earlier)
    if full is None:
        full = _as_before(question, earlier)
    return asked if full is None else " ".join([*others, full])


def _in_full(before: Iterator[str]) -> Iterator[str]:
    """What was said before, each with what was said before that."""
    while (said := next(before, None)) is not None:
        earlier, before = tee(before)
        yield said_in_full(said, earlier)


def _as_before(question: str, before: Iterable[str]) -> str | None:
    another, otherwise = _ANOTHER.match(question), _OTHERWISE.match(question)
    if otherwise is not None:
        earlier = _asked_last(before)
        return None if earlier is None else _asked_otherwise(question[: otherwise.end("asking")], earlier)
    said_so = another is not None and (question.endswith("?") or another.start("name") > 0)
    if another is None or not said_so or not is_a_name(another["name"]):
        return None
    earlier = _asked_last(before)
    place = None if earlier is None else place_of_name(earlier)
    return (
        None
        if earlier is None or place is None
        else earlier[: place.start] + another["name"] + earlier[place.stop :]
    )


def _asked_last(before: Iterable[str]) -> str | None:
    """The last question before, courtesies aside."""
    for said in before:
        parts = without_orders(sentences(said))
        if not is_without_names(parts):
            return parts[-1] if asks(parts[-1]) else None
    return None


def _asked_otherwise(asking: str, earlier: str) -> str | None:
    """ "Where was Marie Curie born?" with another question word, where its name is who does something, or to
    whom it is done.
    """
    begin, place = _ASKED.match(earlier), place_of_name(earlier)
    if begin is None or place is None or len(words_of(earlier[begin.end() : place.start])) != 1:
        return None
    rest = earlier[place.stop :]
    return None if not words_of(rest) or rest[0] in "'’" else asking + earlier[begin.end() :]
