"""What an edited model answers in a chat, until it stops of its own accord: EasyEdit's real-world
evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from transformers import PreTrainedTokenizerBase

from larimar_editor.data.edits import Edit
from larimar_editor.evaluation.harness.answers import answers, recalled
from larimar_editor.evaluation.harness.baselines import EDITORS
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.many_edits import last_of_each_prompt, write_all
from larimar_editor.evaluation.harness.preserving import preserved
from larimar_editor.evaluation.harness.real_world import answer_in, exact_match, in_chat, sampling
from larimar_editor.evaluation.harness.records import Condition, cases_of
from larimar_editor.evaluation.harness.single_edits import answered_alone
from larimar_editor.evaluation.harness.trials import Stage, Trial, request, where_made

ROWS = 512  # the default of `memory_rows`
_BATCH = 16
Ask = Callable[[Sequence[Edit]], list[str]]
Score = Callable[[Sequence[Edit]], list[dict]]


@dataclass(frozen=True)
class _Chat:
    """Asks a model of any kind the prompt and the first rephrasing of each of some edits."""

    context: Context
    tokenizer: PreTrainedTokenizerBase

    def base(self, edits: Sequence[Edit]) -> list[str]:
        return self._said(edits)

    def single(self, edits: Sequence[Edit]) -> list[str]:
        """Each edit alone in memory."""
        model, cases = self.context.larimar(), [([edit.request], self._asked([edit])) for edit in edits]
        return answered_alone(model, cases, _BATCH, **self._options)

    def in_sequence(self, edits: Sequence[Edit]) -> list[str]:
        """Asked once all edits are written."""
        settings: dict[str, Any] = {} if len(edits) <= ROWS else {"memory_rows": len(edits)}
        model = self.context.larimar(**settings)
        with preserved(model, model.edited_state.cleared()):
            write_all(model, edits, sequentially=True, progress=len(edits) > 1)
            return self._said(edits, **settings)

    def of(self, ask: Ask) -> Score:
        """Scores what Larimar, or the base model, says."""
        return lambda edits: self.records(edits, ask(edits))

    def method_single(self, method: str) -> Score:
        return lambda edits: self._of_trials(method, [[edit] for edit in edits])

    def method_in_sequence(self, method: str) -> Score:
        return lambda edits: self._of_trials(method, [edits])

    def records(self, edits: Sequence[Edit], texts: Sequence[str]) -> list[dict]:
        given = (answer_in(text, self.tokenizer) for text in texts)
        return [
            {
                sort: _scored(next(given), edit.target_new)
                for sort, _ in zip(("written", "reworded"), _prompts([edit]))
            }
            for edit in edits
        ]

    def _said(self, edits: Sequence[Edit], **settings) -> list[str]:
        model = self.context.larimar(**settings)
        return answers(model, self._asked(edits), batch=_BATCH, **self._options)

    @property
    def _options(self) -> dict:
        """With a cache, which takes a fraction of the time and changes no greedy answer."""
        return sampling(self.tokenizer) | {"use_cache": True}

    def _of_trials(self, method: str, blocks: Sequence[Sequence[Edit]]) -> list[dict]:
        options, seed = sampling(self.tokenizer), self.context.seed
        stages = [
            Stage([[request(edit)] for edit in edits], (), self._asked(edits), options) for edits in blocks
        ]
        results = self.context.baselines.trials(
            self.context, method, [Trial([stage], seed) for stage in stages]
        )
        made: list[dict] = []
        for edits, (stage,) in zip(blocks, results, strict=True):
            made += [record | where_made(stage) for record in self.records(edits, stage["answers"])]
        return made

    def _asked(self, edits: Sequence[Edit]) -> list[str]:
        return [in_chat(self.tokenizer, prompt) for prompt in _prompts(edits)]


def _prompts(edits: Sequence[Edit]) -> list[str]:
    return [prompt for edit in edits for prompt in (edit.prompt, *edit.rephrase_prompts[:1])]


def _scored(answer: str, target: str) -> dict:
    return {"answer": answer, "exact": exact_match(answer, target), "within": recalled(answer, target)}


def _conditions(context: Context) -> list[Condition]:
    chat = _Chat(context, context.larimar().tokenizer)
    result = []
    for data, edits in _data(context).items():
        unique = last_of_each_prompt(edits)
        few = unique[: context.baseline_cases]
        later = "{} edits one after the other".format
        ours = f"Larimar, {later(len(unique))}"
        row = partial(_condition, data)
        result += [
            row("base model", unique, chat.of(chat.base), _BATCH),
            row("Larimar", unique, chat.of(chat.single), _BATCH),
            row(ours, unique, chat.of(chat.in_sequence), 0),
        ]
        methods = context.baselines.methods(context)
        if methods and len(few) < len(unique):
            ours = f"Larimar, {later(len(few))}"
            result.append(row(ours, few, chat.of(chat.in_sequence), 0))
        for method in methods:
            result.append(row(method, few, chat.method_single(method), 0, "Larimar", method))
            if method in EDITORS:
                name, score = f"{method}, {later(len(few))}", chat.method_in_sequence(method)
                result.append(row(name, few, score, 0, ours, method))
    return result


def _data(context: Context) -> dict[str, list[Edit]]:
    if context.counterfact is None and context.zsre is None:
        return {"own edits": context.counterfact_edits}
    given = {"CounterFact": context.counterfact, "ZsRE": context.zsre}
    edits = {"CounterFact": "counterfact_edits", "ZsRE": "zsre_edits"}
    return {name: getattr(context, edits[name]) for name, path in given.items() if path is not None}


def _condition(
    data: str,
    name: str,
    edits: Sequence[Edit],
    score: Score,
    batch: int,
    beside: str | None = None,
    method: str | None = None,
) -> Condition:
    return Condition(
        f"{data}: {name}",
        cases_of(edits),
        score,
        batch,
        {"data": data, "edits": len(edits)} | ({"method": method} if method else {}),
        beside and f"{data}: {beside}",
    )


def _share(sort: str, measure: str) -> Callable[[dict], float | None]:
    return lambda record: record[sort][measure] if sort in record else None


EVALUATION = Evaluation(
    "realworld",
    "Answers in a chat, until they end of their own accord",
    _conditions,
    (
        Column("written", "Exact, as written", _share("written", "exact")),
        Column("reworded", "Exact, reworded", _share("reworded", "exact")),
        Column("within", "Target in the answer, as written", _share("written", "within")),
        Column("reworded_within", "In the answer, reworded", _share("reworded", "within")),
    ),
    note="The prompt is the user's turn in the decoder's chat template, if it has one; greedy, until a full "
    "stop, a line's end or the end of the text; exact but for case, punctuation, articles and white space. "
    "EasyEdit's methods get the first cases only.",
    reads=("counterfact", "zsre"),
)
