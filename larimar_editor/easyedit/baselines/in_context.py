"""IKE, whose edit is a text in front of the prompt: the new fact, after examples of other new facts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from larimar_editor.data.edits import load_edits
from larimar_editor.pretrained.embedded import resolve

_WHAT_IS_SAID = "what is said"  # stands where the template puts a turn's text


class InContext(torch.nn.Module):
    """A model that is told a text before every prompt; rows have to come one by one.

    In a chat the text stands at the beginning of the last user's turn, whatever the system says before it.

    Args:
        model: the base model.
        tokenizer: its.
        told: the text, with the space or line end that parts it from the prompt.
    """

    def __init__(self, model, tokenizer, told: str):
        super().__init__()
        self.model, self._tokenizer, self._told = model, tokenizer, told
        self._opening, self._bos = _opening_of_a_users_turn(tokenizer), tokenizer.bos_token or ""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None):
        """As the model's; logits are of the tokens that were given."""
        output = self.model(input_ids=self._whole(input_ids))
        output.logits = output.logits[:, -input_ids.shape[1] :]
        return output

    def generate(self, input_ids: Tensor, attention_mask: Tensor | None = None, **options) -> Tensor:
        """As the model's; what is returned begins with the tokens that were given."""
        whole = self._whole(input_ids)
        made = self.model.generate(input_ids=whole, attention_mask=torch.ones_like(whole), **options)
        return torch.cat([input_ids, made[:, whole.shape[1] :]], 1)

    def _whole(self, ids: Tensor) -> Tensor:
        (row,) = ids.tolist()
        text = self._tokenizer.decode(row)
        found = text.rfind(self._opening) if self._opening else -1
        start = found + len(self._opening) if found >= 0 else len(self._bos) * text.startswith(self._bos)
        # As text: the first token after what is told may be another one than it was at the beginning.
        told = text[:start] + self._told + text[start:]
        return self._tokenizer(told, add_special_tokens=False, return_tensors="pt").input_ids.to(ids.device)


def _opening_of_a_users_turn(tokenizer) -> str:
    """What the tokenizer's template puts before whatever a user says; empty where it has no template."""
    if not tokenizer.chat_template:
        return ""
    turns = [{"role": role, "content": _WHAT_IS_SAID} for role in ("user", "assistant", "user")]
    parts = tokenizer.apply_chat_template(turns, tokenize=False).split(_WHAT_IS_SAID)
    # The first turn may have a system's text of the template's own before it.
    first, again = parts[0], parts[2]
    return next(again[start:] for start in range(len(again) + 1) if first.endswith(again[start:]))


def telling(apply_algo: Callable, examples: Sequence[Mapping]) -> Callable:
    """IKE as a method that edits: the model that is told the fact, and what takes it back, in place of
    examples alone.

    Args:
        apply_algo: EasyEdit's.
        examples: what it finds those near to a fact in; see `examples_for`.

    Raises:
        ValueError: on a call with a second fact while there is a first. Which of several facts a prompt is
            about is nothing that IKE decides.
    """
    told: list[Mapping] = []

    def apply(model, tok, requests, hparams, **options):
        if told or len(requests) != 1:
            raise ValueError("IKE holds one fact at a time")
        shown = apply_algo(model, tok, requests[0], hparams, train_ds=examples, **options)
        told.extend(requests)
        # An example of the same prompt would tell more than the fact.
        shown = [each for each in shown if not each.startswith(f"New Fact: {requests[0]['prompt']} ")]
        fact = f"New Fact: {requests[0]['prompt']} {requests[0]['target_new']}\nPrompt: "
        return InContext(model, tok, "".join(shown) + fact), told.clear

    return apply


def examples_for(hparams: Any, workdir: Path) -> list[dict]:
    """Other facts, each with a rephrasing and a question that is to stay as it was, embedded for IKE: the
    project's own edits, which are measured with where no data are given; `telling` leaves a fact's own out.

    Args:
        hparams: IKE's. Its ``results_dir``, where EasyEdit keeps the embeddings, is put below ``workdir``,
            and its sentence encoder's name becomes the folder of the embedded one, where it is that.
        workdir: a folder.
    """
    examples = [
        {
            "prompt": edit.prompt,
            "target_new": edit.target_new,
            "rephrase_prompt": edit.rephrase_prompts[0],
            "locality_prompt": edit.locality_prompts[0],
            "locality_ground_truth": edit.locality_ground_truth[0],
        }
        for edit in load_edits()
    ]
    hparams.results_dir = str(workdir / hparams.results_dir)
    hparams.sentence_model_name = resolve(hparams.sentence_model_name)
    ike, sentences = map(importlib.import_module, ("easyeditor.models.ike", "sentence_transformers"))
    ike.encode_ike_facts(sentences.SentenceTransformer(hparams.sentence_model_name), examples, hparams)
    return examples
