"""Edits by one of EasyEdit's methods for as long as the time goes: runs
`larimar_editor.evaluation.harness.lifetimes`.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from tqdm.auto import tqdm

from larimar_editor.easyedit.baselines.jobs import Job
from larimar_editor.easyedit.baselines.many import KeptEdits, kept_edits
from larimar_editor.easyedit.baselines.probe import scores
from larimar_editor.easyedit.baselines.worker import given_job, open_editor, work
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness.lifetimes import (
    Lifetime,
    Question,
    drawn,
    of_the_last,
    perplexity_ratio,
    questions_of,
    records_of,
    to_stay,
)
from larimar_editor.evaluation.harness.scores import TargetScore
from larimar_editor.evaluation.harness.trials import request


def run_job(job: Job) -> None:
    """Run every lifetime that is not finished; a record has what `run_lifetime` gives, without seconds where
    the job is not timed. One that was interrupted begins again.
    """
    editor, release_2023 = open_editor(job), find_easyedit().release_2023

    def lived(case: Mapping) -> dict:
        life = run_lifetime(editor, Lifetime.from_dict(case), release_2023)
        for reached in () if job.timed else life["reached"]:
            reached["seconds"] = None
        return life

    work(job, editor, lived)


def run_lifetime(editor, lifetime: Lifetime, release_2023: bool) -> dict:
    """Edit and ask; ``editor.model`` is as before afterwards.

    Returns:
        ``reached``, at each count that it came to and at the end: ``facts``, ``seconds`` of an edit there,
        ``perplexity`` against the base model's, ``places`` of the facts that were asked for, and ``records``,
        one for each; and ``ended``, why it made no more edits: "all", "time", or what went wrong.
    """
    texts = scores(editor.model, editor.tok, lifetime.texts)
    torch.manual_seed(lifetime.seed)
    with kept_edits(editor, release_2023) as held:
        made, ended = 0, "all"
        answers: dict[int, _Answers] = {}
        for edit in tqdm(lifetime.edits, desc="edits", unit="edit"):
            try:
                held.edit([request(edit)])
            except Exception as error:
                traceback.print_exc()
                ended = f"{type(error).__name__}: {error}".splitlines()[0]
                break
            made += 1
            if lifetime.minutes is not None and sum(held.seconds) >= 60 * lifetime.minutes:
                ended = "time"
                break
            if made in lifetime.counts:
                answers[made] = _Answers.of(editor, held, lifetime, made)
        if made and made not in answers:
            answers[made] = _Answers.of(editor, held, lifetime, made)
    return {"reached": [of.beside(editor, texts) for of in answers.values()], "ended": ended}


@dataclass(frozen=True)
class _Answers:
    """What an edited model says.

    Attributes:
        places: of the facts that are asked for.
        questions, scores: what is asked of them, and its scores.
        texts: scores of plain text.
        facts, seconds: how many edits it holds, and what one of the last took.
    """

    places: list[int]
    questions: list[Question]
    scores: list[TargetScore]
    texts: list[TargetScore]
    facts: int
    seconds: float

    @classmethod
    def of(cls, editor, held: KeptEdits, lifetime: Lifetime, made: int) -> _Answers:
        places = drawn(made, lifetime.seed)
        questions = questions_of([lifetime.edits[place] for place in places])
        pairs = [question.pair for question in questions]
        answered, texts = (scores(held.model, editor.tok, each) for each in (pairs, lifetime.texts))
        return cls(places, questions, answered, texts, made, of_the_last(held.seconds))

    def beside(self, editor, texts: list[TargetScore]) -> dict:
        """The figures, by what the base model says, which the editor has again; ``texts`` are its scores."""
        pairs = to_stay(self.questions)
        base = scores(editor.model, editor.tok, pairs)
        return {
            "facts": self.facts,
            "seconds": self.seconds,
            "perplexity": perplexity_ratio(self.texts, texts),
            "places": self.places,
            "records": records_of(self.questions, self.scores, dict(zip(pairs, base, strict=True))),
        }


if __name__ == "__main__":
    run_job(given_job())
