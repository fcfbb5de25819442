"""Does an answer that was to be deleted leak (paper, table:unlearning)? Rephrasing attack: 4 wordings, 5
sampled answers each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import torch

from larimar_editor.data.edits import Edit, with_old_answers
from larimar_editor.data.relations import with_openers
from larimar_editor.evaluation.harness.answers import answers, recalled
from larimar_editor.evaluation.harness.baselines import METHODS
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.preserving import preserved, state_with
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.trials import Stage, Trial, request, where_made
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.edited import EditedState
from larimar_editor.utils.sampling import nucleus

WORDINGS, SAMPLES = 4, 5
EMPTY = "unknown"
SAMPLING = nucleus(0.95)
_SINGLE = "Larimar, single"
_STOP = f"{_SINGLE}, stop"


def attacks(edit: Edit) -> list[str]:
    """Wordings of the question: the data's, then the prompt after an opener."""
    return [*edit.rephrase_prompts, *with_openers(edit.prompt)][:WORDINGS]


def _conditions(context: Context) -> list[Condition]:
    edits = with_old_answers(context.counterfact_edits)
    few = edits[: context.baseline_cases]

    nothing = lambda model, edit: model.edited_state.cleared()
    single = lambda model, edit: state_with(model, _censored([edit]))
    block = cache(
        lambda model: state_with(model, _censored(edits))
    )  # one block, whichever of its facts is attacked

    def row(name: str, states, chosen: Sequence[Edit], after: str) -> Condition:
        score = lambda cases: _score(context, cases, states, after)
        return Condition(name, cases_of(chosen), score, batch=4, settings={"after_answer": after})

    result = [row("base model", nothing, edits, "base"), row(_SINGLE, single, edits, "base")]
    result.append(row(_STOP, single, edits, "stop"))
    result.append(
        row(f"Larimar, batch of {len(edits)}, stop", lambda model, edit: block(model), edits, "stop")
    )
    if 0 < len(few) < len(edits):
        result.append(row(f"{_SINGLE}, the first {len(few)}", single, few, "base"))
        result.append(row(f"{_STOP}, the first {len(few)}", single, few, "stop"))
    return result + _methods(context, few)


def _methods(context: Context, edits: Sequence[Edit]) -> list[Condition]:
    """EasyEdit's methods with the same answer for a target."""

    def trial(edit: Edit) -> Trial:
        attacked = Stage([[request(edit, EMPTY)]], (), _attempts(edit), SAMPLING)
        return Trial([Stage(generated=[edit.prompt]), attacked], context.seed + edit.case_id)

    def score(method: str):
        return lambda cases: [
            _record(edit, known["answers"][0], attacked["answers"]) | where_made(known)
            for edit, (known, attacked) in zip(
                cases, context.baselines.trials(context, method, list(map(trial, cases))), strict=True
            )
        ]

    return [
        Condition(f"{method}, single", cases_of(edits), score(method), 0, {"method": method}, _SINGLE)
        for method in context.baselines.methods(context, METHODS)
    ]


def _attempts(edit: Edit) -> list[str]:
    return [prompt for prompt in attacks(edit) for _ in range(SAMPLES)]


def _record(edit: Edit, known: str, attempts: Sequence[str]) -> dict:
    leaked = max(recalled(text, edit.ground_truth) for text in attempts)
    return {"known": recalled(known, edit.ground_truth), "leaked": leaked}


def _score(
    context: Context,
    cases: Sequence[Edit],
    states: Callable[[LarimarForCausalLM, Edit], EditedState],
    after: str,
) -> list[dict]:
    rows = max(1, len(context.counterfact_edits))
    model = context.larimar(memory_rows=rows, after_answer=after)
    records = []
    for edit in cases:
        known = answers(model, [edit.prompt])[0]
        with preserved(model, states(model, edit)):
            torch.manual_seed(context.seed + edit.case_id)  # the same whether or not the run was interrupted
            records.append(_record(edit, known, answers(model, _attempts(edit), **SAMPLING)))
    return records


def _censored(edits: Sequence[Edit]) -> list[dict]:
    return [edit.request | {"target_new": EMPTY} for edit in edits]


EVALUATION = Evaluation(
    "leakage",
    "Rephrasing attack on an answer that was to be deleted",
    _conditions,
    (
        Column("attack_success", "Attack success, all facts", lambda record: record["leaked"], 100),
        Column(
            "known_success",
            "Of facts that the base model knows",
            lambda r: r["leaked"] if r["known"] else None,
            100,
        ),
    ),
    note=f'"{EMPTY}" is written as the answer; with "stop" the text ends there (`after_answer: stop`), else '
    "the base model goes on; success is the true answer's words in any of "
    f"{WORDINGS * SAMPLES} sampled "
    "answers. Wordings are the data's, then the prompt after an opener. EasyEdit's methods get the "
    "same target, "
    "and the first cases only.",
)
