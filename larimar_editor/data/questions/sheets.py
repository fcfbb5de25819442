"""Sheets of questions: for a kind of subject, a dozen things that one may ask about it, each in five
wordings.

They are many and short where `larimar_editor.data.questions.kinds` are few and full: what a detector of
questions learns from them is how people reword, whatever is asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from larimar_editor.data.questions.kinds import FOLDER, SUBJECT, Asked
from larimar_editor.utils.files import load_yaml

SHEETS = FOLDER / "sheets"


@dataclass(frozen=True)
class Sheet:
    """What is asked about one kind of subject.

    Attributes:
        subject: the kind of subject.
        names: of such subjects.
        asked: for each thing asked, its wordings with ``{}`` for the subject.
        longer: questions that name the subject and ask something that no row does.
        answers: for each thing asked, some answers that it may have; none: not known.
    """

    subject: str
    names: tuple[str, ...]
    asked: tuple[tuple[str, ...], ...]
    longer: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self):
        wordings = [wording for row in self.asked for wording in row]
        if bad := [wording for wording in (*wordings, *self.longer) if wording.count(SUBJECT) != 1]:
            raise ValueError(f"{self.subject!r}: not one {SUBJECT} in {bad[0]!r}")
        if len(self.names) < 4 or len(self.asked) < 4 or min(map(len, self.asked)) < 3:
            raise ValueError(f"{self.subject!r} needs four names and four rows of three wordings or more")
        if twice := [wording for wording in wordings if wordings.count(wording) > 1]:
            raise ValueError(f"{self.subject!r}: {twice[0]!r} stands twice")
        if self.answers and (len(self.answers) != len(self.asked) or not all(self.answers)):
            raise ValueError(f"{self.subject!r} has {len(self.asked)} rows; each needs a list of answers")

    def kinds(self) -> list[Asked]:
        """Its rows as kinds of questions, each named by its first wording."""
        answers = self.answers or ((),) * len(self.asked)
        return [
            Asked(row[0], self.subject, row, two_hops=self.longer, answers=known)
            for row, known in zip(self.asked, answers)
        ]


def read_sheets(folder: Path = SHEETS) -> list[Sheet]:
    """The sheets of every YAML file of a folder, those that ship by default, with the answers that
    ``answers/FILE.json`` has for some of them: by the kind of subject, for each row a list.

    Raises:
        ValueError: a sheet that lacks something; the message names it.
    """
    sheets = []
    for path in sorted(folder.glob("*.yaml")):
        known = folder / "answers" / f"{path.stem}.json"
        answers = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        for row in load_yaml(path):
            if row.keys() != {"subject", "names", "asked", "longer"}:
                raise ValueError(f"{path.name}: {row.get('subject')!r} has the keys {sorted(row)}")
            asked = tuple(map(tuple, row["asked"]))
            subject = f"{path.stem}: {row['subject']}"
            names, longer = tuple(map(str, row["names"])), tuple(row["longer"])
            sheets.append(
                Sheet(subject, names, asked, longer, tuple(map(tuple, answers.pop(row["subject"], ()))))
            )
        if answers:
            raise ValueError(f"{known}: there is no sheet {next(iter(answers))!r} in {path.name}")
    return sheets


def names_of(sheets: Sequence[Sheet]) -> dict[str, list[str]]:
    """Names by the kind of subject."""
    return {sheet.subject: list(sheet.names) for sheet in sheets}
