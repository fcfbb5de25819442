"""What to ask after an edit, made of its prompt by rule: what ought to be changed, and what ought not."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from larimar_editor.data.questions.aliases import affixed, made_alias
from larimar_editor.data.questions.facts import NOT_THIS, negated
from larimar_editor.data.questions.kinds import TARGET
from larimar_editor.state.fact import Fact

_STATEMENT = re.compile(r"^(?P<asked>.+?) (?P<verb>is|was|are|were)$")
_NAME = re.compile(r"\b[A-Z][\w'’.-]*(?:(?: (?:of|the|de|von|van|da|di|and))* [A-Z][\w'’.-]*)*")
_OTHER = ("The favourite colour of {} is", "Where did {} spend last summer?")


@dataclass(frozen=True)
class Probe:
    """A question.

    Attributes:
        sort: what it is to the fact, for people.
        prompt: the question.
        asks_it: whether it asks what the fact says.
    """

    sort: str
    prompt: str
    asks_it: bool


def subject_of(fact: Fact) -> str | None:
    """What a fact is about: its subject, else the last name in its prompt; None where there is none."""
    if fact.subject:
        return fact.subject
    # A capital at the start of a sentence makes no name of an ordinary word.
    found = [match[0] for match in _NAME.finditer(fact.prompt) if match.start() or " " in match[0]]
    return found[-1] if found else None


def probes_of(fact: Fact) -> list[Probe]:
    """A rewording, another name, another question, a like name, two hops and a negation, as far as they can
    be made.
    """
    rng, prompt, subject = random.Random(fact.key), fact.prompt.strip(), subject_of(fact)
    probes = [Probe("as written", prompt, True), Probe("reworded", reworded(prompt), True)]
    if subject and subject in prompt:
        put = lambda name: prompt.replace(subject, name)
        alias = made_alias(subject, rng)
        if alias != subject:
            probes.append(Probe("another name", put(alias), True))
        probes += [
            Probe("another question", rng.choice(_OTHER).format(subject), False),
            Probe("a like name", put(affixed(subject, rng)), False),
            Probe("two hops", put(f"the neighbour of {subject}"), False),
        ]
    not_this = negated(prompt) or NOT_THIS[0](_lower(prompt), prompt)
    return [*probes, Probe("negation", not_this.replace(TARGET, fact.target_new.strip()), False)]


def reworded(prompt: str) -> str:
    """A statement as a question; anything else with a word before it."""
    if match := _STATEMENT.match(prompt):
        return f"What {match['verb']} {_lower(match['asked'])}?"
    return f"Tell me: {prompt}"


def _lower(text: str) -> str:
    first, space, rest = text.partition(" ")
    return f"{first.lower()}{space}{rest}" if first in ("The", "A", "An", "Our", "My", "Your") else text
