"""One fact in memory at a time: is the new target what the model now says, and does a locality prompt keep
its answer?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.preserving import written_alone
from larimar_editor.evaluation.harness.scores import TargetScore, target_scores
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading
from larimar_editor.state.fact import Fact

# What is written of an edit.
Requests = Callable[[Edit], list[dict]]


def the_edit_alone(edit: Edit) -> list[dict]:
    """What is written of an edit by default."""
    return [edit.request]


def score_single_edits(
    model: LarimarForCausalLM,
    edits: Sequence[Edit],
    progress: bool = True,
    batch: int = 16,
    requests: Requests = the_edit_alone,
) -> list[dict]:
    """Write each edit alone, score it, forget it.

    Args:
        model: its edited state is as before afterwards.
        edits: the cases.
        requests: what is written of an edit; nothing measures the base model.
        batch: edits whose prompts share a pass of the decoder. Each has been written to a memory of its own.

    Returns:
        one record per case: ``case_id``; ``rewrite`` and ``rephrase``, each a list (one entry per prompt) of
        ``in_scope``, ``accuracy``, ``success`` (P(target_new) > P(ground_truth)) and ``magnitude``
        (P(target_new) - P(ground_truth)), these two where the edit has an old answer, with ``base_...`` for
        the model before the edit; ``locality``, a list of ``in_scope``, ``same`` (share of the answer's
        tokens for which the model says what it said before), ``accuracy`` (of the true answer's tokens), and
        ``success`` and ``magnitude`` the other way round: P(ground truth) against P(target_new);
        ``portability``, a list of ``in_scope``, ``accuracy`` and ``base_accuracy``.
    """
    records = []
    bar = tqdm(total=len(edits), desc="single edits", unit="edit", disable=not progress)
    for start in range(0, len(edits), batch):
        part = edits[start : start + batch]
        records += _score_together(model, part, requests)
        bar.update(len(part))
    bar.close()
    return records


def _score_together(model: LarimarForCausalLM, edits: Sequence[Edit], requests: Requests) -> list[dict]:
    scores = scored_alone(model, [(requests(edit), pairs_of(edit)) for edit in edits])
    edited, base = iter(zip(scores.edited, scores.in_scope)), iter(scores.base)
    return [_record(edit, edited, base) for edit in edits]


@dataclass(frozen=True)
class AloneScores:
    """Scores of the pairs of several cases, one case after the other.

    Attributes:
        edited: with the case's requests, and nothing else, written.
        in_scope: whether the prompt was.
        base: with nothing written.
    """

    edited: list[TargetScore]
    in_scope: list[bool]
    base: list[TargetScore]


def scored_alone(
    model: LarimarForCausalLM, cases: Sequence[tuple[Sequence[Mapping | Fact], list[tuple[str, str]]]]
) -> AloneScores:
    """Write each case's requests to a memory of their own and score its prompts and answers; all cases share
    a pass of the decoder.

    Args:
        model: its edited state is as before afterwards.
        cases: requests, none of which measure the base model, and pairs of prompt and answer.
    """
    pairs = [pair for _, own in cases for pair in own]
    readings: list[Reading] = []
    for requests, own in cases:
        with written_alone(model, requests):
            readings.append(model.read([prompt for prompt, _ in own]))
    reading = Reading.joined(readings)
    nothing = Reading.nothing(len(pairs), model.config.latent_size)
    return AloneScores(
        target_scores(model, pairs, reading), reading.in_scope.tolist(), target_scores(model, pairs, nothing)
    )


def answered_alone(
    model: LarimarForCausalLM,
    cases: Sequence[tuple[Sequence[Mapping | Fact], Sequence[str]]],
    batch: int = 16,
    **sampling,
) -> list[str]:
    """Write each case's requests to a memory of their own, and what the model then says after its prompts;
    cases share passes of the decoder.

    Args:
        model: its edited state is as before afterwards.
        cases: requests, none of which measure the base model, and prompts.
        batch: prompts that are gone on from at once.
        sampling: see `larimar_editor.evaluation.harness.answers.answers`.

    Returns:
        a text for each prompt, one case after the other.
    """
    texts: list[str] = []
    held: list[tuple[str, Reading]] = []
    for requests, prompts in cases:
        with written_alone(model, requests):
            held += [(prompt, model.reading_of([prompt])) for prompt in prompts]
    for start in range(0, len(held), batch):
        part, readings = zip(*held[start : start + batch])
        texts += answers(model, part, batch=batch, reading=Reading.joined(readings), **sampling)
    return texts


def record_of(edit: Edit, after: Sequence[TargetScore], before: Sequence[TargetScore]) -> dict:
    """The record of `score_single_edits` for a model of any kind, which has no scope: scores of `pairs_of`,
    edited and base.
    """
    return _record(edit, iter([(score, True) for score in after]), iter(before))


def pairs_of(edit: Edit) -> list[tuple[str, str]]:
    """Prompts and answers that are scored of an edit, in the order that its record is made from."""
    asked = [
        (prompt, target)
        for prompt in (edit.prompt, *edit.rephrase_prompts)
        for target in filter(None, (edit.target_new, edit.ground_truth))
    ]
    locality = zip(edit.locality_prompts, edit.locality_ground_truth)
    asked += [(prompt, target) for prompt, truth in locality for target in (truth, edit.target_new)]
    return asked + list(zip(edit.portability_prompts, edit.portability_ground_truth))


def _record(edit: Edit, edited, base) -> dict:
    asked = []
    for _ in range(1 + len(edit.rephrase_prompts)):
        (new, in_scope), base_new = next(edited), next(base)
        (old, _), base_old = (next(edited), next(base)) if edit.ground_truth else ((None, None), None)
        asked.append({"in_scope": in_scope} | _against(new, old, "") | _against(base_new, base_old, "base_"))
    locality = []
    for _ in zip(edit.locality_prompts, edit.locality_ground_truth):
        (after, in_scope), (new, _), before, _ = next(edited), next(edited), next(base), next(base)
        same = {"same": after.as_before(before)}
        locality.append({"in_scope": in_scope} | same | _against(after, new, ""))
    record = {"case_id": edit.case_id, "rewrite": asked[:1], "rephrase": asked[1:], "locality": locality}
    return record | {"portability": [_followed(next(edited), next(base)) for _ in edit.portability_prompts]}


def _followed(edited: tuple[TargetScore, bool], before: TargetScore) -> dict:
    after, in_scope = edited
    return {"in_scope": in_scope, "accuracy": after.accuracy, "base_accuracy": before.accuracy}


def _against(new: TargetScore, old: TargetScore | None, prefix: str) -> dict:
    if old is None:
        return {f"{prefix}accuracy": new.accuracy}
    return {
        f"{prefix}accuracy": new.accuracy,
        f"{prefix}success": float(new.log_probability > old.log_probability),
        f"{prefix}magnitude": float(np.exp(new.log_probability) - np.exp(old.log_probability)),
    }
