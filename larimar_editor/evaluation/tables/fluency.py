"""How the text goes on after an edited prompt: varied or stuck, and as the base model would have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import numpy as np

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers, times_said
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Statistic
from larimar_editor.evaluation.harness.fluency import distinct, ngram_entropy
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.evaluation.harness.single_edits import answered_alone
from larimar_editor.evaluation.harness.trials import Stage, Trial, request, where_made
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading

TOKENS = 100  # EasyEdit's
START = 40  # tokens in which repetitions are counted
_OPTIONS = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS}
_BATCH = 16
_AFTER = "base model after prompt and answer"
_SETTINGS: Mapping[str, Mapping] = {
    "Larimar": {},
    "Larimar, what ends an answer said": {"after_answer": "ended"},
}


def _conditions(context: Context) -> list[Condition]:
    edits = context.counterfact_edits
    few = edits[: context.baseline_cases]
    result = [
        Condition("base model", cases_of(edits), lambda cases: _base(context, cases), _BATCH),
        Condition(_AFTER, cases_of(edits), lambda cases: _after(context, cases), _BATCH),
    ]
    result += [
        Condition(name, cases_of(edits), _larimar(context, settings), _BATCH, settings, _AFTER)
        for name, settings in _SETTINGS.items()
    ]
    return result + [
        Condition(method, cases_of(few), _of_method(context, method), 0, {"method": method}, "Larimar")
        for method in context.baselines.methods(context)
    ]


def _base(context: Context, edits: Sequence[Edit]) -> list[dict]:
    model = context.larimar()
    return _records(model, edits, answers(model, [edit.prompt for edit in edits], **_OPTIONS))


def _after(context: Context, edits: Sequence[Edit]) -> list[dict]:
    """What an editor is at best that lets the base model go on once the answer is said."""
    model = context.larimar()
    given = [f"{edit.prompt} {edit.target_new}" for edit in edits]
    said = answers(model, given, **_OPTIONS)
    texts = [f" {edit.target_new}{text}" for edit, text in zip(edits, said, strict=True)]
    return _records(model, edits, [_first(model, text, TOKENS) for text in texts])


def _first(model: LarimarForCausalLM, text: str, count: int) -> str:
    ids = model.tokenizer(text, add_special_tokens=False).input_ids
    return str(model.tokenizer.decode(ids[:count]))


def _larimar(context: Context, settings: Mapping) -> Callable[[Sequence[Edit]], list[dict]]:
    def score(edits: Sequence[Edit]) -> list[dict]:
        model, cases = context.larimar(**settings), [([edit.request], [edit.prompt]) for edit in edits]
        return _records(model, edits, answered_alone(model, cases, _BATCH, **_OPTIONS))

    return score


def _of_method(context: Context, method: str):
    def score(edits: Sequence[Edit]) -> list[dict]:
        trials = [
            Trial([Stage([[request(edit)]], (), [edit.prompt], _OPTIONS)], context.seed) for edit in edits
        ]
        results = context.baselines.trials(context, method, trials)
        records = _records(context.larimar(), edits, [stage["answers"][0] for (stage,) in results])
        return [record | where_made(stage) for record, (stage,) in zip(records, results, strict=True)]

    return score


def _records(model: LarimarForCausalLM, edits: Sequence[Edit], texts: Sequence[str]) -> list[dict]:
    """Of what was said after each prompt; likelihoods are the model's with nothing written."""
    pairs = [(edit.prompt, text.strip() or ".") for edit, text in zip(edits, texts)]
    base = target_scores(model, pairs, Reading.nothing(len(pairs), model.config.latent_size))
    records = []
    for edit, text, score in zip(edits, texts, base, strict=True):
        ids = model.tokenizer(text, add_special_tokens=False).input_ids[:START]
        records.append(
            {
                "text": text,
                "entropy": ngram_entropy(edit.prompt + text),
                "distinct": distinct(ids),
                "said": times_said(str(model.tokenizer.decode(ids)), edit.target_new),
                "nats": -score.log_probability,
            }
        )
    return records


def _perplexity(records: Sequence[Mapping]) -> float:
    return float(np.exp(fmean(record["nats"] for record in records)))


EVALUATION = Evaluation(
    "fluency",
    f"{TOKENS} greedy tokens after an edited prompt",
    _conditions,
    (
        Column("entropy", "N-gram entropy", lambda record: record["entropy"], share=False),
        Column("distinct", f"Distinct bigrams of {START} tokens", lambda record: record["distinct"]),
        Column("said", "Times the answer is said in them", lambda record: record["said"], share=False),
        Statistic("perplexity", "Base model's perplexity", _perplexity),
    ),
    note="One fact at a time. N-gram entropy: bits, of prompt and text, by the "
    "formula of EasyEdit's test_generation, which samples from the top five where this is greedy.",
)
