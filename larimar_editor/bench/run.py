"""All parts of the benchmark, their figures as JSON, a table of what is aimed at, and a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from larimar_editor.bench import edits, growth, lookups, reads
from larimar_editor.machine import environment
from larimar_editor.modeling import LarimarForCausalLM

PARTS = ("edits", "blocks", "reads", "generation", "rows", "facts", "lookups")


@dataclass(frozen=True)
class Sizes:
    """How far a run goes.

    Attributes:
        edits: single and sequential edits.
        blocks: sizes of blocks that are written at once.
        rows: K, for the growth with it.
        facts: facts written already, for the growth with them.
        prompts: written prompts, for the look-up.
    """

    edits: int
    blocks: tuple[int, ...]
    rows: tuple[int, ...]
    facts: tuple[int, ...]
    prompts: tuple[int, ...]


USUAL = Sizes(60, (1, 10, 100, 1000), (128, 512, 2048), (10, 1000, 100_000), (1000, 10_000, 100_000))
FULL = Sizes(200, (1, 10, 100, 1000, 10_000), (128, 512, 2048, 8192), (10, 1000, 100_000), (1000, 10_000, 100_000, 1_000_000))


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
        return {"name": self.name, "value": value, "bound": self.bound, "at_least": self.at_least, "met": bool(met)}


def _targets(sizes: Sizes) -> list[Target]:
    at = {count: place for place, count in enumerate(sizes.prompts)}
    found = [
        Target("one edit against the encoder passes in it", ("edits", "single_against_encoder"), 1.5),
        Target("one token with a memory in use against the bare decoder", ("generation", "in_scope_against_decoder"), 1.1),
        Target("an edit after the most facts against one after the fewest", ("facts", -1, "against_the_first"), 1.2),
    ]
    if 1000 in sizes.blocks:
        place = sizes.blocks.index(1000)
        found.append(Target("times faster per edit in a block of 1,000", ("blocks", place, "times_faster"), 20, at_least=True))
    for count, seconds in ((100_000, 0.005), (1_000_000, 0.05)):
        if count in at:
            found.append(Target(f"look-up by index among {count:,}, seconds", ("lookups", at[count], "faiss", "median"), seconds))
            found.append(Target(f"its recall of the nearest among {count:,}", ("lookups", at[count], "recall"), 0.99, True))
    return found


def run(model: LarimarForCausalLM, bare: PreTrainedModel, parts: Sequence[str], sizes: Sizes, say=print) -> dict:
    """The report: one entry per part, ``environment`` and ``targets``.

    Args:
        model: as before afterwards.
        bare: its decoder, loaded anew.
        parts: of `PARTS`.
        sizes: how far to go.
        say: gets a line before each part.
    """
    config = model.config
    detector = model.episodic._sentence_encoder
    facts = edits.requests(max(sizes.edits, *sizes.blocks, 200))
    key_size = detector.embedding_size
    measures = {
        "edits": lambda: edits.one_by_one(model, facts[: sizes.edits]),
        "blocks": lambda: edits.in_blocks(model, facts, sizes.blocks),
        "reads": lambda: reads.reads(model, facts[:200]),
        "generation": lambda: reads.generation(model, bare, facts[0]),
        "rows": lambda: growth.with_rows(sizes.rows, config.latent_size, key_size),
        "facts": lambda: growth.with_facts(sizes.facts, config.memory_rows, config.latent_size, key_size),
        "lookups": lambda: lookups.lookups(sizes.prompts, detector.embed([fact["prompt"] for fact in facts[:1000]]).cpu()),
    }
    report: dict = {"environment": _environment(model)}
    for part in parts:
        say(f"{part} ...")
        report[part] = measures[part]()
    return report | {"targets": [row for target in _targets(sizes) if (row := target.of(report)) is not None]}


def _environment(model: LarimarForCausalLM) -> dict:
    config = model.config
    of_the_model = {"decoder": config.base_model_name_or_path, "dtype": str(model.dtype), "memory_rows": config.memory_rows}
    return of_the_model | environment(str(model.device))


def write(report: Mapping, out: Path) -> str:
    """Write ``bench.json``, ``bench.md`` and ``bench.png``; returns the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "bench.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    text = table(report)
    (out / "bench.md").write_text(text, encoding="utf-8")
    plot(report, out / "bench.png")
    return text


def table(report: Mapping) -> str:
    """What is aimed at, and what was measured, in Markdown."""
    lines = ["| | measured | aim | met |", "|---|---|---|---|"]
    for row in report["targets"]:
        aim = f"at {'least' if row['at_least'] else 'most'} {row['bound']:g}"
        lines.append(f"| {row['name']} | {row['value']:.3g} | {aim} | {'yes' if row['met'] else 'no'} |")
    return "\n".join(lines) + "\n"


def plot(report: Mapping, path: Path) -> None:
    """Blocks, growth with K, growth with facts, and look-ups, each on logarithmic axes; only what was measured."""
    from larimar_editor.evaluation.report import curves_plot

    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    if "blocks" in report:
        panels["edits in a block"] = {"seconds per edit": [(row["size"], row["seconds"]) for row in report["blocks"]]}
    for part, axis in (("rows", "memory rows K"), ("facts", "facts written already")):
        if part in report:
            panels[axis] = {"seconds of an update": [(row[part], row["median"]) for row in report[part]]}
    if "lookups" in report:
        panels["written prompts"] = {
            kind: [(row["prompts"], row[kind]["median"]) for row in report["lookups"] if kind in row]
            for kind in ("exact", "faiss")
        }
    if panels:
        curves_plot(panels, path, "seconds")
