"""Forgetting by prompt, the baseline of forgetting_counterfact: facts in the context, half of them marked as
unknown.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers, recalled
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.utils.text import prompt_and_target

FACTS, SHOTS = 20, 6  # the paper's appendix
MARK = "UNKNOWN"


def prompt_of(edits: Sequence[Edit], marked: frozenset[int], shots: Sequence[int], asked: int) -> str:
    """The paper's prompt.

    Args:
        edits: the facts.
        marked: places of those that are to be treated as forgotten.
        shots: places of those that examples are given of.
        asked: place of the one that is asked for.
    """
    facts = [
        f"[{MARK}] " * (place in marked) + prompt_and_target(edit.prompt, edit.target_new)
        for place, edit in enumerate(edits)
    ]
    examples = [
        f"Input: {edits[place].prompt}\nOutput: {MARK if place in marked else edits[place].target_new}"
        for place in shots
    ]
    return "\n".join(["Facts:", *facts, "", *examples, f"Input: {edits[asked].prompt}\nOutput:"])


def prompted_conditions(context: Context, edits: Sequence[Edit], trials: int) -> list[Condition]:
    """One condition, or none where there are too few edits; records as those of
    `larimar_editor.evaluation.tables.forgetting`.
    """
    count = min(FACTS, len(edits))
    shots = min(SHOTS, count // 2 // 2 * 2)
    if not shots:
        return []
    starts = range(0, len(edits) - count + 1, max(1, (len(edits) - count) // trials))
    blocks = {str(start): (start, edits[start : start + count]) for start in list(starts)[:trials]}

    def score(cases: Sequence[tuple[int, Sequence[Edit]]]) -> list[dict]:
        # Nothing is written: the base model.
        return [
            _trial(context.larimar(), block, shots, random.Random(context.seed + start))
            for start, block in cases
        ]

    settings = {"facts": count, "shots": shots}
    return [
        Condition(f"base model, facts in the context, N = {count}, {shots}-shot", blocks, score, 1, settings)
    ]


def _trial(model, edits: Sequence[Edit], shots: int, choose: random.Random) -> dict:
    places = choose.sample(range(len(edits)), len(edits))
    half = len(edits) // 2
    marked_places, unmarked = places[:half], places[half:]
    examples = choose.sample(marked_places[: shots // 2] + unmarked[: shots // 2], shots)
    asked_marked, asked_unmarked = marked_places[shots // 2 :], unmarked[shots // 2 :]

    def recall(marked: Sequence[int], asked: Sequence[int]) -> float:
        prompts = [prompt_of(edits, frozenset(marked), examples, place) for place in asked]
        generated = answers(model, prompts, batch=4)
        return fmean(
            recalled(text.split("\n")[0], edits[place].target_new) for text, place in zip(generated, asked)
        )

    return {
        "before": recall([], asked_marked),
        "forgotten": recall(marked_places, asked_marked),
        "retained_before": recall([], asked_unmarked),
        "retained": recall(marked_places, asked_unmarked),
    }
