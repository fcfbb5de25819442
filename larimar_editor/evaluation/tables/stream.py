"""Edits and forgets in random order, and what is left after each hundred (beyond the paper)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.scores import target_scores

STEPS = 1000
EVERY = 100  # steps between questions
ASKED = 64  # of the facts that are written, and of those forgotten
FORGETS = 0.3  # probability of a forget, where there is something to forget


def steps_of(edits: Sequence[Edit], steps: int, seed: int) -> list[tuple[str, Edit]]:
    """Steps, each "write" or "forget" with its edit, drawn with ``seed``: what is forgotten was written, and
    what is written was not.

    A fact that was forgotten may be written again. Where nothing is left to write, something is forgotten.
    """
    choose = random.Random(seed)
    free, result = list(edits), []
    written: list[Edit] = []
    for _ in range(steps):
        forget = bool(written) and (not free or choose.random() < FORGETS)
        source, target = (written, free) if forget else (free, written)
        edit = source.pop(choose.randrange(len(source)))
        target.append(edit)
        result.append(("forget" if forget else "write", edit))
    return result


def written_after(steps: Sequence[tuple[str, Edit]]) -> tuple[list[Edit], list[Edit]]:
    """What is written, and what is forgotten and not written again, after these steps."""
    last = {edit.prompt: (what, edit) for what, edit in steps}
    written, forgotten = (
        [edit for did, edit in last.values() if did == what] for what in ("write", "forget")
    )
    return written, forgotten


class Player:
    """Takes the steps, from where it is.

    Args:
        steps: see `steps_of`.
    """

    def __init__(self, steps: Sequence[tuple[str, Edit]]):
        self.steps, self.number, self.state = steps, 0, None

    def ask(self, model, number: int, edits: Sequence[Edit]) -> list[dict]:
        """Whether each fact's target is the model's answer, token for token, after ``number`` steps."""
        if self.state is None or number < self.number:
            self.state, self.number = model.edited_state, 0
        with preserved(model, self.state):
            for what, edit in tqdm(self.steps[self.number : number], desc="steps", unit="step", leave=False):
                if what == "forget":
                    model.forget(edit.prompt)
                else:
                    model.write([edit.request])
            self.state, self.number = model.edited_state, number
            scores = target_scores(model, [(edit.prompt, edit.target_new) for edit in edits])
        return [{"answered": float(score.accuracy == 1)} for score in scores]


def _conditions(context: Context) -> list[Condition]:
    edits = last_of_each_prompt(context.counterfact_edits)
    steps = steps_of(edits, min(STEPS, 2 * len(edits)), context.seed)
    every = max(1, len(steps) * EVERY // STEPS)
    player = Player(steps)
    return [_condition(context, player, number, len(edits)) for number in range(every, len(steps) + 1, every)]


def _condition(context: Context, player: Player, number: int, rows: int) -> Condition:
    choose = random.Random(context.seed + number)
    kinds = zip(("written", "forgotten"), written_after(player.steps[:number]))
    cases = {
        f"{kind} {edit.prompt}": (kind, edit)
        for kind, some in kinds
        for edit in choose.sample(some, min(ASKED, len(some)))
    }

    def score(asked: Sequence[tuple[str, Edit]]) -> list[dict]:
        records = player.ask(context.larimar(memory_rows=rows), number, [edit for _, edit in asked])
        return [{"kind": kind} | record for (kind, _), record in zip(asked, records, strict=True)]

    return Condition(
        f"after {number} steps", cases, score, batch=0, settings={"steps": number, "memory_rows": rows}
    )


def _share(kind: str):
    return lambda record: record["answered"] if record["kind"] == kind else None


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    kinds = ("written", "forgotten")
    lines = {kind: [(row["settings"]["steps"], row[kind]) for row in rows if row[kind]] for kind in kinds}
    panels_plot([Panel(lines, "edits and forgets", "share that the model answers")], path)


EVALUATION = Evaluation(
    "stream",
    f"Up to {STEPS} edits and forgets in random order: what is written is answered, what is forgotten is not",
    _conditions,
    (
        Column("written", "Written facts answered", _share("written")),
        Column("forgotten", "Forgotten facts answered", _share("forgotten")),
    ),
    _plot,
    note=f"A step is a forget with probability {FORGETS}. Up to {ASKED} facts of a kind are asked each "
    "time, every token of the "
    "target. K is the number of facts. Not in the paper.",
)
