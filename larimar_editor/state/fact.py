"""One edit, as a person gives it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from larimar_editor.utils.text import prompt_and_target

_ROLE, _COPULA = r"(?P<role>[\w' -]+)", "(?P<copula>is|was)"
_OF_A_SUBJECT = (
    rf"the {_ROLE} of {{0}} {_COPULA}",
    rf"{{0}}['’]s {_ROLE} {_COPULA}",
    rf"(?:who|what|which \w+) {_COPULA} the {_ROLE} of {{0}}\?",
    rf"(?:who|what|which \w+) {_COPULA} {{0}}['’]s {_ROLE}\?",
)


def key_of(prompt: str) -> str:
    """What facts are told apart by: the prompt, however its accents are put together."""
    return unicodedata.normalize("NFC", prompt.strip())


@dataclass(frozen=True)
class Fact:
    """One edit: ``prompt`` is to be continued by ``target_new``.

    Attributes:
        prompt: a text, not empty.
        target_new: a text, not empty.
        id: number of the fact in its state, from 1, never used twice; 0 before it is written.
        written_at: seconds since the epoch.
        subject: what the prompt is about, where that is known: it helps to tell whether a query is about it.

    Raises:
        ValueError: ``prompt``, ``target_new`` or ``subject`` is no such text.
    """

    prompt: str
    target_new: str
    id: int = 0
    written_at: float = 0.0
    subject: str | None = None

    def __post_init__(self):
        for name in ("prompt", "target_new", "subject"):
            value = getattr(self, name)
            if name == "subject" and value is None:
                continue
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name!r} must be a text that is not empty, got {value!r}")
            if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
                raise ValueError(
                    f"{name!r} has half a surrogate pair, which no text file can hold: {value!r}"
                )

    @property
    def text(self) -> str:
        """The sentence that is encoded: prompt and target."""
        return prompt_and_target(self.prompt, self.target_new)

    @property
    def key(self) -> str:
        """Facts with the same key ask the same thing."""
        return key_of(self.prompt)

    def says(self, other: Fact) -> bool:
        """Whether the other fact is this one: the same prompt with the same target."""
        return self.key == other.key and self.target_new.strip() == other.target_new.strip()

    def adds_to(self, known: Fact) -> bool:
        """Whether it is to be written where ``known`` is, which has its prompt: it says another thing, or
        brings a subject.
        """
        return not known.says(self) or self.subject not in (None, known.subject)

    def turned_round(self) -> Fact | None:
        """What it says when it is asked from its answer: of "The capital of X is" Y, "Y is the capital of" X.

        True where one thing alone has that answer: of two whose native language is French, the one that is
        written last would be said. None of a fact whose subject is not known, or whose prompt has another
        form than "the ... of X" or "X's ...".
        """
        subject, answer = (self.subject or "").strip(), self.target_new.strip().rstrip(". ")
        found = subject and _role_of(self.key, subject)
        if not found or not answer:
            return None
        role, copula = found
        return Fact(f"{answer} {copula} the {role} of", subject, subject=answer)

    @classmethod
    def from_request(cls, request: Mapping) -> Fact:
        """From an EasyEdit request (a mapping with ``prompt`` and ``target_new``, and perhaps ``subject``).

        Raises:
            ValueError: a missing, empty or non-text ``prompt`` or ``target_new``, or a ``subject`` that is no
                text; the message shows the request.
        """
        values: dict[str, Any] = {name: request.get(name) for name in ("prompt", "target_new")}
        for name, value in values.items():
            if value is None:
                raise ValueError(f"a request needs {name!r}: {dict(request)}")
        prompt, subject = values["prompt"], request.get("subject")
        if subject is not None and not isinstance(subject, str):
            raise ValueError(f"'subject' must be a text, got {subject!r} in {dict(request)}")
        if isinstance(prompt, str) and "{}" in prompt and subject:
            values["prompt"] = prompt.replace("{}", subject)
        values["subject"] = subject if subject is None or subject.strip() else None
        try:
            return cls(**values)
        except ValueError as error:
            raise ValueError(f"{error} in {dict(request)}") from error


def _role_of(prompt: str, subject: str) -> tuple[str, str] | None:
    """What a prompt asks of its subject, and "is" or "was": "capital" of "The capital of X is" and of "What
    was X's capital?".
    """
    for form in _OF_A_SUBJECT:
        if found := re.fullmatch(form.format(re.escape(subject)), prompt, re.IGNORECASE):
            return found["role"], found["copula"].lower()
    return None
