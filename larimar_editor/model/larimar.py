"""The memory-conditioned language model: encoder, memory and any Hugging Face causal decoder."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationMixin,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.cache_utils import Cache
from transformers.generation.configuration_utils import GenerationConfig, GenerationMode
from transformers.modeling_outputs import CausalLMOutputWithPast

from larimar_editor.model.adapters import DecoderAdapters
from larimar_editor.model.after_answer import AnswersSaid, WordParts
from larimar_editor.model.cache import LarimarCache, Prefix
from larimar_editor.model.chat import ChatTurns
from larimar_editor.model.checkpoint import load_weights, save_checkpoint
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.copying import Copying, SlotTokens
from larimar_editor.model.decoding import Batch, decode
from larimar_editor.model.encoders import build_encoder, build_projection
from larimar_editor.model.episodic import EpisodicMemory
from larimar_editor.model.key_values import DecoderStates, check_signature
from larimar_editor.model.opening import check_options, decoder_of, find_checkpoint, of_tokenizer
from larimar_editor.model.prompts import Prompts, questions_in
from larimar_editor.model.queries import QueryEncoder
from larimar_editor.model.reading import Reading
from larimar_editor.model.restoring import unchanged_on_failure
from larimar_editor.model.scoping import ScopeDetectors
from larimar_editor.model.tokenizer import tokenizer_of
from larimar_editor.scope.decision import ScopeDecision
from larimar_editor.state.fact import Fact
from larimar_editor.utils.locks import decoder_lock


@dataclass
class _Generation:
    """What a generation has read so far, by prompts and whether they end a line: it is of one edited state,
    and of one sample of reading weights. The first ``columns`` of its rows' ids are the prompt.
    """

    model: LarimarForCausalLM
    empty: bool
    columns: int | None
    end: int | None = None
    readings: dict[tuple[tuple[str, ...], tuple[bool, ...]], Reading] = field(default_factory=dict)


_GENERATION: ContextVar[_Generation | None] = ContextVar("larimar_generation", default=None)


def _end_of(generation_config: GenerationConfig) -> int:
    ends = generation_config.eos_token_id
    end = ends[0] if isinstance(ends, list) else ends
    if end is None:
        raise ValueError(
            "after_answer: stop needs a token that ends a text, and there is no eos_token_id in "
            "generation_config: give one, or set after_answer to base or memory"
        )
    return int(end)


def _added_to_embeddings(config: LarimarConfig, decoder: PreTrainedModel) -> nn.Linear | None:
    """Makes of a latent what is added to the embeddings of tokens, nothing at first; None where the latent is
    in the memory slots alone.
    """
    if not config.latent_in_embeddings:
        return None
    width: Any = decoder.get_input_embeddings().embedding_dim
    embedding = nn.Linear(config.latent_size, width, bias=False).requires_grad_(False)
    nn.init.zeros_(embedding.weight)
    return embedding.to(decoder.device)


class LarimarForCausalLM(EpisodicMemory, PreTrainedModel, GenerationMixin):
    """Larimar over a causal decoder (paper, figure "Architecture").

    A prompt that the scope detector takes for one of the written facts is decoded with the memory's readout
    as past key values; any other prompt gets exactly the decoder's own logits. The decoder's weights never
    change.

    Build one with `from_pretrained`, or with ``decoder=`` from a decoder that is loaded already.

    Args:
        config: `LarimarConfig`; from now on only its settings that act at once can be changed.
        decoder: Hugging Face causal language model; put into evaluation mode.
        tokenizer: the decoder's.
        sentence_encoder: the external scope detector's, where it is loaded already; it may serve several
            models.
    """

    config: LarimarConfig
    config_class = LarimarConfig
    base_model_prefix = "decoder"
    main_input_name = "input_ids"
    _supports_sdpa = True
    _supports_flash_attn = True

    def __init__(
        self,
        config: LarimarConfig,
        decoder: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sentence_encoder: SentenceTransformer | None = None,
    ):
        super().__init__(config)
        self.decoder = decoder.eval()  # as it stays; its states are read here
        self.tokenizer = tokenizer
        self._turns: tuple[object, ChatTurns | None] = (None, None)
        self.generation_config = decoder.generation_config
        self.name_or_path = decoder.name_or_path  # callers look for the decoder's family in it
        for name in ("vocab_size", "hidden_size", "bos_token_id", "eos_token_id", "pad_token_id"):
            setattr(config, name, getattr(decoder.config, name, None))
        lora = config.decoder_mode == "lora"
        self.adapters = (
            DecoderAdapters(decoder, config.lora_rank, config.lora_targets, config.merge_adapters)
            if lora
            else None
        )
        self.states = DecoderStates(decoder, tokenizer, config.encoder_max_length)
        self.projection = build_projection(config, self.states.shape).to(decoder.device)
        self.embedding = _added_to_embeddings(config, decoder)
        # What makes the latent; W_M itself until training moves W_M away from it.
        self.analysis = self.projection if config.tied_projection else copy.deepcopy(self.projection)
        self.latent_encoder = build_encoder(config, self.states, self.analysis)
        if isinstance(self.latent_encoder, nn.Module):
            self.latent_encoder.to(decoder.device)
        self.queries = QueryEncoder(self.latent_encoder)
        self.detectors = ScopeDetectors(config, self.queries, sentence_encoder)
        self.prior = None
        self.state_register = self._history = None
        self._lock = decoder_lock(decoder)
        self._bos: Tensor | None = None
        self._slot_tokens: SlotTokens | None = None
        self._word_parts = WordParts(tokenizer)
        self._last_reading: tuple[object, object, tuple, Reading] | None = None
        config.fix(decoder.config)
        self.eval()

    # --- loading and saving ---

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        decoder: PreTrainedModel | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        config: LarimarConfig | None = None,
        sentence_encoder: SentenceTransformer | None = None,
        dtype: torch.dtype | str | None = None,
        device_map=None,
        **overrides,
    ) -> LarimarForCausalLM:
        """Load a checkpoint.

        Args:
            pretrained_model_name_or_path: folder with ``config.json`` and ``model.safetensors``, the name of
                a checkpoint that ships, such as ``smollm2-135m``, or of a repository on the Hugging Face hub.
            decoder: an instance of the checkpoint's base model that is loaded already; else it is loaded by
                the name in the configuration.
            tokenizer: the decoder's; loaded when None.
            config: replaces the folder's.
            sentence_encoder: the external scope detector's, where it is loaded already.
            dtype, device_map: passed to the decoder's loader.
            overrides: settings of `LarimarSettings` to change; what is none of them goes to the decoder's
                loader, and what concerns the hub to the tokenizer's, too. Of a checkpoint on the hub
                ``revision`` and ``subfolder`` are its own, and the rest is for both.

        Raises:
            FileNotFoundError: no checkpoint there, or not the decoder that it names.
            TypeError: a model in place of the name.
            ValueError: a damaged checkpoint, one for another decoder, a setting out of its range, one that is
                nearly a setting's name, or ``dtype`` or ``device_map`` with a decoder that is loaded already.
        """
        if not isinstance(pretrained_model_name_or_path, (str, Path)):
            raise TypeError(
                "the first argument is a checkpoint's folder or name; a decoder that is loaded already is "
                "given as from_pretrained(FOLDER, decoder=decoder, tokenizer=tokenizer)"
            )
        folder, given = find_checkpoint(pretrained_model_name_or_path, overrides, decoder)
        dtype = given.pop("torch_dtype", None) if dtype is None else dtype
        config = LarimarConfig.from_pretrained(folder) if config is None else config
        config = config.changed(**{name: given.pop(name) for name in LarimarConfig.settings() & given.keys()})
        options = {key: value for key, value in given.items() if not key.startswith("_")}
        check_options(options, decoder, dtype, device_map)
        if decoder is None:
            decoder = decoder_of(folder, config.base_model_name_or_path, dtype, device_map, options)
        if tokenizer is None:
            tokenizer = tokenizer_of(str(decoder.name_or_path), **of_tokenizer(options))
        with unchanged_on_failure(decoder):
            decoder.eval()  # in training mode it may have dropout, and gradient checkpointing caches nothing
            check_signature(config.decoder_signature, decoder, folder)
            model = cls(config, decoder, tokenizer, sentence_encoder)
            load_weights(model, folder)
        return model

    def save_pretrained(  # type: ignore[override]
        self,
        save_directory: str | Path,
        dtype: torch.dtype | None = None,
        is_main_process: bool = True,
        max_shard_size: int | str | None = None,
    ) -> None:
        """Save configuration and own weights; the decoder is named, not copied.

        What was there is replaced once both files are on the disk.

        Args:
            save_directory: folder, made if need be.
            dtype: of the saved weights; by default that which each has.
            is_main_process: False writes nothing, as in transformers.
            max_shard_size: passed by `push_to_hub`; the weights are one file, whatever it is.

        Raises:
            TypeError: any other argument of transformers' ``save_pretrained``: there is nothing here that it
                could do.
            OSError: it could not be written. What was there is still there, unless it was the second of the
                two files that could not take its place.
        """
        if not self.is_empty():
            warnings.warn(
                f"the checkpoint is saved without the {len(self.edited_state.store)} facts that are written: "
                "save_state(FILE) saves them",
                stacklevel=2,
            )
        if is_main_process:
            save_checkpoint(self, Path(save_directory), dtype)

    def adapted(self) -> contextlib.AbstractContextManager[None]:
        """Within this context the decoder's adapters act, if it has any; `forward` sees to it by itself."""
        return contextlib.nullcontext() if self.adapters is None else self.adapters.at_work()

    # --- reading ---

    @property
    def chat_turns(self) -> ChatTurns | None:
        """Of the tokenizer's chat template as it is now; None where it has none."""
        template = getattr(self.tokenizer, "chat_template", None)
        if self._turns[0] != template:
            self._turns = (template, ChatTurns.of(self.tokenizer))
        return self._turns[1]

    @property
    def word_parts(self) -> WordParts:
        """Of the tokenizer as it is now."""
        if self._word_parts.tokenizer is not self.tokenizer:
            self._word_parts = WordParts(self.tokenizer)
        return self._word_parts

    def checked(self, requests: Iterable[Mapping | Fact]) -> list[Fact]:
        """As `EpisodicMemory.checked`.

        Raises:
            ValueError: also of a prompt that is a chat in the decoder's template: of a chat only the question
                is looked for, so that is what has to be written.
        """
        facts, turns = super().checked(requests), self.chat_turns
        for fact in facts:
            if turns is not None and (question := turns.last_question(fact.prompt)):
                raise ValueError(
                    f"the prompt {fact.prompt!r} is a chat in the decoder's template: write its question, "
                    f"{question!r}; it is found in chats as well"
                )
        return facts

    def scope_of(self, prompts: Sequence[str]) -> ScopeDecision:
        """What the scope detector says of these prompts, for a person to look at; of a chat in the decoder's
        template it is the last question that counts, as in `generate`.

        Raises:
            ValueError: there is no detector, or the facts were written with another.
        """
        return super().scope_of(questions_in(prompts, self.chat_turns))

    def reading_of(self, prompts: Sequence[str]) -> Reading:
        """What the memory says to texts that are to go on, as `generate` reads it; of a chat in the decoder's
        template to its last question.
        """
        return self.read(questions_in(prompts, self.chat_turns), [text.endswith("\n") for text in prompts])

    @property
    def _generation(self) -> _Generation | None:
        """The one that calls this model now, or that somebody calls it within; None outside `generate`, and
        in another model's.
        """
        generation = _GENERATION.get()
        return generation if generation is not None and generation.model is self else None

    @property
    def _nothing_is_read(self) -> bool:
        """Whether nothing is written; in a generation, when it began."""
        generation = self._generation
        return self.is_empty() if generation is None else generation.empty

    def _reading(self, prompts: Prompts) -> Reading:
        """What the memory says to a batch.

        It is read once in a generation, and once for calls in a row that ask the same, as decoding without a
        cache does. With sampled reading weights every call outside a generation reads anew.
        """
        generation = self._generation
        if self._nothing_is_read:
            return Reading.nothing(prompts.rows, self.config.latent_size)
        asked, lines = tuple(prompts.queries(self.chat_turns)), tuple(prompts.at_line_start())
        if generation is not None:
            if (asked, lines) not in generation.readings:
                generation.readings[asked, lines] = self.read(asked, lines)
            return generation.readings[asked, lines]
        state, detector = self.edited_state, self.detectors.current
        question = self.config.live_settings(), asked, lines
        last = self._last_reading
        known = last is not None and last[0] is state and last[1] is detector and last[2] == question
        if last is None or self.config.sigma_w or not known:
            self._last_reading = last = (state, detector, question, self.read(asked, lines))
        return last[3]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        prompt_lengths: Tensor | None = None,
        reading: Reading | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs,
    ) -> CausalLMOutputWithPast:
        """As the decoder's forward, with the memory in front of the rows that are in scope.

        The query is the prompt alone: what `announced_prompts` says, else the first ``prompt_lengths``
        columns of each row (padding counted), else the columns whose ``labels`` are -100, else the whole
        input.

        Args:
            input_ids: ``(B, T)``; beside ``inputs_embeds`` they only say what is asked.
            attention_mask: ``(B, T)``, left or right padding; over cache and input when there is a cache.
            position_ids: ``(B, T)`` positions in the text, without the memory's.
            past_key_values: what an earlier call returned; where nothing is written, any that the decoder
                takes, which is filled.
            inputs_embeds: ``(B, T, H)``, read in place of the ids. Without ids the prompts have to be
                announced, nothing is copied, and what ends an answer is always the memory's.
            labels: ``(B, T)``, as the decoder's.
            prompt_lengths: ``(B,)`` int, columns of ``input_ids`` that are the prompt.
            reading: readouts of these rows, in place of reading the memory.
            logits_to_keep: logits of the last so many positions only, or of these; 0 keeps all. A decoder
                that knows no such thing keeps all.

        Returns:
            logits ``(B, T, vocabulary)``; rows out of scope are the decoder's own, to the bit.

        Raises:
            ValueError: a cache that this model did not make, while facts are written; embeddings of another
                shape than the ids, or without ids and an announcement.
        """
        if input_ids is None and inputs_embeds is None:
            raise ValueError("forward needs input_ids or inputs_embeds")
        if input_ids is not None and inputs_embeds is not None and input_ids.shape != inputs_embeds.shape[:2]:
            raise ValueError(
                "input_ids beside inputs_embeds say what is asked, one for each column: got "
                f"{tuple(input_ids.shape)} and {tuple(inputs_embeds.shape)}"
            )
        if self.decoder._supports_logits_to_keep():
            kwargs["logits_to_keep"] = logits_to_keep
        kwargs["use_cache"] = (
            getattr(self.decoder.config, "use_cache", True) if use_cache is None else use_cache
        )
        in_tuple = kwargs.pop("return_dict", None) is False
        batch = Batch(input_ids, inputs_embeds, attention_mask, position_ids)
        with decoder_lock(self.decoder):
            cache = past_key_values
            if not isinstance(cache, LarimarCache):
                if cache is not None and not (self._nothing_is_read and reading is None):
                    raise ValueError(
                        "past_key_values is not this model's: its rows are read without the memory, and "
                        "facts are written. Begin without one, and go on with what the call returns"
                    )
                cache = LarimarCache(cache)
            if not cache.is_read:
                self._read_into(cache, batch, reading, prompt_lengths, labels)
            result = decode(self, batch, cache, labels, kwargs)
        return result.to_tuple() if in_tuple else result  # type: ignore[return-value]

    def _read_into(
        self,
        cache: LarimarCache,
        batch: Batch,
        reading: Reading | None,
        prompt_lengths: Tensor | None,
        labels: Tensor | None,
    ) -> None:
        """Begin a cache with what the memory says to a batch; ``reading`` and the rest as for `forward`."""
        generation, rows = self._generation, batch.given.shape[0]
        if reading is not None and len(reading.in_scope) != rows:
            raise ValueError(
                f"reading is of {len(reading.in_scope)} rows, and the batch has {rows}: "
                "give one for each row (with beams or num_return_sequences, for each row of those)"
            )
        prompts = Prompts(self.tokenizer, rows, batch.ids, batch.attention_mask, prompt_lengths, labels)
        if reading is None:
            reading = self._reading(prompts)
        prefix = self.prefix(reading.latents) if bool(reading.in_scope.any()) else None
        said = copying = None
        if (
            generation is not None
            and self.config.after_answer != "memory"
            and prompt_lengths is not None
            and any(answers := reading.answer_of_rows())
        ):
            # Of embeddings the answer is all that comes as tokens.
            starts = [0] * rows if batch.ids is None else prompt_lengths.tolist()
            said = self._answers_said(answers, starts, generation.end)
        if self.config.copying and reading.answer_ids and batch.ids is not None:
            copying = self._copying(reading, prompts)
        cache.read(reading.in_scope, prefix, said, copying, self.decoder.config)

    def _answers_said(self, answers: Sequence[str], starts: Sequence[int], end: int | None) -> AnswersSaid:
        """Where the rows have said their answers. In a decoder without a chat template every answer has an
        end: there questions, too, are asked as sentences that go on.
        """
        knows_chats = bool(getattr(self.tokenizer, "chat_template", None))
        go_on = self.config.after_answer == "base" and knows_chats
        return AnswersSaid(self.tokenizer, answers, starts, self.config.answer_tokens, end, go_on)

    def _copying(self, reading: Reading, prompts: Prompts) -> Copying:
        """What the answers of these rows go on with."""
        if self._slot_tokens is None:
            self._slot_tokens = SlotTokens(self.states, self.analysis)
        answers, starts = self._slot_tokens.answers(reading), prompts.answer_starts()
        return Copying(answers, starts, self.config.copying, self.config.copying_first)

    def prefix(self, latents: Tensor) -> Prefix:
        """BOS and memory slots as past key values, ``W_M z`` broadcast to all layers, for readouts ``(B, C)``
        or wider. Each row's slots end where its text begins. Without BOS where slots begin at position 0.
        """
        config = self.config
        codes, counts = self.projection.layout.split(latents.to(self.projection.basis.device))
        slots = self.projection.states(codes)
        place = torch.arange(codes.shape[1], device=slots.device) - (codes.shape[1] - counts)[:, None]
        positions, there = config.slot_position + place.clamp_min(0), place >= 0
        if config.slot_position:
            if self._bos is None or config.decoder_mode == "full":  # whose weights may be in training
                # As it is read with: not with the adapters that a training pass has put to work around this.
                rest = contextlib.nullcontext() if self.adapters is None else self.adapters.at_work(False)
                with rest, torch.autocast(self.device.type, enabled=False):
                    self._bos = self.states.bos()
            bos = self._bos[None, None].expand(slots.shape[0], 1, *self._bos.shape).to(slots)
            slots, first = torch.cat((bos, slots), dim=1), torch.zeros_like(counts)[:, None]
            positions, there = torch.cat((first, positions), dim=1), torch.cat((first == 0, there), dim=1)
        cache = self.states.cache(slots, positions, self.decoder.dtype)
        shift = None if self.embedding is None else self.embedding(latents.to(self.embedding.weight))
        return Prefix(cache, there, config.slot_position + counts[:, None], bool(there.all()), shift)

    # --- what generate and the rest of transformers ask of a model ---

    def generate(  # type: ignore[override]
        self, inputs: Tensor | None = None, generation_config: GenerationConfig | None = None, **kwargs
    ):
        """As transformers' `generate`; the whole input is the prompt, and it alone is the query.

        A cache of an earlier generation is used where nothing is written. Else what is asked now may be
        another fact's, and the whole input is read anew. An empty cache of another make, as a
        ``StaticCache``, is filled where nothing is written, and else left as it is.

        Raises:
            ValueError: a cache of an earlier generation, and an input that is not the whole text; one of
                another make that is not empty, while facts are written.
        """
        ids, empty = inputs if inputs is not None else kwargs.get("input_ids"), self.is_empty()
        earlier = kwargs.get("past_key_values")
        if isinstance(earlier, LarimarCache):
            if earlier.is_read and not (empty and earlier.is_base):
                if ids is None or ids.shape[1] <= earlier.length:
                    raise ValueError(
                        "past_key_values has been read for an earlier prompt: pass the whole text as "
                        "input_ids"
                    )
                kwargs["past_key_values"] = None
        elif isinstance(earlier, Cache):
            # By the kind of a cache transformers makes masks, and compiles: it is to see one of ours.
            if empty and kwargs.get("reading") is None:
                kwargs["past_key_values"] = LarimarCache(earlier)
            elif not earlier.get_seq_length():
                kwargs["past_key_values"] = None
        token = _GENERATION.set(_Generation(self, empty, None if ids is None else ids.shape[1]))
        try:
            return super().generate(inputs, generation_config, **kwargs)  # type: ignore[misc]
        finally:
            _GENERATION.reset(token)

    def prepare_inputs_for_generation(self, input_ids, *args, inputs_embeds=None, **kwargs):
        """As transformers', with which columns are the prompt. A generation's own passes alone come by here:
        another within it, as of a logits processor, asks what that one is given.
        """
        given = super().prepare_inputs_for_generation(input_ids, *args, inputs_embeds=inputs_embeds, **kwargs)
        generation, cache = self._generation, given.get("past_key_values")
        if generation is None or (isinstance(cache, LarimarCache) and cache.is_read):
            return given
        embeds, columns = given.get("inputs_embeds"), generation.columns
        if embeds is not None and embeds.shape[:2] == input_ids.shape:
            given["input_ids"] = input_ids.to(embeds.device)  # they say what is asked
        elif embeds is not None:
            columns = 0
        if columns is not None and given.get("prompt_lengths") is None:
            read = given["input_ids"] if embeds is None else embeds
            given["prompt_lengths"] = torch.full((read.shape[0],), columns, device=read.device)
        return given

    def _prepare_cache_for_generation(
        self, generation_config, model_kwargs, generation_mode, *args, **kwargs
    ):
        super()._prepare_cache_for_generation(
            generation_config, model_kwargs, generation_mode, *args, **kwargs
        )
        if generation_config.prefill_chunk_size is not None:
            warnings.warn(
                "prefill_chunk_size: the prompt is read as a whole, to find what it asks", stacklevel=3
            )
            generation_config.prefill_chunk_size = None
        generation = self._generation
        if generation is not None and not generation.empty and self.config.after_answer == "stop":
            generation.end = _end_of(generation_config)
        # This mode alone wants one to begin with.
        assisted = generation_mode is GenerationMode.ASSISTED_GENERATION
        if assisted and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = LarimarCache()

    def init_continuous_batching(self, *args, **kwargs):
        """What `generate_batch`, and `generate` with a paged cache, begin with.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "continuous batching (generate_batch, cache_implementation='paged') knows no memory in front of "
            "a text: give generate the prompts as one batch, padded on the left"
        )

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # forward makes its own cache

    @classmethod
    def can_generate(cls) -> bool:
        """Whether it has `generate`: yes."""
        return True

    def get_input_embeddings(self) -> nn.Module:
        """The decoder's token embeddings."""
        return self.decoder.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """The decoder's language-model head."""
        return self.decoder.get_output_embeddings()

    def resize_token_embeddings(  # type: ignore[override]
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, *args, **kwargs
    ) -> nn.Module:
        """The decoder's token embeddings, of as many tokens as they have.

        Raises:
            NotImplementedError: another number; nothing is changed.
        """
        embeddings = self.get_input_embeddings()
        count = cast(Tensor, embeddings.weight).shape[0]
        if new_num_tokens in (None, count) and count % (pad_to_multiple_of or 1) == 0:
            return embeddings
        raise NotImplementedError(
            "a Larimar is made for its decoder's vocabulary: resize the decoder, then make a checkpoint for "
            "it (`larimar-editor fit`)"
        )

    @property
    def hf_device_map(self):
        """Which device each part of the decoder is on, where accelerate has spread it over several."""
        return self.decoder.hf_device_map

    def _weights_of_the_memory(self) -> Iterator[Tensor]:
        """Of the encoder, ``W_M`` and the like, which are not the decoder's."""
        for each in (self.projection, self.analysis, self.embedding, self.latent_encoder):
            if isinstance(each, nn.Module):
                yield from (*each.parameters(), *each.buffers())

    def __deepcopy__(self, memo: dict) -> LarimarForCausalLM:
        """As of any module; while another thread reads, its adapters are in the decoder, and would stay in
        the copy's.
        """
        with self._lock:
            made = self.__class__.__new__(self.__class__)
            memo[id(self)] = made  # parts of it may hold it
            made.__setstate__(copy.deepcopy(self.__dict__, memo))
            return made

    def _apply(self, fn, recurse=True):
        mine = {id(each) for each in self._weights_of_the_memory()}

        def exactly(tensor: Tensor) -> Tensor:
            made = fn(tensor)
            shorter = made.dtype.itemsize < min(4, tensor.dtype.itemsize)  # `half()` is meant for the decoder
            return tensor.to(made.device) if shorter and id(tensor) in mine else made

        super()._apply(exactly, recurse)
        self._bos = self._last_reading = self._slot_tokens = None
        device = self.queries.device
        if self.state_register is not None and self.edited_state.device != device:
            self.state_register.moved(device)
        self.detectors.to(device)
        return self


AutoConfig.register(LarimarConfig.model_type, LarimarConfig, exist_ok=True)
AutoModelForCausalLM.register(LarimarConfig, LarimarForCausalLM, exist_ok=True)
