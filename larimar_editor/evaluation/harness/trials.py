"""Many edits by one of EasyEdit's methods, held together, and what the edited model then says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import f1
from larimar_editor.evaluation.harness.many_edits import asked_of


@dataclass(frozen=True)
class Stage:
    """Edits on top of those before, then questions.

    Attributes:
        blocks: requests, each a mapping with ``prompt``, ``target_new``, ``ground_truth`` and ``subject``;
            those of a block are handed to the method in one call, of which ROME, GRACE and others take only
            the first.
        scored: prompts and targets whose accuracy is measured.
        generated: prompts that the model is to go on from.
        sampling: of `transformers.GenerationMixin.generate`, greedy where empty.
    """

    blocks: Sequence[Sequence[Mapping]] = ()
    scored: Sequence[tuple[str, str]] = ()
    generated: Sequence[str] = ()
    sampling: Mapping = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """Stages, from the base model on; it is the base model again afterwards.

    Attributes:
        stages: one after the other.
        seed: of sampling, set before each stage's questions.
    """

    stages: Sequence[Stage]
    seed: int = 0

    def to_dict(self) -> dict:
        """Plain lists and mappings, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping) -> Trial:
        """The inverse of `to_dict`."""
        return cls([Stage(**stage) for stage in values["stages"]], values["seed"])


def request(edit: Edit, target: str | None = None) -> dict:
    """The edit as EasyEdit's methods take it, with another target where one is given."""
    return {
        "prompt": edit.prompt,
        "target_new": edit.target_new if target is None else target,
        "ground_truth": edit.ground_truth,
        "subject": edit.subject,
        "portability": {},
        "locality": {},
    }


def stage_of(edits: Sequence[Edit], together: bool = False) -> Stage:
    """All edits, in one block or one after the other; then each is asked for, with its first rephrasing and
    locality prompt.
    """
    requests = [request(edit) for edit in edits]
    scored = [pair for edit in edits for pair in asked_of(edit).values()]
    return Stage(
        [requests] if together else [[each] for each in requests], scored, [edit.prompt for edit in edits]
    )


def records_of(stage: Mapping, edits: Sequence[Edit]) -> list[dict]:
    """What a stage of `stage_of` gave, edit by edit.

    Returns:
        records as `score_many_edits` makes them, with ``f1`` of the generated answer, and `where_made`.
    """
    scores, records = iter(stage["scores"]), []
    for edit, answer in zip(edits, stage["answers"], strict=True):
        record = {"case_id": edit.case_id, "f1": f1(answer, edit.target_new)} | where_made(stage)
        for name in asked_of(edit):
            record[name] = next(scores)["same" if name == "locality" else "accuracy"]
        records.append(record)
    return records


def where_made(stage: Mapping) -> dict:
    """What a stage's result says of the machine that it was made on, for each record of it; empty where it
    says nothing.
    """
    return {key: stage[key] for key in ("environment",) if key in stage}
