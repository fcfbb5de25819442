"""Kinds of questions: how a fact of a kind is written and asked, and what looks like it and asks something
else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from larimar_editor.utils.files import load_yaml

FOLDER = Path(__file__).parent
SUBJECT, TARGET = "{}", "[T]"
ANY_TARGET = "anything"  # the list of answers of a question that does not say which it takes
HELD_OUT_KINDS = 4  # one kind in so many is not trained on
# Forms that ask the same, each with the fewest wordings that a kind must have of it.
SAME = {"statements": 5, "questions": 4, "openings": 2, "requests": 3, "fragments": 0}
# Forms that do not, though they name the subject or the answer.
OTHER = {"inverse": 3, "negations": 2, "two_hops": 3}


def falls_in(name: str, parts: int) -> bool:
    """Whether a name is of the one part in so many that is held out: always the same for the same name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % parts == 0


def kept_apart(name: str, parts: int) -> bool:
    """Whether nothing is trained on what is of this name: it `falls_in` the one part in so many, and is
    nothing that everybody asks, as ``common.txt`` has it.
    """
    return falls_in(name, parts) and name not in common_names()


@cache
def common_names() -> frozenset[str]:
    """Names of what everybody asks, which is never held out."""
    lines = (FOLDER / "common.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


@dataclass(frozen=True)
class Asked:
    """A question of which little more is known than its wordings; see `Kind` for the parts."""

    relation: str
    subject: str
    wordings: tuple[str, ...]
    two_hops: tuple[str, ...] = ()
    negations: tuple[str, ...] = ()
    inverse: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    target: str = ANY_TARGET
    answers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Subject and relation."""
        return f"{self.subject}: {self.relation}"


@dataclass(frozen=True)
class Kind:
    """One kind of question, such as "place of birth".

    Attributes:
        relation: what is asked; with ``subject`` it is the kind's name.
        subject: kind of name that it is asked about.
        target: list that answers come from.
        statements: wordings with ``{}`` for the subject, which end where the answer begins.
        questions: wordings that end with the question.
        openings: questions with the beginning of the answer after them.
        requests: imperatives and chat turns.
        inverse: the relation turned round, with ``[T]`` for the answer; they ask for a subject.
        negations: they ask for what is not the answer.
        two_hops: longer questions that only contain the fact.
        near: names of kinds that are easily confused with it.
        fragments: running text that stops where the answer begins.
        answers: some that it may have, in place of those of the list.
    """

    relation: str
    subject: str
    target: str
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    openings: tuple[str, ...]
    requests: tuple[str, ...]
    inverse: tuple[str, ...]
    negations: tuple[str, ...]
    two_hops: tuple[str, ...]
    near: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    def __post_init__(self):
        for form, least in (SAME | OTHER).items():
            wordings = getattr(self, form)
            if len(wordings) < least:
                raise ValueError(f"{self.name!r} has {len(wordings)} {form}, {least} are needed")
            slot = TARGET if form == "inverse" else SUBJECT
            bad = [wording for wording in wordings if slot not in wording]
            if bad:
                raise ValueError(f"{self.name!r}, {form}: no {slot} in {bad[0]!r}")

    @property
    def name(self) -> str:
        """Subject and relation, such as "person: place of birth"."""
        return f"{self.subject}: {self.relation}"

    @property
    def wordings(self) -> tuple[str, ...]:
        """All wordings that ask the same."""
        return tuple(wording for form in SAME for wording in getattr(self, form))

    @property
    def is_held_out(self) -> bool:
        """Whether it is of those that nothing is trained on, by its name alone."""
        return kept_apart(self.name, HELD_OUT_KINDS)


Question = Kind | Asked


def read_fragments(folder: Path = FOLDER) -> dict[str, tuple[str, ...]]:
    """Wordings in running text by the name of what they ask, from every YAML file in ``fragments``."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted((folder / "fragments").glob("*.yaml")):
        for name, wordings in load_yaml(path).items():
            found[name] = found.get(name, ()) + tuple(wordings)
    return found


def read_kinds(folder: Path = FOLDER) -> list[Kind]:
    """The kinds of every ``FILE.yaml`` in a folder that is not ``FILE-names.yaml``; those that ship by
    default.

    Raises:
        ValueError: a kind that lacks something, or one of a name that another has; the message names it.
    """
    kinds: dict[str, Kind] = {}
    fragments = read_fragments(folder)
    known = {each.name for each in fields(Kind)}
    for path in sorted(folder.glob("*.yaml")):
        if path.stem.endswith("-names"):
            continue
        for row in load_yaml(path):
            values: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in row.items()
            }
            if unknown := values.keys() - known:
                raise ValueError(f"{path.name}: {row.get('relation')!r} has unknown keys {sorted(unknown)}")
            kind = Kind(**values)
            kind = replace(kind, fragments=kind.fragments + fragments.get(kind.name, ()))
            if kind.name in kinds:
                raise ValueError(f"{path.name}: a kind called {kind.name!r} is there already")
            kinds[kind.name] = kind
    return list(kinds.values())
