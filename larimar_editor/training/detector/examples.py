"""Examples of one step: of each made-up fact its prompt, what asks the same, and what does not."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from larimar_editor.data.questions.facts import FITS
from larimar_editor.scope.look import as_written
from larimar_editor.scope.names import names_that_ship

POSITIVES = ("rephrase_prompt", "alias_prompt")
MINED = "mined_prompt"  # see `larimar_editor.training.detector.mining`
NEGATIVES = (
    "other_prompt",
    "locality_prompt",
    "near_prompt",
    "inverse_prompt",
    "negation_prompt",
    "two_hop_prompt",
    "plain_prompt",
    MINED,
)
# How often a sort is drawn where a fact has it: other questions are what is hardest and most frequent in use.
_SHARES = {
    "rephrase_prompt": 5,
    "alias_prompt": 3,
    "other_prompt": 6,
    "locality_prompt": 2,
    "near_prompt": 3,
    "inverse_prompt": 0.7,
    "negation_prompt": 1.5,
    "two_hop_prompt": 1.5,
    "plain_prompt": 0.7,
    MINED: 8,
}
_SUBJECT_GIVEN, _TURNED, _REVERSED = 0.5, 0.5, 0.25
# Answers are shown with most facts; what is none, seldom: whatever stands there, the question counts.
_TARGET_GIVEN = {True: 0.85, False: 0.12}
_WORD = re.compile(r"\b[a-z]{4,}\b")
_POLITE = (
    "Please tell me: ",
    "Question: ",
    "Q: ",
    "I wonder: ",
    "hey, ",
    "It is known that ",
    "As we know, ",
)


@dataclass(frozen=True)
class Example:
    """A written prompt and queries.

    Attributes:
        written: the prompt, with its subject in front and its answer behind where these are given.
        prompt: the prompt alone.
        same, other: queries that ask it, and that do not.
        reversed: whether the queries take the written prompt's place, and it theirs: asking the same has no
            direction, and any text may be one that was written.
    """

    written: str
    prompt: str
    same: tuple[str, ...]
    other: tuple[str, ...]
    reversed: bool = False

    def labelled(self) -> Iterator[tuple[float, str]]:
        """Each query, with 1 where it asks the same, and 0 where it does not."""
        yield from ((1.0, query) for query in self.same)
        yield from ((0.0, query) for query in self.other)

    def pair(self, query: str) -> tuple[str, str]:
        """What the second stage is shown of a query."""
        first, second = self.bare_pair(query)
        return (first if self.reversed else self.written), second

    def bare_pair(self, query: str) -> tuple[str, str]:
        """The two texts without subject and answer: as in use, with known things in the second called as the
        first calls them.
        """
        return self.bare_pairs.get(query) or self._bare_pair(query)

    @cached_property
    def bare_pairs(self) -> dict[str, tuple[str, str]]:
        """`bare_pair` of each of its queries. Names take a while to look up: it goes with an example to
        another process.
        """
        return {query: self._bare_pair(query) for _, query in self.labelled()}

    def _bare_pair(self, query: str) -> tuple[str, str]:
        first, second = (query, self.prompt) if self.reversed else (self.prompt, query)
        return first, names_that_ship().as_called_in(first, second)


def example(fact: Mapping, rng: random.Random, same: int = 2, other: int = 4) -> Example | None:
    """An example of a fact; None where it has nothing that asks the same, or nothing that does not."""
    positives = _drawn(fact, POSITIVES, same, rng)
    negatives = _drawn(fact, NEGATIVES, other, rng)
    if not positives or not negatives:
        return None
    prompt = fact["prompt"]
    if fact["rephrase_prompt"] and rng.random() < _TURNED:  # any wording may be the one that is written
        place = rng.randrange(len(fact["rephrase_prompt"]))
        prompt, swapped = fact["rephrase_prompt"][place], prompt
        positives = [swapped if text == prompt else text for text in positives]
    subject = fact["subject"] if rng.random() < _SUBJECT_GIVEN else None
    vary = lambda texts: tuple(varied(text, rng, fact["subject"]) for text in texts)
    shown = rng.random() < _TARGET_GIVEN[fact.get(FITS, True)]
    written = as_written(prompt, subject, fact.get("target_new") if shown else None)
    return Example(written, prompt, vary(positives), vary(negatives), rng.random() < _REVERSED)


def varied(text: str, rng: random.Random, subject: str = "") -> str:
    """A text as somebody else may type it: now and then with a slip, in a word that is not of its subject's
    name; without its question mark, or with a word before it.
    """
    # Names keep their letters: with one changed they would be others.
    words = [found for found in _WORD.finditer(text) if found[0] not in subject.lower()]
    if words and rng.random() < 0.08:
        found = rng.choice(words)
        place = rng.randrange(found.start() + 1, found.end() - 1)
        text = text[:place] + text[place + 1 :] if rng.random() < 0.5 else text[:place] + text[place - 1 :]
    if rng.random() < 0.1:
        text = text.rstrip("?. ")
    return f"{rng.choice(_POLITE)}{text}" if rng.random() < 0.06 else text


def _drawn(fact: Mapping, sorts: Sequence[str], count: int, rng: random.Random) -> list[str]:
    left = {sort: list(fact[sort]) for sort in sorts if fact.get(sort)}
    texts: list[str] = []
    while left and len(texts) < count:
        sort = rng.choices(list(left), [_SHARES[each] for each in left])[0]
        texts.append(left[sort].pop(rng.randrange(len(left[sort]))))
        if not left[sort]:
            del left[sort]
    return [text for text in texts if text != fact["prompt"]]
