"""The curves of a training run as one picture."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd


def read_metrics(out: Path, kind: str) -> pd.DataFrame:
    """``metrics.jsonl`` of a run: its lines of ``kind`` "train" or "evaluation", one row a step."""
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return pd.DataFrame([row for row in rows if row["kind"] == kind])


def plot_training(out: Path) -> Path:
    """Write ``training.png``: losses on the left, held-out accuracy and edit success on the right."""
    steps, evaluations = read_metrics(out, "train"), read_metrics(out, "evaluation")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name in ("memory", "autoencoder", "language_model"):
        if name in steps:
            left.plot(steps["step"], steps[name].rolling(9, min_periods=1).mean(), label=name.replace("_", " "))
    left.set(xlabel="step", ylabel="nats per token", title="Loss (mean of 9 steps)")
    left.legend()
    for name in ("texts_accuracy", "facts_accuracy", "rewrite_accuracy", "rephrase_accuracy"):
        if name in evaluations:
            values = evaluations[name].map(lambda value: value[0] if isinstance(value, list) else value)
            right.plot(evaluations["step"], values, marker="o", label=name.replace("_", " "))
    right.set(xlabel="step", ylim=(0, 1), title="Held-out texts and facts, own edits")
    right.legend()
    figure.tight_layout()
    figure.savefig(out / "training.png", dpi=120)
    plt.close(figure)
    return out / "training.png"
