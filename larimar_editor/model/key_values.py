"""A frozen decoder's own key/value states of a text's last tokens: the raw material of the closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase
from transformers.cache_utils import DynamicLayer

from larimar_editor.model.rotary import PositionCode, position_codes
from larimar_editor.model.tokenizer import opening_token
from larimar_editor.utils.locks import decoder_lock
from larimar_editor.utils.text import cut_to

_TABLES_OF_ANGLES = ("gptj", "codegen")  # rotary positions, from a table


@dataclass(frozen=True)
class StateShape:
    """Layout of one token's states: layers L, then keys and values, heads H, head size D."""

    layers: int
    heads: int
    head_size: int

    @property
    def size(self) -> int:
        """Numbers of one token's states, L * 2 * H * D."""
        return self.layers * 2 * self.heads * self.head_size

    @classmethod
    def of(cls, decoder: PreTrainedModel) -> StateShape:
        """Measured on the decoder rather than read from its configuration, whose names differ by family.

        Raises:
            TypeError: a layer without keys and values.
            ValueError: layers whose keys differ in shape, or a model of pictures and text.
        """
        if getattr(decoder.config, "vision_config", None) is not None:
            raise ValueError(
                f"{type(decoder).__name__} reads pictures as well: give its text model, as Gemma 3's "
                "Gemma3ForCausalLM.from_pretrained(NAME), saved to a folder of its own"
            )
        keys = _keys_of_a_token(decoder)
        shapes = {each.shape for each in keys}
        if len(shapes) > 1:
            raise ValueError(
                f"Larimar's slots hold keys of one shape; the layers of a decoder of type "
                f"{decoder.config.model_type!r} have {', '.join(str(tuple(each)) for each in sorted(shapes))}"
            )
        return cls(len(keys), keys[0].shape[1], keys[0].shape[3])


def signature(decoder: PreTrainedModel, shape: StateShape | None = None) -> dict:
    """What makes two decoders interchangeable for a checkpoint: type, layers, heads, head size,
    vocabulary.
    """
    shape = shape or StateShape.of(decoder)
    return {"model_type": decoder.config.model_type, "vocab_size": decoder.config.vocab_size} | asdict(shape)


def check_signature(expected: dict | None, decoder: PreTrainedModel, checkpoint: object) -> None:
    """Raises ValueError when ``checkpoint`` was made for a decoder of another signature, with what
    differs.
    """
    actual = signature(decoder) if expected else {}
    differing = [
        f"{key} {want} in the checkpoint, {actual.get(key)} in the decoder"
        for key, want in (expected or {}).items()
        if actual.get(key) != want
    ]
    if differing:
        raise ValueError(f"the checkpoint {checkpoint} is for another decoder: {', '.join(differing)}")


class DecoderStates:
    """Reads key/value states off a decoder. Keys come without their position.

    Args:
        decoder: a Hugging Face causal language model; run without gradients and never changed.
        tokenizer: its tokenizer.
        max_length: tokens that are read of a text, BOS not counted; of longer ones the last.
    """

    def __init__(self, decoder: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_length: int = 256):
        self.decoder = decoder
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.shape = StateShape.of(decoder)
        keys_at = lambda position: [keys.float() for keys in _keys_of_a_token(decoder, position)]
        self.positions = position_codes(decoder, keys_at)

    @cached_property
    def most_positions(self) -> int | None:
        """How many the decoder has a table of; None where it computes them."""
        of_table = all(type(code) is PositionCode for code in self.positions)
        if not of_table and self.decoder.config.model_type not in _TABLES_OF_ANGLES:
            return None
        return getattr(self.decoder.config, "max_position_embeddings", None)

    @property
    def bos_token_id(self) -> int:
        """The token that opens every encoded text; see `opening_token`."""
        return opening_token(self.tokenizer, self.decoder.config)

    @torch.no_grad()
    def last_tokens(self, texts: Sequence[str], count: int) -> Tensor:
        """States of the last ``count`` tokens of each text, oldest first: ``(N, count, L, 2, H, D)`` float32.

        It is one pass of the decoder: of many texts a few are given at a time, like lengths together. Texts
        of fewer tokens repeat their first.

        Raises:
            ValueError: an empty text.
        """
        rows = [self.tokenizer(text, add_special_tokens=False).input_ids for text in texts]
        for text, ids in zip(texts, rows, strict=True):
            if not ids:
                raise ValueError(f"nothing to encode in {text!r}")
        rows = [
            [self.bos_token_id, *cut_to(ids, self.max_length, text, self.tokenizer)]
            for text, ids in zip(texts, rows)
        ]
        device = next(self.decoder.parameters()).device
        longest = max(map(len, rows))
        pad = self.bos_token_id
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows], device=device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        mask = (
            None
            if len(set(map(len, rows))) == 1
            else (torch.arange(longest, device=device) < lengths[:, None]).long()
        )
        cache = _run(self.decoder, ids, mask)
        wanted = (lengths[:, None] - count + torch.arange(count, device=device)).clamp_min(1)
        layers = []
        for position, (keys, values) in zip(self.positions, map(cached, cache.layers)):
            at = wanted.to(keys.device)[:, None, :, None].expand(-1, keys.shape[1], -1, keys.shape[3])
            keys = position.remove(keys.gather(2, at).float(), wanted)
            layers.append(torch.stack((keys, values.gather(2, at).float()), dim=1).to(device))
        return torch.stack(layers, dim=1).permute(0, 4, 1, 2, 3, 5)

    @torch.no_grad()
    def bos(self) -> Tensor:
        """States of a lone BOS token, the attention sink: ``(L, 2, H, D)`` float32."""
        device = next(self.decoder.parameters()).device
        cache = _run(self.decoder, torch.tensor([[self.bos_token_id]], device=device), None)
        at = torch.zeros(1, 1, device=device)
        pairs = [
            torch.stack((position.remove(keys.float(), at), values.float()))
            for position, (keys, values) in zip(self.positions, map(cached, cache.layers))
        ]
        return torch.stack([pair[:, 0, :, 0].to(device) for pair in pairs])

    @torch.no_grad()
    def first_values(self) -> Tensor:
        """What the first layer keeps as the value of each token of the vocabulary: ``(V, H * D)``, in the
        decoder's dtype. It hangs on the token alone, but in decoders that add positions to embeddings.
        """
        count: int = self.decoder.get_input_embeddings().num_embeddings  # type: ignore[assignment]
        ids = torch.arange(count, device=next(self.decoder.parameters()).device)
        return torch.cat([_first_values(self.decoder, part[:, None]) for part in ids.split(4096)])

    def cache(self, states: Tensor, positions: Tensor, dtype: torch.dtype) -> DynamicCache:
        """Past key values from states ``(B, n, L, 2, H, D)`` placed at ``positions`` ``(B, n)``."""
        keys, values = states.permute(3, 2, 0, 4, 1, 5)  # (L, B, H, n, D) each
        alike: dict[tuple[int, torch.device], list[int]] = {}
        for index, device in enumerate(_layer_devices(self.decoder, self.shape.layers)):
            alike.setdefault((id(self.positions[index]), device), []).append(index)
        placed: dict[int, tuple[Tensor, Tensor]] = {}
        for (_, device), layers in alike.items():  # all at once: on a GPU each step costs as much as all
            turned = self.positions[layers[0]].apply(keys[layers].to(device), positions.to(device))
            own = turned.to(dtype), values[layers].to(device, dtype)
            placed |= dict(zip(layers, zip(*own)))
        cache = DynamicCache(config=self.decoder.config)
        for index in range(len(keys)):
            cache.update(*placed[index], index)
        return cache


def cached(layer: object) -> tuple[Tensor, Tensor]:
    """Keys and values ``(B, H, T, D)`` of a layer of a cache.

    Raises:
        ValueError: a layer that has none, as of linear attention; Larimar's memory is keys and values.
    """
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if not isinstance(keys, Tensor) or not isinstance(values, Tensor):
        raise ValueError(
            f"Larimar needs a decoder whose layers cache keys and values, not {type(layer).__name__} (in "
            "training mode with gradient checkpointing none do: call the decoder's eval())"
        )
    return keys, values


def _run(decoder: PreTrainedModel, ids: Tensor, mask: Tensor | None, **positions: Tensor) -> DynamicCache:
    cache = DynamicCache(config=decoder.config)
    # A layer with a sliding window keeps all here: which states are wanted is not for the window to say.
    cache.layers = [DynamicLayer() if getattr(each, "is_sliding", False) else each for each in cache.layers]
    with decoder_lock(decoder):
        # The body alone: logits over the vocabulary would cost as much again.
        given = {"input_ids": ids, "attention_mask": mask, "past_key_values": cache} | positions
        return body(decoder)(**given, use_cache=True).past_key_values


class _Seen(Exception):
    """Ends a pass of the decoder with what was wanted of it."""

    def __init__(self, values: Tensor):
        super().__init__()
        self.values = values


class _FirstLayer(DynamicCache):
    """Ends the pass at the first layer's values."""

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs):
        raise _Seen(value_states)


def _first_values(decoder: PreTrainedModel, ids: Tensor) -> Tensor:
    """Of texts ``(N, 1)`` of one token, ``(N, H * D)``."""
    try:
        with decoder_lock(decoder):
            body(decoder)(input_ids=ids, past_key_values=_FirstLayer(config=decoder.config), use_cache=True)
    except _Seen as seen:
        return seen.values.flatten(1)
    raise TypeError(f"{type(decoder).__name__} does not give its layers' values to the cache")


@torch.no_grad()
def _keys_of_a_token(decoder: PreTrainedModel, position: int | None = None) -> list[Tensor]:
    """Keys ``(1, H, 1, D)`` of each layer for a lone token, at its usual position or another."""
    padding = getattr(decoder.config, "pad_token_id", None)  # whose embedding may be zero
    id = next(each for each in range(2) if each != padding)
    token = torch.full((1, 1), id, device=next(decoder.parameters()).device)
    positions = {} if not position else {"position_ids": torch.full_like(token, position)}
    return [cached(layer)[0] for layer in _run(decoder, token, None, **positions).layers]


def body(decoder: PreTrainedModel) -> nn.Module:
    """A decoder without its language-model head."""
    return decoder.base_model


def _layer_devices(decoder: PreTrainedModel, count: int) -> list[torch.device]:
    """The device of each layer, for a decoder that is spread over several."""
    for module in body(decoder).modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return [_device_at_work(layer) for layer in module]
    return [next(decoder.parameters()).device] * count


def _device_at_work(layer: nn.Module) -> torch.device:
    """Where a layer computes. Weights that accelerate keeps elsewhere until they are needed are on "meta"
    meanwhile.
    """
    device = next(layer.parameters()).device
    if device.type != "meta":
        return device
    hooks = (getattr(module, "_hf_hook", None) for module in layer.modules())
    devices = (getattr(hook, "execution_device", None) for hook in hooks)
    return torch.device(next(device for device in devices if device is not None))
