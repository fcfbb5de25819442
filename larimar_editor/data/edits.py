"""Edits from files: EasyEdit's flat CounterFact, ROME's original CounterFact, ZsRE, and the project's own
sixty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from larimar_editor.utils.json_files import list_in, reading_record

OWN_EDITS = Path(__file__).parent / "edits.json"


@dataclass(frozen=True)
class Edit:
    """One case of an evaluation.

    Attributes:
        prompt, target_new, ground_truth, subject: the edit and what it replaces; empty where that is not
            known.
        rephrase_prompts: other wordings of ``prompt``; the edit should hold for them.
        locality_prompts: prompts about other subjects, whose answers must not change.
        locality_ground_truth: their true answers, one each.
        portability_prompts: questions whose answer follows from the edit.
        portability_ground_truth: those answers, one each.
        case_id: number in the file.
    """

    prompt: str
    target_new: str
    ground_truth: str
    subject: str
    rephrase_prompts: tuple[str, ...] = ()
    locality_prompts: tuple[str, ...] = ()
    locality_ground_truth: tuple[str, ...] = ()
    portability_prompts: tuple[str, ...] = ()
    portability_ground_truth: tuple[str, ...] = ()
    case_id: int = field(default=0, compare=False)

    @property
    def request(self) -> dict[str, str]:
        """What is written of it: its prompt, its answer, and its subject where it has one."""
        subject = {"subject": self.subject} if self.subject else {}
        return {"prompt": self.prompt, "target_new": self.target_new} | subject

    @classmethod
    def from_dict(cls, values: Mapping) -> Edit:
        """The inverse of `dataclasses.asdict`, after JSON made lists of its tuples."""
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        return cls(**fields)


def load_edits(path: str | Path | None = None, limit: int | None = None) -> list[Edit]:
    """Edits of a JSON file; the project's own without a path.

    Args:
        path: a list of records in EasyEdit's flat format, ROME's original format or MEND's ZsRE format.
        limit: how many of its records to read, from the start; all when None. Those without a target, as ZsRE
            has a few, are left out.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a file; the message names the record and what it lacks.
    """
    return [edit for _, edit in numbered_edits(OWN_EDITS if path is None else Path(path), limit)]


def numbered_edits(path: Path, limit: int | None = None) -> list[tuple[int, Edit]]:
    """As `load_edits`, each with its record's place in the file, from 0."""
    if not path.exists():
        raise FileNotFoundError(f"no data file {path}")
    records = list_in(path)
    if not records:
        raise ValueError(f"{path} must hold a list of records, and this one is empty")
    edits = []
    for number, record in enumerate(records[:limit]):
        with reading_record(f"{path}, record {number}"):
            edits.append((number, edit := _read(record, number)))
        for name in ("prompt", "target_new"):
            if not isinstance(value := getattr(edit, name), str):
                raise ValueError(f"{path}, record {number}: {name!r} must be a text, got {value!r}")
        if not isinstance(edit.case_id, int):  # seeds are counted on from it
            raise ValueError(
                f"{path}, record {number}: 'case_id' must be a whole number, got {edit.case_id!r}"
            )
    return [(number, edit) for number, edit in edits if edit.target_new.strip()]


def with_old_answers(edits: Sequence[Edit]) -> Sequence[Edit]:
    """The edits.

    Raises:
        ValueError: one whose old answer is not known; the message has its prompt.
    """
    for edit in edits:
        if not edit.ground_truth:
            raise ValueError(f"the old answer of {edit.prompt!r} is asked for, and it has no ground_truth")
    return edits


def _read(record: Mapping, number: int) -> Edit:
    edit = _edit(record, number)
    # KnowEdit has questions whose list of answers is empty.
    asked = [(prompt, answer) for prompt, answer in zip(*_portability(record)) if answer.strip()]
    prompts, answers = zip(*asked) if asked else ((), ())
    return replace(edit, portability_prompts=prompts, portability_ground_truth=answers)


def _edit(record: Mapping, number: int) -> Edit:
    if "requested_rewrite" in record:  # ROME
        rewrite = record["requested_rewrite"]
        locality = tuple(record.get("neighborhood_prompts", ()))
        return Edit(
            prompt=rewrite["prompt"].replace("{}", rewrite["subject"]),
            target_new=rewrite["target_new"]["str"],
            ground_truth=rewrite["target_true"]["str"],
            subject=rewrite["subject"],
            rephrase_prompts=tuple(record.get("paraphrase_prompts", ())),
            locality_prompts=locality,
            # ROME's locality prompts share the true answer by construction.
            locality_ground_truth=(rewrite["target_true"]["str"],) * len(locality),
            case_id=record.get("case_id", number),
        )
    if "src" in record:  # ZsRE as in MEND and EasyEdit
        return Edit(
            prompt=record["src"],
            target_new=record["alt"],
            ground_truth=record["answers"][0],
            subject=record["subject"],
            rephrase_prompts=_several(record.get("rephrase")),
            locality_prompts=_several(record.get("loc")),
            locality_ground_truth=_several(record.get("loc_ans")),
            case_id=record.get("case_id", number),
        )
    return Edit(
        prompt=record["prompt"],
        target_new=record["target_new"],
        ground_truth=first_name(record.get("ground_truth", "")).strip(),
        subject=record.get("subject") or "",
        rephrase_prompts=_several(record.get("rephrase_prompt")),
        locality_prompts=_several(record.get("locality_prompt")),
        locality_ground_truth=_several(record.get("locality_ground_truth")),
        case_id=record.get("case_id", number),
    )


def _portability(record: Mapping) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Questions and answers: ours; ``New Question`` of EasyEdit's CounterFact and ZsRE; KnowEdit's lists by
    kind.
    """
    given = record.get("portability")
    if given is None:
        return _several(record.get("portability_prompt")), _several(record.get("portability_ground_truth"))
    if "New Question" in given:
        return (given["New Question"],), (given["New Answer"],)
    asked = [each for kind in given.values() for each in kind]
    return tuple(each["prompt"] for each in asked), tuple(first_name(each["ground_truth"]) for each in asked)


def first_name(answer: str | Sequence) -> str:
    """KnowEdit nests an answer and its other names in lists; the first is taken, "" of an empty list."""
    return answer if isinstance(answer, str) else first_name(answer[0]) if answer else ""


def _several(value: str | list[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)
