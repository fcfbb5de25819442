"""Facts in pairs, of which the second is about the first one's answer, and what one may ask then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHAINS = Path(__file__).parent / "chains.json"
_FACTS, _ASKED = ("first", "second"), ("asked", "turned_round", "alias", "not")


@dataclass(frozen=True)
class Chain:
    """Two facts that are written together, and prompts that no one of them answers as it was written.

    Attributes:
        first, second: requests with ``prompt``, ``target_new`` and ``subject``; the second's subject is the
            first one's answer.
        two_hops: ask for the second's answer by way of the first.
        turned_round: ask for the first's subject, naming its answer.
        aliases: ask for the second's answer by another name of its subject.
        lookalikes: two hops of which one is not written.
    """

    first: Mapping[str, str]
    second: Mapping[str, str]
    two_hops: tuple[str, ...]
    turned_round: tuple[str, ...]
    aliases: tuple[str, ...]
    lookalikes: tuple[str, ...]


def read_chains(path: Path = CHAINS) -> list[Chain]:
    """The pairs of a file; those that ship by default, typed by hand.

    Raises:
        ValueError: a pair that is none, with its number.
    """
    chains = []
    for number, record in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        try:
            chains.append(_chain(record))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path.name}, record {number}: {error}") from error
    return chains


def _chain(record: Mapping) -> Chain:
    first, second = (
        {key: str(record[part][key]) for key in ("prompt", "target_new", "subject")} for part in _FACTS
    )
    texts = {sort: record[sort] for sort in _ASKED}
    if bad := [sort for sort, every in texts.items() if not every or not isinstance(every, list)]:
        raise ValueError(f"{bad[0]!r} must be a list of prompts")
    if second["subject"] != first["target_new"]:
        raise ValueError("the second fact is not about the first one's answer")
    return Chain(first, second, *map(tuple, texts.values()))
