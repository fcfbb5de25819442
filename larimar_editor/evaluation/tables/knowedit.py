"""KnowEdit's measures of one edit at a time: what has to follow from it, and what has to stay as it was.

Zhang et al. 2024, section "Metrics"; scores as EasyEdit computes them: shares of an answer's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from larimar_editor.data.edits import Edit, first_name
from larimar_editor.data.knowedit import answered_prompts, is_held_out, is_knowedit, read_knowedit
from larimar_editor.data.questions.facts import AskedFacts
from larimar_editor.data.questions.kinds import read_kinds
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.fluency import ngram_entropy
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.single_edits import answered_alone, scored_alone, the_edit_alone
from larimar_editor.evaluation.harness.trials import Stage, Trial, request, where_made
from larimar_editor.utils.json_files import list_in

Pair = tuple[str, str]

# Sorts of questions by what KnowEdit calls them; of the first three an answer is known, of the others it is
# what the model said before.
PORTABILITY = {
    "aliasing": "Subject_Aliasing",
    "reasoning": "Reasoning",
    "generalisation": "Logical_Generalization",
}
LOCALITY = {"specificity": "Relation_Specificity", "forgetfulness": "Forgetfulness"}
OWN_CASES = 60
TOKENS = 100  # EasyEdit's
_BATCH = 16


@dataclass(frozen=True)
class Case:
    """An edit and what is asked after it.

    Attributes:
        edit: what is written.
        asked: prompts and answers by sort, "rewrite" and "rephrase" among them.
    """

    edit: Edit
    asked: Mapping[str, Sequence[Pair]]

    @property
    def pairs(self) -> list[Pair]:
        """All of `asked`, in order."""
        return [pair for pairs in self.asked.values() for pair in pairs]

    def record(self, shares: Sequence[tuple[float, float]], text: str) -> dict:
        """Means by sort, with the n-gram entropy of ``text``, which was generated after the prompt.

        Args:
            shares: of each of `pairs`, of the answer's tokens those that are right, and those that are as
                before.
            text: any.
        """
        record: dict = {"case_id": self.edit.case_id, "entropy": ngram_entropy(self.edit.prompt + text)}
        start = 0
        for sort, pairs in self.asked.items():
            record[sort] = fmean(both[sort in LOCALITY] for both in shares[start : start + len(pairs)])
            start += len(pairs)
        return record


def cases_of(path: Path, limit: int | None = None) -> dict[str, Case]:
    """The cases of a file of KnowEdit's; of its train splits those of relations that nothing is trained on.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a file of KnowEdit's.
    """
    records = [record for record in read_knowedit(path) if record["target_new"].strip()]
    if "train" in path.stem:
        records = list(filter(is_held_out, records))
    return {str(place): _case(record, place) for place, record in enumerate(records[:limit])}


def _case(record: Mapping, place: int) -> Case:
    truth = first_name(record.get("ground_truth") or "") or record["target_new"]
    edit = Edit(record["prompt"], record["target_new"], truth, record["subject"], case_id=place)
    rephrased = record.get("rephrase_prompt")
    asked = {"rewrite": [(edit.prompt, edit.target_new)]}
    asked["rephrase"] = [(rephrased, edit.target_new)] if rephrased else []
    for part, sorts in (("portability", PORTABILITY), ("locality", LOCALITY)):
        for sort, name in sorts.items():
            asked[sort] = [pair for pair in answered_prompts(record, part, name) if pair[1].strip()]
    return Case(edit, {sort: pairs for sort, pairs in asked.items() if pairs})


def own_cases(count: int, seed: int = 0) -> dict[str, Case]:
    """Made-up facts of kinds of questions that nothing is trained on, for where no file is given; of what is
    reasoned from them no answer is known.
    """
    facts = AskedFacts([kind for kind in read_kinds() if kind.is_held_out], seed=seed)
    cases = {}
    for number in range(count):
        fact = facts[number]
        edit = Edit(fact["prompt"], fact["target_new"], fact["target_new"], fact["subject"], case_id=number)
        prompts = {
            "rewrite": [edit.prompt],
            "rephrase": fact["rephrase_prompt"],
            "aliasing": fact["alias_prompt"],
            "specificity": fact["other_prompt"],
            "forgetfulness": fact["negation_prompt"],
        }
        asked = {
            sort: [(each, edit.target_new) for each in texts] for sort, texts in prompts.items() if texts
        }
        cases[str(number)] = Case(edit, asked)
    return cases


def _conditions(context: Context) -> list[Condition]:
    result = []
    for data, cases in _data(context).items():
        few = dict(list(cases.items())[: context.baseline_cases])
        result += [
            _condition(context, data, "base model", cases, lambda edit: []),
            _condition(context, data, "Larimar", cases, the_edit_alone),
        ]
        result += [
            Condition(
                f"{data}: {method}",
                few,
                _of_method(context, method),
                0,
                {"data": data, "method": method},
                f"{data}: Larimar",
            )
            for method in context.baselines.methods(context)
        ]
    return result


def _data(context: Context) -> dict[str, dict[str, Case]]:
    given = [path for path in context.asked if path.suffix == ".json" and is_knowedit(list_in(path))]
    if not given:
        return {"made-up facts": own_cases(min(OWN_CASES, context.limit or OWN_CASES), context.seed)}
    return {f"{path.parent.name}/{path.stem}": cases_of(path, context.limit) for path in given}


def _condition(
    context: Context, data: str, name: str, cases: Mapping[str, Case], requests: Callable[[Edit], list[dict]]
) -> Condition:
    def score(part: Sequence[Case]) -> list[dict]:
        model = context.larimar()
        scores = scored_alone(model, [(requests(case.edit), case.pairs) for case in part])
        shares = (
            (edited.accuracy, edited.as_before(base)) for edited, base in zip(scores.edited, scores.base)
        )
        said = [(requests(case.edit), [case.edit.prompt]) for case in part]
        texts = answered_alone(model, said, _BATCH, max_new_tokens=TOKENS)
        return [case.record([next(shares) for _ in case.pairs], text) for case, text in zip(part, texts)]

    return Condition(f"{data}: {name}", cases, score, _BATCH, {"data": data})


def _of_method(context: Context, method: str) -> Callable[[Sequence[Case]], list[dict]]:
    def score(cases: Sequence[Case]) -> list[dict]:
        options = {"max_new_tokens": TOKENS}
        trials = [
            Trial([Stage([[request(case.edit)]], case.pairs, [case.edit.prompt], options)], context.seed)
            for case in cases
        ]
        results = context.baselines.trials(context, method, trials)
        return [
            case.record(
                [(score["accuracy"], score["same"]) for score in stage["scores"]], stage["answers"][0]
            )
            | where_made(stage)
            for case, (stage,) in zip(cases, results, strict=True)
        ]

    return score


def _mean_of(sorts: Sequence[str]) -> Callable[[Mapping], float | None]:
    def value(record: Mapping) -> float | None:
        known = [record[sort] for sort in sorts if sort in record]
        return fmean(known) if known else None

    return value


def _share(key: str, header: str) -> Column:
    return Column(key, header, lambda record: record.get(key), 100)


EVALUATION = Evaluation(
    "knowedit",
    "KnowEdit: what follows from an edit, and what stays as it was",
    _conditions,
    (
        _share("rewrite", "Edit success"),
        _share("rephrase", "Rephrased"),
        _share("aliasing", "Aliasing"),
        _share("reasoning", "Reasoning"),
        _share("generalisation", "Logical generalisation"),
        Column("portability", "Portability", _mean_of(list(PORTABILITY)), 100),
        _share("specificity", "Relation specificity"),
        _share("forgetfulness", "Forgetfulness"),
        Column("locality", "Locality", _mean_of(list(LOCALITY)), 100),
        Column("entropy", "Fluency", lambda record: record["entropy"], 100, share=False),
    ),
    note="One edit at a time. Percent of the answer's tokens; of locality, of those that are as before. "
    "Portability and locality: means of a case's sorts. Of a train split only the relations that nothing is "
    "trained on. Fluency: n-gram entropy times 100, as EasyEdit prints it, but of greedy text, which repeats "
    "itself more than what EasyEdit samples: it does not compare with the published rows. These (Zhang et "
    "al. 2024, table 4, as EasyEdit's README has it) are of Llama 2 7B and of all cases of the test splits. "
    "Of an answer with several names the first counts, for every method.",
    reads=("asked",),
)
