"""Written facts, each with prompts by what they are to it: the same question, or one of many that are not."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from larimar_editor.data import knowedit
from larimar_editor.data.calibrating import MADE_UP_CASES
from larimar_editor.data.edits import load_edits
from larimar_editor.data.questions.facts import AskedFacts, fitting_target
from larimar_editor.data.questions.kinds import SUBJECT, kept_apart, read_kinds
from larimar_editor.data.questions.simplequestions import HELD_OUT_PROPERTIES, cut_wordings
from larimar_editor.utils.json_files import list_in

# Facts that were typed by hand, with what one would ask: some to measure with, which nothing is trained or
# calibrated on, and some to calibrate on.
TYPED = Path(__file__).parent / "typed_facts.json"
TYPED_TO_CALIBRATE = Path(__file__).parent / "typed_facts_calibration.json"
# What readers made of other data's rephrasings and "other questions"; see `as_read`.
READ = Path(__file__).parent / "prompts_as_read.json"
# Sorts of prompts that ask what was written, and sorts that ask something else.
SAME = ("written", "rephrasings", "aliases")
OTHER = (
    "other_questions",
    "other_subjects",
    "near_names",
    "inverses",
    "negations",
    "two_hops",
)

_OF_FACTS = {
    "rephrasings": "rephrase_prompt",
    "aliases": "alias_prompt",
    "other_questions": "other_prompt",
    "other_subjects": "locality_prompt",
    "near_names": "near_prompt",
    "inverses": "inverse_prompt",
    "negations": "negation_prompt",
    "two_hops": "two_hop_prompt",
}
_RARE = {"inverse_prompt"}  # what such facts may lack


@dataclass(frozen=True)
class ScopeCase:
    """A written fact and what is asked.

    Attributes:
        prompt: of the fact.
        asked: prompts by their sort, of `SAME` and `OTHER`; a sort that the data lack is not there.
        subject: what the prompt is about, where the data say so.
        target: its answer, where the data have one that is to the point.
    """

    prompt: str
    asked: Mapping[str, tuple[str, ...]]
    subject: str | None = None
    target: str | None = None


def scope_cases(path: Path | None = None, limit: int | None = None, seed: int = 0) -> list[ScopeCase]:
    """Cases of a file, or made-up ones; of kinds of questions, properties and relations that nothing is
    trained on.

    Args:
        path: KnowEdit's JSON (of a file of its train splits the relations that are held out),
            SimpleQuestions' text (the properties that are held out), facts with a list of prompts for each
            sort (as `TYPED`), or edits in any format of `load_edits`; made-up facts when None.
        limit: cases at most; when None `MADE_UP_CASES` made-up ones, and of SimpleQuestions as many.
        seed: of what is made up or drawn.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a file, or a record that lacks something; the message has its number.
    """
    if path is None:
        held_out = [kind for kind in read_kinds() if kind.is_held_out]
        return of_facts(AskedFacts(held_out, seed=seed), limit or MADE_UP_CASES)
    if path.suffix == ".txt":
        return _of_simplequestions(path, limit or MADE_UP_CASES, seed)
    records = list_in(path) if path.exists() else []
    if knowedit.is_knowedit(records):
        return list(islice(_of_knowedit(path, records), limit))
    needed = {"prompt", "subject", *_OF_FACTS.values()} - _RARE
    if records and all(isinstance(each, dict) and needed <= {*each} for each in records):
        return [of_record(record) for record in records[:limit]]
    return [
        _case(
            edit.prompt,
            edit.subject,
            edit.target_new,
            rephrasings=edit.rephrase_prompts,
            other_subjects=edit.locality_prompts,
        )
        for edit in load_edits(path, limit)
    ]


def as_read(cases: Sequence[ScopeCase], path: Path = READ) -> list[ScopeCase]:
    """Of cases whose prompts were read one by one, those prompts, by whether they ask what was written.

    CounterFact calls rephrasing what asks something else as well ("X is known for" of X's employer), and
    KnowEdit's ZsRE calls other question what asks the same.

    Args:
        cases: of any data.
        path: a digest of each prompt that was read, with its fact's (`digest_of`), to whether most readers
            found that both ask the same.

    Returns:
        cases with ``rephrasings`` and ``other_questions``; none where nothing of the data was read.
    """
    asks_it = json.loads(path.read_text(encoding="utf-8"))
    read = []
    for case in cases:
        queries = [query for sort in ("rephrasings", "other_questions") for query in case.asked.get(sort, ())]
        found = [(query, asks_it.get(digest_of(case.prompt, query))) for query in dict.fromkeys(queries)]
        sorts = {
            sort: tuple(query for query, same in found if same is label)
            for sort, label in (("rephrasings", True), ("other_questions", False))
        }
        if any(sorts.values()):
            read.append(_case(case.prompt, case.subject, case.target, **sorts))
    return read


def digest_of(prompt: str, query: str) -> str:
    """What a query that was read is known by, with its fact: their texts do not ship."""
    return hashlib.sha256(f"{prompt}\n{query}".encode()).hexdigest()[:16]


def of_facts(facts: AskedFacts, count: int) -> list[ScopeCase]:
    """Cases of the first ``count`` made-up facts."""
    return [of_record(facts[number]) for number in range(count)]


def of_record(fact: Mapping) -> ScopeCase:
    """The case of a made-up fact (`AskedFacts`)."""
    asked = {sort: fact.get(key, ()) for sort, key in _OF_FACTS.items()}
    return _case(fact["prompt"], fact["subject"], fitting_target(fact), **asked)


def _case(
    prompt: str, subject: str | None = None, target: str | None = None, **asked: Sequence[str]
) -> ScopeCase:
    # A prompt that is the written one is no other.
    others = {sort: tuple(each for each in prompts if each != prompt) for sort, prompts in asked.items()}
    kept = {"written": (prompt,)} | {sort: each for sort, each in others.items() if each}
    return ScopeCase(prompt, kept, subject or None, target or None)


def _of_knowedit(path: Path, records: Sequence[Mapping]) -> Iterator[ScopeCase]:
    for number, record in enumerate(records):
        knowedit.check_record(record, f"{path}, record {number}")
        if "train" in path.stem and not knowedit.is_held_out(record):
            continue
        asked = {sort: knowedit.prompts_of(record, sort) for sort in knowedit.PARTS if sort != "two_hops"}
        rephrased = record.get("rephrase_prompt")
        again = [rephrased] if rephrased else []
        yield _case(record["prompt"], record["subject"], record["target_new"], rephrasings=again, **asked)


def _of_simplequestions(path: Path, count: int, seed: int) -> list[ScopeCase]:
    """Wordings of a property, with one invented name in each case; other questions are other properties'
    wordings.
    """
    rng = random.Random(seed)
    wordings = {
        name: every
        for name, every in cut_wordings(path, fewest=6).items()
        if kept_apart(name, HELD_OUT_PROPERTIES)
    }
    if len(wordings) < 4:
        raise ValueError(
            f"{path}: four properties that nothing is trained on are needed, with six wordings each; it has "
            f"{len(wordings)}"
        )
    names = [name for many in AskedFacts(read_kinds()).names.subjects.values() for name in many]
    cases = []
    for _ in range(count):
        first, *others = rng.sample(sorted(wordings), 4)
        name = rng.choice(names)
        prompt, *again = rng.sample(wordings[first], 4)
        put = lambda wording, name=name: wording.replace(SUBJECT, name.lower())
        asked = [put(rng.choice(wordings[other])) for other in others]
        cases.append(
            _case(
                put(prompt),
                name.lower(),
                rephrasings=list(map(put, again)),
                other_questions=asked,
                other_subjects=[put(prompt, rng.choice(names))],
            )
        )
    return cases
