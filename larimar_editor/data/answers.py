"""Answers of one to some thirty tokens, for facts that a decoder is trained on."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from larimar_editor.data.made_up import MadeUpAnswers
from larimar_editor.data.questions.facts import QuestionNames, fitting_target
from larimar_editor.data.questions.kinds import ANY_TARGET, falls_in
from larimar_editor.data.texts import SENTENCES, TRIVIA, read_sentences

ANSWERS = Path(__file__).parent / "answers"
_HELD_OUT = 8  # one answer in so many
_NO_MARK = 0.15  # of questions
# Words of an answer, at most, and how often one of so many is drawn.
_LENGTHS = {1: 0.34, 3: 0.28, 7: 0.18, 13: 0.12, 99: 0.08}


class Answers:
    """What ships, by length: short ones are as frequent as they are in use, long ones frequent enough to be
    learned.

    Args:
        texts: answers; of those that ship (the lists of names, and `ANSWERS`) the part when None.
        held_out: take the eighth that nothing is trained on, by the text alone, in place of the rest.
    """

    def __init__(self, texts: Iterable[str] | None = None, held_out: bool = False):
        if texts is None:
            texts = [text for text in read_answers() if falls_in(text, _HELD_OUT) == held_out]
        self.texts = sorted({text.strip() for text in texts if text.strip()})
        if not self.texts:
            raise ValueError("there are no answers to draw from")

    @cached_property
    def _by_length(self) -> dict[int, list[str]]:
        groups: dict[int, list[str]] = {}
        for text in self.texts:
            groups.setdefault(next(most for most in _LENGTHS if len(text.split()) <= most), []).append(text)
        return groups

    def draw(self, rng: random.Random) -> str:
        """An answer, its length drawn first."""
        lengths = list(self._by_length)
        chosen = rng.choices(lengths, [_LENGTHS[most] for most in lengths])[0]
        return rng.choice(self._by_length[chosen])


def read_answers(folder: Path = ANSWERS) -> list[str]:
    """The lines of every text file of a folder, and the answers of `QuestionNames`."""
    lines = [line for path in sorted(folder.glob("*.txt")) for line in path.read_text("utf-8").splitlines()]
    return lines + QuestionNames.read().targets[ANY_TARGET]


def made_up_answers() -> MadeUpAnswers:
    """Out of the texts that ship, and the letters of the names."""
    names = [name for of_kind in QuestionNames.read().subjects.values() for name in of_kind]
    return MadeUpAnswers([*read_sentences(SENTENCES), *read_sentences(TRIVIA)], names)


def answered_facts(
    asked: Iterable[Mapping], answers: Answers, made_up: float = 0.0, own: float = 0.0, seed: int = 0
) -> Iterator[dict]:
    """Facts for a decoder out of those for the scope detector (`larimar-editor data questions`): what asks
    the same, what asks about something else, and an answer that nobody can guess, or the fact's own.

    Args:
        asked: the facts.
        answers: to draw from.
        made_up: share of the answers that stand on no list.
        own: share of the facts that keep their own answer, where it answers their question and is not held
            out. It teaches to say "Danube" where "the Danube" lay nearer.
        seed: of what is drawn.
    """
    rng = random.Random(seed)
    unlisted = made_up_answers() if made_up else answers
    for fact in asked:
        rewordings: Sequence[str] = [*fact["rephrase_prompt"], *fact.get("alias_prompt", ())]
        if rewordings:
            answer = (unlisted if rng.random() < made_up else answers).draw(rng)
            kept = fitting_target(fact) if rng.random() < own else None
            if kept is not None and falls_in(kept.strip(), _HELD_OUT):
                kept = None
            yield {
                "subject": fact["subject"],
                "prompt": fact["prompt"],
                "target_new": (kept or answer).strip(),
                "rephrase_prompt": [_as_typed(text, rng) for text in dict.fromkeys(rewordings)],
                "locality_prompt": [*fact.get("locality_prompt", ()), *fact.get("other_prompt", ())],
            }


def _as_typed(question: str, rng: random.Random) -> str:
    """Now and then without its question mark."""
    return question.rstrip("? ") if question.endswith("?") and rng.random() < _NO_MARK else question
