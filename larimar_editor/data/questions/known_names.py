"""Names of known and of private things: what else each is called, and what is easily mistaken for it.

Rules find other spellings and short forms of a name (`larimar_editor.data.questions.aliases`); that Chogori
is K2 and that Karl Wittgenstein is not Paul, somebody has to know.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.data.questions.kinds import FOLDER
from larimar_editor.utils.text import plain_letters

KNOWN_NAMES = FOLDER / "known-names.json"


@dataclass(frozen=True)
class KnownName:
    """A thing's names.

    Attributes:
        name: its usual one.
        aliases: others.
        mistaken: names of other things that are like it in letters or in meaning.
        private: whether nobody knows it outside a family, a firm or a made-up world.
    """

    name: str
    aliases: tuple[str, ...]
    mistaken: tuple[str, ...]
    private: bool = False


def read_known_names(
    path: Path = KNOWN_NAMES, without: Callable[[str], bool] = lambda name: False
) -> list[KnownName]:
    """The names that ship, in Latin letters.

    Args:
        path: a list of ``{"kind", "name", "aliases", "not"}``, some with ``"private": true``.
        without: says of a name whether the thing that it is one of is left out.

    Raises:
        ValueError: what is said to be another thing is one of the same; the message has its name.
    """
    known = []
    for row in json.loads(path.read_text(encoding="utf-8")):
        names = [row["name"], *row["aliases"]]
        if both := {*names} & {*row["not"]}:
            raise ValueError(f"{path.name}: {both.pop()!r} is and is not another name of {row['name']!r}")
        aliases, mistaken = (tuple(filter(_in_latin_letters, row[part])) for part in ("aliases", "not"))
        if aliases and not any(map(without, names)):
            known.append(KnownName(row["name"], aliases, mistaken, row.get("private", False)))
    return known


def _in_latin_letters(name: str) -> bool:
    return all(letter.isascii() or not letter.isalpha() for letter in plain_letters(name))
