"""Rows of an evaluation that EasyEdit's own methods fill, through its ``BaseEditor``, each method in a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence

from larimar_editor.data import Edit
from larimar_editor.easyedit import find_easyedit
from larimar_editor.easyedit.comparison import Job, chosen_methods, hparams_file, run
from larimar_editor.evaluation.context import Context, cases_of
from larimar_editor.evaluation.records import Condition, LeftOut


def method_conditions(
    context: Context, edits: Sequence[Edit], value: Callable[[Mapping], Mapping], say: Callable[[str], None] = print
) -> list[Condition]:
    """A condition per method that EasyEdit has and a YAML file exists for, ``LARIMAR`` among them.

    Args:
        context: its hyperparameter file says which model; a method is run once for all evaluations.
        edits: the cases, single edits.
        value: record of `larimar_editor.easyedit.comparison` to this evaluation's.
        say: where the line of a method that is left out goes.
    """
    folder, model = context.hparams.parents[1], context.hparams.stem
    try:
        find_easyedit()
    except ModuleNotFoundError as error:
        say(str(error))
        return []
    return [
        Condition(method, cases_of(list(edits)), _score(context, method, value), batch=0, settings={"method": method})
        for method in chosen_methods(None, folder, model, say)
    ]


def _score(context: Context, method: str, value: Callable[[Mapping], Mapping]):
    def score(edits: Sequence[Edit]) -> list[Mapping]:
        file = hparams_file(context.hparams.parents[1], method, context.hparams.stem)
        settings = json.dumps(context.lasting() | {"edits": [edit.prompt for edit in edits[:1]]}, sort_keys=True)
        out = context.out / "easyedit" / hashlib.sha256(settings.encode()).hexdigest()[:12]
        out.mkdir(parents=True, exist_ok=True)
        device = context.device.removeprefix("cuda:").replace("cuda", "0")
        reasons: list[str] = []
        job = Job(method, str(file.resolve()), list(edits), str(out.resolve()), os.getcwd(), device, score=True)
        if not run(job, reasons.append):
            raise LeftOut(" ".join(reasons))
        return [value(record) for record in job.finished()[: len(edits)]]

    return score
