"""The tables of a plan, measured as they are planned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from larimar_editor.evaluation import tables
from larimar_editor.evaluation.harness.baselines import Baselines, NoBaselines
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import lost_methods, made_otherwise, start_again
from larimar_editor.evaluation.published.plan import Plan, Planned


@dataclass(frozen=True)
class Making:
    """Tables that are to be made.

    Attributes:
        folder: of all; each table has one of its name in it.
        runs: what each table is run on, by its name.
    """

    folder: Path
    runs: Mapping[str, Context]

    @classmethod
    def of(
        cls,
        plan: Plan,
        context: Context,
        beside: Callable[[Planned, str | None], Baselines],
        only: Collection[str] | None = None,
    ) -> Making:
        """The tables of a plan, in its order.

        Args:
            plan: says how many cases each is of, and in what dtype.
            context: has the rest; its ``methods_device`` comes before a table's own.
            beside: runs the other methods of a table that has some, on the device that it is given; None:
                none is named.
            only: names of those to make; None: all.
        """
        chosen = [each for each in plan.tables if only is None or each.name in only]
        where = {
            each.name: (context.methods_device or each.methods_device) if each.baselines else None
            for each in chosen
        }
        runs = {
            each.name: replace(
                context,
                dtype=each.dtype or plan.dtype,
                limit=each.limit,
                baseline_cases=each.baselines,
                minutes=each.minutes,
                baselines=beside(each, where[each.name]) if each.baselines else NoBaselines(),
                methods_device=where[each.name],
            )
            for each in chosen
        }
        return cls(context.out, runs)

    def made_otherwise(self) -> list[str]:
        """Names of those that are there, of another checkpoint, other data or another environment."""
        return [
            name
            for name, run in self.runs.items()
            if made_otherwise(self.folder / name, run, tables.find(name).reads)
        ]

    def run(self, say: Callable[[str], None], again: bool = False) -> None:
        """Measure what is not there yet.

        Args:
            say: gets a line for each table that is made anew.
            again: remove those that were `made_otherwise` first, and do without rows of methods that are not
                made again.

        Raises:
            ValueError: a table would lose rows of methods, and it is not ``again``; nothing is changed.
        """
        lost = (
            {} if again else {name: lost_methods(self.folder / name, run) for name, run in self.runs.items()}
        )
        if told := "; ".join(f"{name}: {', '.join(methods)}" for name, methods in lost.items() if methods):
            raise ValueError(
                f"{self.folder} has rows of methods that this run would remove and not make again ({told}): "
                "give it the EasyEdit and the device that they were made with, name them in --methods to "
                "make them again, or do without them by --replace"
            )
        for name, run in self.runs.items():
            table, folder = tables.find(name), self.folder / name
            if again and start_again(folder, run, table.reads):
                say(f"{name}: what was there was made otherwise, and is made again")
            table.run(run, folder)
