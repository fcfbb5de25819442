"""From training records to what one step needs: texts that are written to memory, and token rows that are
decoded from it.

A record is a text (``{"text": ...}``) or a fact in several wordings (`larimar_editor.data.relations`). Every
choice that is made here comes from a generator seeded by the run's seed and the step, so that a run that was
interrupted goes on as if it had not been.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.training.chats import answered, drawn_chat
from larimar_editor.utils.settings import check, setting
from larimar_editor.utils.text import kept_answer, prompt_and_target


@dataclass(frozen=True)
class RowSettings:
    """How training records become the token rows that the decoder learns from."""

    cut_share: float = setting(
        0.4,
        "share of texts that are decoded from a random token on, so that the decoder learns to answer "
        "without the exact prefix",
        at_least=0,
        at_most=1,
    )
    tail: int = setting(6, "last tokens of a text that have weight 1", at_least=1)
    body_weight: float = setting(0.2, "weight of its other tokens", at_least=0, at_most=1)
    wordings: int = setting(2, "prompts of a fact that are asked per step", at_least=1)
    same_wording: float = setting(
        0.35, "how often the wording that was written is among them", at_least=0, at_most=1
    )
    preamble_share: float = setting(
        0.3, "how often sentences about something else stand before a prompt", at_least=0, at_most=1
    )
    stop_weight: float = setting(0.5, "weight of the full stop after an answer", at_least=0, at_most=1)
    continuation_weight: float = setting(
        0.4,
        "weight of each token of what the base model says after an answer, where a fact has its "
        "`continuation` (`larimar-editor data answers`)",
        at_least=0,
        at_most=1,
    )
    chat_share: float = setting(
        0.0,
        "how often a prompt is asked as a user's turn of a chat, which ends with the assistant's answer",
        at_least=0,
        at_most=1,
    )
    other_share: float = setting(
        0.3,
        "rows per memory text that ask about something else, where the memory should make no difference",
        at_least=0,
    )
    max_length: int = setting(64, "tokens of a row", at_least=1)

    def __post_init__(self):
        check(self)


def checked_record(record: Mapping, place: str) -> Mapping:
    """A record that rows can be made of.

    Args:
        record: a text or a fact.
        place: what the message of an error calls it.

    Raises:
        ValueError: neither, or one of its parts is missing or no text, or no list of texts.
    """
    wanted = ("text",) if "text" in record else ("prompt", "target_new")
    if missing := [name for name in wanted if name not in record]:
        raise ValueError(
            f"{place} is neither a text nor a fact: it has {sorted(record)}, and no {missing[0]!r}"
        )
    for name in wanted:
        if not isinstance(record[name], str) or not record[name].strip():
            raise ValueError(f"{place}: {name!r} must be a text that is not blank, got {record[name]!r}")
    if "text" in record:
        return record
    prompts = {name: record.get(name) for name in ("rephrase_prompt", "locality_prompt")}
    prompts["locality_prompt"] = prompts["locality_prompt"] or []  # a fact may have none
    for name, texts in prompts.items():
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{place}: {name!r} must be a list of texts, got {texts!r}")
    if not isinstance(said := record.get("continuation", ""), str):
        raise ValueError(f"{place}: 'continuation' must be a text, got {said!r}")
    return record


@dataclass
class Row:
    """Tokens to decode, the weight of each as something to predict, and the memory text that it belongs
    to.
    """

    memory: int
    tokens: list[int]
    weights: list[float]
    other: bool = False
    fact: bool = False


@dataclass
class Rows:
    """One step's work for one process.

    Attributes:
        texts: what is written to memory, episode after episode.
        slots: how many each text is to have.
        memory: int ``(R,)``, which text a row is about.
        ids: int ``(R, T)``, right-padded.
        weights: float ``(R, T)``; 0 where a token is not to be predicted.
        other: bool ``(R,)``; rows about something else.
        fact: bool ``(R,)``; rows that ask for a fact, which need not be true.
        decoded: tokens that are not padding.
    """

    texts: list[str]
    slots: list[int]
    memory: Tensor
    ids: Tensor
    weights: Tensor
    other: Tensor
    fact: Tensor
    decoded: int

    def to(self, device: torch.device) -> Rows:
        """The same rows with their tensors on ``device``."""
        moved = {
            name: getattr(self, name).to(device) for name in ("memory", "ids", "weights", "other", "fact")
        }
        return Rows(self.texts, self.slots, decoded=self.decoded, **moved)


def _one(tokens: int) -> int:
    return 1


@dataclass
class RowMaker:
    """Makes rows out of records.

    Args:
        tokenizer: the decoder's.
        settings: `RowSettings`.
        preambles: sentences that may stand before a prompt.
        needed: slots of a text whose answer has so many tokens; of a text without one, 0.
        answer_tokens: most tokens of an answer; 0: as many as it has.
    """

    tokenizer: PreTrainedTokenizerBase
    settings: RowSettings = field(default_factory=RowSettings)
    preambles: Sequence[str] = ()
    needed: Callable[[int], int] = _one
    answer_tokens: int = 0

    def make(self, records: Sequence[Mapping], rng: random.Random) -> Rows:
        """Rows of records that are `checked_record`.

        Raises:
            ValueError: no record.
        """
        if not records:
            raise ValueError("a step needs at least one record")
        texts, slots, rows = [], [], []
        for memory, record in enumerate(records):
            if "text" in record:
                texts.append(record["text"])
                slots.append(self.needed(0))
                rows.append(self._text_row(memory, record["text"], rng))
            else:
                fact = record["prompt"], record["target_new"]
                text, tokens = (
                    kept_answer(self.tokenizer, *fact, self.answer_tokens)
                    if self.answer_tokens
                    else (prompt_and_target(*fact), 1)
                )
                texts.append(text)
                slots.append(self.needed(tokens))
                rows += self._fact_rows(memory, record, rng)
        rows += self._other_rows(records, rng)
        return self._collate(texts, slots, rows)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False).input_ids

    def _text_row(self, memory: int, text: str, rng: random.Random) -> Row:
        settings = self.settings
        ids = self._ids(text)[-settings.max_length :]
        start = rng.randrange(1, len(ids) - 3) if len(ids) > 5 and rng.random() < settings.cut_share else 0
        ids = ids[start:]
        weights = [settings.body_weight] * max(0, len(ids) - settings.tail) + [1.0] * min(
            len(ids), settings.tail
        )
        return Row(memory, ids, weights)

    def _fact_rows(self, memory: int, record: Mapping, rng: random.Random) -> list[Row]:
        rephrasings = list(record["rephrase_prompt"])
        asked = rng.sample(rephrasings, min(self.settings.wordings, len(rephrasings)))
        if not asked or rng.random() < self.settings.same_wording:
            asked[:1] = [record["prompt"]]
        rows = [
            self._chat_row(memory, prompt, record, rng)
            or self._answer_row(
                memory,
                prompt,
                record["target_new"],
                rng,
                self.settings.stop_weight,
                continuation=record.get("continuation", ""),
            )
            for prompt in asked
        ]
        return [replace(row, fact=True) for row in rows]

    def _chat_row(self, memory: int, prompt: str, record: Mapping, rng: random.Random) -> Row | None:
        if not self.settings.chat_share or rng.random() >= self.settings.chat_share:
            return None
        turns = drawn_chat(prompt, self.preambles, rng)
        found = answered(self.tokenizer, turns, record["target_new"])
        if found is None:
            return None
        (tokens, asked), limit = found, self.settings.max_length
        weights = [0.0] * asked + [1.0] * (len(tokens) - asked)
        return Row(memory, tokens[-limit:], weights[-limit:])

    def _answer_row(
        self,
        memory: int,
        prompt: str,
        answer: str,
        rng: random.Random,
        stop: float,
        other: bool = False,
        continuation: str = "",
    ) -> Row:
        prompt = self._with_preamble(prompt, rng)
        asked, tokens = len(self._ids(prompt.rstrip(" "))), self._ids(prompt_and_target(prompt, answer))
        weights = [0.0] * asked + [1.0] * (len(tokens) - asked)
        if not other:
            tokens, weights = tokens + self._ids("."), weights + [stop]
        limit = self.settings.max_length
        tokens, weights = tokens[-limit:], weights[-limit:]
        if continuation and not other:
            more = self._ids(continuation)[: limit - len(tokens)]
            tokens = tokens + more
            weights = weights + [self.settings.continuation_weight] * len(more)
        return Row(memory, tokens, weights, other)

    def _with_preamble(self, prompt: str, rng: random.Random) -> str:
        if not self.preambles or rng.random() >= self.settings.preamble_share:
            return prompt
        before = [rng.choice(self.preambles).rstrip() for _ in range(rng.choice((1, 1, 2)))]
        return " ".join(text if text[-1] in ".?!" else f"{text}." for text in before) + " " + prompt

    def _other_rows(self, records: Sequence[Mapping], rng: random.Random) -> list[Row]:
        """Rows about a locality prompt of what is in memory, or about another record."""
        rows = []
        for memory, record in enumerate(records):
            if rng.random() >= self.settings.other_share:
                continue
            another = records[rng.randrange(len(records))]
            locality = record.get("locality_prompt") or ()
            if locality and rng.random() < 0.7:
                answer = (
                    record["target_new"]
                    if "target_new" not in another or rng.random() < 0.5
                    else another["target_new"]
                )
                rows.append(self._answer_row(memory, rng.choice(locality), answer, rng, 0, other=True))
            elif another is record:
                continue
            elif "text" in another:
                ids = self._ids(another["text"])[: self.settings.max_length]
                rows.append(Row(memory, ids, [self.settings.body_weight] * len(ids), other=True))
            else:
                rows.append(
                    self._answer_row(memory, another["prompt"], another["target_new"], rng, 0, other=True)
                )
        return rows

    def _collate(self, texts: list[str], slots: list[int], rows: list[Row]) -> Rows:
        longest = max(len(row.tokens) for row in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        weights = torch.zeros(len(rows), longest)
        for i, row in enumerate(rows):
            ids[i, : len(row.tokens)] = torch.tensor(row.tokens)
            weights[i, : len(row.tokens)] = torch.tensor(row.weights)
        return Rows(
            texts,
            slots,
            memory=torch.tensor([row.memory for row in rows]),
            ids=ids,
            weights=weights,
            other=torch.tensor([row.other for row in rows]),
            fact=torch.tensor([row.fact for row in rows]),
            decoded=sum(len(row.tokens) for row in rows),
        )
