"""Facts in several wordings, made by rule: relations and names that ship with the project, and names found in
text.

One record is an edit in EasyEdit's flat format, as `larimar_editor.data.edits` reads it: ``prompt``,
``target_new``, ``subject``, ``relation``, ``rephrase_prompt`` (other wordings of the same question) and
``locality_prompt`` (the first wording asked of other subjects).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.utils.files import load_yaml
from larimar_editor.utils.json_files import reading_record

DATA = Path(__file__).parent
_NAME = re.compile(
    r"(?<=[a-z,] )((?:[A-Z][a-z'-]+)(?: (?:of|the|de|van|von|[A-Z][a-z'-]+)){0,3} [A-Z][a-z'-]+"
    r"|[A-Z][a-z]{3,})"
)


@dataclass(frozen=True)
class Relation:
    """One kind of fact.

    Attributes:
        name: for people to read.
        subject: kind of name that the wordings are about.
        target: list that answers come from.
        prompts: wordings with ``{}`` for the subject, ending where the answer begins.
    """

    name: str
    subject: str
    target: str
    prompts: tuple[str, ...]


def read_relations(path: Path | None = None) -> list[Relation]:
    """The relations of a YAML file, those that ship by default.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no list of relations, a relation that lacks something or has fewer than two wordings, or a
            wording without ``{}``.
    """
    path = path or DATA / "relations.yaml"
    rows = load_yaml(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} must hold a list of relations")
    relations = []
    for number, row in enumerate(rows):
        with reading_record(f"{path}, relation {number}"):
            relation = Relation(row["relation"], row["subject"], row["target"], tuple(row["prompts"]))
            bad = [prompt for prompt in relation.prompts if "{}" not in prompt]
        if bad or len(relation.prompts) < 2:
            raise ValueError(
                f"relation {relation.name!r} needs two wordings with {{}} in each; not so: {bad}"
            )
        relations.append(relation)
    return relations


def without_wordings_of(relations: Sequence[Relation], edits: Iterable) -> list[Relation]:
    """``relations`` less every wording that ``edits`` contain, subject taken out: a measurement on them is of
    new wordings.

    Args:
        relations: what to filter.
        edits: `larimar_editor.data.edits.Edit`; their prompts and rephrasings are looked at.
    """
    seen = wordings_of(edits)
    allowed = []
    for relation in relations:
        prompts = tuple(prompt for prompt in relation.prompts if wording_of(prompt) not in seen)
        if len(prompts) > 1:
            allowed.append(Relation(relation.name, relation.subject, relation.target, prompts))
    return allowed


def wordings_of(edits: Iterable) -> set[str]:
    """The wordings of edits' prompts and rephrasings, as `wording_of` has them."""
    return {
        wording_of(prompt.rsplit(". ", 1)[-1], edit.subject)
        for edit in edits
        if edit.subject
        for prompt in (edit.prompt, *edit.rephrase_prompts)
    }


def wording_of(prompt: str, subject: str = "{}") -> str:
    """A prompt with its subject taken out, in lower case, letters only: two prompts with the same one ask
    alike.
    """
    return re.sub(r"[^a-z{} ]", "", prompt.replace(subject, "{}").lower()).strip()


class Names:
    """Names of each kind, put together from the shipped lists, or found in text.

    Args:
        path: YAML file with lists and their ``parts``.
        text: lines in which further names are looked for.
        text_share: how often a name found in text stands in for one of the wanted kind, 0 to 1.
    """

    def __init__(self, path: Path | None = None, text: Sequence[str] = (), text_share: float = 0.35):
        lists = load_yaml(path or DATA / "names.yaml")
        self.parts: dict[str, list[str]] = lists.pop("parts")
        self.lists: dict[str, list[str]] = lists
        self.text_names = sorted({match for line in text for match in _NAME.findall(line)})
        self.text_share = text_share if self.text_names else 0.0

    def target(self, kind: str, rng: random.Random) -> str:
        """An answer from the list ``kind``; a person's name for "person"."""
        return self._made("person", rng) if kind == "person" else rng.choice(self.lists[kind])

    def any_target(self, rng: random.Random) -> str:
        """An answer from a list drawn at random, so that it need not fit the question."""
        return rng.choice(self.lists[rng.choice(list(self.lists))])

    def subject(self, kind: str, rng: random.Random) -> str:
        """A name of the wanted kind, or one found in text, whatever its kind."""
        return rng.choice(self.text_names) if rng.random() < self.text_share else self._made(kind, rng)

    def _made(self, kind: str, rng: random.Random) -> str:
        part = lambda name: rng.choice(self.parts[name])
        if kind == "person":
            return (
                f"{part('first')} {part('last')}"
                if rng.random() < 0.9
                else f"{part('first')} {part('first')} {part('last')}"
            )
        if kind == "place":
            if rng.random() < 0.3:
                return rng.choice(self.lists[rng.choice(("city", "country"))])
            return part("place") if rng.random() < 0.7 else f"{part('place_prefix')} {part('place')}"
        if kind == "building":
            return f"{part(rng.choice(('place', 'last')))} {part('building_kind')}"
        if kind == "work":
            return rng.choice(
                (
                    f"The {part('work_adjective')} {part('work_noun')}",
                    f"{part('work_noun')} of {part('place')}",
                    f"{part('work_adjective')} {part('work_noun')}s",
                    f"The {part('work_noun')}",
                    f"{part('first')}'s {part('work_noun')}",
                )
            )
        if kind == "organisation":
            return f"{part(rng.choice(('last', 'place')))} {part('company_kind')}"
        if kind == "product":
            brand = part("brand") if rng.random() < 0.7 else rng.choice(self.lists["company"])
            return f"{brand} {part('model')}"
        return part(kind)


def with_openers(prompt: str) -> list[str]:
    """A statement after each of the openers that ship ("It is known that"): it says the same."""
    return [f"{opener} {prompt}" for opener in Names().parts["opener"]]


@dataclass(frozen=True)
class RephrasedFacts:
    """Made-up facts, as many as wanted: number ``i`` is the same for the same seed.

    Attributes:
        relations: kinds of facts.
        names: what subjects and answers are taken from.
        seed: of everything random.
        foreign_targets: share of answers from a list that does not fit the question, so that an answer cannot
            be guessed from the question.
        locality_prompts: prompts about other subjects, per fact.
        bare_questions: share of questions that are asked without the start of an answer after them.
        openers: share of statements with an opener ("It is known that") in front.
    """

    relations: Sequence[Relation]
    names: Names
    seed: int = 0
    foreign_targets: float = 0.2
    locality_prompts: int = 2
    bare_questions: float = 0.4
    openers: float = 0.15

    def __post_init__(self):
        if not self.relations:
            raise ValueError("no relation is left to make facts of: every wording is among those to exclude")

    def __getitem__(self, number: int) -> dict:
        rng = random.Random(f"{self.seed} {number}")
        relation = rng.choice(self.relations)
        subject = self.names.subject(relation.subject, rng)
        foreign = rng.random() < self.foreign_targets
        target = self.names.any_target(rng) if foreign else self.names.target(relation.target, rng)
        wordings = rng.sample(relation.prompts, len(relation.prompts))
        others = [self.names.subject(relation.subject, rng) for _ in range(self.locality_prompts)]
        asked = [wordings[0], *rng.choices(wordings, k=self.locality_prompts)][: self.locality_prompts]
        return {
            "case_id": number,
            "relation": relation.name,
            "subject": subject,
            "prompt": wordings[0].replace("{}", subject),
            "target_new": target,
            "rephrase_prompt": [
                self._varied(wording, rng).replace("{}", subject) for wording in wordings[1:]
            ],
            "locality_prompt": [
                wording.replace("{}", other) for wording, other in zip(asked, others) if other != subject
            ],
        }

    def _varied(self, wording: str, rng: random.Random) -> str:
        """A question now and then without the start of an answer, a statement with something in front."""
        if "?" in wording:
            return wording[: wording.index("?") + 1] if rng.random() < self.bare_questions else wording
        opener = rng.choice(self.names.parts["opener"]) if rng.random() < self.openers else ""
        return f"{opener} {wording}" if opener and wording.startswith("{}") else wording
