"""What EasyEdit's own methods do in an evaluation, each in a process of its own, once for all evaluations that ask for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from larimar_editor.data import Edit
from larimar_editor.easyedit import find_easyedit
from larimar_editor.easyedit.jobs import Job, chosen_methods, hparams_file, run
from larimar_editor.easyedit.trials import Trial
from larimar_editor.evaluation.context import Context, cases_of
from larimar_editor.evaluation.records import Condition, LeftOut


def methods_at_hand(context: Context, wanted: Sequence[str] | None = None, say: Callable[[str], None] = print) -> list[str]:
    """Those of ``wanted``, or of all, that EasyEdit has and a YAML file exists for.

    Args:
        context: its hyperparameter file says which model.
        say: where the line of a method that is left out goes.
    """
    try:
        find_easyedit()
    except ModuleNotFoundError as error:
        say(str(error))
        return []
    return chosen_methods(wanted, context.hparams.parents[1], context.hparams.stem, say)


def method_conditions(context: Context, edits: Sequence[Edit], value: Callable[[Mapping], Mapping]) -> list[Condition]:
    """A condition per method, ``LARIMAR`` among them: single edits, edited, scored and undone by EasyEdit.

    Args:
        context: see `methods_at_hand`.
        edits: the cases.
        value: record of `larimar_editor.easyedit.single` to this evaluation's.
    """

    def score(method: str):
        runner, options = "larimar_editor.easyedit.single", {"score": True}
        return lambda cases: [value(record) for record in _run(context, runner, method, [asdict(e) for e in cases], options)]

    return [
        Condition(method, cases_of(list(edits)), score(method), batch=0, settings={"method": method})
        for method in methods_at_hand(context)
    ]


def run_trials(context: Context, method: str, trials: Sequence[Trial]) -> list[list[dict]]:
    """Stages' results of each trial; see `larimar_editor.easyedit.many`.

    Raises:
        LeftOut: the method failed.
    """
    records = _run(context, "larimar_editor.easyedit.many", method, [trial.to_dict() for trial in trials], {})
    return [record["stages"] for record in records]


def _run(context: Context, runner: str, method: str, cases: Sequence[Mapping], options: Mapping) -> list[dict]:
    file = hparams_file(context.hparams.parents[1], method, context.hparams.stem)
    # Only the first case names the folder: a run of more cases goes on from one of fewer.
    settings = json.dumps([context.lasting(), runner, file.read_text(encoding="utf-8"), cases[:1]], sort_keys=True)
    out = context.out / "easyedit" / hashlib.sha256(settings.encode()).hexdigest()[:12]
    out.mkdir(parents=True, exist_ok=True)
    device = context.device.removeprefix("cuda:").replace("cuda", "0")
    reasons: list[str] = []
    job = Job(runner, method, str(file.resolve()), list(cases), str(out.resolve()), device=device, options=options)
    if not run(job, reasons.append):
        raise LeftOut(" ".join(reasons))
    return job.finished()[: len(cases)]
