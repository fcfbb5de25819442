"""What follows from two written facts: two hops by way of both, the question turned round, another name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from larimar_editor.data.chains import Chain, read_chains
from larimar_editor.evaluation.harness.baselines import EDITORS
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.single_edits import scored_alone
from larimar_editor.evaluation.harness.trials import Stage, Trial, where_made
from larimar_editor.state.fact import Fact

_BATCH = 4

Pair = tuple[str, str]
Requests = Callable[[Chain], list[Mapping | Fact]]


def _as_written(chain: Chain) -> list[Mapping | Fact]:
    return [chain.first, chain.second]


def _turned_round_too(chain: Chain) -> list[Mapping | Fact]:
    written = _as_written(chain)
    turned = [Fact.from_request(request).turned_round() for request in (chain.first, chain.second)]
    return [*written, *filter(None, turned)]


_ROWS: Mapping[str, tuple[Requests, Mapping]] = {
    "base model": (lambda chain: [], {}),
    "Larimar": (_as_written, {}),
    "chained reads": (_as_written, {"chained_reads": 1}),
    "chained reads, turned round too": (_turned_round_too, {"chained_reads": 1}),
}


def _asked(chain: Chain) -> dict[str, list[Pair]]:
    """Prompts with the answers that are right after the edits, by sort; of lookalikes any answer will do."""
    second, subject = chain.second["target_new"], chain.first["subject"]
    return {
        "written": [(each["prompt"], each["target_new"]) for each in (chain.first, chain.second)],
        "two_hops": [(prompt, second) for prompt in chain.two_hops],
        "turned_round": [(prompt, subject) for prompt in chain.turned_round],
        "aliases": [(prompt, second) for prompt in chain.aliases],
        "lookalikes": [(prompt, second) for prompt in chain.lookalikes],
    }


def _record(chain: Chain, case_id: str, shares: Sequence[tuple[float, float]]) -> dict:
    """Means by sort.

    Args:
        chain: the case.
        case_id: its number.
        shares: of each prompt, of the answer's tokens those that are right and those that are as before.
    """
    record: dict = {"case_id": case_id}
    left = iter(shares)
    for sort, pairs in _asked(chain).items():
        values = [next(left) for _ in pairs]
        right = [same if sort == "lookalikes" else float(accuracy == 1) for accuracy, same in values]
        record[sort] = fmean(right)
    return record


def _conditions(context: Context) -> list[Condition]:
    cases = {str(place): (str(place), chain) for place, chain in enumerate(read_chains()[: context.limit])}
    few = dict(list(cases.items())[: context.baseline_cases])
    return [
        *(
            Condition(name, cases, _scored(context, requests, settings), _BATCH, {"method": name, **settings})
            for name, (requests, settings) in _ROWS.items()
        ),
        *(
            Condition(method, few, _of_method(context, method), 0, {"method": method}, "Larimar")
            for method in context.baselines.methods(context, EDITORS)
        ),
    ]


def _pairs(chain: Chain) -> list[Pair]:
    return [pair for pairs in _asked(chain).values() for pair in pairs]


def _scored(context: Context, requests: Requests, settings: Mapping) -> Callable[[Sequence], list[dict]]:
    def score(cases: Sequence[tuple[str, Chain]]) -> list[dict]:
        model = context.larimar(**settings)
        scores = scored_alone(model, [(requests(chain), _pairs(chain)) for _, chain in cases])
        both = zip(scores.edited, scores.base)
        shares = iter([(edited.accuracy, edited.as_before(base)) for edited, base in both])
        return [_record(chain, number, [next(shares) for _ in _pairs(chain)]) for number, chain in cases]

    return score


def _of_method(context: Context, method: str) -> Callable[[Sequence], list[dict]]:
    def score(cases: Sequence[tuple[str, Chain]]) -> list[dict]:
        trials = []
        for _, chain in cases:
            blocks = [
                [{"ground_truth": "", "portability": {}, "locality": {}, **each}]
                for each in (chain.first, chain.second)
            ]
            trials.append(Trial([Stage(blocks, _pairs(chain))], context.seed))
        results = context.baselines.trials(context, method, trials)
        return [
            _record(chain, number, [(score["accuracy"], score["same"]) for score in stage["scores"]])
            | where_made(stage)
            for (number, chain), (stage,) in zip(cases, results, strict=True)
        ]

    return score


def _share(key: str, header: str) -> Column:
    return Column(key, header, lambda record: record[key])


EVALUATION = Evaluation(
    "portability",
    "What follows from two facts, the second of which is about the first one's answer",
    _conditions,
    (
        _share("written", "As written"),
        _share("two_hops", "Two hops"),
        _share("turned_round", "Turned round"),
        _share("aliases", "Another name"),
        _share("lookalikes", "Lookalikes, as before"),
    ),
    note="Mean over pairs of the share of prompts with every token of the answer right; of lookalikes, two "
    "hops of which one is not "
    "written, the share of tokens that are as before. Typed by hand; nothing is trained or calibrated on it. "
    "Turned round too: `Fact.turned_round` of each fact is written with it.",
    reads=(),
)
