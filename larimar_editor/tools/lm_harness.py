"""An edited model in the language model evaluation harness (Gao et al., lm-evaluation-harness).

The harness joins question and candidate answer before it calls a model. A Larimar asks its scope detector
about the question alone; so it is told here which part that is: the last paragraph of a context, as what
stands before a blank line are the harness's examples, and of a chat the last turn. Text that answers no
question, as in a perplexity, is asked nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.model.prompts import announced_prompts
from larimar_editor.tools.opening import open_larimar
from larimar_editor.utils.sentences import is_label

_Request = tuple[tuple[str, str] | None, list[int], list[int]]


@register_model("larimar")
class LarimarLM(HFLM):
    """``larimar-editor lm-eval --model larimar --model_args pretrained=...,facts=FILE``.

    Args:
        pretrained: Larimar checkpoint, a folder or the name of one that ships.
        facts: what is in its memory; see `open_larimar`. None measures the base model.
        device, dtype: as the harness's; the CPU where there is no CUDA.
        batch_size: rows of a pass; "auto" is 16.
        settings: ``after_answer``, ``scope`` and whatever else `LarimarSettings` has.
    """

    def __init__(
        self,
        pretrained: str = "smollm2-135m",
        facts: str | None = None,
        device: str | None = "cpu",
        dtype: str = "auto",
        batch_size: int | str = 16,
        max_batch_size: int | None = None,
        **settings: Any,
    ):
        size = 16 if str(batch_size).startswith("auto") else int(batch_size)
        # The harness asks for CUDA where nobody said anything.
        there = device if device and (torch.cuda.is_available() or "cuda" not in device) else "cpu"
        model = open_larimar(pretrained, facts, dtype, there, **settings)
        longest = getattr(model.decoder.config, "max_position_embeddings", 2048)
        super().__init__(
            pretrained=model,
            tokenizer=model.tokenizer,
            backend="causal",
            batch_size=size,
            # Rows of one text may have different questions.
            logits_cache=False,
            max_length=longest - model.config.answer_tokens - model.config.memory_slots - 1,
        )
        self._questions: dict[tuple[int, ...], str] = {}

    def _loglikelihood_tokens(
        self, requests: list[_Request], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[tuple[float, bool]]:
        """The harness's, a batch at a time, so that each row's question is known."""
        size = override_bs or int(self.batch_size)
        order = sorted(range(len(requests)), key=lambda place: -sum(map(len, requests[place][1:])))
        results: list[tuple[float, bool] | None] = [None] * len(requests)
        bar = tqdm(total=len(requests), desc="loglikelihood", disable=disable_tqdm or self.rank != 0)
        for places, questions in self._batches(requests, order, size):
            part = [requests[place] for place in places]
            with self._told(questions):
                scores = super()._loglikelihood_tokens(part, disable_tqdm=True, override_bs=size)
            for place, score in zip(places, scores, strict=True):
                results[place] = score
            bar.update(len(places))
        bar.close()
        return [score for score in results if score is not None]

    def _batches(
        self, requests: Sequence[_Request], order: Sequence[int], size: int
    ) -> Iterator[tuple[list[int], dict[tuple[int, ...], str]]]:
        """Places of requests that go together, and the question of each row; two that have one text and
        different questions do not.
        """
        places: list[int] = []
        questions: dict[tuple[int, ...], str] = {}
        for place in order:
            asked, row = requests[place][0], self._row(requests[place])
            question = self._announced(asked[0]) if asked else ""
            if len(places) == size or questions.get(row, question) != question:
                yield places, questions
                places, questions = [], {}
            places.append(place)
            questions[row] = question
        if places:
            yield places, questions

    def _row(self, request: _Request) -> tuple[int, ...]:
        """The tokens that the harness calls the model with."""
        _, context, continuation = request
        return tuple((context + continuation)[-(self.max_length + 1) :][:-1])

    @contextmanager
    def _told(self, questions: dict[tuple[int, ...], str]) -> Iterator[None]:
        self._questions = questions
        try:
            yield
        finally:
            self._questions = {}

    def _announced(self, context: str) -> str:
        """Its question, with the line's end behind it where the answer opens a line."""
        question = self.question_of(context)
        return f"{question}\n" if question.strip() and context.endswith("\n") else question

    def _model_call(
        self, inps: Tensor, attn_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> Tensor:
        rows = [tuple(row) for row in inps.tolist()]
        padded = {
            (*row, *[0] * (inps.shape[1] - len(row))): question for row, question in self._questions.items()
        }
        # The harness also calls with rows of its own, to find a batch's size: nothing is asked of those.
        with announced_prompts([padded.get(row, "") for row in rows]):
            return super()._model_call(inps, attn_mask, labels)

    def _model_generate(self, context: Tensor, max_length: int, stop: list[str], **kwargs: Any) -> Tensor:
        mask = kwargs.get("attention_mask")
        rows = [
            row if mask is None else [token for token, there in zip(row, own) if there]
            for row, own in zip(context.tolist(), context.tolist() if mask is None else mask.tolist())
        ]
        questions = map(self.question_of, self.tokenizer.batch_decode(rows))
        each = max(kwargs.get("num_beams") or 1, kwargs.get("num_return_sequences") or 1)
        with announced_prompts([question for question in questions for _ in range(each)]):
            return super()._model_generate(context, max_length, stop, **kwargs)

    def question_of(self, context: str) -> str:
        """The part of a context that asks."""
        turns = self.model.chat_turns
        asked = turns.last_question(context) if turns is not None else None
        for token in () if asked is not None else self.tokenizer.all_special_tokens:
            context = context.replace(token, "")
        *before, last = (context if asked is None else asked).rstrip().split("\n\n")
        # "Answer:" asks nothing without the paragraph before it.
        return f"{before[-1]}\n{last}" if before and is_label(last) else last
