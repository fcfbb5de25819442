"""Facts written in one block, against their number: into pages, which hold them all, and into the paper's
fixed memory, whose rows they share (paper, fig:batch (a), fig:memory_size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.baselines import KEEPING, retained_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt, score_many_edits
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.records import Condition

SIZES = (1, 4, 16, 64, 256, 512, 1024, 2048, 4096)
ROWS = (None, 512, 128)  # of a fixed memory; None: pages
# The others are given one edit at a time: EasyEdit's edit the first request of a call only, most of them.
TOGETHER = ("MEMIT", "AlphaEdit", "ULTRAEDIT", "FT", "LoRA")
ASKED = 128  # of a block, evenly spread: asking takes longer than writing


def _conditions(context: Context) -> list[Condition]:
    edits = last_of_each_prompt(context.counterfact_edits)
    few = edits[: context.baseline_cases]
    sizes = sorted({size for size in (*SIZES, len(few), len(edits)) if 0 < size <= len(edits)})
    own = [_condition(context, edits[:size], rows) for rows in ROWS for size in sizes]
    beside = _name(ROWS[0], len(few))
    alone = [method for method in KEEPING if method not in TOGETHER]
    together = retained_edit_conditions(context, few, TOGETHER, beside, together=True)
    return own + together + retained_edit_conditions(context, few, alone, beside)


def _condition(context: Context, edits: Sequence[Edit], rows: int | None) -> Condition:
    step = max(1, len(edits) // ASKED)
    memory: dict[str, Any] = {} if rows is None else {"memory": "fixed", "memory_rows": rows}

    def score(cases: Sequence[Edit]) -> list[dict]:
        return score_many_edits(context.larimar(**memory), edits, progress=False, only=cases)

    return Condition(
        _name(rows, len(edits)),
        {str(place): edits[place] for place in range(0, len(edits), step)},  # by place, as other methods' are
        score,
        batch=0,
        settings={"memory_rows": rows, "facts": len(edits)},
    )


def _name(rows: int | None, facts: int) -> str:
    return f"{_memory(rows)}, N = {facts}"


def _memory(rows: int | None) -> str:
    return "Larimar" if rows is None else f"fixed memory, K = {rows}"


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    lines: dict[str, list] = {}
    for key, header in (("rewrite", "rewrite"), ("rephrase", "paraphrase"), ("locality", "locality")):
        for row in rows:
            settings = row["settings"]
            label = settings.get("method") or _memory(settings["memory_rows"])
            if row[key]:
                lines.setdefault(f"{header}, {label}", []).append((settings["facts"], row[key]))
    panels_plot([Panel(lines, "facts written at once (N)", "share of the answer's tokens", log="x")], path)


EVALUATION = Evaluation(
    "batch",
    "Facts written in one block: N of them into pages, and into the paper's K rows",
    _conditions,
    (
        Column("rewrite", "Rewrite", lambda record: record["rewrite"]),
        Column("rephrase", "Paraphrase", lambda record: record.get("rephrase")),
        Column("locality", "Locality, as before", lambda record: record.get("locality")),
    ),
    _plot,
    note=f"Of a block up to {2 * ASKED - 1} facts are asked for, evenly spread. EasyEdit's methods get the "
    "first cases only; those of them that edit one at a time, one after the other.",
)
