"""What a run measures, as JSON lines and for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


class Metrics:
    """``metrics.jsonl`` and TensorBoard. Lines after the step that a run goes on from are dropped.

    Args:
        out: the run's folder.
        first: step that the run goes on from.
    """

    def __init__(self, out: Path, first: int):
        from torch.utils.tensorboard import SummaryWriter

        out.mkdir(parents=True, exist_ok=True)
        path = out / "metrics.jsonl"
        kept = [line for line in path.read_text().splitlines() if _step_of(line) <= first] if path.exists() else []
        path.write_text("".join(f"{line}\n" for line in kept))
        self.file = path.open("a")
        self.board = SummaryWriter(str(out / "tensorboard"), purge_step=first + 1)

    def write(self, step: int, kind: str, values: Mapping[str, float | list[float]]) -> None:
        """Add one line: ``kind`` is "train" or "evaluation"."""
        rounded = {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}
        self.file.write(json.dumps({"step": step, "kind": kind} | rounded) + "\n")
        for name, value in values.items():
            several = {f"{name}_{place}": each for place, each in enumerate(value)} if isinstance(value, list) else {name: value}
            for label, each in several.items():
                self.board.add_scalar(f"{kind}/{label}", each, step)

    def flush(self) -> None:
        """Put everything on disk."""
        self.file.flush()
        self.board.flush()


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except json.JSONDecodeError:
        return float("inf")  # the torn last line of a run that was killed
