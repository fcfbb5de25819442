"""A search over the settings of a method of EasyEdit that matter, so that no baseline is judged by values for
another model.

One setting after another, the best value kept: methods take seconds to half a minute an edit. What is tuned
on is the caller's; it should not be what is measured with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from larimar_editor.data.edits import Edit
from larimar_editor.easyedit.baselines.jobs import Job, run
from larimar_editor.utils.files import load_mapping
from larimar_editor.utils.settings import number

Values = Mapping[str, Any]
SEARCHED = "Searched by"
_EARLIER = re.compile(rf"^# {SEARCHED} .*\n(?:#   .*\n)*", re.MULTILINE)
SCORES = ("rewrite_acc", "rephrase_acc", "locality_acc")
# The two or three settings of each method that its authors tune for a model; values are tried in this order.
GRIDS: Mapping[str, Mapping[str, list[Any]]] = {
    "ROME": {"layers": [[3], [5], [8], [12]], "v_lr": [0.1, 0.5], "v_num_grad_steps": [25, 50]},
    "MEMIT": {"mom2_update_weight": [100, 1000, 15000], "v_lr": [0.1, 0.5], "v_num_grad_steps": [25, 50]},
    "GRACE": {"edit_lr": [1.0, 5.0, 20.0], "eps": [1.0, 5.0, 20.0], "n_iter": [50, 150]},
    "FT": {
        "lr": [1e-4, 5e-4, 2e-3],
        "num_steps": [10, 25, 50],
        "objective_optimization": ["target_new", "prompt_last"],
    },
    "AlphaEdit": {"nullspace_threshold": [2e-3, 2e-2, 2e-1], "L2": [1, 10], "v_lr": [0.1, 0.5]},
    "WISE": {"edit_lr": [0.1, 1.0, 5.0], "n_iter": [30, 70], "act_ratio": [0.5, 0.88]},
    "ULTRAEDIT": {"lr": [1e-5, 1e-4, 1e-3, 1e-2]},
    "LoRA": {"lr": [1e-3, 5e-3], "num_steps": [20, 70], "rank": [8, 32]},
}


@dataclass(frozen=True)
class Tried:
    """What some values gave.

    Attributes:
        values: of the settings that are searched.
        rewrite_acc, rephrase_acc, locality_acc: EasyEdit's own, means over the edits in [0, 1]; NaN where
            the method failed.
        seconds: of an edit, median.
    """

    values: Values
    rewrite_acc: float = float("nan")
    rephrase_acc: float = float("nan")
    locality_acc: float = float("nan")
    seconds: float = float("nan")

    @property
    def score(self) -> float:
        """Mean of those of the three accuracies that the edits have; below every other where the method
        failed.
        """
        known = [value for name in SCORES if not np.isnan(value := getattr(self, name))]
        return float(np.mean(known)) if known else -1.0


def search(
    trial: Callable[[Values], Tried], start: Values, grid: Mapping[str, Sequence[Any]]
) -> Iterator[Tried]:
    """Try values, one setting after another, and go on from the best so far; each combination once.

    Args:
        trial: scores values, of all settings in ``grid``.
        start: their values at first, which are tried first.
        grid: values of each setting, in order. Of equal scores the one tried first is the better.
    """
    best = trial(start)
    yield best
    tried = {_name(start)}
    for setting, choices in grid.items():
        for choice in choices:
            values = {**start, setting: choice}
            if _name(values) in tried:
                continue
            tried.add(_name(values))
            found = trial(values)
            yield found
            best = max(best, found, key=lambda each: each.score)
        start = best.values


def trial_of(
    method: str, file: Path, edits: Sequence[Edit], out: Path, device: str | None, say: Callable[[str], None]
) -> Callable[[Values], Tried]:
    """What scores values by single edits in EasyEdit, in a process of its own; finished ones are not run
    again.

    Args:
        method: as EasyEdit names it.
        file: its YAML file, whose other values stay.
        edits: to edit with, one at a time.
        out: folder for records and logs, one below it for each combination.
        device: as of `Job`.
        say: gets the line of a combination that failed.
    """
    cases: list[Mapping] = [asdict(edit) for edit in edits]

    def trial(values: Values) -> Tried:
        module = "larimar_editor.easyedit.baselines.single"
        job = Job.in_folder(out, module, method, file, cases, device, values)
        Path(job.out).mkdir(parents=True, exist_ok=True)
        (Path(job.out) / "values.json").write_text(json.dumps(values, indent=1), encoding="utf-8")
        if not run(job, say):
            return Tried(values)
        records = job.results()
        found = {name: [r["post"][name] for r in records if name in r["post"]] for name in SCORES}
        means = {name: float(np.mean(values)) for name, values in found.items() if values}
        return Tried(values, **means, seconds=float(np.median([each["seconds"] for each in records])))

    return trial


def grid_of(method: str, given: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The settings of a method that are searched, with their values: those that are given, or else `GRIDS`'.

    Raises:
        ValueError: one without a list of values, or none of a method that `GRIDS` has nothing of.
    """
    if method == "IKE":
        raise ValueError("IKE edits nothing: it has no settings that single edits could be scored by")
    if alone := [name for name, values in given.items() if not isinstance(values, list) or not values]:
        raise ValueError(f"--try {alone[0]} needs a list of values, such as {alone[0]}=[0.1, 0.5]")
    wanted = {name: [number(value) for value in values] for name, values in given.items()}
    if not wanted and method not in GRIDS:
        raise ValueError(f"what to search of {method} is not known: name it with --try")
    return wanted or dict(GRIDS[method])


def search_and_write(
    method: str,
    file: Path,
    edits: Sequence[Edit],
    grid: Mapping[str, Sequence[Any]],
    out: Path,
    device: str | None,
    about: str,
    say: Callable[[str], None],
) -> Path:
    """Search a method's settings, with ``tried.csv`` and ``tried.md`` written anew after each combination.

    Args:
        method, edits, device: see `trial_of`.
        file: its YAML file, which the search begins with.
        grid: see `search`.
        out: folder of all that is written.
        about: how and on what was searched, for the comment of the file.
        say: gets a line for each combination.

    Returns:
        the file with the best values, of the same name, in ``out``.

    Raises:
        ValueError: a setting that the file lacks, or a method that failed with all values.
    """
    tried: list[Tried] = []
    trial = trial_of(method, file, edits, out, device, say)
    for found in search(trial, values_in(file, list(grid)), grid):
        tried.append(found)
        say(f"{found.score:.3f}  {dict(found.values)}")
        frame = table(tried)
        frame.to_csv(out / "tried.csv", index=False)
        text = frame.to_markdown(index=False, floatfmt=".4g")
        (out / "tried.md").write_text(f"{text}\n", encoding="utf-8")
    if max(each.score for each in tried) < 0:
        raise ValueError(f"{method} failed with all values; the logs are in {out}")
    best = out / file.name
    best.write_text(with_values(file.read_text(encoding="utf-8"), tried, about), encoding="utf-8")
    return best


def table(tried: Sequence[Tried]) -> pd.DataFrame:
    """One row per combination, best first."""
    ordered = sorted(tried, key=lambda each: -each.score)
    columns = (*SCORES, "score", "seconds")
    return pd.DataFrame(
        [{**each.values} | {name: getattr(each, name) for name in columns} for each in ordered]
    )


def values_in(file: Path, settings: Sequence[str]) -> Values:
    """The values that a YAML file has of some settings.

    Raises:
        ValueError: it lacks one.
    """
    values = load_mapping(file)
    if missing := [name for name in settings if name not in values]:
        raise ValueError(f"{file} has no {', '.join(missing)}: nothing to search there")
    return {name: number(values[name]) for name in settings}


def with_values(text: str, tried: Sequence[Tried], about: str) -> str:
    """A YAML file's text with the best values in place of its own, and all that was tried as a comment in
    front, in place of an earlier search's.
    """
    text = _EARLIER.sub("", text)
    best = max(tried, key=lambda each: each.score)
    for name, value in best.values.items():
        line = f"{name}: {json.dumps(value)}".replace("\\", r"\\")
        # With the lines of a list below it.
        text = re.sub(rf"^{re.escape(name)}:.*(?:\n[ \t-].*)*$", line, text, flags=re.MULTILINE)
    rows = [
        f"#   {_name(each.values)}: "
        + ("failed" if each.score < 0 else " / ".join(f"{getattr(each, name):.2f}" for name in SCORES))
        for each in sorted(tried, key=lambda each: -each.score)
    ]
    return "\n".join([f"# {SEARCHED} {about}", *rows, text])


def _name(values: Values) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in values.items())
