"""KnowEdit's records, and which of their relations nothing is trained on.

Zhang et al. 2024; Apache-2.0. Its files do not ship; `docs/data.md` says where they are published.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from larimar_editor.data.questions.kinds import SUBJECT, falls_in

# Prompts of a record, by what they are to its own prompt.
PARTS = {
    "aliases": ("portability", "Subject_Aliasing"),
    "other_questions": ("locality", "Relation_Specificity"),
    "negations": ("locality", "Forgetfulness"),
    "two_hops": ("portability", "Reasoning"),
}


def is_knowedit(records: Sequence[Any]) -> bool:
    """Whether these are KnowEdit's: each has its ``locality`` as a mapping of lists."""
    return (
        bool(records)
        and all(isinstance(record.get("locality"), dict) for record in records[:20])
        and any(
            name in record["locality"]
            for record in records
            for name in ("Relation_Specificity", "Forgetfulness")
        )
    )


def read_knowedit(path: Path) -> list[dict]:
    """The records of a file.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a file of KnowEdit's.
    """
    records = json.loads(path.read_text(encoding="utf-8"))
    if not is_knowedit(records):
        raise ValueError(f"{path} is no file of KnowEdit's: its records lack locality by name")
    return records


def prompts_of(record: Mapping, sort: str) -> list[str]:
    """A record's prompts of a sort of `PARTS`."""
    part, name = PARTS[sort]
    return [each["prompt"] for each in (record.get(part) or {}).get(name, ())]


def template(prompt: str, subject: str) -> str:
    """A prompt with its subject taken out: the records of one relation share it."""
    return prompt.replace(subject, SUBJECT)


def is_held_out(record: Mapping) -> bool:
    """Whether the record's relation is of the third that nothing is trained on, by its wording alone."""
    return falls_in(template(record["prompt"], record["subject"]), 3)


def alias_in(prompt: str, wording: str) -> str | None:
    """The name that stands in ``prompt`` where ``wording`` has its subject; None where they differ
    otherwise.
    """
    before, _, after = wording.partition(SUBJECT)
    match = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", prompt)
    return match[1] if match else None
