"""Selective forgetting (paper, forgetting_counterfact): write N facts, forget one, write "unknown" in its
place, ask for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers, recalled
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt
from larimar_editor.evaluation.harness.preserving import preserved, state_with
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.tables.prompted import prompted_conditions
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.state.edited import EditedState

ROWS = 512
TRIALS = 20  # facts forgotten, each from a full memory
OTHERS = 16  # of the N - 1 others, asked for in each trial


def _conditions(context: Context) -> list[Condition]:
    edits = last_of_each_prompt(context.counterfact_edits)
    rows = max(1, min(ROWS, len(edits) // 2))
    sizes = ((1, "N = 1"), (rows, "N = K"), (2 * rows, "N = 2K"))
    own = [_condition(context, edits, rows, count, name) for count, name in sizes]
    return own + prompted_conditions(context, edits, TRIALS)


def _condition(context: Context, edits: Sequence[Edit], rows: int, count: int, name: str) -> Condition:
    blocks = [edits[start : start + count] for start in range(0, len(edits) - count + 1, count)]
    # Which fact goes is spread over the blocks, and within them.
    step = max(1, len(blocks) * count // TRIALS)
    trials = {str(place): place for place in list(range(0, len(blocks) * count, step))[:TRIALS]}

    @lru_cache(maxsize=1)  # trials come block by block
    def written(model: LarimarForCausalLM, block: int) -> EditedState:
        return state_with(model, [edit.request for edit in blocks[block]])

    def score(places: Sequence[int]) -> list[dict]:
        model = context.larimar(memory="fixed", memory_rows=rows)
        return [
            _trial(model, written(model, place // count), blocks[place // count], place % count)
            for place in places
        ]

    settings = {"memory_rows": rows, "facts": count}
    return Condition(f"{name}, K = {rows}", trials, score, 1, settings, cluster=lambda place: place // count)


def _trial(model: LarimarForCausalLM, written: EditedState, edits: Sequence[Edit], place: int) -> dict:
    gone = edits[place]
    others = [
        edits[(place + 1 + step) % len(edits)]
        for step in range(0, len(edits) - 1, max(1, (len(edits) - 1) // OTHERS))
    ]
    asked = [gone, *others[:OTHERS]]
    with preserved(model, written):
        full = _recall(model, asked)
        model.forget(gone.prompt)
        left = _recall(model, asked)
        model.write([gone.request | {"target_new": "unknown"}])
        replaced = _recall(model, asked)
    record = {"before": full[0], "forgotten": left[0], "unknown": replaced[0]}
    return record | (
        {"retained_before": fmean(full[1:]), "retained": fmean(replaced[1:])} if len(full) > 1 else {}
    )


def _recall(model, edits: Sequence[Edit]) -> list[float]:
    generated = answers(model, [edit.prompt for edit in edits])
    return [recalled(text, edit.target_new) for text, edit in zip(generated, edits, strict=True)]


EVALUATION = Evaluation(
    "forgetting",
    "Recall of a forgotten fact and of the others, after writing N facts and forgetting one",
    _conditions,
    (
        Column("before", "Fact, before", lambda record: record["before"]),
        Column("forgotten", "Forgotten", lambda record: record["forgotten"]),
        Column("unknown", 'Forgotten, "unknown" in its place', lambda record: record.get("unknown")),
        Column("retained_before", "Others, before", lambda record: record.get("retained_before")),
        Column("retained", "Retained", lambda record: record.get("retained")),
    ),
    note=f"Recall: the target's words stand in the greedy answer. K is {ROWS}, or half the cases where "
    "there are fewer. Up to "
    f"{OTHERS} others are asked for in each of up to {TRIALS} trials; n and the intervals are of memories, "
    "which several trials may share. The baseline has the paper's prompt, on the same base "
    'model: half of its facts are marked as unknown; "before" is with none marked.',
)
