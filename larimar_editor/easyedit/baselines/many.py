"""Many edits by one of EasyEdit's methods: runs `larimar_editor.evaluation.harness.trials`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch

from larimar_editor.easyedit.baselines.jobs import Job
from larimar_editor.easyedit.baselines.probe import scores
from larimar_editor.easyedit.baselines.worker import Stopwatch, given_job, open_editor, work
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.trials import Stage, Trial


def run_job(job: Job) -> None:
    """Run every trial that is not finished. A record has ``stages``: ``seconds`` of each block, ``scores``
    (``accuracy`` and ``same``, the share of the target's tokens for which the model says what it said before
    any edit) and ``answers``.
    """
    editor, release_2023 = open_editor(job), find_easyedit().release_2023
    work(job, lambda case: {"stages": run_trial(editor, Trial.from_dict(case), release_2023)})


def run_trial(editor, trial: Trial, release_2023: bool) -> list[dict]:
    """The stages' results; ``editor.model`` is as before afterwards."""
    unedited = [scores(editor.model, editor.tok, stage.scored) for stage in trial.stages]
    undo, results, model = Undo(), [], editor.model
    try:
        for stage, before in zip(trial.stages, unedited):
            apply_algo = Stopwatch(editor.apply_algo)
            for block in stage.blocks:
                # Some methods change the requests they are given. `keep_original_weight` is what returns them
                # in 2023.
                model, originals = apply_algo(
                    editor.model,
                    editor.tok,
                    copy.deepcopy(list(block)),
                    editor.hparams,
                    copy=False,
                    return_orig_weights=True,
                    keep_original_weight=release_2023,
                )
                undo.add(originals)
            torch.manual_seed(trial.seed)
            results.append(_questions(model, editor.tok, stage, before) | {"seconds": apply_algo.seconds})
    finally:
        undo(editor.model)
    return results


def _questions(model, tokenizer, stage: Stage, before: Sequence) -> dict:
    after = scores(model, tokenizer, stage.scored)
    return {
        "scores": [{"accuracy": new.accuracy, "same": new.as_before(old)} for new, old in zip(after, before)],
        "answers": answers(model, stage.generated, tokenizer=tokenizer, **stage.sampling),
    }


class Undo:
    """Takes back several edits, from what each call of a method returned: weights by name, or a function."""

    def __init__(self) -> None:
        self._weights: dict[str, torch.Tensor] = {}
        self._reset: Callable[[], None] | None = None

    def add(self, originals: Mapping[str, torch.Tensor] | Callable[[], None]) -> None:
        """What a call returned beside the model. Of a weight, and of functions, the first is what was there
        before.
        """
        if callable(originals):
            self._reset = self._reset or originals
        else:
            for name, weight in originals.items():
                self._weights.setdefault(name, weight.detach().clone())

    @torch.no_grad()
    def __call__(self, model: torch.nn.Module) -> None:
        """Make ``model`` what it was before the first call."""
        if self._reset is not None:
            self._reset()
        for name, weight in self._weights.items():
            model.get_parameter(name).copy_(weight)


if __name__ == "__main__":
    run_job(given_job())
