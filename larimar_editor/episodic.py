"""The memory at the level of text: facts are written and forgotten, prompts are answered with readouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from larimar_editor.addressing import Reference, random_reference
from larimar_editor.configuration import LarimarConfig
from larimar_editor.embedded import resolve
from larimar_editor.encoders import LatentEncoder
from larimar_editor.facts import Fact, FactStore, facts_from
from larimar_editor.lookup import INDEX_FROM, GraphIndex, Lookup, exact, indexed
from larimar_editor.memory import Memory, add_noise
from larimar_editor.metric import train_metric
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

    Args:
        config: memory size, addressing, scope; see `LarimarConfig`.
        encoder: text to latent.

    Attributes:
        prior: trained prior memory ``(K, C)``, or None.
        scope_weights: ``metric`` of the external detector, ``weight`` and ``bias`` of the internal one; empty when the
            checkpoint has none.
    """

    def __init__(self, config: LarimarConfig, encoder: LatentEncoder):
        super().__init__()
        self.config, self.encoder = config, encoder
        self.prior: Tensor | None = None
        self.scope_weights: dict[str, Tensor] = {}
        self._detector: ScopeDetector | None = None
        self.state_register: StateRegister | None = None

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
                self.encoder.encode, self.config.latent_size, weight, float(bias), self.config.scope_threshold
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
        encode = self._sentence_encoder.embed if self.config.key_encoding == "scope" else self.encoder.encode
        return encode(prompts).to(self.encoder.device)

    @property
    def register(self) -> StateRegister:
        """The edited state's register, made on first use: an unedited model costs nothing."""
        if self.state_register is None:
            self.state_register = StateRegister(self._empty_state())
        return self.state_register

    @property
    def edited_state(self) -> EditedState:
        """Memory and facts. Assigning one makes it current."""
        return self.register.get()

    @edited_state.setter
    def edited_state(self, state: EditedState) -> None:
        self.register.set(state)

    def write(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """Write facts in one shot (paper, eq. (mem_update_seq), alpha = 1).

        A prompt that is written already gets the new target, the old one being forgotten first. Writing a fact again
        changes nothing.

        Args:
            requests: mappings with ``prompt`` and ``target_new``, or facts.

        Returns:
            the facts as they are stored.

        Raises:
            ValueError: bad requests (see `larimar_editor.facts.facts_from`); nothing is written.
        """
        facts = facts_from(requests)
        state = self.edited_state
        new = [fact for fact in facts if not _is_written(state, fact)]
        if new:
            # The sentence a query is compared with is the last one: a prompt is continued where it ends.
            prompts = [sentences(fact.key)[-1] for fact in new]
            values = add_noise(self.encoder.encode([fact.text for fact in new]), self.config.observation_noise)
            keys = self._keys(prompts)
            state = state.write(new, values, keys, self._scope_embeddings(prompts, keys))
            self.edited_state = state
        return [state.store.fact(state.store.row(fact)) for fact in facts]

    def forget(self, *facts: Fact | str | int) -> None:
        """Forget facts, named by prompt, by id or by themselves (alpha = -1).

        Raises:
            UnknownFact: a fact that is not written; nothing is changed.
        """
        self.edited_state = self.edited_state.forget(facts)

    def facts(self) -> list[Fact]:
        """What is written, oldest first."""
        return self.edited_state.store.facts()

    def reset(self) -> None:
        """Forget everything."""
        self.edited_state = self.edited_state.cleared()

    def is_empty(self) -> bool:
        """Whether nothing is written. Costs nothing on a model that was never edited."""
        return self.state_register is None or not len(self.edited_state.store)

    def _empty_state(self) -> EditedState:
        config, device = self.config, self.encoder.device
        size = self._sentence_encoder.embedding_size if config.key_encoding == "scope" else config.latent_size
        if config.reference == "prompts":
            reference = Reference.from_prompts(config.memory_rows, size, config.addressing, config.addressing_alpha, device)
        else:
            rows = random_reference(config.memory_rows, size) if config.reference == "random" else self._prior_rows(size)
            reference = Reference.fixed(rows.to(device), config.addressing, config.addressing_alpha)
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
        return decide(self.detector, prompts, self._lookup())

    def read(self, prompts: Sequence[str]) -> Reading:
        """Address the memory with prompts: ``Z_read = W M`` for those in scope (paper, algorithm 1, read)."""
        if self.is_empty():
            return Reading.nothing(len(prompts), self.config.latent_size)
        state = self.edited_state
        unique = list(dict.fromkeys(prompts))
        if self.detector is None:
            decision, in_scope = None, torch.ones(len(unique), dtype=torch.bool)
        else:
            decision = self.scope_of(unique)
            in_scope = decision.in_scope
        chosen = torch.nonzero(in_scope).flatten().tolist()
        latents = torch.zeros(len(unique), self.config.latent_size, device=self.encoder.device)
        if chosen:
            if self._keys_are_scope_embeddings:
                keys = decision.embedding[chosen]
            else:
                keys = self._keys([sentences(unique[i])[-1] if decision is None else decision.sentence[i] for i in chosen])
            read = state.memory.read(state.reference.weights(keys), self.config.sigma_w).to(self.encoder.device)
            if self.config.readout_norm and self.config.latent_norm:
                read = read * (self.config.latent_norm / read.norm(dim=1, keepdim=True).clamp_min(1e-12))
            latents[chosen] = read
        place = {prompt: i for i, prompt in enumerate(unique)}
        index = [place[prompt] for prompt in prompts]
        inside = in_scope[index]
        return Reading(inside, latents[index][inside.to(latents.device)])

    def _lookup(self) -> Lookup:
        store = self.edited_state.store
        if not len(store):
            return exact(self.detector.similarity, torch.zeros(0, self.detector.embedding_size, device=self.encoder.device))
        rows = store.column("scope")
        if self.config.scope_index == "faiss" and self.config.scope == "external" and len(rows) >= INDEX_FROM:
            return indexed(store.index("scope", GraphIndex), self.detector.similarity, rows, store.alive)
        return exact(self.detector.similarity, rows, store.alive)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        device = self.encoder.device
        if self.state_register is not None and self.edited_state.memory.M.device != device:
            self.state_register.moved(device)
        if "_sentence_encoder" in self.__dict__:
            self._sentence_encoder.model.to(device)
        return self


def _is_written(state: EditedState, fact: Fact) -> bool:
    row = state.store.row(fact)
    return row is not None and state.store.fact(row).target_new.strip() == fact.target_new.strip()
