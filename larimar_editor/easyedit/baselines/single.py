"""Single edits by one of EasyEdit's methods: edited, evaluated and undone by EasyEdit's own
``BaseEditor``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from larimar_editor.data.edits import Edit
from larimar_editor.easyedit.baselines.jobs import Job
from larimar_editor.easyedit.baselines.leftovers import forget_earlier_edits
from larimar_editor.easyedit.baselines.probe import Probe
from larimar_editor.easyedit.baselines.worker import Stopwatch, given_job, open_editor, text_that_stays, work
from larimar_editor.easyedit.finding import find_easyedit


def run_job(job: Job) -> None:
    """Edit and evaluate every case that is not finished.

    A case is an `Edit` as a mapping. Beside EasyEdit's own scores it is scored on probabilities, as
    `larimar_editor.evaluation.harness.single_edits` does.
    """
    editor, release_2023 = open_editor(job), find_easyedit().release_2023
    probe = Probe(editor.tok)
    wise = job.method == "WISE"
    unrelated = lambda edit: {"loc_prompts": [text_that_stays(edit.case_id)]} if wise else {}
    apply_algo = editor.apply_algo = Stopwatch(editor.apply_algo, lambda result: probe.after(result[0]))

    def score(case: Mapping) -> dict:
        edit = Edit.from_dict(case)
        probe.before(editor.model, edit)
        forget_earlier_edits(job.method)
        torch.manual_seed(0)  # what is drawn is the same in a run that goes on
        metrics, *_ = editor.edit(**_arguments(edit, release_2023), **unrelated(edit))
        record = {"case_id": edit.case_id, "pre": _flat(metrics[0]["pre"]), "post": _flat(metrics[0]["post"])}
        seconds = apply_algo.seconds.pop()
        return record | {"seconds": seconds if job.timed else None, "single": probe.record()}

    with _targets_with_their_space():
        work(job, editor, score)


def _arguments(edit: Edit, release_2023: bool) -> dict:
    arguments = {
        "prompts": [edit.prompt],
        "target_new": [edit.target_new],
        "ground_truth": [edit.ground_truth],
        "verbose": False,
    }
    if edit.subject and edit.subject in edit.prompt:  # EasyEdit takes no other
        arguments["subject"] = [edit.subject]
    if edit.rephrase_prompts:
        arguments["rephrase_prompts"] = [edit.rephrase_prompts[0]]
    if edit.locality_prompts:
        arguments["locality_inputs"] = {
            "neighborhood": _asked(edit.locality_prompts, edit.locality_ground_truth)
        }
    if edit.portability_prompts:
        arguments["portability_inputs"] = {
            "one_hop": _asked(edit.portability_prompts, edit.portability_ground_truth)
        }
    # Both keep every edit on its own; the release of 2023 knows the one, the main branch the other.
    return arguments | ({"keep_original_weight": True} if release_2023 else {"sequential_edit": False})


def _asked(prompts: tuple[str, ...], truths: tuple[str, ...]) -> dict:
    """Questions of one edit as EasyEdit takes them: a text each, or a list of several."""
    several = len(prompts) > 1
    return {
        "prompt": [list(prompts) if several else prompts[0]],
        "ground_truth": [list(truths) if several else truths[0]],
    }


@contextlib.contextmanager
def _targets_with_their_space() -> Iterator[None]:
    """GRACE is scored by generation, against a target that EasyEdit tokenises without the space in front of
    it.

    No byte-level tokenizer generates that, so every score would be 0. Here the target keeps its space.
    """
    evaluation: Any = importlib.import_module("easyeditor.evaluate.evaluate")
    original = evaluation.test_prediction_acc

    @functools.wraps(original)
    def test_prediction_acc(model, tok, hparams, prompts, targets, *args, **kwargs):
        if kwargs.get("vanilla_generation"):
            targets = " " + targets if isinstance(targets, str) else [" " + target for target in targets]
        return original(model, tok, hparams, prompts, targets, *args, **kwargs)

    evaluation.test_prediction_acc = test_prediction_acc
    try:
        yield
    finally:
        evaluation.test_prediction_acc = original


def _flat(metrics: dict) -> dict:
    """Plain numbers: EasyEdit nests and wraps its own."""
    flat = {name: metrics[name] for name in ("rewrite_acc", "rephrase_acc") if name in metrics}
    flat["locality_acc"] = metrics.get("locality", {}).get("neighborhood_acc")
    flat["portability_acc"] = metrics.get("portability", {}).get("one_hop_acc")
    return {name: float(np.mean(value)) for name, value in flat.items() if value is not None}


if __name__ == "__main__":
    run_job(given_job())
