"""KnowEdit's records, and which of their relations nothing is trained on.

Zhang et al. 2024; Apache-2.0. Its files do not ship; `docs/data.md` says where they are published.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from larimar_editor.data.edits import first_name
from larimar_editor.data.questions.aliases import may_be_known
from larimar_editor.data.questions.facts import QuestionNames
from larimar_editor.data.questions.kinds import SUBJECT, kept_apart
from larimar_editor.utils.json_files import list_in, reading_record

HELD_OUT_RELATIONS = 3  # one in so many is not trained on
# Prompts of a record, by what they are to its own prompt.
PARTS = {
    "aliases": ("portability", "Subject_Aliasing"),
    "other_questions": ("locality", "Relation_Specificity"),
    "negations": ("locality", "Forgetfulness"),
    "two_hops": ("portability", "Reasoning"),
}


def is_knowedit(records: Sequence[Any]) -> bool:
    """Whether these are KnowEdit's: each has its ``locality`` as a mapping of lists."""
    localities = [record.get("locality") if isinstance(record, dict) else None for record in records]
    named = ("Relation_Specificity", "Forgetfulness")
    return (
        bool(records)
        and all(isinstance(each, dict) for each in localities[:20])
        and any(isinstance(each, dict) and not each.keys().isdisjoint(named) for each in localities)
    )


def read_knowedit(path: Path) -> list[dict]:
    """The records of a file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a file of KnowEdit's, or a record that lacks something; the message has its number.
    """
    records = list_in(path)
    if not is_knowedit(records):
        raise ValueError(f"{path} is no file of KnowEdit's: its records lack locality by name")
    for number, record in enumerate(records):
        check_record(record, f"{path}, record {number}")
    return records


def check_record(record: Mapping, place: str) -> None:
    """A record has its own fact, and prompts with their answers.

    Args:
        record: KnowEdit's.
        place: what the message of an error calls it.

    Raises:
        ValueError: it lacks something, or has something else in its place.
    """
    with reading_record(place):
        for name in ("prompt", "subject", "target_new"):
            if not isinstance(record[name], str):
                raise ValueError(f"{place}: {name!r} must be a text, got {record[name]!r}")
        for sort in PARTS:
            prompts_of(record, sort)


def prompts_of(record: Mapping, sort: str) -> list[str]:
    """A record's prompts of a sort of `PARTS`."""
    return [prompt for prompt, _ in answered_prompts(record, *PARTS[sort])]


def answered_prompts(record: Mapping, part: str, name: str) -> list[tuple[str, str]]:
    """Prompts of a record with the first of their answers' names; "" where it has none.

    Args:
        record: KnowEdit's.
        part: "portability" or "locality".
        name: such as "Subject_Aliasing" or "Relation_Specificity".
    """
    asked = (record.get(part) or {}).get(name, ())
    return [(each["prompt"], first_name(each["ground_truth"])) for each in asked]


def template(prompt: str, subject: str) -> str:
    """A prompt with its subject taken out: the records of one relation share it."""
    return prompt.replace(subject, SUBJECT)


def is_held_out(record: Mapping) -> bool:
    """Whether the record's relation is of those that nothing is trained on, by its wording alone."""
    return kept_apart(template(record["prompt"], record["subject"]), HELD_OUT_RELATIONS)


def alias_in(prompt: str, wording: str) -> str | None:
    """The name that stands in ``prompt`` where ``wording`` has its subject; None where they differ
    otherwise.
    """
    before, _, after = wording.partition(SUBJECT)
    match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", prompt)
    return match[1] if match else None


@dataclass(frozen=True)
class KnowEditFacts:
    """Facts of KnowEdit's train splits, of the relations that are not held out.

    Attributes:
        records: KnowEdit's.
        names: their subjects with the other names that KnowEdit has of them and of its answers.
        seed: of everything random.
        others: prompts of each sort that asks something else, at most.
        templates: wordings of all relations: what else may be asked of a subject.
    """

    records: Sequence[Mapping]
    names: QuestionNames
    seed: int = 0
    others: int = 3
    templates: Sequence[str] = field(default=())

    @classmethod
    def read(
        cls,
        paths: Sequence[Path],
        seed: int = 0,
        without: Callable[[str], bool] = lambda wording: False,
    ) -> KnowEditFacts:
        """From train files, held-out relations left out, and those of whose wording ``without`` says so.

        Raises:
            ValueError: no file of KnowEdit's, or too little in it.
        """
        every = [record for path in paths for record in read_knowedit(path)]
        kept = [
            record
            for record in every
            if not is_held_out(record) and not without(template(record["prompt"], record["subject"]))
        ]
        if len({record["subject"] for record in kept}) < 2:
            raise ValueError(
                f"{', '.join(map(str, paths))}: fewer than two subjects of relations that may be trained on"
            )
        aliases: dict[str, list[str]] = {}
        for record in kept:
            wording = template(record["prompt"], record["subject"])
            found = [alias_in(prompt, wording) for prompt in prompts_of(record, "aliases")]
            # A name that nobody could guess teaches that any name will do.
            usable = lambda name, others: [o for o in others if o != name and may_be_known(name, o)]
            if known := usable(record["subject"], filter(None, found)):
                aliases[record["subject"]] = known
            for same in _answers(record):
                if known := usable(same[0], same[1:7]):
                    aliases.setdefault(same[0], known)
        subjects = sorted({record["subject"] for record in kept})
        names = QuestionNames({"knowedit": subjects}, {}, aliases)
        templates = sorted({template(record["prompt"], record["subject"]) for record in kept})
        return cls(kept, names, seed, templates=templates)

    def __getitem__(self, number: int) -> dict:
        rng = random.Random(f"{self.seed} {number}")
        record = rng.choice(self.records)
        subject, prompt = record["subject"], record["prompt"]
        wording = template(prompt, subject)
        put = lambda name: wording.replace(SUBJECT, name)
        asked = [
            other
            for other in prompts_of(record, "other_questions")
            if not is_held_out({"prompt": other, "subject": subject}) and other != prompt
        ]
        others = rng.sample(self.templates, min(2, len(self.templates)))
        asked += [other.replace(SUBJECT, subject) for other in others if other != wording]
        names = [self.names.subject("knowedit", rng) for _ in range(self.others)]
        like = [self.names.like(subject, "knowedit", rng) for _ in range(self.others)]
        return {
            "case_id": number,
            "relation": f"knowedit: {wording}",
            "subject": subject,
            "prompt": prompt,
            "target_new": record["target_new"],
            "rephrase_prompt": [],
            "alias_prompt": [put(self.names.alias(subject, "knowedit", rng)) for _ in range(2)],
            "other_prompt": rng.sample(asked, min(len(asked), self.others)),
            "locality_prompt": [put(name) for name in names if name != subject],
            "near_prompt": [put(name) for name in like if name != subject],
            "negation_prompt": prompts_of(record, "negations"),
            "two_hop_prompt": [p for p in prompts_of(record, "two_hops") if subject in p],
        }


def _answers(record: Mapping) -> Iterator[list[str]]:
    """The names of each answer that KnowEdit lists under several, in Latin letters; short ones left out."""
    for each in (record.get("locality") or {}).get("Relation_Specificity", ()):
        for group in each["ground_truth"] if isinstance(each["ground_truth"], list) else ():
            names = [n for n in group if isinstance(n, str) and 3 < len(n) < 60 and n.isascii()]
            if len(names) > 1:
                yield names
