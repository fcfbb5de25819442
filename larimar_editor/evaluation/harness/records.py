"""Records of an evaluation: one JSON line per case and condition, written as they are made, so that a run
goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Generic, TypeVar

import torch
from accelerate import PartialState
from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.utils.files import written_whole

Case = TypeVar("Case")


@dataclass(frozen=True)
class Condition(Generic[Case]):
    """One row of a table, or one point of a figure: how its cases are scored.

    Attributes:
        name: unique in the evaluation.
        cases: by a name of each that is unique in the condition.
        score: cases to one record each (plain numbers, lists and text), in their order.
        batch: cases scored in one call; 0 scores all together, as where they share a memory, and does not
            stop half-way.
        settings: what a reader needs to repeat it.
        beside: name of a condition with the same cases, which this one is compared with case by case.
        cluster: what a case has in common with others, whose values then say little more than its own, as a
            subject, or facts in one memory: intervals and tests take these together; None: each is alone.
    """

    name: str
    cases: Mapping[str, Case]
    score: Callable[[Sequence[Case]], Sequence[Mapping]]
    batch: int = 16
    settings: Mapping = field(default_factory=dict)
    beside: str | None = None
    cluster: Callable[[Case], Hashable] | None = None


def cases_of(edits: Sequence[Edit]) -> Mapping[str, Edit]:
    """Edits as a condition's cases, each named by its place."""
    return {str(place): edit for place, edit in enumerate(edits)}


class LeftOut(Exception):
    """A condition that cannot be scored here; the message says why, in one line, or is empty where nobody
    asked for it.
    """


def read_records(path: Path) -> list[dict]:
    """Whole records of a file; what an interrupted run left of its last one is passed over."""
    return [json.loads(line) for line in whole_lines(path)]


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that end; none where there is no file."""
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


def clustered(conditions: Sequence[Condition], records: Sequence[Mapping]) -> list[Mapping]:
    """Records of these conditions, each with the ``cluster`` of its case, where its condition has such."""
    known = {condition.name: condition for condition in conditions}

    def told(record: Mapping) -> Mapping:
        condition = known[record["condition"]]
        if condition.cluster is None:
            return record
        return {**record, "cluster": condition.cluster(condition.cases[record["case"]])}

    return [told(record) for record in records]


def unfinished(conditions: Sequence[Condition], path: Path) -> bool:
    """Whether `run_conditions` of the same would score a case."""
    there = {(each["condition"], each["case"]) for each in _ordered(conditions, _gathered(path))}
    return any((each.name, case) not in there for each in conditions for case in each.cases)


def run_conditions(
    conditions: Sequence[Condition],
    path: Path,
    progress: bool = True,
    left_out: dict[str, str] | None = None,
    begin: Callable[[str, bool], None] = lambda name, anew: None,
) -> list[dict]:
    """Score what is not in ``path`` yet.

    Under ``accelerate launch`` the cases are split over the processes, and the records end in ``path`` as if
    there were one. Conditions whose cases share a memory are the first process's.

    Args:
        conditions: names are unique.
        path: JSON lines. A record is the score's with ``condition`` and ``case`` in front.
        left_out: gets the reason of each condition that raised `LeftOut`.
        begin: called in the first process with the name of each condition that has cases to score, once one
            is and before its record is written; and with whether none of its cases were scored before.

    Returns:
        the records of these conditions and cases, old and new, each once.

    Raises:
        ValueError: two conditions of one name.
        LeftOut: a condition's, when ``left_out`` is None.
    """
    if len({condition.name for condition in conditions}) < len(conditions):
        raise ValueError(
            f"conditions need names of their own, got {[condition.name for condition in conditions]}"
        )
    group = processes()
    if group.is_main_process:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, _ordered(conditions, _gathered(path)))
    group.wait_for_everyone()
    done = {(record["condition"], record["case"]) for record in read_records(path)}
    group.wait_for_everyone()
    own = path if group.is_main_process else _part(path, group.process_index)
    with own.open("a", encoding="utf-8") as stream:
        for condition in conditions:
            pending = [case for case in condition.cases if (condition.name, case) not in done]
            anew = len(pending) == len(condition.cases)
            if condition.batch:
                pending = pending[group.process_index :: group.num_processes]
            elif not group.is_main_process:
                continue
            try:
                for number, record in enumerate(_score(condition, pending, progress)):
                    if number == 0 and group.is_main_process:
                        begin(condition.name, anew)
                    stream.write(json.dumps(record) + "\n")
                    stream.flush()
            except LeftOut as reason:
                if left_out is None:
                    raise
                left_out[condition.name] = str(reason)
    group.wait_for_everyone()
    if group.is_main_process:
        _replace(path, _ordered(conditions, _gathered(path)))
    group.wait_for_everyone()
    wanted = {(condition.name, case) for condition in conditions for case in condition.cases}
    return [record for record in read_records(path) if (record["condition"], record["case"]) in wanted]


def processes() -> PartialState:
    """The processes of this run; one where none were launched together."""
    # The timeout is long: the others wait for the first while EasyEdit's methods run.
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=30))


def _part(path: Path, process: int) -> Path:
    return path.with_suffix(f".{process}{path.suffix}")


def _gathered(path: Path) -> list[dict]:
    """The records of all processes, of this run or one that was stopped."""
    parts = sorted(path.parent.glob(f"{path.stem}.*{path.suffix}"))
    return [record for part in (path, *parts) for record in read_records(part)]


def _ordered(conditions: Sequence[Condition], records: Sequence[Mapping]) -> list[Mapping]:
    """Records in the conditions' order, others last; less those of a shared memory that is not whole, or was
    of more cases.
    """
    unique = {(record["condition"], record["case"]): record for record in records}
    there: dict[str, set[str]] = {}
    for name, case in unique:
        there.setdefault(name, set()).add(case)
    for condition in conditions:
        if not condition.batch and there.get(condition.name) != set(condition.cases):
            unique = {key: record for key, record in unique.items() if key[0] != condition.name}
    ordered = [(condition.name, case) for condition in conditions for case in condition.cases]
    return [unique.pop(key) for key in ordered if key in unique] + list(unique.values())


def _score(condition: Condition, pending: Sequence[str], progress: bool) -> Iterator[dict]:
    size = condition.batch or max(1, len(pending))
    with tqdm(
        total=len(pending), desc=condition.name, unit="case", disable=not progress or not pending
    ) as bar:
        for start in range(0, len(pending), size):
            names = pending[start : start + size]
            scores = condition.score([condition.cases[name] for name in names])
            for name, score in zip(names, scores, strict=True):
                yield {"condition": condition.name, "case": name} | dict(score)
            bar.update(len(names))


def written(path: Path, records: Iterable[Mapping]) -> None:
    """Put records into a file, in place of what is there, in one step."""
    with written_whole(path) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def _replace(path: Path, records: Iterable[Mapping]) -> None:
    """Write ``path`` anew, then remove the other processes' parts: at no moment is a record in neither."""
    written(path, records)
    for part in path.parent.glob(f"{path.stem}.*{path.suffix}"):
        part.unlink()
