"""Lists of what else things are called: WordNet's proper nouns, and names written for this project."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from larimar_editor.data.questions.known_names import read_known_names

WORDNET_NAMES = Path(__file__).parent / "wordnet-names.txt"
NOT_ONE = Path(__file__).parent / "not-one.txt"  # what of it is struck: WordNet's synonyms are loose
_BETWEEN = "\t"
_BRACKETS = re.compile(r"\s*\([^)]*\)")
# Lexicographer files (lexnames(5WN)); of quantities are "one", "I", "single".
_PEOPLE, _NUMBERS = "18", "23"
# Who asks for the mayor of the capital of France asks for two things, and "Dr." begins a name.
_NO_NAME = re.compile(r"^capital of | capital$|^Dr\.$")


def groups_that_ship() -> list[list[str]]:
    """The names of each thing of both lists, the usual one first, less what is in brackets and what `NOT_ONE`
    strikes of the first list. A thing of the second list is one of the first where its usual name is in one
    group alone, and they share another name or that one has several words or is the usual one there too.
    """
    struck = {usual: others for usual, *others in _groups_in(NOT_ONE)}
    kept = (
        [name for name in group if name not in struck.get(group[0], ())]
        for group in _groups_in(WORDNET_NAMES)
    )
    groups = [group for group in kept if len(group) > 1]
    places: dict[str, set[int]] = defaultdict(set)
    for place, group in enumerate(groups):
        for name in group:
            places[name.casefold()].add(place)
    for known in read_known_names():
        names = [_BRACKETS.sub("", name) for name in (known.name, *known.aliases) if not known.private]
        same = places.get(names[0].casefold(), set()) if names else set()
        group = groups[next(iter(same))] if len(same) == 1 else []
        shared = {name.casefold() for name in names} & {name.casefold() for name in group}
        if group and (len(shared) > 1 or " " in names[0] or group[0].casefold() == names[0].casefold()):
            group += names
        elif len(names) > 1:
            groups.append(names)
    return groups


def _groups_in(path: Path) -> Iterator[list[str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return (line.split(_BETWEEN) for line in lines if not line.startswith("#"))


def wordnet_groups(path: str | Path) -> Iterator[tuple[str, ...]]:
    """The names of each thing that WordNet knows by several, of which one at least is a proper noun.

    Args:
        path: WordNet's ``data.noun`` (wndb(5WN)).

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is no synset of nouns.
    """
    for number, line in enumerate(Path(path).read_text(encoding="latin-1").splitlines(), 1):
        if line.startswith("  "):  # the licence
            continue
        fields = line.partition("|")[0].split()
        try:
            kind = fields[1]
            words = [fields[4 + 2 * place].replace("_", " ") for place in range(int(fields[3], 16))]
        except (IndexError, ValueError):
            raise ValueError(f"{path}, line {number}: not a synset of WordNet's data.noun") from None
        words = [word for word in words if not _NO_NAME.search(word)]
        if kind != _NUMBERS and any(word[:1].isupper() for word in words) and not _parts_of_one(words):
            yield tuple(_usual_first(words) if kind == _PEOPLE else words)


def _usual_first(names: Sequence[str]) -> list[str]:
    """A person's names, of which WordNet has the surname first, with the first that has more than that."""
    first = names[0]
    whole = next((name for name in names[1:] if " " in name and first in name), first)
    return [whole, *(name for name in names if name != whole)]


def _parts_of_one(names: Sequence[str]) -> bool:
    """Whether each name is a part of the longest: "Fundulus", "genus Fundulus"."""
    split = [set(name.lower().split()) for name in names]
    return all(words <= max(split, key=len) for words in split)


def write_wordnet_names(path: str | Path, out: str | Path) -> int:
    """`wordnet_groups` as a file of one thing a line, with WordNet's licence in front; how many there are."""
    text = Path(path).read_text(encoding="latin-1")
    licence = [line.split(maxsplit=1)[1:] for line in text.splitlines() if line.startswith("  ")]
    groups = list(wordnet_groups(path))
    lines = [f"# {''.join(words)}".rstrip() for words in licence] + [_BETWEEN.join(group) for group in groups]
    Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(groups)
