"""Single edits on CounterFact (paper, tab:counterfact): S and M of edit, paraphrase and locality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from larimar_editor.data.edits import Edit
from larimar_editor.data.relations import with_openers
from larimar_editor.evaluation.harness.baselines import single_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.single_edits import Requests, score_single_edits, the_edit_alone


def nothing(edit: Edit) -> list[dict]:
    """Nothing is written: the base model."""
    return []


def with_rephrasings(count: int) -> Requests:
    """The edit and ``count`` further wordings, none of which is the rephrasing that is asked, the first.

    Wordings that the data lack are made by rule, with an opener before the prompt.
    """

    def requests(edit: Edit) -> list[dict]:
        spare = [*edit.rephrase_prompts[1:], *with_openers(edit.prompt)]
        return [edit.request | {"prompt": prompt} for prompt in (edit.prompt, *spare[:count])]

    return requests


def single_edit_condition(
    name: str, context: Context, edits: Sequence[Edit], requests: Requests = the_edit_alone, **settings
) -> Condition:
    """One fact in memory at a time, asked in its own words, its first rephrasing, and its locality
    prompts.
    """

    def score(cases: Sequence[Edit]) -> list[dict]:
        return score_single_edits(context.larimar(**settings), cases, progress=False, requests=requests)

    asked = [Edit(**(vars(edit) | {"rephrase_prompts": edit.rephrase_prompts[:1]})) for edit in edits]
    if requests not in (nothing, the_edit_alone):  # they need the other rephrasings too
        asked = list(edits)
    return Condition(name, cases_of(asked), score, settings=settings)


def _first(kind: str, key: str) -> Callable[[Mapping], float | None]:
    return lambda record: record[kind][0].get(key) if record[kind] else None


def _all(kind: str, key: str) -> Callable[[Mapping], float | None]:
    return lambda record: (
        sum(each[key] for each in record[kind]) / len(record[kind]) if record[kind] else None
    )


S_AND_M = (
    Column("edit_S", "Edit success S", _first("rewrite", "success"), 100),
    Column("edit_M", "M", _first("rewrite", "magnitude"), 100, share=False),
    Column("paraphrase_S", "Paraphrase S", _first("rephrase", "success"), 100),
    Column("paraphrase_M", "M", _first("rephrase", "magnitude"), 100, share=False),
    Column("locality_S", "Locality S", _all("locality", "success"), 100),
    Column("locality_M", "M", _all("locality", "magnitude"), 100, share=False),
)
ACCURACY = (
    Column("edit", "Edit success", _first("rewrite", "accuracy"), 100),
    Column("paraphrase", "Paraphrase", _first("rephrase", "accuracy"), 100),
    Column("locality", "Locality, true answer", _all("locality", "accuracy"), 100),
)
PORTABILITY = Column("portability", "Portability", _all("portability", "accuracy"), 100)
UNCHANGED = Column("same", "Locality, as before", _all("locality", "same"), 100)


def _conditions(context: Context) -> list[Condition]:
    edits = context.counterfact_edits
    rows: list[tuple[str, Requests]] = [("base model", nothing), ("Larimar", the_edit_alone)]
    rows += [(f"Larimar + {n} rephrasing{'s' * (n > 1)}", with_rephrasings(n)) for n in (1, 2)]
    own = [single_edit_condition(name, context, edits, requests) for name, requests in rows]
    return own + single_edit_conditions(
        context, edits[: context.baseline_cases], lambda record: record["single"]
    )


EVALUATION = Evaluation(
    "counterfact",
    "Single edits: P(new) against P(old), one fact in memory",
    _conditions,
    (*S_AND_M, *ACCURACY[:2], UNCHANGED, PORTABILITY),
    note="S: share of cases; M: mean of the difference of probabilities, each the geometric mean over the "
    "target's tokens. "
    "Further wordings in memory are the data's where there are any, else the prompt after an opener; the "
    "first rephrasing is "
    "asked. Portability: share of the answer's tokens, where the data have such questions.",
)
