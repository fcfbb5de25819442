"""The methods that Larimar is measured beside. Who runs them is handed in with the context: nothing here
knows how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.lifetimes import Lifetime
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.trials import Trial, records_of, stage_of

if TYPE_CHECKING:
    from larimar_editor.evaluation.harness.context import Context


LARIMAR = "LARIMAR"  # among the methods of the framework
# Of the others those that hold several edits, in the order of tables; IKE tells the model one fact.
KEEPING = ("ROME", "MEMIT", "AlphaEdit", "GRACE", "WISE", "ULTRAEDIT", "FT", "LoRA")
METHODS = (*KEEPING, "IKE")
EDITORS = (LARIMAR, *KEEPING)


def is_of_a_method(settings: Mapping) -> bool:
    """Whether these are a condition's settings, or a row's, that one of the framework's methods made."""
    return settings.get("method") in (LARIMAR, *METHODS)


class Baselines(Protocol):
    """Runs other methods on the same model and edits."""

    def methods(self, context: Context, wanted: Sequence[str] | None = None) -> list[str]:
        """Those of ``wanted``, or of all, that can be run here."""
        ...

    def made_with(self, context: Context, method: str) -> str:
        """What a method's records depend on, in short: its settings, its framework, its device."""
        ...

    def keeps(self, context: Context, method: str, known: str | None) -> bool:
        """Whether rows of a method that there are stay, or are made again. ``known`` is what their records
        were `made_with`; None: that is not known.
        """
        ...

    def single_edits(self, context: Context, method: str, edits: Sequence[Edit]) -> list[dict]:
        """Each edit made alone, scored and undone: ``pre``, ``post``, ``seconds`` (None where they do not
        count), ``peak_memory_mb``, ``environment`` and ``single``, a record as of
        `larimar_editor.evaluation.harness.single_edits`.

        Raises:
            LeftOut: the method failed, or it is not to be run and has not been.
        """
        ...

    def trials(self, context: Context, method: str, trials: Sequence[Trial]) -> list[list[dict]]:
        """Stages' results of each trial: ``seconds`` of each block, ``scores`` (``accuracy`` and ``same``),
        ``answers`` and ``environment``.

        Raises:
            LeftOut: the method failed, or it is not to be run and has not been.
        """
        ...

    def lifetime(self, context: Context, method: str, lifetime: Lifetime) -> dict:
        """Edits for as long as the time goes: ``reached``, a list of ``facts``, ``seconds`` (None where they
        do not count), ``perplexity``, ``places`` and ``records``; ``ended``; and ``environment``. See
        `larimar_editor.evaluation.harness.lifetimes`.

        Raises:
            LeftOut: the method failed, or it is not to be run and has not been.
        """
        ...


class NoBaselines:
    """Stands where no other method is to be run: tables then have Larimar's rows only."""

    def methods(self, context: Context, wanted: Sequence[str] | None = None) -> list[str]:
        """An empty list, whatever is wanted."""
        return []

    def made_with(self, context: Context, method: str) -> str:
        """Nothing."""
        return ""

    def keeps(self, context: Context, method: str, known: str | None) -> bool:
        """No row of any method does."""
        return False

    def single_edits(self, context: Context, method: str, edits: Sequence[Edit]) -> list[dict]:
        """Never called, as there is no method."""
        raise NotImplementedError(method)

    def trials(self, context: Context, method: str, trials: Sequence[Trial]) -> list[list[dict]]:
        """Never called, as there is no method."""
        raise NotImplementedError(method)

    def lifetime(self, context: Context, method: str, lifetime: Lifetime) -> dict:
        """Never called, as there is no method."""
        raise NotImplementedError(method)


def single_edit_conditions(
    context: Context, edits: Sequence[Edit], value: Callable[[Mapping], Mapping]
) -> list[Condition]:
    """A condition per method, ``LARIMAR`` among them: single edits, made, scored and undone by the method's
    own framework.

    Args:
        context: has the methods.
        edits: the cases.
        value: a method's record to this evaluation's, which gets its ``environment``.
    """

    def score(method: str):
        return lambda cases: [
            {**value(record), "environment": record["environment"]}
            for record in context.baselines.single_edits(context, method, cases)
        ]

    # IKE edits nothing that could be scored as a model.
    methods = context.baselines.methods(context, EDITORS)
    return [
        Condition(
            method,
            cases_of(list(edits)),
            score(method),
            0,
            {"method": method},
            _beside(method, methods),
        )
        for method in methods
    ]


def _beside(method: str, methods: Sequence[str]) -> str | None:
    """What a method's single edits are compared with: Larimar's, made through the same framework."""
    return LARIMAR if method != LARIMAR and LARIMAR in methods else None


def retained_edit_conditions(
    context: Context,
    edits: Sequence[Edit],
    methods: Sequence[str],
    beside: str | None,
    together: bool = False,
) -> list[Condition]:
    """A condition per method: the edits one after the other or in one block, then each is asked for.

    Args:
        context: has the methods.
        edits: the cases.
        methods: those that are wanted.
        beside: see `Condition`.
        together: in one block.
    """

    def score(method: str):
        trial = Trial([stage_of(edits, together)], context.seed)
        return lambda cases: records_of(context.baselines.trials(context, method, [trial])[0][0], edits)

    how = "edits in one block" if together else "edits"
    return [
        Condition(
            f"{method}, {len(edits)} {how}",
            cases_of(edits),
            score(method),
            0,
            {"method": method, "facts": len(edits)},
            beside,
        )
        for method in context.baselines.methods(context, methods)
    ]
