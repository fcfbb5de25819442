"""Edits by one of EasyEdit's methods for as long as the time goes: runs
`larimar_editor.evaluation.harness.lifetimes`.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence

from tqdm.auto import tqdm

from larimar_editor.easyedit.baselines.jobs import Job
from larimar_editor.easyedit.baselines.many import KeptEdits, kept_edits
from larimar_editor.easyedit.baselines.probe import scores
from larimar_editor.easyedit.baselines.worker import given_job, open_editor, work
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness.lifetimes import (
    AS_BEFORE,
    Lifetime,
    drawn,
    of_the_last,
    perplexity_ratio,
    questions_of,
    records_of,
)
from larimar_editor.evaluation.harness.scores import TargetScore
from larimar_editor.evaluation.harness.trials import request


def run_job(job: Job) -> None:
    """Run every lifetime that is not finished; a record has what `run_lifetime` gives. One that was
    interrupted begins again.
    """
    editor, release_2023 = open_editor(job), find_easyedit().release_2023
    work(job, lambda case: run_lifetime(editor, Lifetime.from_dict(case), release_2023))


def run_lifetime(editor, lifetime: Lifetime, release_2023: bool) -> dict:
    """Edit and ask; ``editor.model`` is as before afterwards.

    Returns:
        ``reached``, at each count that it came to and at the end: ``facts``, ``seconds`` of an edit there,
        ``perplexity`` against the base model's, ``places`` of the facts that were asked for, and ``records``,
        one for each; and ``ended``, why it made no more edits: "all", "time", or what went wrong.
    """
    with kept_edits(editor, release_2023) as held:
        ended, asked = "all", dict[int, tuple[list[TargetScore], list[TargetScore], float]]()
        made = 0
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
                asked[made] = _answered(editor, held, lifetime, made)
        if made and made not in asked:
            asked[made] = _answered(editor, held, lifetime, made)
    return {"reached": [_reached(editor, lifetime, made, *of) for made, of in asked.items()], "ended": ended}


def _asked(lifetime: Lifetime, made: int) -> tuple[list[int], Sequence]:
    places = drawn(made, lifetime.seed)
    return places, questions_of([lifetime.edits[place] for place in places])


def _answered(
    editor, held: KeptEdits, lifetime: Lifetime, made: int
) -> tuple[list[TargetScore], list[TargetScore], float]:
    """Scores of the questions and of the texts, and the seconds of an edit."""
    _, questions = _asked(lifetime, made)
    answered = scores(held.model, editor.tok, [question.pair for question in questions])
    return answered, scores(held.model, editor.tok, lifetime.texts), of_the_last(held.seconds)


def _reached(
    editor,
    lifetime: Lifetime,
    made: int,
    answered: Sequence[TargetScore],
    texts: Sequence[TargetScore],
    seconds: float,
) -> dict:
    """What was answered beside what the base model says, which the editor has again."""
    places, questions = _asked(lifetime, made)
    pairs = [question.pair for question in questions if question.kind in AS_BEFORE]
    base = dict(zip(pairs, scores(editor.model, editor.tok, pairs), strict=True))
    return {
        "facts": made,
        "seconds": seconds,
        "perplexity": perplexity_ratio(texts, scores(editor.model, editor.tok, lifetime.texts)),
        "places": places,
        "records": records_of(questions, answered, base),
    }


if __name__ == "__main__":
    run_job(given_job())
