"""What the demo does, without a page: an edited model beside the same model unedited."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty
from threading import Thread

import torch
from torch.nn.functional import cosine_similarity
from transformers import TextIteratorStreamer

from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.asking import asked_by
from larimar_editor.scope.nearest import every_row
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import changed_rows
from larimar_editor.state.lines import facts_in_lines, line_of, write_in_blocks
from larimar_editor.tools.demo.probes import Probe, probes_of
from larimar_editor.utils.sentences import sentences

_NEAREST = 20  # facts in the picture of scores
_WAIT = 0.05  # seconds to wait for a word before looking at the other model


@dataclass(frozen=True)
class Reason:
    """Why a sentence of a prompt, taken alone, is in scope or not.

    Attributes:
        sentence: of the prompt.
        nearest: the written prompt that was decided for; "" where nothing is written.
        score: the detector's.
        threshold: from which a sentence is in scope.
        in_scope: whether it is.
        why: for people.
    """

    sentence: str
    nearest: str
    score: float
    threshold: float
    in_scope: bool
    why: str


@dataclass(frozen=True)
class Probed:
    """What came of a probe.

    Attributes:
        probe: the question.
        in_scope: whether the memory was read.
        same: whether the logits are the base model's, to the bit.
        base, edited: what the two models say.
    """

    probe: Probe
    in_scope: bool
    same: bool
    base: str
    edited: str

    @property
    def as_wanted(self) -> bool:
        """Whether what asks the fact reads the memory, and what does not is as before to the bit."""
        return self.in_scope if self.probe.asks_it else self.same


class Workbench:
    """An edited model whose facts are in a file, and the same model unedited.

    Args:
        model: nothing is written in it yet.
        path: of the state's file, made if need be; the facts in it are there.

    Raises:
        ValueError: a model with another detector than the external one, whose scores are what is shown.
        OSError, ValueError: as `LarimarForCausalLM.open_state`.
    """

    def __init__(self, model: LarimarForCausalLM, path: Path):
        if model.config.scope != "external":
            raise ValueError(
                f"the demo shows what the external detector says, not scope: {model.config.scope}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        self.model, self.path = model, path
        model.open_state(path)
        # Of the same decoder, which one lock guards; an unedited Larimar is the decoder.
        settings = LarimarConfig(
            latent_size=model.config.latent_size, memory_slots=model.config.memory_slots, scope="none"
        )
        self._base = LarimarForCausalLM(settings, model.decoder, model.tokenizer)
        self._point = model.edited_state.store

    # --- editing ---

    def write(self, prompt: str, target: str, subject: str = "") -> tuple[Fact, float]:
        """Write a fact; it, and the milliseconds that it took."""
        began = time.perf_counter()
        request = {"prompt": prompt, "target_new": target} | ({"subject": subject} if subject.strip() else {})
        (fact,) = self.model.write([request])
        return fact, 1000 * (time.perf_counter() - began)

    def forget(self, ids: Sequence[int]) -> None:
        """Forget facts by their ids."""
        self.model.forget(*ids)

    def undo(self) -> None:
        """Take back the last operation."""
        self.model.undo()

    def import_lines(self, path: Path) -> int:
        """Write the facts of a file of JSON lines; how many there were."""
        return write_in_blocks(self.model, facts_in_lines(path))

    def export_lines(self, path: Path) -> int:
        """Write all facts to a file of JSON lines; how many there are."""
        facts = self.model.facts()
        path.write_text("".join(f"{line_of(fact)}\n" for fact in facts), encoding="utf-8")
        return len(facts)

    # --- looking ---

    def facts(self, words: str = "", limit: int = 200) -> list[Fact]:
        """The last facts in which some words stand, in any case; the newest first."""
        file = self.model.history.file
        assert file is not None, "opened when the bench began"
        ids = file.search(words.strip()) if words.strip() else file.ids()
        return file.facts(sorted(ids)[: -limit - 1 : -1])

    def set_point(self) -> None:
        """Count changes from now on."""
        self._point = self.model.edited_state.store

    def changes(self, limit: int = 50) -> tuple[list[Fact], list[Fact]]:
        """The last facts that were written and that are gone since the last point, each in order."""
        before, now = self._point, self.model.edited_state.store
        gone, come = changed_rows(before, now)
        return now.entries.facts(come[-limit:]), before.entries.facts(gone[-limit:])

    def change_counts(self) -> tuple[int, int]:
        """How many facts were written and are gone since the last point."""
        gone, come = changed_rows(self._point, self.model.edited_state.store)
        return len(come), len(gone)

    def decided(self, prompt: str) -> str:
        """What the detector says of a prompt as a whole, for people."""
        if self.model.is_empty():
            return "Nothing is written: the base model answers."
        decision = self.model.scope_of([prompt])
        if not decision.in_scope[0]:
            return "Out of scope: the base model answers."
        fact = self.model.edited_state.store.fact(int(decision.nearest[0]))
        return f"In scope by “{decision.sentence[0]}”: the memory answers what it has for “{fact.prompt}”."

    def why(self, prompt: str) -> list[Reason]:
        """A reason for each sentence of a prompt, each taken alone; together they share the detector's closer
        looks, see `decided`.
        """
        parts, config = sentences(prompt), self.model.config
        looks = bool(config.scope_candidates) and self.model.detectors.external.look is not None
        threshold = config.threshold(looks)
        if self.model.is_empty():
            return [Reason(part, "", 0.0, threshold, False, "nothing is written") for part in parts]
        store = self.model.edited_state.store
        decision = self.model.scope_of(parts)
        rows = zip(parts, decision.score.tolist(), decision.in_scope.tolist(), decision.nearest.tolist())
        reasons = []
        for part, score, inside, row in rows:
            written = store.fact(row).prompt if row >= 0 else ""
            reasons.append(
                Reason(part, written, score, threshold, inside, _why(part, written, score, inside))
            )
        return reasons

    def nearest(self, prompt: str) -> list[tuple[str, float]]:
        """The facts whose prompts are nearest to what a prompt asks in the first stage, with their cosines,
        the nearest first.
        """
        if self.model.is_empty():
            return []
        store, detector = self.model.edited_state.store, self.model.detectors.external
        written, query = store.column("scope"), detector.embed([asked_by(prompt)])
        _, (rows,) = every_row(detector.similarity, written, store.alive)(query, min(_NEAREST, len(store)))
        rows = rows[rows >= 0]
        # Rows at rest are unit vectors up to their rounding only.
        cosines = cosine_similarity(query.to(written.device), written[rows].float())
        return [(store.fact(row).prompt, score) for row, score in zip(rows.tolist(), cosines.tolist())]

    # --- asking ---

    def ask(self, prompt: str, chat: bool = False, tokens: int = 60) -> Iterator[tuple[str, str]]:
        """What the base model and the edited one say, growing as they say it.

        Raises:
            ValueError: a chat, and the tokenizer has no template for one; or nothing is asked.
        """
        text = self._rendered(prompt, chat)
        texts, streams = (
            ["", ""],
            [self._streamed(model, text, chat, tokens) for model in (self._base, self.model)],
        )
        open_ = {0, 1}
        while open_:
            for place in sorted(open_):
                try:
                    word = streams[place].text_queue.get(timeout=_WAIT)
                except Empty:
                    continue
                if isinstance(word, Exception):
                    raise word
                if word is streams[place].stop_signal:
                    open_.discard(place)
                else:
                    texts[place] += word
                    yield texts[0], texts[1]

    def probed(self, fact: Fact) -> list[Probed]:
        """Every probe of a fact, asked of both models."""
        probes = probes_of(fact)
        prompts = [probe.prompt for probe in probes]
        reading = self.model.read(prompts)
        said = [answers(model, prompts, 10) for model in (self._base, self.model)]
        return [
            Probed(probe, bool(inside), self._as_before(probe.prompt), base.strip(), edited.strip())
            for probe, inside, base, edited in zip(probes, reading.in_scope, *said)
        ]

    @torch.no_grad()
    def _as_before(self, prompt: str) -> bool:
        inputs = self.model.tokenizer(prompt, return_tensors="pt").to(self.model.decoder.device)
        return torch.equal(self.model(**inputs).logits, self._base(**inputs).logits)

    def _rendered(self, prompt: str, chat: bool) -> str:
        if not prompt.strip():
            raise ValueError("there is nothing to ask: type a prompt")
        if not chat:
            return prompt.rstrip()
        tokenizer = self.model.tokenizer
        if not tokenizer.chat_template:
            raise ValueError("this decoder's tokenizer has no chat template")
        turns = [{"role": "user", "content": prompt.strip()}]
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    def _streamed(
        self, model: LarimarForCausalLM, text: str, chat: bool, tokens: int
    ) -> TextIteratorStreamer:
        tokenizer = self.model.tokenizer
        streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=not chat).to(model.decoder.device)
        options = {"max_new_tokens": tokens, "do_sample": False, "pad_token_id": tokenizer.pad_token_id}

        def run() -> None:
            try:
                model.generate(**inputs, **options, streamer=streamer)
            except Exception as error:  # to be raised where the words are waited for
                streamer.text_queue.put(error)

        Thread(target=run, daemon=True).start()
        return streamer


def _why(sentence: str, written: str, score: float, in_scope: bool) -> str:
    if not written:
        return "nothing is written"
    if sentence.strip() == asked_by(written).strip():
        return "it is the written prompt, word for word"
    if in_scope:
        return "it asks the same"
    return "no fact is near" if score == 0 else "it asks something else"
