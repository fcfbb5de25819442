"""One pass over a batch: rows out of scope by the decoder as it is, rows in scope behind their memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from larimar_editor.model.after_answer import WordParts
from larimar_editor.model.cache import LarimarCache, Prefix
from larimar_editor.model.copying import copied

if TYPE_CHECKING:
    from larimar_editor.model.larimar import LarimarForCausalLM


@dataclass(frozen=True)
class Batch:
    """What a decoder is given.

    Attributes:
        ids: ``(B, T)``; None where only embeddings are known.
        embeds: ``(B, T, H)``, which the decoder reads in place of ids; None where it reads those.
        attention_mask, position_ids: ``(B, T)`` or None.
    """

    ids: Tensor | None
    embeds: Tensor | None
    attention_mask: Tensor | None
    position_ids: Tensor | None

    @property
    def given(self) -> Tensor:
        """What the decoder reads, ``(B, T)`` or ``(B, T, H)``."""
        given = self.ids if self.embeds is None else self.embeds
        assert given is not None, "one of them is"
        return given

    def inputs(self) -> dict[str, Tensor | None]:
        """As arguments of a decoder."""
        name = "input_ids" if self.embeds is None else "inputs_embeds"
        return {name: self.given, "attention_mask": self.attention_mask, "position_ids": self.position_ids}

    def of_rows(self, rows: Tensor) -> Batch:
        """The same for the rows of these indices ``(n,)``, in their order."""
        positions = self.position_ids
        if positions is not None:
            positions = positions.expand(self.given.shape[0], -1)
        parts = self.ids, self.embeds, self.attention_mask, positions
        return Batch(*(None if part is None else part[rows] for part in parts))


@dataclass(frozen=True)
class _Told:
    """What the tokens of a pass tell of the answers that are followed.

    Attributes:
        let_go: bool ``(B, T)``, columns from which on a row is the base model's again; None where none is.
        ended: the same, where the text ends there instead.
        goes_on: what begun answers go on with, as `Copying.grow` returns it.
    """

    let_go: Tensor | None
    ended: Tensor | None
    goes_on: list[tuple[int, int, int, float]]


def decode(
    model: LarimarForCausalLM, batch: Batch, cache: LarimarCache, labels: Tensor | None, kwargs: dict
) -> CausalLMOutputWithPast:
    """Rows out of scope by the decoder as it is, on all rows and so to the bit; rows in scope with the memory
    in front, until they have said their answers.

    Args:
        model: with its decoder.
        batch: the next columns.
        cache: has read the memory for these rows.
        labels: ``(B, T)``, as the decoder's.
        kwargs: further arguments of the decoder, ``use_cache`` among them.
    """
    new, keeps = batch.given.shape[1], kwargs.get("logits_to_keep", 0)
    told = _take_in(batch, cache)
    # Of tokens the ids are kept, for the base model to read them when it is asked; of embeddings nothing.
    reads_along = batch.embeds is not None and cache.said is not None and cache.said.end is None
    behind = cache.length - cache.base_length
    own_mask = None if cache.prefix is None else batch.attention_mask
    mask = cache.grow(new, own_mask, batch.given.shape[0])
    base = None
    if not bool(cache.in_scope.all()) or cache.base_length or told.let_go is not None or reads_along:
        own_labels = labels if cache.prefix is None else None
        base = _without_memory(model.decoder, batch, cache, behind, own_labels, kwargs)
    if cache.prefix is None:
        assert base is not None, "a row is out of scope, or has said its answer"
        base.past_key_values = cache if kwargs["use_cache"] else None
        return base
    rows = torch.nonzero(cache.in_scope).flatten().to(batch.given.device)
    memory = _with_memory(model, replace(batch, attention_mask=mask).of_rows(rows), cache.prefix, kwargs)
    logits: Tensor = memory.logits  # type: ignore[assignment]
    if told.goes_on:
        logits = copied(logits, told.goes_on, cache.in_scope, _kept_columns(new, keeps))
    if base is not None:
        let_go = None if told.let_go is None else _kept(told.let_go, keeps)
        logits = _put_into(base.logits, rows, logits, let_go)
    if cache.said is not None and cache.said.words_end:
        places = cache.said.words_end
        logits = _words_ended(model.word_parts, logits, places, _kept_columns(new, keeps))
    if cache.said is not None and told.ended is not None:
        logits = cache.said.ended(logits, _kept(told.ended, keeps))
    loss = None
    if labels is not None:
        loss = model.decoder.loss_function(
            logits=logits, labels=labels, vocab_size=model.decoder.config.vocab_size
        )
    return CausalLMOutputWithPast(
        loss=loss,
        logits=logits,
        past_key_values=cache if kwargs["use_cache"] else None,
        hidden_states=_hidden_states(memory, base, rows, told.let_go, new),
        attentions=_attentions(memory, base, rows, told.let_go, cache.in_scope),
    )


def _take_in(batch: Batch, cache: LarimarCache) -> _Told:
    """Take in a pass's tokens, before anything waits in the device's queue. The cache lets go of the memory
    where every row has said its answer, and of copying where there is nothing to copy behind.
    """
    said = cache.said
    ends = said is not None and said.end is not None
    if said is not None and said.finished and not ends:
        cache.prefix = None
    over = None if said is None or batch.ids is None else said.grow(batch.ids)
    let_go = over if said is not None and said.some_are_over and not ends else None
    if batch.ids is None or cache.prefix is None:
        cache.copying = None
    goes_on = [] if batch.ids is None or cache.copying is None else cache.copying.grow(batch.ids)
    return _Told(let_go, over if ends else None, goes_on)


def _without_memory(
    decoder: PreTrainedModel,
    batch: Batch,
    cache: LarimarCache,
    behind: int,
    labels: Tensor | None,
    kwargs: dict,
) -> Any:
    """The decoder as it is on all rows. Where it has not seen the last ``behind`` tokens before these, as no
    row needed it, it catches up.
    """
    if not behind:
        result = decoder(**batch.inputs(), past_key_values=cache.base, labels=labels, **kwargs)
    else:
        assert cache.said is not None and cache.said.ids is not None, "it alone begins so late"
        assert batch.embeds is None, "which are read along"
        new, wanted = batch.given.shape[1], slice(-(behind + batch.given.shape[1]), None)
        mask = cache.mask
        positions = None if mask is None else (mask.long().cumsum(1) - 1).clamp_min(0)[:, wanted]
        whole = Batch(cache.said.ids[:, wanted], None, mask, positions)
        options = kwargs | ({"logits_to_keep": new} if "logits_to_keep" in kwargs else {})
        result = decoder(**whole.inputs(), past_key_values=cache.base, **options)
        result.logits = _kept(result.logits[:, -new:], kwargs.get("logits_to_keep", 0))
        for name, axis in (("hidden_states", 1), ("attentions", 2)):
            if (layers := getattr(result, name, None)) is not None:
                setattr(result, name, tuple(_last(each, new, axis) for each in layers))
    cache.base = result.past_key_values
    return result


def _with_memory(
    model: LarimarForCausalLM, batch: Batch, prefix: Prefix, kwargs: dict
) -> CausalLMOutputWithPast:
    """The decoder on the rows in scope, behind what stands in front of them."""
    (count, new), past, device = batch.given.shape[:2], prefix.cache, batch.given.device
    mask, positions = batch.attention_mask, batch.position_ids
    seen = past.get_seq_length() - prefix.length
    if positions is None:
        if mask is None:
            positions = torch.arange(seen, seen + new, device=device).expand(count, -1)
        else:
            positions = (mask.long().cumsum(1) - 1).clamp_min(0)[:, -new:]
    if mask is None and not prefix.whole:
        mask = torch.ones(count, seen + new, dtype=torch.long, device=device)
    if mask is not None:
        mask = torch.cat((prefix.there.to(mask), mask), dim=1)
    positions = positions + prefix.text_positions.to(positions.device)
    most = model.states.most_positions
    # Exactly only where it may be: it waits for the GPU.
    if most and seen + new + prefix.length > most and int(positions.max()) >= most:
        raise ValueError(
            f"a text of {seen + new} tokens needs {int(positions.max()) + 1} positions with its fact in "
            f"front, and the decoder has {most}: shorten it, or generate less"
        )
    batch = replace(batch, attention_mask=mask, position_ids=positions)
    if prefix.shift is not None:
        embeds = model.get_input_embeddings()(batch.ids) if batch.embeds is None else batch.embeds
        batch = replace(batch, embeds=prefix.shifted(embeds))
    with model.adapted():
        return model.decoder(**batch.inputs(), past_key_values=past, **(kwargs | {"use_cache": True}))


def _words_ended(
    parts: WordParts, logits: Tensor, places: Sequence[tuple[int, int]], kept: Sequence[int]
) -> Tensor:
    """Logits of the ``kept`` columns of which those that go on with the last word of an answer are the
    lowest, in these rows and columns.
    """
    there = [(row, kept.index(column)) for row, column in places if column in kept]
    return parts.withheld(logits, there) if there else logits


def _attentions(
    memory: CausalLMOutputWithPast, base: Any, rows: Tensor, let_go: Tensor | None, in_scope: Tensor
) -> tuple | None:
    """Of each layer; the base model's where all have said their answers.

    Raises:
        ValueError: some rows, or columns, have a memory in front, and some none.
    """
    attentions = getattr(memory, "attentions", None)
    if base is None or attentions is None:
        return attentions
    if not bool(in_scope.all()):
        raise ValueError(
            "output_attentions: some rows of this batch have a memory in front and some have none, "
            "and their attentions are of different lengths; give rows in scope and out of scope apart"
        )
    gone = None if let_go is None else let_go[rows]
    if gone is None or not bool(gone.any()):  # the base model has only kept up
        return attentions
    if bool(gone.all()):
        return base.attentions
    raise ValueError(
        "output_attentions: part of this batch has said its answer and has no memory in front any more, and "
        "the attentions are of different lengths; give its rows one by one, with a cache and without "
        "look-up, or set after_answer to memory"
    )


def _hidden_states(
    memory: CausalLMOutputWithPast, base: Any, rows: Tensor, let_go: Tensor | None, new: int
) -> tuple | None:
    """Of each layer, of the ``new`` columns of all rows."""
    hidden = getattr(memory, "hidden_states", None)
    if base is None or hidden is None:
        return hidden
    return tuple(
        _put_into(own[:, -new:], rows, of_rows, let_go)
        for own, of_rows in zip(base.hidden_states, hidden, strict=True)
    )


def _put_into(base: Tensor, rows: Tensor, theirs: Tensor, gone: Tensor | None) -> Tensor:
    """``base`` ``(B, T, H)`` with ``theirs`` ``(n, T, H)`` in ``rows`` ``(n,)``, but where ``gone`` bool
    ``(B, T)`` says that a row is the base model's again.
    """
    both = base.index_copy(0, rows.to(base.device), theirs)
    return both if gone is None else torch.where(gone[..., None].to(both.device), base, both)


def _kept(columns: Tensor, logits_to_keep: int | Tensor) -> Tensor:
    """Those of ``columns`` ``(B, T, ...)`` that a decoder's ``logits_to_keep`` keeps."""
    keeps = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
    return columns[:, keeps]


def _kept_columns(count: int, logits_to_keep: int | Tensor) -> list[int]:
    """Those of ``count`` columns whose logits are kept."""
    keeps = logits_to_keep if isinstance(logits_to_keep, int) else logits_to_keep.cpu()
    return _kept(torch.arange(count)[None], keeps)[0].tolist()


def _last(layer: Tensor | None, count: int, axis: int) -> Tensor | None:
    return None if layer is None else layer.narrow(axis, layer.shape[axis] - count, count)
