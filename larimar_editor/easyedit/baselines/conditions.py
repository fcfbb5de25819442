"""EasyEdit's methods as the baselines of an evaluation: each in a process of its own, once for all tables
that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from larimar_editor.data.edits import Edit
from larimar_editor.easyedit.baselines.jobs import (
    HPARAMS_CLASSES,
    Job,
    chosen_methods,
    hparams_file,
    methods_named,
    run,
)
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.easyedit.mending import device_name
from larimar_editor.evaluation.harness.baselines import LARIMAR
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.lifetimes import Lifetime
from larimar_editor.evaluation.harness.records import LeftOut
from larimar_editor.evaluation.harness.trials import Trial
from larimar_editor.utils.device import is_here


@dataclass(frozen=True)
class EasyEditBaselines:
    """Implements `larimar_editor.evaluation.harness.baselines.Baselines`.

    Attributes:
        only: names of the methods to run, in any case of letters; None runs all. Others have a row where all
            of it is there from earlier.
        devices: "cpu" or a CUDA index in place of each YAML file's; none leaves it. Of several the first
            counts on which a method's cases are finished, or else the first that is here.
        log: gets the line of a method that is left out.
        timed: see `Job`.

    Raises:
        ValueError: ``only`` names a method that there is not.
    """

    only: Sequence[str] | None = None
    devices: Sequence[str] = ()
    log: Callable[[str], None] = print
    timed: bool = True

    def __post_init__(self):
        if self.only is not None:
            object.__setattr__(self, "only", methods_named(self.only))

    def methods(self, context: Context, wanted: Sequence[str] | None = None) -> list[str]:
        """Those of ``wanted``, or of all, that EasyEdit has and that have a YAML file for the context's
        model.
        """
        try:
            find_easyedit()
        except ImportError as error:
            self.log(str(error))
            return []
        folder, model = _folder(context), context.hparams.stem
        if self.only is None:
            return chosen_methods(wanted, folder, model, self.log)
        every = list(HPARAMS_CLASSES if wanted is None else wanted)
        asked = [name for name in self.only if name in every]
        # Where LARIMAR has no row, Larimar has rows of its own.
        if without := [name for name in self.only if name not in every and name != LARIMAR]:
            self.log(f"no rows of {', '.join(without)}: these are of {', '.join(every)}")
        others = [name for name in every if name not in asked]
        chosen = chosen_methods(asked, folder, model, self.log)
        chosen += chosen_methods(others, folder, model, lambda why: None)
        return [name for name in every if name in chosen]  # in whichever sitting they are run

    def made_with(self, context: Context, method: str) -> str:
        """The names of the folders of jobs without a case."""
        return " ".join(Path(job.out).name for job in self._jobs(context, "single", method, []))

    def keeps(self, context: Context, method: str, known: str | None) -> bool:
        """Whether EasyEdit has the method here, and its records are those of jobs of now, or may be made."""
        try:
            find_easyedit()
        except ImportError:
            return False
        if not chosen_methods([method], _folder(context), context.hparams.stem, lambda why: None):
            return False
        if known is None or {*known.split()} & {*self.made_with(context, method).split()}:
            return True
        asked = self.only is None or method in self.only
        return asked and (not self.devices or any(map(_is_here, self.devices)))

    def single_edits(self, context: Context, method: str, edits: Sequence[Edit]) -> list[dict]:
        """Records of `larimar_editor.easyedit.baselines.single`."""
        return self._run(context, "single", method, [asdict(edit) for edit in edits])

    def trials(self, context: Context, method: str, trials: Sequence[Trial]) -> list[list[dict]]:
        """Stages' results of each trial; see `larimar_editor.easyedit.baselines.many`. Each has its record's
        ``environment``.
        """
        return [
            [{**stage, "environment": record["environment"]} for stage in record["stages"]]
            for record in self._run(context, "many", method, [trial.to_dict() for trial in trials])
        ]

    def lifetime(self, context: Context, method: str, lifetime: Lifetime) -> dict:
        """Record of `larimar_editor.easyedit.baselines.lifetimes`."""
        (record,) = self._run(context, "lifetimes", method, [lifetime.to_dict()])
        return record

    def _jobs(self, context: Context, runner: str, method: str, cases: Sequence[Mapping]) -> list[Job]:
        """The same job on each of the devices."""
        file = hparams_file(_folder(context), method, context.hparams.stem)
        overrides, more = {}, {}
        if method == "LARIMAR":  # what the others do does not depend on the Larimar beside them
            more = {"larimar": context.which_larimar()}
            overrides = dict(context.settings)
            if context.checkpoint is not None:
                overrides["larimar_checkpoint"] = str(context.folder.resolve())
        module = f"larimar_editor.easyedit.baselines.{runner}"
        folder = context.out / "easyedit"
        return [
            Job.in_folder(folder, module, method, file, cases, device, overrides, more, self.timed)
            for device in self.devices or (None,)
        ]

    def _run(self, context: Context, runner: str, method: str, cases: Sequence[Mapping]) -> list[dict]:
        jobs = self._jobs(context, runner, method, cases)
        job = next((each for each in jobs if not each.pending()), None)
        if job is None:
            if self.only is not None and method not in self.only:
                raise LeftOut("")
            job = next((each for each in jobs if each.device is None or _is_here(each.device)), None)
        if job is None:
            raise self._left_out(f"{method} is left out: there is no CUDA device {self.devices[0]} here")
        reasons: list[str] = []
        if not run(job, reasons.append):
            raise self._left_out(" ".join(reasons))
        return job.results()

    def _left_out(self, why: str) -> LeftOut:
        self.log(why)
        return LeftOut(why)


def _is_here(device: str) -> bool:
    return is_here(device_name(device))


def _folder(context: Context) -> Path:
    """The folder of ``METHOD/MODEL.yaml`` that the context's file is one of."""
    return context.hparams.resolve().parents[1]
