"""Edits one after the other, all kept, for as long as the time goes; and what is asked on the way."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import NamedTuple

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.scores import TargetScore

ASKED = 300  # facts that are asked for, spread evenly over all that are held
TIMED = 100  # last edits whose median is told
TEXTS, _WORDS = 20, 120  # pieces of plain text, and their words, of which the second half is predicted
AS_BEFORE = ("other", "neighbour")  # what is to be said as the base model says it


@dataclass(frozen=True)
class Lifetime:
    """What another method is to do.

    Attributes:
        edits: one after the other.
        counts: how many edits are made when it is asked; once more at the end.
        minutes: of editing, after which it ends; None: after the last edit.
        texts: beginnings of plain text and how each goes on.
        seed: of which facts are asked for.
    """

    edits: Sequence[Edit]
    counts: Sequence[int] = ()
    minutes: float | None = None
    texts: Sequence[tuple[str, str]] = ()
    seed: int = 0

    def to_dict(self) -> dict:
        """Plain lists and mappings, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping) -> Lifetime:
        """The inverse of `to_dict`."""
        edits = [Edit.from_dict(edit) for edit in values["edits"]]
        return cls(**{**values, "edits": edits, "texts": [tuple(text) for text in values["texts"]]})


class Question(NamedTuple):
    """Something asked of a fact.

    Attributes:
        place: of the fact among those asked for.
        kind: ``written``, ``reworded``, ``other`` (question about its subject) or ``neighbour``.
        pair: prompt and target.
    """

    place: int
    kind: str
    pair: tuple[str, str]


def drawn(count: int, seed: int) -> list[int]:
    """Places of up to `ASKED` facts among the first ``count``, in order."""
    return sorted(random.Random(seed + count).sample(range(count), min(ASKED, count)))


def questions_of(edits: Sequence[Edit]) -> list[Question]:
    """Each fact as it was written, in other words, another question about its subject, and a neighbour, kind
    by kind; the last three where it has them.
    """
    of = {
        "written": lambda edit: [(edit.prompt, edit.target_new)],
        "reworded": lambda edit: [(prompt, edit.target_new) for prompt in edit.rephrase_prompts[:1]],
        "other": lambda edit: [*zip(edit.portability_prompts[:1], edit.portability_ground_truth)],
        "neighbour": lambda edit: [*zip(edit.locality_prompts[:1], edit.locality_ground_truth)],
    }
    return [
        Question(place, kind, pair)
        for kind, pairs in of.items()
        for place, edit in enumerate(edits)
        for pair in pairs(edit)
    ]


def to_stay(questions: Sequence[Question]) -> list[tuple[str, str]]:
    """The pairs whose answers are to be the base model's."""
    return [question.pair for question in questions if question.kind in AS_BEFORE]


def records_of(
    questions: Sequence[Question],
    edited: Sequence[TargetScore],
    base: Mapping[tuple[str, str], TargetScore],
) -> list[dict]:
    """One record per fact: share of the target's tokens that are right or, of `AS_BEFORE`, the base model's.

    Args:
        questions: see `questions_of`.
        edited: of each, of the edited model.
        base: of the base model, of each pair `to_stay`.
    """
    records: list[dict] = [{} for _ in range(1 + max(question.place for question in questions))]
    for (place, kind, pair), score in zip(questions, edited, strict=True):
        records[place][kind] = score.as_before(base[pair]) if kind in AS_BEFORE else score.accuracy
    return records


def texts_of(text: str, count: int = TEXTS) -> list[tuple[str, str]]:
    """Pieces of a text, spread evenly over it, each cut in the middle."""
    words = text.split()
    whole = max(1, len(words) // _WORDS)
    starts = [_WORDS * (number * whole // min(count, whole)) for number in range(min(count, whole))]
    pieces = [words[start : start + _WORDS] for start in starts]
    halves = [(piece[: len(piece) // 2], piece[len(piece) // 2 :]) for piece in pieces]
    return [(" ".join(start), " ".join(end)) for start, end in halves if start and end]


def perplexity_ratio(edited: Sequence[TargetScore], base: Sequence[TargetScore]) -> float:
    """Perplexity of texts under an edited model, the base model's being 1.

    Args:
        edited, base: of the same `texts_of`.
    """
    nats = sum(
        (before.log_probability - after.log_probability) * len(after.predicted)
        for after, before in zip(edited, base, strict=True)
    )
    return math.exp(nats / sum(len(score.predicted) for score in edited))


def of_the_last(seconds: Sequence[float]) -> float:
    """Median of the last `TIMED` edits' seconds."""
    return median(seconds[-TIMED:])
