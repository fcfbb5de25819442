"""The memory at the level of text: facts are written and forgotten, prompts are answered with readouts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.memory.memory import add_noise
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.empty_state import empty_state
from larimar_editor.model.line_start import LineStart, as_asked, ids_at_line_start, with_both_beginnings
from larimar_editor.model.origin import origin
from larimar_editor.model.queries import QueryEncoder
from larimar_editor.model.reading import AnswerIds, Reading
from larimar_editor.model.scoping import ScopeDetectors
from larimar_editor.scope.asking import asked_by
from larimar_editor.scope.chained import follow
from larimar_editor.scope.decision import ScopeDecision, SecondStage, Written, decide, decide_among
from larimar_editor.scope.detectors import ScopeDetector
from larimar_editor.scope.nearest import INDEX_FROM, GraphIndex, Lookup, every_row, exact, indexed
from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore, facts_from
from larimar_editor.state.file import StateFile
from larimar_editor.state.operations import Write
from larimar_editor.state.owner import StateOwner
from larimar_editor.utils.inference import outside_inference
from larimar_editor.utils.sentences import sentences
from larimar_editor.utils.text import answer_ids, kept_answer, several

_FACTS_AT_ONCE = 256  # facts whose latents are held at once, unpacked


@dataclass(frozen=True)
class ToEncode:
    """Texts for the encoder, to write facts.

    Attributes:
        texts: one of each fact.
        starts: where a fact has a second text, for its answer at the start of a line.
        slots: of all texts, how many each is to have.
    """

    texts: list[str]
    starts: Sequence[LineStart | None]
    slots: dict[str, int]


class EpisodicMemory(StateOwner):
    """What a person does with an edited model: write, forget, undo, look, save.

    A base class of the model, which puts together what encodes (`queries`), what decides scope (`detectors`)
    and what changes and keeps the edited state (`history`). Several threads may read and edit: each read is
    of one edited state, before or after an edit.

    Attributes:
        config: memory size, addressing, scope; see `LarimarSettings`.
        queries: texts to latents.
        detectors: the scope detectors; anything with the interface of `ScopeDetectors`.
        tokenizer: counts an answer's tokens.
        prior: trained prior memory ``(K, C)``, or None.
        state_register: holds the current edited state; None on a model that was never edited.
    """

    config: LarimarConfig
    queries: QueryEncoder
    detectors: ScopeDetectors
    tokenizer: PreTrainedTokenizerBase
    prior: Tensor | None

    # --- editing ---

    def write(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Write facts in one shot (paper, eq. (mem_update_seq), alpha = 1).

        A prompt that is written already gets the new target, the old one being forgotten first. Writing a
        fact again changes nothing.

        Args:
            requests: mappings with ``prompt`` and ``target_new``, or facts.

        Returns:
            the facts as they are stored.

        Raises:
            ValueError: bad requests (see `larimar_editor.state.facts.facts_from`), an encoding that is not
                finite, or another ``config.scope`` than the facts, or the open file's, were written with.
            OSError: the state's file, if one is open, could not be written.
            Whatever is raised, nothing is written.
        """
        facts = self.checked(requests)
        with self._lock, outside_inference():
            state = self.edited_state
            new = [
                fact for fact in facts if (known := state.store.find(fact.key)) is None or fact.adds_to(known)
            ]
            if new:
                self._check_opened_for(self.history.file)
                state = self._written(new, state)
                self.history.commit(Write.name, state)
            return [known for fact in facts if (known := state.store.find(fact.key)) is not None]

    def checked(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """The facts that `write` would write, each once.

        Raises:
            ValueError: as `write`, of a request.
        """
        return facts_from(requests)

    def _written(self, facts: Sequence[Fact], state: EditedState) -> EditedState:
        """The state with facts written. They are encoded together, and written a block at a time: the latents
        of a block are as wide as its longest answer needs.
        """
        prompts, read = [asked_by(fact.key) for fact in facts], self.to_encode(facts)
        latents_of_prompts = self.config.key_encoding == "latent" or self.config.scope == "internal"
        with self.queries.one_pass([*read.slots, *prompts * latents_of_prompts], read.slots):
            keys, detector = self.memory_keys(prompts), self.detectors.current
            if detector is None:
                scope = torch.zeros(len(prompts), 0, device=self.queries.device)
            else:
                scope = (
                    keys
                    if self._keys_are_scope_embeddings
                    else detector.embed(prompts).to(self.queries.device)
                )
            self._check_written_for(scope.shape[1], state.store)
            # A fixed memory is made anew by the operations on it, to the bit: of the same keys, and with all
            # facts of one at once.
            halved = self.config.has_pages and self.config.scope == "external"
            kept_as = torch.float16 if halved else torch.float32
            size, now = _FACTS_AT_ONCE if self.config.has_pages else len(facts), time.time()
            for start in range(0, len(facts), size):
                block = slice(start, start + size)
                values, own = self._values(read.texts[block], read.starts[block]), keys[block]
                of_scope = own if scope is keys else scope[block]
                operation = Write(tuple(facts[block]), values, own, of_scope, now, kept_as)
                state = operation.applied_to(state)
            return state

    def _values(self, texts: Sequence[str], starts: Sequence[LineStart | None]) -> Tensor:
        """Latents ``(N, width)`` of facts, by what `to_encode` has of them, as they are observed."""
        values, layout = self.queries.values(texts), self.queries.encoder.layout
        lines = [start.text for start in starts if start is not None]
        if lines and layout is not None:
            values = with_both_beginnings(layout, values, starts, self.queries.values(lines))
        return add_noise(values, self.config.observation_noise)

    def to_encode(self, facts: Sequence[Fact]) -> ToEncode:
        """What the encoder is given to write facts."""
        layout = self.queries.encoder.layout
        most = min(self.config.answer_tokens, self.config.encoder_max_length - 1)
        if layout is None or not most:
            texts = [fact.text for fact in facts]
            return ToEncode(texts, [None] * len(facts), dict.fromkeys(texts, self.config.memory_slots))
        kept = [kept_answer(self.tokenizer, fact.prompt, fact.target_new, most) for fact in facts]
        both = self.config.spellings == "both" and self._keeps_both_beginnings
        starts = self._line_starts(facts, most) if both else [None] * len(facts)
        counted = [*kept, *((start.text, start.tokens_of_line) for start in starts if start is not None)]
        slots = {text: layout.needed(tokens) for text, tokens in sorted(counted, key=lambda pair: pair[1])}
        return ToEncode([text for text, _ in kept], starts, slots)

    @property
    def _keeps_both_beginnings(self) -> bool:
        """Where a readout is one fact's and it is known whose: in pages, and with a detector."""
        return self.config.has_pages and self.config.scope != "none"

    def _line_starts(self, facts: Sequence[Fact], most: int) -> list[LineStart | None]:
        """Of facts whose answers of up to ``most`` tokens begin with other ones at the start of a line."""
        return [LineStart.of(self.tokenizer, fact.prompt, fact.target_new, most) for fact in facts]

    # --- looking ---

    def scope_of(self, prompts: Sequence[str]) -> ScopeDecision:
        """What the scope detector says of these prompts, for a person to look at.

        Raises:
            ValueError: there is no detector, or the facts were written with another.
        """
        detector = self.detectors.current
        if detector is None:
            raise ValueError("this model has no scope detector (scope: none)")
        with self._lock:
            store, config = self.edited_state.store, self.config
            lookup, (second, threshold) = self._lookup(detector, store), self._bar(detector, store)
            decision = decide(detector, prompts, lookup, threshold, second)
            decided = list(zip(decision.nearest.tolist(), decision.in_scope.tolist(), strict=True))
            for place, row in _to_the_letter(prompts, store).items():
                if decided[place] != (row, True):
                    decision.nearest[place] = row
                    decision.score[place] = decision.score[place].clamp(min=1.0)
                    decision.in_scope[place] = decision.score[place] >= threshold
            if not config.chained_reads or bool(decision.in_scope.all()):
                return decision
            among = lambda parts: decide_among(detector, parts, lookup, threshold, second)
            answer = lambda row: store.fact(row).target_new
            return follow(prompts, decision, among, answer, threshold, config.chained_reads)

    def _bar(self, detector: ScopeDetector, store: FactStore) -> tuple[SecondStage | None, float]:
        """The second stage, which looks at what is written in ``store``, and the score from which a prompt is
        in scope.
        """
        config = self.config

        def written(row: int) -> Written:
            fact = store.fact(row)
            return Written(asked_by(fact.key), fact.subject, fact.target_new.strip())

        candidates, least, sure = config.scope_candidates, config.scope_least_cosine, config.scope_sure
        second = SecondStage.of(detector, written, candidates, least, sure)
        return second, config.threshold(second is not None)

    def facts_asked_by(self, prompts: Sequence[str]) -> list[Fact | None]:
        """The written fact that each prompt is taken for; None where it is out of scope.

        Raises:
            ValueError: there is no detector, or the facts were written with another.
        """
        with self._lock:
            decision = self.scope_of(prompts)
            found = zip(decision.nearest.tolist(), decision.in_scope.tolist(), strict=True)
            return [self.edited_state.store.fact(row) if inside else None for row, inside in found]

    def memory_keys(self, prompts: Sequence[str]) -> Tensor:
        """What addresses the memory: ``(N, key size)``."""
        encode = self.detectors.embed if self.config.key_encoding == "scope" else self.queries.latents
        with self._lock:
            return encode(several(prompts)).to(self.queries.device)

    def read(self, prompts: Sequence[str], at_line_start: Sequence[bool] | None = None) -> Reading:
        """Address the memory with prompts: ``Z_read = W M`` for those in scope (paper, algorithm 1, read). A
        blank one asks nothing, and is out of scope.

        Args:
            prompts: texts.
            at_line_start: whether the answer to each opens a line; None: it goes on behind a space.

        Raises:
            TypeError: ``prompts`` is one text.
        """
        with self._lock:
            unique = [prompt for prompt in dict.fromkeys(several(prompts)) if prompt.strip()]
            if not unique or self.is_empty():
                return Reading.nothing(len(prompts), self.config.latent_size)
            in_scope, latents, said = self._readouts(unique)
            if len(unique) < len(set(prompts)):
                in_scope = torch.cat((in_scope, torch.zeros(1, dtype=torch.bool)))
            place = {prompt: i for i, prompt in enumerate(unique)}
            index = [place.get(prompt, len(unique)) for prompt in prompts]
            inside = in_scope[index]
            facts = [said[i] for i in index if i in said]
            row = (in_scope.cumsum(0) - 1)[index][inside]
            latents = latents[row.to(latents.device)]
            ids: list[AnswerIds] = []
            if facts:
                lines = [False] * len(prompts) if at_line_start is None else list(at_line_start)
                lines = [line for line, among in zip(lines, inside.tolist(), strict=True) if among]
                latents, ids = self._as_asked(latents, facts, lines)
            return Reading(inside, latents, tuple(fact.target_new.strip() for fact in facts), tuple(ids))

    def _as_asked(
        self, latents: Tensor, facts: Sequence[Fact], at_line_start: Sequence[bool]
    ) -> tuple[Tensor, list[AnswerIds]]:
        """Readouts with the beginning that each prompt wants, and the tokens of the answers."""
        layout, opened = self.queries.encoder.layout, [False] * len(facts)
        if layout is None:
            return latents, []
        if self._keeps_both_beginnings:
            # Whatever the limit is now: a latent that was written under another is told by its slots.
            starts = self._line_starts(facts, sys.maxsize)
            latents, opened = as_asked(layout, latents, starts, at_line_start)
        ids = []
        for fact, opens, line in zip(facts, opened, at_line_start):
            given = self.tokenizer, fact.prompt, fact.target_new
            asked = tuple(ids_at_line_start(*given) if line else answer_ids(*given))
            ids.append(AnswerIds(asked if opens or not line else tuple(answer_ids(*given)), asked))
        return latents, ids

    def _readouts(self, prompts: list[str]) -> tuple[Tensor, Tensor, dict[int, Fact]]:
        """Which prompts are in scope, bool ``(N,)`` on the CPU, the readouts of those that are, and, by their
        places, the facts that were decided for.
        """
        state, detector = self.edited_state, self.detectors.current
        if detector is None:
            keys = self.memory_keys([asked_by(prompt) for prompt in prompts])
            read = self._normed(state.read(None, keys, self.config.sigma_w))
            return torch.ones(len(prompts), dtype=torch.bool), read, {}
        rows, addressed_by = self._decided(detector, prompts)
        in_scope = torch.tensor([place in rows for place in range(len(prompts))])
        if not rows:
            return in_scope, torch.zeros(0, self.config.latent_size, device=self.queries.device), {}
        places = sorted(rows)
        in_order = [rows[place] for place in places]
        facts = dict(zip(places, state.store.entries.facts(in_order), strict=True))
        return in_scope, self._normed(state.read(in_order, addressed_by, self.config.sigma_w)), facts

    def _decided(
        self, detector: ScopeDetector, prompts: Sequence[str]
    ) -> tuple[dict[int, int], Tensor | None]:
        """Rows of the facts that are decided for, by the places of the prompts in scope, and what addresses
        the memory for these (see `_keys`).
        """
        store, rows = self.edited_state.store, dict[int, int]()
        if self._facts_say_where and self._bar(detector, store)[1] <= 1:
            # What the detector makes of a prompt that is written as it stands here is wanted by nobody.
            self._check_written_for(detector.embedding_size, store)
            rows = _to_the_letter(prompts, store)
        asked = [place for place in range(len(prompts)) if place not in rows]
        if not asked:
            return rows, None
        texts = [prompts[place] for place in asked]
        twice = self.config.scope == "internal" and self.config.key_encoding == "latent"
        with self.queries.one_pass([part for text in texts for part in sentences(text)] if twice else ()):
            decision = self.scope_of(texts)
            chosen = torch.nonzero(decision.in_scope).flatten().tolist()
            rows |= zip([asked[place] for place in chosen], decision.nearest[chosen].tolist(), strict=True)
            return rows, self._keys(decision, chosen) if chosen else None

    @property
    def _facts_say_where(self) -> bool:
        """Whether the fact that was decided for addresses the memory, and no key is asked for."""
        return self.config.addressed_by == "fact" and self.config.has_pages

    def _keys(self, decision: ScopeDecision, chosen: list[int]) -> Tensor | None:
        """What addresses the memory for the queries of these places: keys ``(n, key size)``; None where a
        fact says by itself where it is.
        """
        if self._facts_say_where:
            return None
        store, rows = self.edited_state.store, decision.nearest[chosen].tolist()
        by_fact = self.config.addressed_by == "fact"
        if self._keys_are_scope_embeddings:
            return store.keys(rows) if by_fact else decision.embedding[chosen].to(self.queries.device)
        if by_fact:
            return self.memory_keys([asked_by(fact.key) for fact in store.entries.facts(rows)])
        return self.memory_keys([decision.sentence[i] for i in chosen])

    @property
    def _keys_are_scope_embeddings(self) -> bool:
        return self.config.key_encoding == "scope" and self.config.scope == "external"

    def _normed(self, read: Tensor) -> Tensor:
        read = read.to(self.queries.device)
        if self.config.readout_norm and self.config.latent_norm:
            core = read[:, : self.config.latent_size]
            read = read * (self.config.latent_norm / core.norm(dim=1, keepdim=True).clamp_min(1e-12))
        return read

    def _lookup(self, detector: ScopeDetector, store: FactStore) -> Lookup:
        if not len(store):
            return exact(
                detector.similarity, torch.zeros(0, detector.embedding_size, device=self.queries.device)
            )
        rows = store.column("scope")
        self._check_written_for(detector.embedding_size, store)
        nearest = every_row(detector.similarity, rows, store.alive)
        # A sentence encoder that was handed in may be on another device.
        compare = lambda queries, count: nearest(queries.to(rows.device), count)
        if self.config.scope_index == "faiss" and self.config.scope == "external" and len(rows) >= INDEX_FROM:
            return indexed(store.index("scope", GraphIndex), compare, rows, store.alive)
        return compare

    def _check_written_for(self, embedding_size: int, store: FactStore) -> None:
        """The facts of ``store`` have embeddings of the detector that decides now."""
        if len(store) and store.column("scope").shape[1] != embedding_size:
            raise ValueError(
                f"the facts were written for another scope detector than scope: {self.config.scope}, with "
                f"embeddings of size {store.column('scope').shape[1]} in place of {embedding_size}: put "
                "config.scope back, or reset() and write them again"
            )

    def _check_opened_for(self, file: StateFile | None) -> None:
        """A file says once of all of its facts what made their numbers. Of what it says only the scope may be
        another by now: the other settings of an `origin` are fixed with the model.
        """
        if file is not None and (opened := file.origin.get("scope")) != (scope := self.config.scope):
            raise ValueError(
                f"{file.path} is open, with scope: {opened}, and this model has scope: {scope} by now: put "
                "config.scope back to write to it, or close_state(), reset() and open another file"
            )

    # --- the edited state ---

    @property
    def origin(self) -> dict[str, str]:
        """What made the state's numbers; see `larimar_editor.model.origin`."""
        return origin(self.config, self.queries.encoder.own_weights(), self.detectors.weights, self.prior)

    def _empty_state(self) -> EditedState:
        return empty_state(self.config, self.queries, self.detectors, self.prior)

    def _check_made_by(self, store: FactStore) -> None:
        if len(store):
            detector = self.detectors.current
            self._check_written_for(0 if detector is None else detector.embedding_size, store)


def _to_the_letter(prompts: Sequence[str], store: FactStore) -> dict[int, int]:
    """Rows of the prompts that were written as a whole, by their places: such a prompt is its own fact's,
    with a score of 1, whatever is said of its sentences.
    """
    rows = {place: store.row(prompt) for place, prompt in enumerate(prompts) if prompt.strip()}
    return {place: row for place, row in rows.items() if row is not None}
