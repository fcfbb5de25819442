"""Larimar beside EasyEdit's own methods: same base model, same edits, EasyEdit's own ``BaseEditor``.

Every method runs in a process of its own, so that one method's memory, patches or failure are not another's. A run
that was interrupted goes on where it stopped: finished cases are in ``METHOD.jsonl``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import yaml
from tqdm.auto import tqdm

from larimar_editor.data import Edit
from larimar_editor.easyedit.probe import Probe
from larimar_editor.easyedit.statistics import compute_key_statistics

# How EasyEdit calls the hyperparameter class of a method that we have a YAML file for.
_HPARAMS_CLASSES = {
    "LARIMAR": "LarimarHyperParams",
    "ROME": "ROMEHyperParams",
    "MEMIT": "MEMITHyperParams",
    "GRACE": "GraceHyperParams",
    "FT": "FTHyperParams",
}


@dataclass(frozen=True)
class Job:
    """What the process of one method needs to know.

    Attributes:
        method: EasyEdit's name of it.
        hparams: its YAML file.
        edits: the cases.
        out: folder for records and log.
        workdir: where relative paths in the YAML file start.
        device: overrides the YAML file's, when not None.
        score: whether to score each edit on probabilities too, as `larimar_editor.evaluation.single_edits` does.
    """

    method: str
    hparams: str
    edits: list[Edit]
    out: str
    workdir: str
    device: str | None = None
    score: bool = False

    @property
    def records(self) -> Path:
        """One JSON line per finished case."""
        return Path(self.out) / f"{self.method}.jsonl"

    def finished(self) -> list[dict]:
        """The records that are there, the last one only if it is whole."""
        return [json.loads(line) for line in self._whole_lines()]

    def drop_torn_record(self) -> None:
        """Cut off what an interrupted run left of its last record, so that the next one starts on a line of its own."""
        self.records.write_text("".join(line + "\n" for line in self._whole_lines()), encoding="utf-8")

    def _whole_lines(self) -> list[str]:
        return self.records.read_text(encoding="utf-8").split("\n")[:-1] if self.records.exists() else []


def hparams_file(folder: Path, method: str, model: str) -> Path:
    """``FOLDER/METHOD/MODEL.yaml``."""
    return folder / method / f"{model}.yaml"


def compare(
    methods: Sequence[str] | None,
    edits: Sequence[Edit],
    out: Path,
    hparams: Path,
    model: str = "smollm2-135m",
    device: str | None = None,
    say: Callable[[str], None] = print,
) -> list[dict]:
    """Run the methods one after another, each in its own process.

    Args:
        methods: EasyEdit's names; None takes all that EasyEdit has and a YAML file exists for.
        edits: the cases, single edits.
        out: folder for records and logs; finished cases in it are not run again.
        hparams: folder with ``METHOD/MODEL.yaml``.
        model: which YAML file.
        device: "cpu" or a CUDA index; the YAML files' when None.
        say: where the line of a method that is left out goes.

    Returns:
        one summary per method; see `summarise`.
    """
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for method in chosen_methods(methods, hparams, model, say):
        job = Job(
            method, str(hparams_file(hparams, method, model).resolve()), list(edits), str(out.resolve()), os.getcwd(), device
        )
        if run(job, say):
            rows.append(summarise(job))
    return rows


def chosen_methods(methods: Sequence[str] | None, hparams: Path, model: str, say: Callable[[str], None]) -> list[str]:
    """Those of ``methods``, or of all, that this EasyEdit has and a YAML file exists for; ``say`` gets a line for the others."""
    import easyeditor  # noqa: F401  registers LARIMAR

    from larimar_editor.easyedit.registration import available_methods

    has = available_methods()
    wanted = list(_HPARAMS_CLASSES) if methods is None else list(methods)
    chosen = []
    for method in wanted:
        if method not in has:
            say(f"{method} is left out: this EasyEdit has no such method")
        elif not hparams_file(hparams, method, model).exists():
            say(f"{method} is left out: there is no {hparams_file(hparams, method, model)}")
        elif method not in _HPARAMS_CLASSES:
            say(f"{method} is left out: its hyperparameter class is not known to larimar_editor.easyedit.comparison")
        else:
            chosen.append(method)
    if methods is None:
        others = sorted(set(has) - set(_HPARAMS_CLASSES))
        say(f"without a hparams file for {model}, and so left out: {', '.join(others)}")
    return chosen


def run(job: Job, say: Callable[[str], None]) -> bool:
    """Run the cases that are not finished, in a process of their own; False, and a line, when it fails."""
    done = len(job.finished())
    if done >= len(job.edits):
        return True
    path = Path(job.out) / f"{job.method}.job.json"
    path.write_text(json.dumps(asdict(job)), encoding="utf-8")
    log = Path(job.out) / f"{job.method}.log"
    command = [sys.executable, "-m", "larimar_editor.easyedit.comparison", str(path)]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))}
    with log.open("a", encoding="utf-8") as stream, tqdm(total=len(job.edits), initial=done, desc=job.method, unit="edit") as bar:
        # EasyEdit writes its own logs folder into the working directory.
        child = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=job.out, env=environment)
        try:
            while child.poll() is None:
                time.sleep(0.5)
                if new := len(job.finished()) - bar.n:
                    bar.update(new)
        except BaseException:
            child.terminate()
            raise
        bar.update(len(job.finished()) - bar.n)
    path.unlink()
    if child.returncode:
        last = [line for line in log.read_text(encoding="utf-8").splitlines() if line.strip()][-1:]
        say(f"{job.method} is left out: it failed with {''.join(last)!r}; see {log}")
    return child.returncode == 0


def summarise(job: Job) -> dict:
    """One row of the table: means over the cases, the median time without the first edit, the peak memory."""
    records = job.finished()
    seconds = [record["seconds"] for record in records]
    row = {"method": job.method, "edits": len(records)}
    for name in ("rewrite_acc", "rephrase_acc", "locality_acc"):
        values = [record["post"][name] for record in records if record["post"].get(name) is not None]
        row[name] = float(np.mean(values)) if values else None
    before = [record["pre"]["rewrite_acc"] for record in records]
    row["pre_rewrite_acc"] = float(np.mean(before))
    row["seconds_per_edit"] = float(np.median(seconds[1:])) if len(seconds) > 1 else None
    row["seconds_first_edit"] = seconds[0]
    row["peak_memory_mb"] = max(record["peak_memory_mb"] for record in records)
    row["environment"] = records[-1]["environment"]
    return row


# --- in the method's own process ------------------------------------------------------------------------------------


def run_job(job: Job) -> None:
    """Edit and evaluate every case that is not finished."""
    import easyeditor
    import torch

    from larimar_editor.easyedit import find_easyedit

    source = find_easyedit()
    values = _known_values(job, easyeditor)
    editor = easyeditor.BaseEditor.from_hparams(values)
    if getattr(values, "mom2_adjustment", False) and job.method == "MEMIT":
        compute_key_statistics(editor.model, editor.tok, values)
    seconds: list[float] = []
    probe = Probe(editor.tok) if job.score else None
    editor.apply_algo = _timed(editor.apply_algo, seconds, probe)
    job.drop_torn_record()
    finished = len(job.finished())
    with job.records.open("a", encoding="utf-8") as stream, _targets_with_their_space():
        for index in range(finished, len(job.edits)):
            edit = job.edits[index]
            if probe is not None:
                probe.before(editor.model, edit)
            metrics, *_ = editor.edit(**_arguments(edit, source.release_2023))
            record = {
                "case_id": edit.case_id,
                "pre": _flat(metrics[0]["pre"]),
                "post": _flat(metrics[0]["post"]),
                "seconds": seconds.pop(),
                # A resumed run has a first edit of its own; it is not the first of the record.
                "peak_memory_mb": peak_memory_mb(),
                "environment": environment(source, torch),
            }
            if probe is not None:
                record["single"] = probe.record()
            stream.write(json.dumps(record) + "\n")
            stream.flush()


def _known_values(job: Job, easyeditor):
    """The hyperparameter object, from the YAML file's keys that this EasyEdit knows."""
    from larimar_editor.hparams import LarimarHyperParams

    cls = LarimarHyperParams if job.method == "LARIMAR" else getattr(easyeditor, _HPARAMS_CLASSES[job.method])
    values = yaml.safe_load(Path(job.hparams).read_text(encoding="utf-8"))
    known = {field.name for field in fields(cls)}
    unknown = sorted(values.keys() - known)
    if unknown and job.method != "LARIMAR":
        print(f"{job.method}: this EasyEdit has no {', '.join(unknown)}; left out")
        values = {key: value for key, value in values.items() if key in known}
    if "stats_dir" in values:
        values["stats_dir"] = str(Path(job.workdir) / values["stats_dir"])
    if job.device is not None:
        values["device"] = int(job.device) if job.device.isdigit() else job.device
    convert = importlib.import_module("easyeditor.util.hparams").HyperParams.construct_float_from_scientific_notation
    return cls(**convert(values))


def _arguments(edit: Edit, release_2023: bool) -> dict:
    arguments = {
        "prompts": [edit.prompt],
        "target_new": [edit.target_new],
        "ground_truth": [edit.ground_truth],
        "subject": [edit.subject],
        "verbose": False,
    }
    if edit.rephrase_prompts:
        arguments["rephrase_prompts"] = [edit.rephrase_prompts[0]]
    if edit.locality_prompts:
        several = len(edit.locality_prompts) > 1
        prompt, truth = (
            (list(edit.locality_prompts), list(edit.locality_ground_truth))
            if several
            else (edit.locality_prompts[0], edit.locality_ground_truth[0])
        )
        arguments["locality_inputs"] = {"neighborhood": {"prompt": [prompt], "ground_truth": [truth]}}
    # Both keep every edit on its own; the release of 2023 knows the one, the main branch the other.
    return arguments | ({"keep_original_weight": True} if release_2023 else {"sequential_edit": False})


def _timed(apply_algo, seconds: list[float], probe: Probe | None):
    @functools.wraps(apply_algo)
    def timed(*args, **kwargs):
        _synchronise()
        start = time.perf_counter()
        result = apply_algo(*args, **kwargs)
        _synchronise()
        seconds.append(time.perf_counter() - start)
        if probe is not None:
            probe.after(result[0])
        return result

    return timed


def _synchronise() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextlib.contextmanager
def _targets_with_their_space() -> Iterator[None]:
    """GRACE is scored by generation, against a target that EasyEdit tokenises without the space in front of it.

    No byte-level tokenizer generates that, so every score would be 0. Here the target keeps its space.
    """
    evaluation = importlib.import_module("easyeditor.evaluate.evaluate")
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
    flat = {name: float(np.mean(metrics[name])) for name in ("rewrite_acc", "rephrase_acc") if name in metrics}
    locality = metrics.get("locality", {}).get("neighborhood_acc")
    return flat | ({} if locality is None else {"locality_acc": float(np.mean(locality))})


def peak_memory_mb() -> float:
    """Peak of the process: on the GPU where one is used, else resident memory; in MiB."""
    import torch

    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def environment(source, torch) -> dict:
    """Hardware and versions, for the record."""
    import transformers

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "easyedit": "release of 2023" if source.release_2023 else "main branch",
    }


if __name__ == "__main__":
    description = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    description["edits"] = [
        Edit(**{key: tuple(value) if isinstance(value, list) else value for key, value in edit.items()})
        for edit in description["edits"]
    ]
    run_job(Job(**description))
