"""What a run measures: as JSON lines, for TensorBoard, and as one picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from torch.utils.tensorboard import SummaryWriter

from larimar_editor.evaluation.harness.plots import Panel, panels_plot
from larimar_editor.utils.json_files import log_from

_LOSSES = ("memory", "autoencoder", "language_model")
_ACCURACIES = ("texts_accuracy", "facts_accuracy", "rewrite_accuracy", "rephrase_accuracy")


class Metrics:
    """``metrics.jsonl`` and TensorBoard. Lines after the step that a run goes on from are dropped.

    Args:
        out: the run's folder.
        first: step that the run goes on from.
    """

    def __init__(self, out: Path, first: int):
        out.mkdir(parents=True, exist_ok=True)
        self.file = log_from(out / "metrics.jsonl", first)
        self.board = SummaryWriter(str(out / "tensorboard"), purge_step=first + 1)

    def write(self, step: int, kind: str, values: Mapping[str, float]) -> None:
        """Add one line: ``kind`` is "train" or "evaluation"."""
        rounded = {name: round(value, 6) for name, value in values.items()}
        self.file.write(json.dumps({"step": step, "kind": kind} | rounded) + "\n")
        for name, value in values.items():
            self.board.add_scalar(f"{kind}/{name}", value, step)

    def flush(self) -> None:
        """Hand what is buffered of both files to the operating system."""
        self.file.flush()
        self.board.flush()


def read_metrics(out: Path, kind: str) -> pd.DataFrame:
    """``metrics.jsonl`` of a run: its lines of ``kind`` "train" or "evaluation", one row a step."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return pd.DataFrame([row for row in rows if row["kind"] == kind])


def plot_training(out: Path) -> Path:
    """Write ``training.png``: losses on the left, held-out accuracy and edit success on the right."""
    steps, evaluations = read_metrics(out, "train"), read_metrics(out, "evaluation")
    losses = {
        name.replace("_", " "): list(zip(steps["step"], steps[name].rolling(9, min_periods=1).mean()))
        for name in _LOSSES
        if name in steps
    }
    accuracies = {
        name.replace("_", " "): list(zip(evaluations["step"], evaluations[name]))
        for name in _ACCURACIES
        if name in evaluations
    }
    panels = [
        Panel(losses, "step", "nats per token", title="Loss (mean of 9 steps)"),
        Panel(accuracies, "step", "share of tokens", title="Held-out texts and facts, own edits"),
    ]
    panels_plot(panels, out / "training.png")
    return out / "training.png"
