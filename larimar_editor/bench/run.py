"""All parts of the benchmark, their figures as JSON, a table of what is aimed at, and a plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import PreTrainedModel

from larimar_editor.bench import edits, files, growth, lookups, reads, training
from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.evaluation.harness.report import write_table
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_decoder, load_larimar
from larimar_editor.training.opening import open_run
from larimar_editor.training.settings import TrainingSettings
from larimar_editor.utils.device import environment


@dataclass(frozen=True)
class Sizes:
    """How far a run goes.

    Attributes:
        edits: single and sequential edits.
        reads: facts that are in memory, and asked, where reads are timed.
        blocks: sizes of blocks that are written at once.
        rows: K, for the growth with it.
        facts: facts written already, for the growth with them.
        prompts: written prompts, for the look-up.
    """

    edits: int
    reads: int
    blocks: tuple[int, ...]
    rows: tuple[int, ...]
    facts: tuple[int, ...]
    prompts: tuple[int, ...]


MANY = 100_000  # facts that aims are set for
USUAL = Sizes(60, 200, (1, 10, 100, 1000), (128, 512, 2048), (10, 1000, 100_000), (1000, 10_000, 100_000))
FULL = Sizes(
    200,
    200,
    (1, 10, 100, 1000, 10_000),
    (128, 512, 2048, 8192),
    (10, 1000, 100_000, 1_000_000),
    (1000, 10_000, 100_000, 1_000_000),
)


@dataclass(frozen=True)
class Target:
    """A bound on a figure.

    Attributes:
        name: what it is of.
        path: where it stands in the report: keys and places of lists.
        bound: the most it may be, or the least where ``at_least``.
    """

    name: str
    path: tuple[str | int, ...]
    bound: float
    at_least: bool = False

    def of(self, report: Mapping) -> dict | None:
        """Name, value, bound and whether it is met; None where the run has no such figure."""
        value: Any = report
        for part in self.path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return None
        met = value >= self.bound if self.at_least else value <= self.bound
        return {
            "name": self.name,
            "value": value,
            "bound": self.bound,
            "at_least": self.at_least,
            "met": bool(met),
        }


_TARGETS = (
    Target("one edit against the encoder passes in it", ("edits", "single_against_encoder"), 1.12),
    Target(
        "one token with a memory in use against the bare decoder",
        ("generation", "in_scope_against_decoder"),
        1.1,
    ),
    Target(
        "a reworded read among the most facts, all stages of the detector against the first",
        ("reads", "among_many", "rephrase_prompt.against_first_stage"),
        1.3,
    ),
    Target("an update at the largest K against the smallest", ("rows", -1, "against_the_first"), 1.2),
    Target(
        "an edit after the most facts against one after the fewest", ("facts", -1, "against_the_first"), 1.2
    ),
    Target("an edit on the disk against one in memory", ("files", "durable_against_in_memory"), 1.3),
)
# Of the file of at most `MANY` facts: what, its key there, and the most it may be.
_OF_A_FILE = (
    ("a file of many facts, open and a prompt read, seconds", "open_and_first_read", 5),
    ("a read from it against one from a file of few", "read_against_the_first", 1.3),
    ("the same, reworded", "reworded_against_the_first", 1.3),
    ("an edit of it against one of a file of few", "edit_against_the_first", 1.2),
    ("bytes of a fact in it", "file_bytes_per_fact", 8192),
    ("bytes of a fact in memory beyond the index", "memory_bytes_per_fact_beyond_the_index", 1024),
)
_LOOKUP_SECONDS = {100_000: 0.005, 1_000_000: 0.05}  # by written prompts


def _targets(sizes: Sizes) -> list[Target]:
    many = max((place for place, count in enumerate(sizes.facts) if count <= MANY), default=0)
    result = [*_TARGETS]
    result += [Target(name, ("files", "grown", many, key), bound) for name, key, bound in _OF_A_FILE]
    if 1000 in sizes.blocks:
        path = ("blocks", sizes.blocks.index(1000), "times_faster")
        result.append(Target("times faster per edit in a block of 1,000", path, 20, at_least=True))
    for count in (each for each in sizes.prompts if each in _LOOKUP_SECONDS):
        at = ("lookups", sizes.prompts.index(count))
        seconds = _LOOKUP_SECONDS[count]
        result += [
            Target(f"look-up by index among {count:,}, seconds", (*at, "faiss", "median"), seconds),
            Target(f"its recall of the nearest among {count:,}", (*at, "recall"), 0.99, at_least=True),
        ]
    return result


@dataclass(frozen=True)
class Subject:
    """What is timed.

    Attributes:
        checkpoint: folder or name; None takes the one that ships.
        dtype: of the decoder.
        device: cpu, cuda or cuda:N.
        training: YAML file of a training run, for the part ``training``.
        out: folder of that run, in which nothing is saved.
    """

    checkpoint: str | Path | None = None
    dtype: str = "float32"
    device: str = "cpu"
    training: Path | None = None
    out: Path = Path("results/bench")

    @cached_property
    def model(self) -> LarimarForCausalLM:
        """The Larimar that is timed, loaded when it is first asked for."""
        return load_larimar(self.checkpoint, self.dtype, {}, self.device)[0]

    @cached_property
    def bare(self) -> PreTrainedModel:
        """Its decoder, loaded anew."""
        return load_decoder(str(self.model.decoder.name_or_path), self.dtype, self.device)[0]

    def training_speed(self) -> dict:
        """See `larimar_editor.bench.training`."""
        assert self.training is not None, "checked by the command"
        run = open_run(
            TrainingSettings.from_yaml(self.training),
            self.out,
            "cpu" if self.device == "cpu" else "auto",
            self.dtype,
        )
        return training.measure(run)


def run(subject: Subject, parts: Sequence[str], sizes: Sizes, log: Callable[[str], None] = print) -> dict:
    """The report: one entry per part, ``environment`` and ``targets``.

    Args:
        subject: what is timed; its model is as before afterwards.
        parts: of `larimar_editor.bench.PARTS`.
        sizes: how far to go.
        log: gets a line before each part.
    """
    report: dict = {}
    for part in parts:
        log(f"{part} ...")
        report[part] = _MEASURES[part](subject, sizes)
    report = {"environment": _environment(subject)} | report
    return report | {"targets": [row for target in _targets(sizes) if (row := target.of(report)) is not None]}


def _facts(sizes: Sizes) -> list[dict]:
    return edits.requests(max(sizes.edits, sizes.reads, *sizes.blocks))


def _growth(measure: Callable, subject: Subject, *sizes) -> list[dict]:
    model = subject.model
    return measure(*sizes, model.config.latent_size, model.detectors.external.embedding_size)


def _lookups(subject: Subject, sizes: Sizes) -> list[dict]:
    seeds = subject.model.detectors.embed([fact["prompt"] for fact in _facts(sizes)[:1000]]).cpu()
    return lookups.lookups(sizes.prompts, seeds)


_MEASURES: dict[str, Callable[[Subject, Sizes], Any]] = {
    "edits": lambda subject, sizes: edits.one_by_one(subject.model, _facts(sizes)[: sizes.edits]),
    "blocks": lambda subject, sizes: edits.in_blocks(subject.model, _facts(sizes), sizes.blocks),
    "reads": lambda subject, sizes: (
        reads.reads(subject.model, _facts(sizes)[: sizes.reads])
        | {"among_many": reads.among_many(subject.model, _facts(sizes)[:60], min(MANY, max(sizes.facts)))}
    ),
    "generation": lambda subject, sizes: reads.generation(subject.model, subject.bare, _facts(sizes)[:2]),
    "rows": lambda subject, sizes: _growth(growth.with_rows, subject, sizes.rows),
    "facts": lambda subject, sizes: _growth(
        growth.with_facts, subject, sizes.facts, subject.model.config.memory_rows
    ),
    "lookups": _lookups,
    "files": lambda subject, sizes: {
        **files.durable(subject.model, _facts(sizes)[: sizes.edits]),
        "grown": files.grown(subject.model, _facts(sizes)[:60], sizes.facts),
    },
    "training": lambda subject, sizes: subject.training_speed(),
}


def _environment(subject: Subject) -> dict:
    model = vars(subject).get("model")  # not loaded where only training is timed
    of_model = {}
    if model is not None:
        config = model.config
        of_model = {"decoder": config.base_model_name_or_path, "memory_rows": config.memory_rows}
        of_model["dtype"] = str(model.dtype).removeprefix("torch.")
    given = {"checkpoint": str(subject.checkpoint or "shipped"), "dtype": subject.dtype}
    return given | of_model | environment(subject.device)


def write(report: Mapping, out: Path) -> str:
    """Write ``bench.json``, ``table.md`` with ``.tex`` and ``.csv``, and ``figure.png``; returns the
    Markdown.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if panels := panels_of(report):
        panels_plot(panels, out / "figure.png")
    return write_table(table(report), out)


def table(report: Mapping) -> pd.DataFrame:
    """What is aimed at, and what was measured."""
    rows = [
        (
            row["name"],
            f"{row['value']:.3g}",
            f"at {'least' if row['at_least'] else 'most'} {row['bound']:g}",
            "yes" if row["met"] else "no",
        )
        for row in report["targets"]
    ]
    return pd.DataFrame(rows, columns=["", "measured", "aim", "met"])


def panels_of(report: Mapping) -> list[Panel]:
    """Blocks, growth with K, growth with facts, and look-ups; only what was measured."""
    curves: dict[str, dict[str, list]] = {}
    if "blocks" in report:
        curves["edits in a block"] = {
            "seconds per edit": [(row["size"], row["seconds"]) for row in report["blocks"]]
        }
    for part, axis in (("rows", "memory rows K"), ("facts", "facts written already")):
        if part in report:
            curves[axis] = {"seconds of an update": [(row[part], row["median"]) for row in report[part]]}
    if "rows" in report:
        fixed = [(row["rows"], row["fixed"]["median"]) for row in report["rows"]]
        curves["memory rows K"]["with a fixed memory"] = fixed
    if "lookups" in report:
        curves["written prompts"] = {
            kind: [(row["prompts"], row[kind]["median"]) for row in report["lookups"] if kind in row]
            for kind in ("exact", "faiss")
        }
    return [Panel(lines, axis, "seconds", log="xy") for axis, lines in curves.items()]
