"""Edit success and the perplexity of what is generated, against the noise of the reading weights (paper,
fig:ppl_rewrite).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.nn import functional as F

from larimar_editor.data.edits import Edit, with_old_answers
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.preserving import written_alone
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.model.reading import Reading

SIGMAS = (0.0, 0.03, 0.1, 0.3, 1.0)
CASES = 200


def _conditions(context: Context) -> list[Condition]:
    edits = with_old_answers(context.counterfact_edits[:CASES])
    return [
        Condition(
            f"sigma_W = {sigma}",
            cases_of(edits),
            partial(_score, context, sigma),
            settings={"sigma_w": sigma},
        )
        for sigma in SIGMAS
    ]


def _score(context: Context, sigma: float, edits: Sequence[Edit]) -> list[dict]:
    model = context.larimar(sigma_w=sigma, memory="fixed", memory_rows=16)
    records = []
    for edit in edits:
        with written_alone(model, [edit.request]):
            torch.manual_seed(context.seed + edit.case_id)  # the same whether or not the run was interrupted
            new, old = target_scores(
                model, [(edit.prompt, edit.target_new), (edit.prompt, edit.ground_truth)]
            )
            (generated,) = answers(model, [edit.prompt])
            success = float(new.log_probability > old.log_probability)
            records.append(
                {"success": success, "accuracy": new.accuracy, "nats": _nats(model, edit.prompt, generated)}
            )
    return records


@torch.no_grad()
def _nats(model, prompt: str, generated: str) -> float | None:
    """Mean negative log-probability under the base model of what is said after the prompt, if anything is."""
    ids = model.tokenizer(prompt + generated, return_tensors="pt").input_ids.to(model.device)
    given = len(model.tokenizer(prompt).input_ids)
    if ids.shape[1] <= given:
        return None
    logits = model(ids, reading=Reading.nothing(1, model.config.latent_size), use_cache=False).logits
    return float(F.cross_entropy(logits[0, given - 1 : -1].float(), ids[0, given:]))


def _plot(rows: Sequence[Mapping], path: Path) -> None:
    lines = {
        header: [(row["settings"]["sigma_w"], row[key]) for row in rows if row[key]]
        for key, header in (
            ("success", "edit success S / 100"),
            ("nats", "base model's nats per generated token"),
        )
    }
    lines["edit success S / 100"] = [
        (x, {k: v / 100 for k, v in estimate.items()}) for x, estimate in lines["edit success S / 100"]
    ]
    panels_plot([Panel(lines, "sigma_W", "")], path)


EVALUATION = Evaluation(
    "robustness",
    "Edit success and generation perplexity against sigma_W",
    _conditions,
    (
        Column("success", "Edit success S", lambda record: record["success"], 100),
        Column("accuracy", "Rewrite accuracy", lambda record: record["accuracy"]),
        Column(
            "nats",
            "Nats per token of the generated text, by the base model",
            lambda record: record["nats"],
            share=False,
        ),
    ),
    _plot,
    note=f"Up to {CASES} cases, one fact in a memory of 16 rows. Perplexity is e to the nats; the base "
    "model judges, where the "
    "paper took GPT-2 large.",
)
