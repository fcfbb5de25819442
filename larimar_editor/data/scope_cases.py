"""Written facts, each with prompts by what they are to it: the same question, or one of many that are not."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.data.edits import load_edits
from larimar_editor.data.questions.facts import AskedFacts
from larimar_editor.data.questions.kinds import SUBJECT, read_kinds
from larimar_editor.data.questions.simplequestions import cut_wordings

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
    "other_questions": "other_prompt",
    "other_subjects": "locality_prompt",
    "near_names": "near_prompt",
    "inverses": "inverse_prompt",
    "negations": "negation_prompt",
    "two_hops": "two_hop_prompt",
}
_OF_KNOWEDIT = {
    "aliases": ("portability", "Subject_Aliasing"),
    "other_questions": ("locality", "Relation_Specificity"),
    "negations": ("locality", "Forgetfulness"),
}


@dataclass(frozen=True)
class ScopeCase:
    """A written fact and what is asked.

    Attributes:
        prompt: of the fact.
        asked: prompts by their sort, of `SAME` and `OTHER`; a sort that the data lack is not there.
    """

    prompt: str
    asked: Mapping[str, tuple[str, ...]]


def scope_cases(path: Path | None = None, limit: int | None = None, seed: int = 0) -> list[ScopeCase]:
    """Cases of a file, or made-up ones of the kinds of questions that nothing is trained on.

    Args:
        path: KnowEdit's JSON, SimpleQuestions' text, or edits in any format of `load_edits`; made-up facts
            when None.
        limit: cases at most; 600 made-up ones when None.
        seed: of what is made up or drawn.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not such a file.
    """
    if path is None:
        return _of_made_up_facts(limit or 600, seed)
    if path.suffix == ".txt":
        return _of_simplequestions(path, limit or 600, seed)
    records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    if (
        records
        and isinstance(records[0].get("locality"), dict)
        and "Relation_Specificity" in str(records[:20])
    ):
        return [_of_knowedit(record) for record in records[:limit]]
    return [
        _case(edit.prompt, rephrasings=edit.rephrase_prompts, other_subjects=edit.locality_prompts)
        for edit in load_edits(path, limit)
    ]


def _case(prompt: str, **asked: Sequence[str]) -> ScopeCase:
    # A prompt that is the written one is no other.
    others = {sort: tuple(each for each in prompts if each != prompt) for sort, prompts in asked.items()}
    return ScopeCase(prompt, {"written": (prompt,)} | {sort: each for sort, each in others.items() if each})


def _of_made_up_facts(count: int, seed: int) -> list[ScopeCase]:
    facts = AskedFacts([kind for kind in read_kinds() if kind.is_held_out], seed=seed)
    made = map(facts.__getitem__, range(count))
    return [_case(fact["prompt"], **{sort: fact[key] for sort, key in _OF_FACTS.items()}) for fact in made]


def _of_knowedit(record: Mapping) -> ScopeCase:
    asked = {
        sort: [each["prompt"] for each in (record.get(part) or {}).get(name, ())]
        for sort, (part, name) in _OF_KNOWEDIT.items()
    }
    rephrased = record.get("rephrase_prompt")
    return _case(record["prompt"], rephrasings=[rephrased] if rephrased else [], **asked)


def _of_simplequestions(path: Path, count: int, seed: int) -> list[ScopeCase]:
    """Wordings of a property, with one invented name in each case; other questions are other properties'
    wordings.
    """
    rng = random.Random(seed)
    wordings = cut_wordings(path, fewest=6)
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
                rephrasings=list(map(put, again)),
                other_questions=asked,
                other_subjects=[put(prompt, rng.choice(names))],
            )
        )
    return cases
