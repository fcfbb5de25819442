"""Many edits by one of EasyEdit's methods: runs `larimar_editor.evaluation.harness.trials`."""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from transformers import PreTrainedModel

from larimar_editor.easyedit.baselines.jobs import Job
from larimar_editor.easyedit.baselines.leftovers import forget_earlier_edits
from larimar_editor.easyedit.baselines.probe import scores
from larimar_editor.easyedit.baselines.worker import Stopwatch, given_job, open_editor, text_that_stays, work
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.trials import Stage, Trial


def run_job(job: Job) -> None:
    """Run every trial that is not finished. A record has ``stages``: ``seconds`` of each block, ``scores``
    (``accuracy`` and ``same``, the share of the target's tokens for which the model says what it said before
    any edit) and ``answers``.
    """
    editor, release_2023 = open_editor(job), find_easyedit().release_2023
    work(job, editor, lambda case: {"stages": run_trial(editor, Trial.from_dict(case), release_2023)})


def run_trial(editor, trial: Trial, release_2023: bool) -> list[dict]:
    """The stages' results; ``editor.model`` is as before afterwards."""
    unedited = [scores(editor.model, editor.tok, stage.scored) for stage in trial.stages]
    results = []
    torch.manual_seed(trial.seed)  # LoRA begins with weights at random
    with kept_edits(editor, release_2023) as held:
        for stage, before in zip(trial.stages, unedited):
            first = len(held.seconds)
            for block in stage.blocks:
                held.edit(block)
            torch.manual_seed(trial.seed)
            answered = _questions(held.model, editor.tok, stage, before)
            results.append(answered | {"seconds": held.seconds[first:]})
    return results


class KeptEdits:
    """Edits of a method, each on top of those before.

    Args:
        editor: EasyEdit's.
        release_2023: whether EasyEdit is the release of 2023.

    Attributes:
        model: as it is edited; some methods wrap it.
        undo: takes them all back.
    """

    def __init__(self, editor, release_2023: bool):
        self.model, self.undo = editor.model, Undo()
        self._editor, self._release_2023 = editor, release_2023
        self._apply = Stopwatch(editor.apply_algo)
        self._method, self._texts = editor.hparams.alg_name, itertools.count()
        if self._method == "WISE":
            editor.hparams.sequential_edit = True  # else each edit begins with the layer as it was
        forget_earlier_edits(self._method)

    @property
    def seconds(self) -> list[float]:
        """Of each call of the method."""
        return self._apply.seconds

    def edit(self, block: Sequence[Mapping]) -> None:
        """Hand requests to the method, in one call."""
        requests = [dict(copy.deepcopy(each)) for each in block]  # some methods change those they are given
        if self._method == "ULTRAEDIT":  # it edits so many of a call's requests, and leaves the others
            self._editor.hparams.batch_size = len(requests)
        for each in requests if self._method == "WISE" else ():
            each["loc_prompt"] = text_that_stays(next(self._texts))
        # `keep_original_weight` is what returns the weights in 2023.
        self.model, originals = self._apply(
            self._editor.model,
            self._editor.tok,
            requests,
            self._editor.hparams,
            copy=False,
            return_orig_weights=True,
            keep_original_weight=self._release_2023,
        )
        self.undo.add(originals)


@contextlib.contextmanager
def kept_edits(editor, release_2023: bool) -> Iterator[KeptEdits]:
    """While it lasts, edits are kept; ``editor.model`` is as before afterwards."""
    held = KeptEdits(editor, release_2023)
    try:
        yield held
    finally:
        held.undo(editor.model)


def _questions(model, tokenizer, stage: Stage, before: Sequence) -> dict:
    after = scores(model, tokenizer, stage.scored)
    return {
        "scores": [{"accuracy": new.accuracy, "same": new.as_before(old)} for new, old in zip(after, before)],
        "answers": answers(model, stage.generated, tokenizer=tokenizer, **_generation(model, stage.sampling)),
    }


def _generation(model, sampling: Mapping) -> dict:
    """How a model of any kind is asked for answers.

    What wraps a model may decide for a batch as a whole, as WISE does by its mean. And GRACE and WISE decide
    by the tokens of a pass: with a cache that is the last one alone.
    """
    if isinstance(model, PreTrainedModel):
        return dict(sampling)
    looks = {"use_cache": False} if type(model).__name__ in ("GRACE", "WISE") else {}
    return {"batch": 1} | dict(sampling) | looks


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
                # LARIMAR's is a number that keeps the state it stands for alive, as no copy of it would.
                kept = weight if hasattr(weight, "edited_state") else weight.detach().clone()
                self._weights.setdefault(name, kept)

    @torch.no_grad()
    def __call__(self, model: torch.nn.Module) -> None:
        """Make ``model`` what it was before the first call."""
        if self._reset is not None:
            self._reset()
        for name, weight in self._weights.items():
            model.get_parameter(name).copy_(weight)


if __name__ == "__main__":
    run_job(given_job())
