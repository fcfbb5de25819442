"""Wordings cut from SimpleQuestions on Wikidata: each question with the name that it is about taken out.

Bordes et al. 2015, mapped to Wikidata by Diefenbach et al. 2017; CC BY 3.0. The file has a subject id, a
property, an object id and a question a line, with tabs between, and does not say where in the question the
name is: it is the longest run of words that are rare among the questions of its property.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from larimar_editor.data.questions.kinds import FOLDER, SUBJECT
from larimar_editor.data.relations import wording_of

HELD_OUT_PROPERTIES = 3  # one in so many is not trained on
SHIPPED = FOLDER / "simplequestions.json"
ORIGIN = (
    "SimpleQuestions (Bordes et al. 2015), mapped to Wikidata by Diefenbach et al. 2017, CC BY 3.0; "
    "changed: names taken out, lower case, duplicates and properties of few wordings left out"
)
# A word of a name stands in at most this share of its property's questions, and of all questions.
_IN_PROPERTY, _IN_ALL = 0.01, 0.002
# Every other word is an ordinary one: among the most frequent of all, or in so many questions of the
# property.
_ORDINARY, _OFTEN = 400, 4
_FEWEST = 3  # words that a wording has besides the name


def cut_wordings(path: Path, fewest: int = 20, without: Collection[str] = ()) -> dict[str, list[str]]:
    """Wordings of each property, those of fewer than ``fewest`` left out.

    Args:
        path: ``train.txt`` or ``valid.txt`` of SimpleQuestions on Wikidata.
        fewest: wordings that a property must have.
        without: wordings that are left out, as `larimar_editor.data.relations.wordings_of` has them.

    Raises:
        ValueError: a line without four columns; the message has its number.
    """
    questions: dict[str, list[list[str]]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        columns = line.split("\t")
        if len(columns) != 4:
            raise ValueError(f"{path}, line {number}: {len(columns)} columns in place of 4")
        questions.setdefault(columns[1], []).append(columns[3].lower().rstrip(" ?").split())
    everywhere = Counter(word for asked in questions.values() for words in asked for word in set(words))
    total = sum(map(len, questions.values()))
    ordinary = {word for word, _ in everywhere.most_common(_ORDINARY)}
    result = {}
    for name, asked in sorted(questions.items()):
        often = Counter(word for words in asked for word in set(words))
        is_rare = lambda word, often=often, asked=asked: (
            often[word] <= max(1, _IN_PROPERTY * len(asked)) and everywhere[word] <= max(1, _IN_ALL * total)
        )
        is_ordinary = lambda word, often=often: word in ordinary or often[word] >= _OFTEN
        wordings = dict.fromkeys(_cut(asked, is_rare, is_ordinary))
        allowed = [wording for wording in wordings if wording_of(wording) not in without]
        if len(allowed) >= fewest:
            result[name] = allowed
    return result


def _cut(questions: list[list[str]], is_rare, is_ordinary) -> Iterator[str]:
    for words in questions:
        best, start = (0, 0), None
        for place, word in enumerate([*words, None]):
            if word is not None and is_rare(word):
                start = place if start is None else start
            elif start is not None:
                best, start = max(best, (place - start, start), key=lambda run: run[0]), None
        length, place = best
        rest = [*words[:place], *words[place + length :]]
        if length and len(rest) >= _FEWEST and all(map(is_ordinary, rest)):
            yield " ".join([*words[:place], SUBJECT, *words[place + length :]]) + "?"


def read_wordings(path: Path = SHIPPED) -> dict[str, list[str]]:
    """Wordings of each property as `cut_wordings` makes them, from a JSON file; those that ship by
    default.
    """
    return json.loads(path.read_text(encoding="utf-8"))["wordings"]
