"""One method of EasyEdit at work on cases, in a process of its own.

So one method's memory, patches or failure are not another's. Finished cases are kept in ``METHOD.jsonl``,
each under its digest, in a folder that is named after their settings, device and EasyEdit's version: a job
that was interrupted goes on, and no case is run twice, whichever table asks for it. Which code of EasyEdit's
a case was run with stands in its record, where it is not from before that was noted; what text MEMIT's key
statistics are of stands beside these.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from tqdm.auto import tqdm

from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.easyedit.registration import available_methods
from larimar_editor.evaluation.harness.records import read_records, whole_lines
from larimar_editor.utils.files import load_yaml

# How EasyEdit calls the hyperparameter class of a method that we have a YAML file for, in the tables' order.
HPARAMS_CLASSES = {
    "LARIMAR": "LarimarHyperParams",
    "ROME": "ROMEHyperParams",
    "MEMIT": "MEMITHyperParams",
    "AlphaEdit": "AlphaEditHyperParams",
    "GRACE": "GraceHyperParams",
    "WISE": "WISEHyperParams",
    "ULTRAEDIT": "UltraEditHyperParams",
    "FT": "FTHyperParams",
    "LoRA": "LoRAHyperParams",
    "IKE": "IKEHyperParams",
}

# What is mended here in a method changes its records, too: a method's number grows when its mending does. It
# is of the method and not of a runner: finished cases of all runners are run again, also those that the
# mending did not change, as UltraEdit's single edits.
REVISIONS = {
    "ULTRAEDIT": 2,  # since it keeps its statistics over the edits of a sequence
    "IKE": 2,  # since it tells its fact in the user's turn of a chat that has a system's
}

# Methods that look for the subject in the prompt.
BY_SUBJECT = ("ROME", "MEMIT", "AlphaEdit")

_OF_A_LAUNCH = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "ACCELERATE_", "TORCHELASTIC_")


@dataclass(frozen=True)
class Job:
    """What the process of one method needs to know.

    Attributes:
        runner: the module that does it, when it is run with the path of this job's JSON file.
        method: EasyEdit's name of the method.
        hparams: its YAML file.
        cases: one mapping each, as the runner takes them; a record is written for each.
        out: folder for records and log.
        workdir: where relative paths in the YAML file start.
        device: overrides the YAML file's, when not None.
        overrides: further values in place of the YAML file's.
        timed: whether an edit's seconds are noted: those of jobs that share a machine say nothing.
    """

    runner: str
    method: str
    hparams: str
    cases: list[Mapping]
    out: str
    workdir: str = field(default_factory=os.getcwd)
    device: str | None = None
    overrides: Mapping = field(default_factory=dict)
    timed: bool = True

    @classmethod
    def in_folder(
        cls,
        parent: Path,
        runner: str,
        method: str,
        file: Path,
        cases: Sequence[Mapping],
        device: str | None = None,
        overrides: Mapping | None = None,
        more: Mapping | None = None,
        timed: bool = True,
    ) -> Job:
        """A job in the folder of ``parent`` whose name says with which settings its records are made.

        Args:
            parent: of the folders of all jobs.
            runner, method, device, overrides, timed: see `Job`.
            file: the method's YAML file.
            cases: see `Job`.
            more: what else the records depend on, such as a checkpoint's weights.
        """
        overrides = dict(overrides or {})
        around = {
            "runner": runner,
            "hparams": load_yaml(file),  # a comment makes no other records
            "device": device,
            "overrides": overrides,
            "easyedit": find_easyedit().version,
            **(more or {}),
        }
        if method in REVISIONS:
            around["revision"] = REVISIONS[method]
        where = str((parent / digest(around)).resolve())
        return cls(
            runner,
            method,
            str(file.resolve()),
            list(cases),
            where,
            device=device,
            overrides=overrides,
            timed=timed,
        )

    @property
    def records(self) -> Path:
        """One JSON line per finished case."""
        return Path(self.out) / f"{self.method}.jsonl"

    def finished(self) -> dict[str, dict]:
        """The records that are there, of whatever job, by their case's digest; the last one only if it is
        whole, and none of another EasyEdit's code.
        """
        now = find_easyedit().code
        records = read_records(self.records)
        return {
            each["digest"]: each
            for each in records
            if each.get("environment", {}).get("easyedit_code", now) == now
        }

    def results(self) -> list[dict]:
        """The records of this job's finished cases, in their order."""
        done = self.finished()
        return [done[key] for key in self._keys if key in done]

    def pending(self) -> list[Mapping]:
        """Cases that have no record yet, each once."""
        done = self.finished()
        return list({key: case for key, case in zip(self._keys, self.cases) if key not in done}.values())

    @cached_property
    def _keys(self) -> list[str]:
        return [digest(case) for case in self.cases]

    def drop_torn_record(self) -> None:
        """Cut off what an interrupted run left of its last record, so that the next one starts on a line of
        its own.
        """
        self.records.write_text("".join(line + "\n" for line in whole_lines(self.records)), encoding="utf-8")


def digest(value: object) -> str:
    """A name for what JSON can hold, the same for the same."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def hparams_file(folder: Path, method: str, model: str) -> Path:
    """``FOLDER/METHOD/MODEL.yaml``."""
    return folder / method / f"{model}.yaml"


def methods_named(names: Sequence[str]) -> list[str]:
    """Methods as EasyEdit spells them, in whichever letters they are given.

    Raises:
        ValueError: one whose hyperparameter class is not known; the message names those that there are.
    """
    spelt = {name.lower(): name for name in HPARAMS_CLASSES}
    if unknown := [name for name in names if name.lower() not in spelt]:
        raise ValueError(f"no method {unknown[0]!r}; there are {', '.join(HPARAMS_CLASSES)}")
    return [spelt[name.lower()] for name in names]


def chosen_methods(
    methods: Sequence[str] | None, hparams: Path, model: str, say: Callable[[str], None]
) -> list[str]:
    """Those of ``methods`` (names of `HPARAMS_CLASSES`), or of all, that this EasyEdit has and a YAML file
    exists for; ``say`` gets a line for the others.
    """
    importlib.import_module("easyeditor")  # registers LARIMAR
    has = available_methods()
    wanted = list(HPARAMS_CLASSES) if methods is None else list(methods)
    chosen = []
    for method in wanted:
        if method not in has:
            say(f"{method} is left out: this EasyEdit has no such method")
        elif not hparams_file(hparams, method, model).exists():
            say(f"{method} is left out: there is no {hparams_file(hparams, method, model)}")
        else:
            chosen.append(method)
    if methods is None:
        others = sorted(set(has) - set(HPARAMS_CLASSES))
        say(f"without a hparams file for {model}, and so left out: {', '.join(others)}")
    return chosen


def without_subject(case: object) -> Iterator[Mapping]:
    """The edits in a case, of whichever runner, whose subject is not in their prompt."""
    if isinstance(case, Mapping) and "target_new" in case:
        if not (subject := case.get("subject")) or subject not in case["prompt"]:
            yield case
    elif isinstance(case, (Mapping, list, tuple)):
        for each in case.values() if isinstance(case, Mapping) else case:
            yield from without_subject(each)


def lines_added(path: Path) -> Callable[[], int]:
    """What tells, whenever it is called, how many whole lines a file has got since the last time, without
    reading the others again.
    """
    read = sum(len(f"{line}\n".encode()) for line in whole_lines(path))

    def added() -> int:
        nonlocal read
        if not path.exists():
            return 0
        with path.open("rb") as stream:
            stream.seek(read)
            new = stream.read()
        whole = new[: new.rfind(b"\n") + 1]
        read += len(whole)
        return whole.count(b"\n")

    return added


def run(job: Job, say: Callable[[str], None]) -> bool:
    """Run the cases that are not finished, in a process of their own; False, and a line, when it fails or
    there is an edit that the method cannot make.
    """
    if not (pending := job.pending()):
        return True
    if job.method in BY_SUBJECT and (edit := next(without_subject(pending), None)) is not None:
        say(
            f"{job.method} is left out: it edits by subjects, and the prompt {edit['prompt']!r} does not "
            f"have its own, {edit.get('subject', '')!r}, in it; leave that record out of the data"
        )
        return False
    path = Path(job.out) / f"{job.method}.job.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    log = Path(job.out) / f"{job.method}.log"
    command = [sys.executable, "-m", job.runner, str(path)]
    root = Path(__file__).parents[3]
    # The process is on its own, even where this one was launched together with others.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OF_A_LAUNCH)}
    for name in ("EASYEDIT_HOME", "LARIMAR_CACHE"):
        if environment.get(name):  # it works in another folder
            environment[name] = str(Path(environment[name]).resolve())
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    added = lines_added(job.records)
    with (
        log.open("a", encoding="utf-8") as stream,
        tqdm(total=len(job.cases), initial=len(job.results()), desc=job.method, unit="case") as bar,
    ):
        # EasyEdit writes its own logs folder into the working directory.
        child = subprocess.Popen(
            command, stdout=stream, stderr=subprocess.STDOUT, cwd=job.out, env=environment
        )
        try:
            while child.poll() is None:
                time.sleep(0.5)
                bar.update(added())
        except BaseException:
            child.terminate()
            raise
        bar.update(len(job.results()) - bar.n)
    path.unlink()
    if child.returncode:
        last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-1:]
        say(f"{job.method} is left out: it failed with {''.join(last)!r}; see {log}")
    return child.returncode == 0
