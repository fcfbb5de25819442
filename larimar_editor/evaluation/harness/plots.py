"""Results as pictures: every figure of the project is drawn here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import matplotlib
from sklearn.metrics import RocCurveDisplay

matplotlib.use("Agg")
from matplotlib import pyplot

Point = tuple[float, float | Mapping]


@dataclass(frozen=True)
class Panel:
    """Curves over one axis.

    Attributes:
        curves: by their name in the legend; points (x, y), or (x, estimate as a mapping), whose interval is
            drawn as a band.
        x, y: labels.
        log: which axes are logarithmic.
        title: over the panel.
    """

    curves: Mapping[str, Sequence[Point]]
    x: str
    y: str
    log: Literal["", "x", "xy"] = ""
    title: str = ""

    def draw(self, axes) -> None:
        """Put curves, bands, scales, labels and legend on matplotlib's ``axes``."""
        for name, points in self.curves.items():
            if not points:
                continue
            places = [place for place, _ in points]
            values = [point["value"] if isinstance(point, Mapping) else point for _, point in points]
            (line,) = axes.plot(
                places, values, marker="o" if len(points) <= 40 else None, markersize=4, label=name
            )
            if isinstance(points[0][1], Mapping):
                low, high = ([point[end] for _, point in points] for end in ("low", "high"))  # type: ignore[index]
                axes.fill_between(places, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        if self.log:
            axes.set_xscale("log", base=2 if self.log == "x" else 10)
        if self.log == "xy":
            axes.set_yscale("log")
        axes.set(xlabel=self.x, ylabel=self.y, title=self.title)
        axes.legend(fontsize="small")


def panels_plot(panels: Sequence[Panel], path: Path) -> None:
    """Panels side by side, as a PNG."""
    width = 6.5 if len(panels) == 1 else 4.2 * len(panels)
    with _figure(path, width, 4, len(panels)) as places:
        for panel, axes in zip(panels, places):
            panel.draw(axes)


def roc_plot(panels: Mapping[str, Mapping[str, tuple]], path: Path) -> None:
    """ROC curves side by side, as a PNG.

    Args:
        panels: title to curves; a curve's name to scores and labels, arrays ``(n,)``.
        path: PNG to write.
    """
    with _figure(path, 3.8 * len(panels), 4, len(panels)) as places:
        for (title, curves), axes in zip(panels.items(), places):
            for name, (scores, labels) in curves.items():
                RocCurveDisplay.from_predictions(labels, scores, name=name, ax=axes)
            axes.set(xlabel="what asks something else, accepted", ylabel="rewordings and aliases accepted")
            axes.set_title(title, fontsize="medium")
            axes.legend(fontsize="small", loc="lower right", framealpha=0.6)


def bar_plot(bars: Mapping[str, float], path: Path, x: str, label: str) -> None:
    """Horizontal bars on a logarithmic axis.

    Args:
        bars: name to value, above 0; at least one.
        path: PNG to write.
        x: label of the axis.
        label: format of a bar's own label, with {} for the value.
    """
    with _figure(path, 6, 0.6 * len(bars) + 1.2) as (axes,):
        drawn = axes.barh(list(bars), list(bars.values()), color="#4477aa")
        axes.bar_label(drawn, labels=[f" {label.format(value)}" for value in bars.values()])
        axes.set(xscale="log", xlabel=x)
        axes.invert_yaxis()
        axes.margins(x=0.25)


@contextmanager
def _figure(path: Path, width: float, height: float, panels: int = 1) -> Iterator[Sequence]:
    """Axes side by side, to be drawn in; then a PNG of them. Sizes in inches."""
    figure, axes = pyplot.subplots(1, panels, figsize=(width, height), layout="constrained", squeeze=False)
    yield axes[0]
    for each in axes[0]:
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
