"""What the process of a job needs, whatever the job: EasyEdit's editor, and what to note beside a figure."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

import easyeditor

from larimar_editor.data.texts import SENTENCES, read_sentences
from larimar_editor.easyedit.baselines.in_context import examples_for, telling
from larimar_editor.easyedit.baselines.jobs import HPARAMS_CLASSES, Job, digest
from larimar_editor.easyedit.baselines.leftovers import returning_weights, unloading
from larimar_editor.easyedit.baselines.statistics import compute_key_statistics
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.utils.device import environment, peak_memory_mb, timed_call
from larimar_editor.utils.files import load_mapping
from larimar_editor.utils.settings import build

_WITH_KEY_STATISTICS = ("MEMIT", "AlphaEdit")


def given_job() -> Job:
    """The job whose JSON file is this process's argument."""
    return Job(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


def work(job: Job, editor, score: Callable[[Mapping], dict]) -> None:
    """Write the record of every case that is not finished, each with peak memory, hardware and versions."""
    source, device = find_easyedit(), str(next(editor.model.parameters()).device)
    here = environment(device) | {"easyedit": source.version, "easyedit_code": source.code}
    job.drop_torn_record()
    with job.records.open("a", encoding="utf-8") as stream:
        for case in job.pending():
            # A resumed run has a first edit of its own; it is not the first of the record.
            record = {"digest": digest(case)} | score(case)
            record |= {"peak_memory_mb": peak_memory_mb(), "environment": here}
            stream.write(json.dumps(record) + "\n")
            stream.flush()


def open_editor(job: Job):
    """EasyEdit's ``BaseEditor`` for the job's method, with key statistics where the method needs them."""
    values = _known_values(job)
    editor = easyeditor.BaseEditor.from_hparams(values)
    if getattr(values, "mom2_adjustment", False) and job.method in _WITH_KEY_STATISTICS:
        compute_key_statistics(editor.model, editor.tok, values)
    if job.method == "ULTRAEDIT":
        editor.apply_algo = returning_weights(editor.apply_algo)
    elif job.method == "LoRA":
        editor.apply_algo = unloading(editor.apply_algo)
    elif job.method == "IKE":
        editor.apply_algo = telling(editor.apply_algo, examples_for(editor.hparams, Path(job.out)))
    return editor


def _known_values(job: Job):
    """The hyperparameter object, from the YAML file's keys that this EasyEdit knows."""
    values = {**load_mapping(Path(job.hparams)), **job.overrides}
    for name in ("larimar_checkpoint", "model_name"):  # the process is in another folder
        if (Path(job.workdir) / str(values.get(name))).is_dir():
            values[name] = str(Path(job.workdir) / values[name])
    if job.method == "LARIMAR":
        if job.device is not None:
            values["device"] = job.device
        return build(LarimarHyperParams, values, job.hparams)
    cls = getattr(easyeditor, HPARAMS_CLASSES[job.method])
    known = {field.name for field in fields(cls)}
    if "act_margin" in values:  # WISE's class has its three numbers
        values["alpha"], values["beta"], values["gamma"] = values.pop("act_margin")
    unknown = sorted(values.keys() - known)
    if unknown:
        print(f"{job.method}: this EasyEdit has no {', '.join(unknown)}; left out")
        values = {key: value for key, value in values.items() if key in known}
    if "stats_dir" in values:
        values["stats_dir"] = str(Path(job.workdir) / values["stats_dir"])
    if job.device is not None:
        values["device"] = int(job.device) if job.device.isdigit() else job.device
    convert = importlib.import_module(
        "easyeditor.util.hparams"
    ).HyperParams.construct_float_from_scientific_notation
    return cls(**convert(values))


def text_that_stays(number: int) -> str:
    """What WISE wants with each edit: a text that is to stay as it is; neither the locality prompts that are
    asked nor anything else of the data.
    """
    sentences = _sentences()
    return sentences[number % len(sentences)]


_sentences = cache(lambda: read_sentences(SENTENCES))


class Stopwatch:
    """Seconds of the calls of a function, CUDA synchronised before and after.

    Args:
        function: what is timed.
        after: called with each result, outside the time.

    Attributes:
        seconds: one figure per call.
    """

    def __init__(self, function: Callable, after: Callable = lambda result: None):
        self.function, self.after = function, after
        self.seconds: list[float] = []

    def __call__(self, *args, **kwargs):
        """Call the function; its result."""
        result, seconds = timed_call(self.function, *args, **kwargs)
        self.seconds.append(seconds)
        self.after(result)
        return result
