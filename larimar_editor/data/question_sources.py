"""What a detector of questions is trained on: made-up facts from every source of wordings, less what is held
out.

Held out of training, by name or wording alone and so always the same: of the kinds of questions one in four,
of SimpleQuestions' properties and KnowEdit's relations one in three, of the sheets one in six (half of which
the threshold is calibrated on), and whatever asks nearly the same as one of these; but never what everybody
asks, see `larimar_editor.data.questions.kinds.kept_apart`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.data.knowedit import KnowEditFacts
from larimar_editor.data.questions.aliases import WrittenAlike
from larimar_editor.data.questions.by_hand import TypedFacts, TypedQuestion, by_hand_that_ship
from larimar_editor.data.questions.facts import ANY_SUBJECT, AskedFacts, QuestionNames
from larimar_editor.data.questions.kinds import (
    ANY_TARGET,
    HELD_OUT_KINDS,
    SUBJECT,
    Asked,
    Question,
    common_names,
    falls_in,
    kept_apart,
    read_fragments,
    read_kinds,
)
from larimar_editor.data.questions.known_names import read_known_names
from larimar_editor.data.questions.sheets import names_of, read_sheets
from larimar_editor.data.questions.simplequestions import HELD_OUT_PROPERTIES, read_wordings
from larimar_editor.data.relations import Names, Relation, read_relations
from larimar_editor.data.scope_cases import TYPED, TYPED_TO_CALIBRATE, scope_cases
from larimar_editor.data.texts import SENTENCES, read_sentences

TYPED_ONES = "by hand"
SHARES = {
    "kinds": 6,
    "sheets": 16,
    "simplequestions": 3,
    "relations": 3,
    "knowedit": 3,
    TYPED_ONES: 14,
    "held out": 1,
}
_FOR_CALIBRATION = 6  # one sheet in so many; every other of them is measured with instead
_OF_SUBJECTS = 2 * _FOR_CALIBRATION
_MOST_OF_ONE = 10  # facts about one subject that are measured with
_NAMES_OF_RELATIONS = 400  # of each kind of subject


class Facts(Protocol):
    """Made-up facts by number; see `AskedFacts`."""

    def __getitem__(self, number: int) -> dict: ...


@dataclass(frozen=True)
class Questions:
    """Questions to train on, to calibrate on and to measure with, and the names that they are about.

    Attributes:
        training: questions by source.
        calibration, held_out: of other kinds.
        of_subjects: of sheets that are held out, by the kind of subject: many questions about one.
        names: of their subjects.
    """

    training: Mapping[str, Sequence[Question]]
    calibration: Sequence[Question]
    held_out: Sequence[Question]
    of_subjects: Mapping[str, Sequence[Question]]
    names: QuestionNames

    def unlike(
        self, embed: Callable[[Sequence[str]], Tensor], cosine: float = 0.85
    ) -> tuple[Questions, list[tuple[str, str]]]:
        """The same with fewer to train on: without those that ask nearly what one asks that is held out, for
        measuring or for calibration.

        Args:
            embed: texts to unit embeddings ``(N, E)``.
            cosine: from which two questions ask nearly the same: the mean, over the wordings of the one, of
                the cosine with the nearest wording of the other, names taken out.

        Returns:
            the rest, and of each that was left out its name and the other's.
        """
        measured = [question for rows in self.of_subjects.values() for question in rows]
        against = [*self.held_out, *self.calibration, *measured]
        others = _embedded(embed, [wording for question in against for wording in question.wordings])
        owner = torch.tensor(
            [place for place, question in enumerate(against) for _ in question.wordings], device=others.device
        )
        training: dict[str, list[Question]] = {}
        dropped = []
        for source, of_source in self.training.items():
            # In one go: batches of like questions would be small.
            every = _embedded(embed, [wording for question in of_source for wording in question.wordings])
            training[source] = []
            for question, rows in zip(of_source, every.split([len(each.wordings) for each in of_source])):
                nearest = others.new_full((len(rows), len(against)), -1.0)
                nearest.scatter_reduce_(1, owner.expand(len(rows), -1), rows @ others.T, "amax")
                score, place = nearest.mean(dim=0).max(dim=0)
                if float(score) < cosine:
                    training[source].append(question)
                else:
                    dropped.append((question.name, against[int(place)].name))
        return replace(self, training=training), dropped

    def own_answers(self) -> Iterator[str]:
        """Every answer that a fact to train on may have of its own."""
        for question in itertools.chain.from_iterable(self.training.values()):
            if isinstance(question, TypedQuestion):
                yield question.record["target_new"].strip()
            else:
                yield from map(str.strip, question.answers or self.names.targets[question.target])

    def facts(
        self,
        knowedit_files: Sequence[Path] = (),
        seed: int = 0,
        others: int = 3,
        without: Callable[[str], bool] = lambda wording: False,
    ) -> Mapping[str, Facts]:
        """Facts to train on by source; those of KnowEdit's train splits where their files are given, but
        ``without`` wordings of which it says so, as in `questions`.
        """
        given = KnowEditFacts.read(knowedit_files, seed, without) if knowedit_files else None
        names = self.names if given is None else self.names.with_subjects({}, given.names.aliases)
        typed = [each for each in self.training.get(TYPED_ONES, ()) if isinstance(each, TypedQuestion)]
        plain = [text for each in typed for text in each.plain]
        facts: dict[str, Facts] = {
            source: AskedFacts(questions, names, seed, others=others, by_rule=True, plain=plain)
            for source, questions in self.training.items()
            if questions and source != TYPED_ONES
        }
        if typed:
            facts[TYPED_ONES] = TypedFacts(typed, names, seed)
        return facts if given is None else facts | {"knowedit": given}


def questions(without: Callable[[str], bool] | None = None) -> Questions:
    """Everything that ships.

    Args:
        without: says of a wording whether it is left out, because an evaluation asks it; None: none is, and
            what was read once is not read again.
    """
    return _all_questions() if without is None else _questions_less(without)


@cache
def _all_questions() -> Questions:
    return _questions_less(lambda wording: False)


def _questions_less(without: Callable[[str], bool]) -> Questions:

    def left(asked: Iterable[Question]) -> list[Question]:
        return [question for each in asked if (question := _less(each, without))]

    kinds, kinds_apart = _parted(left(read_kinds()), lambda kind: kept_apart(kind.name, HELD_OUT_KINDS))
    properties, properties_apart = _parted(
        left(Asked(name, ANY_SUBJECT, tuple(wordings)) for name, wordings in read_wordings().items()),
        lambda kind: kept_apart(kind.relation, HELD_OUT_PROPERTIES),
    )
    sheets = read_sheets()
    rows, rows_to_calibrate, of_subjects = _of_sheets({each.subject: left(each.kinds()) for each in sheets})
    named, rng = Names(text=read_sentences(SENTENCES), text_share=0.5), random.Random(0)
    fragments = read_fragments()
    relations = left(_relation(each, fragments, named, rng) for each in read_relations())
    typed = {case.subject or "" for path in (TYPED, TYPED_TO_CALIBRATE) for case in scope_cases(path)}
    measured = WrittenAlike(typed).has
    training: dict[str, Sequence[Question]] = {
        "kinds": kinds,
        "sheets": rows,
        "simplequestions": properties,
        "relations": relations,
        TYPED_ONES: [
            each
            for each in by_hand_that_ship()
            if not any(map(without, each.wordings)) and not measured(each.record["subject"])
        ],
    }
    return Questions(
        training,
        rows_to_calibrate,
        [*kinds_apart, *properties_apart],
        of_subjects,
        QuestionNames.read()
        .with_subjects(names_of(sheets) | _names_of_relations(named))
        .with_known(read_known_names(without=measured)),
    )


def _parted(
    asked: Sequence[Question], apart: Callable[[Question], bool]
) -> tuple[list[Question], list[Question]]:
    """What is trained on, and what is held out of it."""
    return [each for each in asked if not apart(each)], [each for each in asked if apart(each)]


def _of_sheets(
    sheets: Mapping[str, Sequence[Question]],
) -> tuple[list[Question], list[Question], dict[str, list[Question]]]:
    """Rows to train on, rows to calibrate on, and the sheets to measure with, by their kind of subject.

    Of a sheet that is held out, what everybody asks is not measured with: it is trained on with other sheets.
    """
    training: list[Question] = []
    calibration: list[Question] = []
    of_subjects: dict[str, list[Question]] = {}
    for subject, of_sheet in sheets.items():
        if not kept_apart(subject, _FOR_CALIBRATION):
            training += of_sheet
            continue
        rows = [row for row in of_sheet if row.name not in common_names()]
        if falls_in(subject, _OF_SUBJECTS) and len(rows) > _MOST_OF_ONE:
            of_subjects[subject] = rows
        else:
            calibration += rows
    return training, calibration, of_subjects


def calibration_facts(asked: Questions, seed: int = 0) -> AskedFacts:
    """Facts to calibrate on; of made-up names."""
    return AskedFacts(asked.calibration, asked.names, seed)


def facts_of_subjects(asked: Questions, subjects: int, each: int, seed: int = 0) -> list[Edit]:
    """So many facts about each of some subjects, of questions that are held out, with all their rewordings.

    The locality prompt of an edit is another question about its subject, of which nothing is written. Of the
    same seed, those of a smaller ``each`` are among those of a larger one.

    Raises:
        ValueError: more facts than there are questions about a subject.
    """
    edits: list[Edit] = []
    kinds = sorted(asked.of_subjects)
    words = [target for target in asked.names.targets[ANY_TARGET] if target.isalpha()]
    for place in range(subjects):
        rng = random.Random(f"{seed} {place}")
        rows = asked.of_subjects[kinds[place % len(kinds)]]
        if each >= len(rows):
            raise ValueError(f"there are {len(rows)} questions about one subject, too few for {each} facts")
        names = asked.names.subjects[rows[0].subject]
        subject = names[(place // len(kinds)) % len(names)]
        order = rng.sample(range(len(rows)), len(rows))
        for i in order[:each]:
            wordings = rng.sample(rows[i].wordings, len(rows[i].wordings))
            prompt, *again = (wording.replace(SUBJECT, subject) for wording in wordings)
            other = rng.choice(rows[order[-1]].wordings).replace(SUBJECT, subject)
            target, untouched = rng.sample(words, 2)
            target = rng.choice(_short(rows[i].answers) or [target])
            edits.append(
                Edit(prompt, target, "", subject, tuple(again), (other,), (untouched,), case_id=len(edits))
            )
    return edits


def _short(answers: Sequence[str], words: int = 2) -> list[str]:
    """Which fact answers is what is measured with them, not how long an answer may be."""
    return [answer for answer in answers if len(answer.split()) <= words]


def records(
    facts: Mapping[str, Facts], count: int, seed: int = 0, by_hand: float | None = None
) -> Iterator[dict]:
    """So many records from all sources; each names its ``source``.

    Args:
        facts: by source.
        count: how many.
        seed: of their order.
        by_hand: share of those that were typed, in [0, 1); None: as `SHARES` has it. What the others share
            is by their `SHARES`.
    """
    rng = random.Random(seed)
    weight = {source: float(SHARES[source]) for source in facts}
    if by_hand is not None and TYPED_ONES in weight:
        rest = sum(weight.values()) - weight[TYPED_ONES]
        weight[TYPED_ONES] = by_hand / (1 - by_hand) * rest
    sources, shares = list(weight), list(weight.values())
    for number in range(count):
        source = rng.choices(sources, shares)[0]
        yield {"source": source} | facts[source][number]


def _less(question: Question, without: Callable[[str], bool]) -> Question | None:
    """The question without some of its wordings; None where fewer than two are left."""
    if not any(map(without, question.wordings)):
        return question
    left = tuple(wording for wording in question.wordings if not without(wording))
    if len(left) < 2:
        return None
    if isinstance(question, Asked):
        return replace(question, wordings=left)
    rest = {name: getattr(question, name) for name in ("two_hops", "negations", "inverse", "near", "target")}
    return Asked(question.relation, question.subject, left, **rest)


def _relation(
    relation: Relation, fragments: Mapping[str, tuple[str, ...]], names: Names, rng: random.Random
) -> Asked:
    wordings = dict.fromkeys((*relation.prompts, *fragments.get(relation.name, ())))
    answers = {names.target(relation.target, rng) for _ in range(_NAMES_OF_RELATIONS)}
    return Asked(
        relation.name, f"relations: {relation.subject}", tuple(wordings), answers=tuple(sorted(answers))
    )


def _names_of_relations(names: Names) -> dict[str, list[str]]:
    rng = random.Random(0)
    kinds = sorted({relation.subject for relation in read_relations()})
    return {
        f"relations: {kind}": sorted({names.subject(kind, rng) for _ in range(_NAMES_OF_RELATIONS)})
        for kind in kinds
    }


def _embedded(embed: Callable[[Sequence[str]], Tensor], wordings: Sequence[str], batch: int = 256) -> Tensor:
    texts = [wording.replace(SUBJECT, "X") for wording in wordings]
    starts = tqdm(range(0, len(texts), batch), desc="embedding wordings", unit="batch", leave=False)
    return torch.cat([embed(texts[start : start + batch]) for start in starts])
