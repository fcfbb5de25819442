"""One pass of the decoder over many rows, with gradients and with only those logits that a loss needs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import DynamicCache, PreTrainedModel

from larimar_editor.model.cache import Prefix
from larimar_editor.model.key_values import body, cached


class PrefixCache(DynamicCache):
    """Past key values that never change: what a layer adds is used once and not kept.

    A layer can then be run again for gradient checkpointing, and the tokens' own keys and values are not
    stored twice.
    """

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Prefix and new states joined, ``(B, H, prefix + T, D)`` each."""
        keys, values = cached(self.layers[layer_idx])
        return torch.cat((keys, key_states), dim=2), torch.cat((values, value_states), dim=2)

    @classmethod
    def of(cls, cache: DynamicCache, config) -> PrefixCache:
        """The same keys and values, from now on fixed."""
        prefix = cls(config=config)
        for index, layer in enumerate(cache.layers):
            DynamicCache.update(prefix, *cached(layer), index)
        return prefix


def hidden_states(decoder: PreTrainedModel, ids: Tensor, prefix: Prefix | None = None) -> Tensor:
    """Last hidden states ``(R, T, hidden)`` of right-padded ``ids`` ``(R, T)``; no mask is needed but for
    slots that some rows lack, padding comes last.
    """
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    if prefix is None:
        return body(decoder)(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
    options: dict = {"past_key_values": PrefixCache.of(prefix.cache, decoder.config)}
    if not prefix.whole:
        options["attention_mask"] = torch.cat((prefix.there.to(ids), torch.ones_like(ids)), dim=1)
    options["position_ids"] = positions + prefix.text_positions
    if prefix.shift is None:
        options["input_ids"] = ids
    else:
        options["inputs_embeds"] = prefix.shifted(decoder.get_input_embeddings()(ids))
    return body(decoder)(use_cache=True, **options).last_hidden_state


def logits_of(decoder: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits ``(n, vocabulary)`` float32 of chosen hidden states ``(n, hidden)``, scaled and capped as the
    decoder's own forward does it (Cohere, Granite, Gemma).
    """
    logits, config = decoder.get_output_embeddings()(hidden).float(), decoder.config
    if scale := getattr(config, "logit_scale", None):
        logits = logits * scale
    if scaling := getattr(config, "logits_scaling", None):
        logits = logits / scaling
    cap = getattr(config, "final_logit_softcapping", None)
    return logits if cap is None else cap * torch.tanh(logits / cap)


def of_logits(
    decoder: PreTrainedModel, hidden: Tensor, score: Callable[[Tensor, slice], Tensor], at_once: int = 2**25
) -> Tensor:
    """What ``score`` makes of every state's logits, ``(n, ...)``, without all logits being there together.

    With a vocabulary of 262,144 words the logits of a step are larger than everything else in it.

    Args:
        decoder: whose output embeddings make the logits.
        hidden: chosen hidden states ``(n, hidden)``.
        score: logits ``(m, vocabulary)`` and which of the ``n`` they are of, to ``(m, ...)``.
        at_once: about how many logits are made together; those of more are made again for the backward pass.
    """
    count = max(1, at_once // decoder.get_output_embeddings().weight.shape[0])
    if len(hidden) <= count:
        return score(logits_of(decoder, hidden), slice(0, len(hidden)))
    parts = [slice(start, start + count) for start in range(0, len(hidden), count)]
    scored = lambda states, part: score(logits_of(decoder, states), part)
    return torch.cat([checkpoint(scored, hidden[part], part, use_reentrant=False) for part in parts])


@contextlib.contextmanager
def checkpointed_layers(
    decoder: PreTrainedModel,
    layers: int,
    on: bool,
    again: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Within this block each of the decoder's ``layers`` is computed again in the backward pass instead of
    kept.

    transformers' own gradient checkpointing drops past key values, and the memory with them.

    Args:
        again: what it is computed in: the decoder as it was in this block, after which it may be another.
    """
    stack = (
        next((x for x in body(decoder).modules() if isinstance(x, nn.ModuleList) and len(x) == layers), None)
        if on
        else None
    )
    originals = [] if stack is None else [(layer, layer.forward) for layer in stack]
    for layer, forward in originals:
        layer.forward = _recomputed(forward, again)
    try:
        yield
    finally:
        for layer, _ in originals:
            del layer.forward


def _recomputed(forward, again):
    def run(*args, **kwargs):
        contexts = lambda: (contextlib.nullcontext(), again())
        return checkpoint(forward, *args, use_reentrant=False, context_fn=contexts, **kwargs)

    return run
