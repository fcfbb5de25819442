"""The memory at the level of text: facts are written and forgotten, prompts are answered with readouts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from larimar_editor.addressing import Addressing, Reference, random_reference
from larimar_editor.configuration import LarimarConfig
from larimar_editor.embedded import resolve
from larimar_editor.encoders import LatentEncoder
from larimar_editor.facts import Fact, FactStore, facts_from
from larimar_editor.ledger import Ledger
from larimar_editor.locks import Lock
from larimar_editor.lookup import INDEX_FROM, GraphIndex, Lookup, exact, indexed
from larimar_editor.memory import Memory, add_noise
from larimar_editor.metric import train_metric
from larimar_editor.operations import Clear, Forget, Write
from larimar_editor.origin import origin
from larimar_editor.register import StateRegister
from larimar_editor.scope import (
    ExternalScopeDetector,
    InternalScopeDetector,
    ScopeDecision,
    ScopeDetector,
    decide,
    sentences,
)
from larimar_editor.state import EditedState
from larimar_editor.statefiles import load_state, save_state


@dataclass(frozen=True)
class Reading:
    """What the memory says to a batch: which rows are in scope, and their readouts.

    Attributes:
        in_scope: bool ``(B,)``, on the CPU.
        latents: ``(number in scope, C)``.
    """

    in_scope: Tensor
    latents: Tensor

    @classmethod
    def nothing(cls, count: int, latent_size: int) -> Reading:
        """No row in scope."""
        return cls(torch.zeros(count, dtype=torch.bool), torch.zeros(0, latent_size))


class EpisodicMemory(nn.Module):
    """Encoder, scope detector and edited state, put together.

    Several threads may read and edit: each read is of one edited state, before or after an edit.

    Args:
        config: memory size, addressing, scope; see `LarimarConfig`.
        encoder: text to latent.
        lock: what the encoder runs under; one of its own when None.

    Attributes:
        prior: trained prior memory ``(K, C)``, or None.
        scope_weights: ``metric`` of the external detector, ``weight`` and ``bias`` of the internal one; empty when the
            checkpoint has none.
    """

    def __init__(self, config: LarimarConfig, encoder: LatentEncoder, lock: Lock | None = None):
        super().__init__()
        self.config, self.encoder, self._lock = config, encoder, lock or Lock()
        self.prior: Tensor | None = None
        self.scope_weights: dict[str, Tensor] = {}
        self._detector: ScopeDetector | None = None
        self.state_register: StateRegister | None = None
        self._ledger: Ledger | None = None
        self._encoded: dict[str, Tensor] = {}

    @property
    def detector(self) -> ScopeDetector | None:
        """The scope detector that the configuration names; None when everything is in scope.

        Raises:
            ValueError: an internal detector that the checkpoint has no weights for.
        """
        if self._detector is None and self.config.scope == "external":
            self._detector = self._sentence_encoder
        elif self._detector is None and self.config.scope == "internal":
            if "weight" not in self.scope_weights:
                raise ValueError(
                    "the checkpoint has no internal scope detector; "
                    "`larimar-editor calibrate --detector internal --write` makes one"
                )
            weight, bias = self.scope_weights["weight"], self.scope_weights["bias"]
            self._detector = InternalScopeDetector(
                self._encode, self.config.latent_size, weight, float(bias), self.config.scope_threshold
            )
        return self._detector

    @cached_property
    def _sentence_encoder(self) -> ExternalScopeDetector:
        """The external detector's encoder, which may address the memory even where another detector decides."""
        return ExternalScopeDetector(
            resolve(self.config.scope_encoder_name_or_path),
            self.config.scope_threshold,
            self.encoder.device,
            self.scope_weights.get("metric"),
        )

    def learn_metric(self, facts: Sequence[Mapping], progress: bool = True) -> None:
        """Learn the map after the external detector's encoder (`larimar_editor.metric`), in place of the one there is.

        Raises:
            ValueError: while facts are written, whose embeddings are without it.
        """
        if not self.is_empty():
            raise ValueError("the scope detector's map can be learned only while nothing is written; call reset() first")
        detector = self._sentence_encoder
        detector.metric = None
        detector.metric = train_metric(detector.embed, facts, progress=progress)
        self.scope_weights = self.scope_weights | {"metric": detector.metric.cpu()}

    def _keys(self, prompts: Sequence[str]) -> Tensor:
        """What addresses the memory: ``(N, key size)``."""
        encode = self._sentence_encoder.embed if self.config.key_encoding == "scope" else self._encode
        return encode(prompts).to(self.encoder.device)

    @property
    def ledger(self) -> Ledger:
        """The edited state's ledger, made on first use: an unedited model costs nothing."""
        with self._lock:
            if self._ledger is None:
                self.state_register = StateRegister(self._empty_state())
                self._ledger = Ledger(self.state_register)
            return self._ledger

    @property
    def edited_state(self) -> EditedState:
        """Memory and facts. Assigning one makes it current."""
        with self._lock:
            return self.ledger.state

    @edited_state.setter
    def edited_state(self, state: EditedState) -> None:
        with self._lock:
            self.ledger.state = state

    def undo_token(self) -> Tensor:
        """The current state's version; see `StateRegister.token`."""
        with self._lock:
            return self.ledger.token()

    def write(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Write facts in one shot (paper, eq. (mem_update_seq), alpha = 1).

        A prompt that is written already gets the new target, the old one being forgotten first. Writing a fact again
        changes nothing.

        Args:
            requests: mappings with ``prompt`` and ``target_new``, or facts.

        Returns:
            the facts as they are stored.

        Raises:
            ValueError: bad requests (see `larimar_editor.facts.facts_from`), or an encoding that is not finite.
            OSError: the journal, if one is open, could not be written.
            Whatever is raised, nothing is written.
        """
        facts = facts_from(requests)
        with self._lock:
            state = self.edited_state
            new = [fact for fact in facts if (found := state.store.find(fact)) is None or not found.says(fact)]
            if new:
                state = self.ledger.apply(self._writing(new))
            return [found for fact in facts if (found := state.store.find(fact)) is not None]

    def _writing(self, facts: Sequence[Fact]) -> Write:
        # The sentence a query is compared with is the last one: a prompt is continued where it ends.
        prompts, texts = [sentences(fact.key)[-1] for fact in facts], [fact.text for fact in facts]
        latents_of_prompts = self.config.key_encoding == "latent" or self.config.scope == "internal"
        with self._one_pass(texts + prompts if latents_of_prompts else texts):
            values = add_noise(self._encode(texts), self.config.observation_noise)
            keys = self._keys(prompts)
            return Write(tuple(facts), values, keys, self._scope_embeddings(prompts, keys), time.time())

    @contextmanager
    def _one_pass(self, texts: Sequence[str]) -> Iterator[None]:
        """Within this block `_encode` knows these texts, from one pass of the encoder, and is not asked again for others."""
        unique = list(dict.fromkeys(texts))
        self._encoded = dict(zip(unique, self.encoder.encode(unique))) if unique else {}
        try:
            yield
        finally:
            self._encoded = {}

    def _encode(self, texts: Sequence[str]) -> Tensor:
        """Encodings ``(N, C)``, float32, from the pass of `_one_pass` if they are in it."""
        if texts and all(text in self._encoded for text in texts):
            return torch.stack([self._encoded[text] for text in texts])
        return self.encoder.encode(texts)

    def forget(self, *facts: Fact | str | int) -> None:
        """Forget facts, named by prompt, by id or by themselves (alpha = -1).

        Raises:
            UnknownFact: a fact that is not written; nothing is changed.
            OSError: the journal, if one is open, could not be written; nothing is changed.
        """
        with self._lock:
            store = self.edited_state.store
            if rows := store.rows(facts):
                self.ledger.apply(Forget(tuple(store.fact(row).id for row in rows)))

    def undo(self) -> None:
        """Put back the state before the last `write`, `forget` or `reset`, to the bit; see `Ledger.undo`."""
        with self._lock:
            self.ledger.undo()

    def save_state(self, folder: str | Path) -> None:
        """Save the edited state, apart from the checkpoint; see `larimar_editor.statefiles.save_state`."""
        with self._lock:
            if not self.ledger.save(folder):
                save_state(self.edited_state, folder, self.origin)

    def load_state(self, folder: str | Path) -> None:
        """Replace the edited state by a saved one; see `larimar_editor.statefiles.load_state`."""
        with self._lock:
            self.edited_state = load_state(self.edited_state, folder, self.origin)

    def open_journal(self, folder: str | Path) -> None:
        """Keep every edit from now on in ``folder``; see `Ledger.open_journal`."""
        with self._lock:
            self.ledger.open_journal(folder, self.origin)

    def close_journal(self) -> None:
        """End what `open_journal` began; the folder keeps the state."""
        with self._lock:
            self.ledger.close_journal()

    @property
    def origin(self) -> dict[str, str]:
        """What made the state's numbers; see `larimar_editor.origin`."""
        weights = {f"encoder.{name}": value for name, value in self.encoder.own_weights().items()}
        weights |= {f"scope.{name}": value for name, value in self.scope_weights.items()}
        return origin(self.config, weights | ({} if self.prior is None else {"prior": self.prior}))

    def facts(self) -> list[Fact]:
        """What is written, oldest first."""
        return self.edited_state.store.facts()

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self.ledger.apply(Clear())

    def is_empty(self) -> bool:
        """Whether nothing is written. Costs nothing on a model that was never edited."""
        return self.state_register is None or not len(self.edited_state.store)

    def _empty_state(self) -> EditedState:
        config, device = self.config, self.encoder.device
        addressing = cast(Addressing, config.addressing)
        size = self._sentence_encoder.embedding_size if config.key_encoding == "scope" else config.latent_size
        if config.reference == "prompts":
            reference = Reference.from_prompts(config.memory_rows, size, addressing, config.addressing_alpha, device)
        else:
            rows = random_reference(config.memory_rows, size) if config.reference == "random" else self._prior_rows(size)
            reference = Reference.fixed(rows.to(device), addressing, config.addressing_alpha)
        memory = Memory.empty(config.memory_rows, config.latent_size, device=device)
        return EditedState(memory, reference, FactStore())

    def _prior_rows(self, size: int) -> Tensor:
        if self.prior is None or self.prior.shape != (self.config.memory_rows, size):
            raise ValueError(
                f"reference: prior needs a trained prior memory of shape {(self.config.memory_rows, size)}; the checkpoint has "
                f"{None if self.prior is None else tuple(self.prior.shape)}. Use reference: prompts or random."
            )
        return self.prior

    def _scope_embeddings(self, prompts: Sequence[str], keys: Tensor) -> Tensor:
        if self.detector is None:
            return torch.zeros(len(prompts), 0, device=self.encoder.device)
        return keys if self._keys_are_scope_embeddings else self.detector.embed(prompts).to(self.encoder.device)

    @property
    def _keys_are_scope_embeddings(self) -> bool:
        return self.config.scope == "external" and self.config.key_encoding == "scope"

    def scope_of(self, prompts: Sequence[str]) -> ScopeDecision:
        """What the detector says of these prompts, for a person to look at."""
        if self.detector is None:
            raise ValueError("this model has no scope detector (scope: none)")
        with self._lock:
            return decide(self.detector, prompts, self._lookup(self.detector, self.edited_state.store))

    def read(self, prompts: Sequence[str]) -> Reading:
        """Address the memory with prompts: ``Z_read = W M`` for those in scope (paper, algorithm 1, read)."""
        with self._lock:
            if self.is_empty():
                return Reading.nothing(len(prompts), self.config.latent_size)
            return self._read(list(prompts))

    def _read(self, prompts: list[str]) -> Reading:
        state, unique = self.edited_state, list(dict.fromkeys(prompts))
        if self.detector is None:
            in_scope, chosen = torch.ones(len(unique), dtype=torch.bool), list(range(len(unique)))
            keys = self._keys([sentences(prompt)[-1] for prompt in unique])
        else:
            twice = self.config.scope == "internal" and self.config.key_encoding == "latent"
            with self._one_pass([part for prompt in unique for part in sentences(prompt)] if twice else ()):
                decision = self.scope_of(unique)
                in_scope = decision.in_scope
                chosen = torch.nonzero(in_scope).flatten().tolist()
                if self._keys_are_scope_embeddings:
                    keys = decision.embedding[chosen]
                elif chosen:
                    keys = self._keys([decision.sentence[i] for i in chosen])
        latents = torch.zeros(len(unique), self.config.latent_size, device=self.encoder.device)
        if chosen:
            latents[chosen] = self._readout(state, keys)
        place = {prompt: i for i, prompt in enumerate(unique)}
        index = [place[prompt] for prompt in prompts]
        inside = in_scope[index]
        return Reading(inside, latents[index][inside.to(latents.device)])

    def _readout(self, state: EditedState, keys: Tensor) -> Tensor:
        read = state.memory.read(state.reference.weights(keys), self.config.sigma_w).to(self.encoder.device)
        if self.config.readout_norm and self.config.latent_norm:
            read = read * (self.config.latent_norm / read.norm(dim=1, keepdim=True).clamp_min(1e-12))
        return read

    def _lookup(self, detector: ScopeDetector, store: FactStore) -> Lookup:
        if not len(store):
            return exact(detector.similarity, torch.zeros(0, detector.embedding_size, device=self.encoder.device))
        rows = store.column("scope")
        if self.config.scope_index == "faiss" and self.config.scope == "external" and len(rows) >= INDEX_FROM:
            return indexed(store.index("scope", GraphIndex), detector.similarity, rows, store.alive)
        return exact(detector.similarity, rows, store.alive)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        device = self.encoder.device
        if self.state_register is not None and self.edited_state.memory.M.device != device:
            self.state_register.moved(device)
        if "_sentence_encoder" in self.__dict__:
            self._sentence_encoder.model.to(device)
        return self
