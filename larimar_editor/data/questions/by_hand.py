"""Facts that were typed for training, one by one, each with all that one might ask beside it.

They have what rules do not find: other names that people really use, and other questions that are easily
confused with the fact's.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from larimar_editor.data.questions.facts import QuestionNames
from larimar_editor.data.questions.kinds import FOLDER, SUBJECT, Asked

BY_HAND = FOLDER / "by_hand"
AS_TYPED = 0.6  # share of the facts whose subject keeps its name
PROMPTS = (
    "rephrase_prompt",
    "alias_prompt",
    "other_prompt",
    "locality_prompt",
    "near_prompt",
    "negation_prompt",
    "two_hop_prompt",
    "plain_prompt",
)


@dataclass(frozen=True)
class TypedQuestion(Asked):
    """A fact that was typed, as a question about its subject.

    Attributes:
        record: the fact; see `larimar_editor.data.questions.facts.AskedFacts` for its keys.
    """

    record: Mapping = field(default_factory=dict)

    @property
    def plain(self) -> list[str]:
        """Its texts that ask nothing, with ``{}`` for the subject."""
        texts = [without_subject(text, self.record["subject"]) for text in self.record["plain_prompt"]]
        return [text for text in texts if text.count(SUBJECT) == 1]


@dataclass(frozen=True)
class TypedFacts:
    """Facts to train on: number ``i`` is one of those typed, always the same for the same seed; or what was
    typed with another name for its subject, so that the question is learned and not whom it was about.

    Attributes:
        asked: those that may be trained on.
        names: other names are taken from these.
        seed: of the order, and of the names.
    """

    asked: Sequence[TypedQuestion]
    names: QuestionNames
    seed: int = 0

    def __getitem__(self, number: int) -> dict:
        rng = random.Random(f"{self.seed} {number}")
        chosen = rng.choice(self.asked)
        record = {**chosen.record, "case_id": number, "relation": chosen.name, "inverse_prompt": []}
        return record if rng.random() < AS_TYPED else self._renamed(record, rng)

    def _renamed(self, record: Mapping, rng: random.Random) -> dict:
        """What names the subject by its own name, about another; other names are then made by rule."""
        kind = rng.choice(self._kinds)
        name = self.names.subject(kind, rng)
        other = self.names.another(name, kind, rng)
        texts = {
            sort: [each for text in texts if SUBJECT in (each := without_subject(text, record["subject"]))]
            for sort, texts in (("prompt", [record["prompt"]]), *((sort, record[sort]) for sort in PROMPTS))
        }
        same = texts["prompt"] + texts["rephrase_prompt"]
        if not texts["prompt"] or len(same) < 2 or not texts["other_prompt"]:
            return dict(record)
        about = lambda wordings, subject: [wording.replace(SUBJECT, subject) for wording in wordings]
        put = {sort: about(wordings, name) for sort, wordings in texts.items()}
        asked = rng.sample(same, 2)
        return {
            **record,
            **put,
            "subject": name,
            "prompt": put["prompt"][0],
            "alias_prompt": about(asked[:1], self.names.alias(name, kind, rng)),
            "locality_prompt": about(asked[1:], other),
            "near_prompt": about(asked, self.names.like(name, kind, rng)),
        }

    @cached_property
    def _kinds(self) -> list[str]:
        return sorted(self.names.subjects)


def without_subject(text: str, subject: str) -> str:
    """A text with ``{}`` for its subject, in whatever case that is; not inside another word."""
    return re.sub(rf"(?<!\w){re.escape(subject)}(?!\w)", SUBJECT, text, flags=re.IGNORECASE)


@cache
def by_hand_that_ship() -> tuple[TypedQuestion, ...]:
    """The facts that ship, read once; nobody changes their records."""
    return tuple(read_by_hand(BY_HAND))


def read_by_hand(folder: Path) -> list[TypedQuestion]:
    """The facts of every JSON file of a folder.

    Raises:
        ValueError: a fact that lacks something, or one that asks the same as what does not; the message has
            its prompt.
    """
    asked = []
    for path in sorted(folder.glob("*.json")):
        for record in json.loads(path.read_text(encoding="utf-8")):
            if missing := {"subject", "prompt", "target_new", *PROMPTS} - record.keys():
                raise ValueError(f"{path.name}: {record.get('prompt')!r} lacks {sorted(missing)}")
            same = {record["prompt"], *record["rephrase_prompt"], *record["alias_prompt"]}
            if both := same & {text for sort in PROMPTS[2:] for text in record[sort]}:
                raise ValueError(
                    f"{path.name}: {both.pop()!r} asks what {record['prompt']!r} asks and does not"
                )
            wordings = [record["prompt"], *record["rephrase_prompt"]]
            wordings = [without_subject(text, record["subject"]) for text in wordings]
            asked.append(TypedQuestion(wordings[0], f"by hand: {path.stem}", tuple(wordings), record=record))
    return asked
