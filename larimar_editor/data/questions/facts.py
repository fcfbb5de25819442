"""Made-up facts with everything that a detector of questions has to tell apart."""

from __future__ import annotations

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from larimar_editor.data.questions.kinds import FOLDER, SUBJECT, TARGET, Kind, load_yaml


@dataclass(frozen=True)
class QuestionNames:
    """Names of each kind of subject, and lists of answers.

    Attributes:
        subjects: kind to names.
        targets: list to answers.
    """

    subjects: dict[str, list[str]]
    targets: dict[str, list[str]]

    @classmethod
    def read(cls, folder: Path = FOLDER) -> QuestionNames:
        """From every ``FILE-names.yaml`` in a folder; lists of one name are joined."""
        names = cls({}, {})
        for path in sorted(folder.glob("*-names.yaml")):
            rows = load_yaml(path)
            for part in ("subjects", "targets"):
                for kind, values in rows[part].items():
                    known = getattr(names, part).setdefault(kind, [])
                    known += [str(value) for value in values if str(value) not in known]
        return names

    def subject(self, kind: str, rng: random.Random) -> str:
        """A name of a kind; now and then put together from parts of two."""
        name = rng.choice(self.subjects[kind])
        if rng.random() < 0.3:
            return self._varied(name, kind, rng)
        return name

    def like(self, name: str, kind: str, rng: random.Random) -> str:
        """Another name of the kind that is like ``name``: one part of it changed, or the most similar."""
        if rng.random() < 0.5:
            varied = self._varied(name, kind, rng)
            if varied != name:
                return varied
        others = [other for other in self.subjects[kind] if other != name]
        return difflib.get_close_matches(name, others, n=1, cutoff=0.0)[0]

    def _varied(self, name: str, kind: str, rng: random.Random) -> str:
        words, others = name.split(), rng.choice(self.subjects[kind]).split()
        if len(words) < 2 or len(others) < 2:
            return name
        place = rng.randrange(len(words))
        return " ".join([*words[:place], others[min(place, len(others) - 1)], *words[place + 1 :]])


@dataclass(frozen=True)
class AskedFacts:
    """Made-up facts, as many as wanted: number ``i`` is the same for the same seed.

    A record is an edit in EasyEdit's flat format with lists of prompts: ``rephrase_prompt`` asks the same; of
    what asks something else ``other_prompt`` (another question about the subject, near kinds first),
    ``locality_prompt`` (the same about another subject), ``near_prompt`` (about one that is called alike),
    ``inverse_prompt``, ``negation_prompt`` and ``two_hop_prompt``.

    Attributes:
        kinds: kinds of questions that facts are made of; other questions are of these too.
        names: what subjects and answers are taken from.
        seed: of everything random.
        rephrasings: wordings per fact besides the one that is written.
        others: prompts of each sort that asks something else.
    """

    kinds: Sequence[Kind]
    names: QuestionNames = field(default_factory=QuestionNames.read)
    seed: int = 0
    rephrasings: int = 4
    others: int = 2

    def __getitem__(self, number: int) -> dict:
        rng = random.Random(f"{self.seed} {number}")
        kind = rng.choice(self.kinds)
        subject = self.names.subject(kind.subject, rng)
        target = rng.choice(self.names.targets[kind.target])
        written, *again = rng.sample(kind.wordings, min(1 + self.rephrasings, len(kind.wordings)))
        put = lambda wording, name=subject: wording.replace(SUBJECT, name).replace(TARGET, target)
        some = lambda wordings: [
            put(wording) for wording in rng.sample(wordings, min(self.others, len(wordings)))
        ]
        asked = [written, *rng.choices(kind.wordings, k=self.others - 1)]
        return {
            "case_id": number,
            "relation": kind.name,
            "subject": subject,
            "prompt": put(written),
            "target_new": target,
            "rephrase_prompt": [put(wording) for wording in again],
            "other_prompt": [put(rng.choice(other.wordings)) for other in self._others(kind, rng)],
            "locality_prompt": [put(w, self.names.subject(kind.subject, rng)) for w in asked],
            "near_prompt": [put(w, self.names.like(subject, kind.subject, rng)) for w in asked],
            "inverse_prompt": some(kind.inverse),
            "negation_prompt": some(kind.negations),
            "two_hop_prompt": some(kind.two_hops),
        }

    def _others(self, kind: Kind, rng: random.Random) -> list[Kind]:
        same = self._of_subject[kind.subject]
        near = [other for other in same if other.relation in kind.near]
        rest = [other for other in same if other.relation != kind.relation and other not in near]
        chosen = rng.sample(near, min(len(near), self.others - 1))
        return [*chosen, *rng.sample(rest, min(len(rest), self.others - len(chosen)))]

    @cached_property
    def _of_subject(self) -> dict[str, list[Kind]]:
        kinds: dict[str, list[Kind]] = {}
        for kind in self.kinds:
            kinds.setdefault(kind.subject, []).append(kind)
        return kinds
