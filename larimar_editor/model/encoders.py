"""From text to a latent of size C: one interface, two kinds.

`DecoderStateEncoder` needs no training: the frozen decoder's own key/value states of the text's last
tokens through a PCA. `TransformerEncoder` is the paper's kind, any Hugging Face encoder with a pooled and
projected output. `KeyValueProjection` is the way back, the paper's ``W_M``: from a latent to one key/value
pair per layer and memory slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer

from larimar_editor.memory.slots import SlotLayout
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.key_values import DecoderStates, StateShape
from larimar_editor.pretrained.embedded import resolve
from larimar_editor.utils.text import cut_to

QUERIES = {"queries": 4, "first": 0}  # learned queries by `encoder_pooling`
TEXTS_PER_PASS = 64


class LatentEncoder(Protocol):
    """What makes a latent of size C of a text; one interface for both kinds."""

    latent_size: int

    @property
    def device(self) -> torch.device:
        """Device on which `encode` returns its encodings."""
        ...

    @property
    def layout(self) -> SlotLayout | None:
        """Where slots are in its latents; None where they are of one size, whatever the text."""
        ...

    def encode(self, texts: Sequence[str], slots: Sequence[int] | None = None) -> Tensor:
        """Encodings ``(N, C)``, float32; with `layout`, wider where a text is to have more ``slots``."""
        ...

    def own_weights(self) -> dict[str, Tensor]:
        """What the checkpoint has of it, by name."""
        ...


class KeyValueProjection(nn.Module):
    """``W_M``: latents ``(B, C)`` to the states of P memory slots ``(B, P, L, 2, H, D)``, float32.

    The latent is P codes of size C / P, and every slot goes through the same linear map, so that its size
    does not grow with P. With one slot it is the paper's linear projection. ``mean + gain * scale * (basis @
    code)``: ``basis`` ``(L*2*H*D, C/P)``, ``scale`` and ``mean`` ``(L*2*H*D,)``, and one gain for all keys
    and one for all values. Stretched keys draw attention to the memory slots.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        code_size: int,
        slots: int,
        key_gain: float = 1.0,
        value_gain: float = 1.0,
    ):
        super().__init__()
        size = shape[0] * shape[1] * shape[2] * shape[3]
        self.shape, self.slots = tuple(shape), slots
        self.basis = nn.Parameter(torch.zeros(size, code_size), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(size), requires_grad=False)
        self.mean = nn.Parameter(torch.zeros(size), requires_grad=False)
        self.gain = nn.Buffer(torch.tensor([key_gain, value_gain])[:, None, None], persistent=False)

    @property
    def code_size(self) -> int:
        """Numbers of one slot's code, C / P."""
        return self.basis.shape[1]

    @property
    def layout(self) -> SlotLayout:
        """Where slots are in a latent."""
        return SlotLayout(self.slots, self.code_size)

    def forward(self, z: Tensor) -> Tensor:
        """``W_M z``: latents ``(B, C)`` to states ``(B, P, L, 2, H, D)`` float32, without positions."""
        return self.states(z.unflatten(1, (self.slots, self.code_size)))

    def states(self, codes: Tensor) -> Tensor:
        """Codes of any number of slots ``(B, S, C / P)`` to states ``(B, S, L, 2, H, D)`` float32."""
        deviation = (F.linear(codes.to(self.basis), self.basis) * self.scale).unflatten(2, self.shape)
        return deviation * self.gain + self.mean.unflatten(0, self.shape)

    def codes(self, states: Tensor) -> Tensor:
        """The transpose of `states`: ``(B, S, L, 2, H, D)`` to codes ``(B, S, C / P)``. With gains of 1 the
        exact inverse on the basis' span, for a basis with orthonormal columns."""
        flat = (states.flatten(2).to(self.basis) - self.mean) / self.scale
        return flat @ self.basis


def in_order(texts: Sequence[str], slots: Sequence[int]) -> list[int]:
    """Places of texts in the order in which they are encoded: like lengths together, so that little of a pass
    is padding, and states of many slots of many texts do not fill the memory.
    """
    return sorted(range(len(texts)), key=lambda place: (slots[place], len(texts[place])))


class DecoderStateEncoder:
    """The frozen decoder as its own encoder.

    Args:
        states: reads the decoder.
        analysis: its `codes` make the latent; the same object serves as ``W_M`` in the closed form.
    """

    def __init__(self, states: DecoderStates, analysis: KeyValueProjection):
        self.states, self.analysis = states, analysis
        self.latent_size = analysis.slots * analysis.code_size

    @property
    def device(self) -> torch.device:
        """Device of the PCA, which may be another than the decoder's."""
        return self.analysis.basis.device

    @property
    def layout(self) -> SlotLayout:
        """P slots of one token each, and more for longer answers."""
        return self.analysis.layout

    def encode(self, texts: Sequence[str], slots: Sequence[int] | None = None) -> Tensor:
        """Encodings ``(N, C)``, or ``(N, width)`` of the most ``slots`` that a text is to have. Passes of the
        decoder without its language-model head.
        """
        layout = self.layout
        counts = [layout.slots] * len(texts) if slots is None else list(slots)
        with torch.no_grad():
            order, width, result = in_order(texts, counts), layout.width(max(counts)), None
            for start in range(0, len(order), TEXTS_PER_PASS):
                places = order[start : start + TEXTS_PER_PASS]
                own = torch.tensor([counts[place] for place in places])
                most = max(counts[place] for place in places)
                states = self.states.last_tokens([texts[place] for place in places], most)
                latents = layout.joined(self.analysis.codes(states), own)
                if result is None:
                    result = latents.new_zeros(len(texts), width)
                result[torch.tensor(places), : latents.shape[1]] = latents
            assert result is not None, "there is a text, as there is a count"
            return result

    def own_weights(self) -> dict[str, Tensor]:
        """The PCA's weights, by name: the decoder's own are not the checkpoint's."""
        return dict(self.analysis.named_parameters())


class TransformerEncoder(nn.Module):
    """A Hugging Face encoder, its last hidden states pooled and projected to C (paper: BERT-large).

    Args:
        name_or_path: Hugging Face name or folder.
        latent_size: C.
        max_length: tokens taken of a text.
        queries: learned query vectors that attend over the token states; 0: the network's own pooled output
            of the first token takes their place.

    Raises:
        ValueError: no queries, and a network that has no pooled output.
    """

    def __init__(self, name_or_path: str, latent_size: int, max_length: int = 128, queries: int = 4):
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(name_or_path, truncation_side="left")
        self.network = AutoModel.from_pretrained(name_or_path, dtype=torch.float32)
        self.latent_size, self.max_length = latent_size, max_length
        width = self.network.config.hidden_size
        if not queries and getattr(self.network, "pooler", None) is None:
            raise ValueError(
                f"encoder_pooling: first needs an encoder with a pooler; {name_or_path} has none"
            )
        self.queries = nn.Parameter(torch.randn(queries, width) / width**0.5)
        self.output = nn.Linear((queries or 1) * width, latent_size)

    @property
    def device(self) -> torch.device:
        """Device of the encoder's weights."""
        return self.queries.device

    layout: SlotLayout | None = None

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Token ids and mask ``(N, T)`` to latents ``(N, C)``, with gradients."""
        encoded = self.network(input_ids=input_ids, attention_mask=attention_mask)
        if not len(self.queries):
            return self.output(encoded.pooler_output)
        hidden = encoded.last_hidden_state
        scores = (hidden @ self.queries.T / hidden.shape[-1] ** 0.5).masked_fill(
            attention_mask[..., None] == 0, -torch.inf
        )
        pooled = torch.einsum("ntq,nth->nqh", scores.softmax(dim=1), hidden)
        return self.output(pooled.flatten(1))

    def encode(self, texts: Sequence[str], slots: Sequence[int] | None = None) -> Tensor:
        """Encodings ``(N, C)`` without gradients; of one size, whatever ``slots``.

        Raises:
            ValueError: an empty text.
        """
        for text in texts:
            ids = self.tokenizer(text, add_special_tokens=False).input_ids
            if not ids:
                raise ValueError(f"nothing to encode in {text!r}")
            cut_to(ids, self.max_length - self.tokenizer.num_special_tokens_to_add(), text, self.tokenizer)
        parts = [texts[start : start + TEXTS_PER_PASS] for start in range(0, len(texts), TEXTS_PER_PASS)]
        with torch.no_grad():
            return torch.cat([self.with_gradients(part).float() for part in parts])

    def own_weights(self) -> dict[str, Tensor]:
        """The network's and the pooling's weights, by name."""
        return self.state_dict()

    def with_gradients(self, texts: Sequence[str]) -> Tensor:
        """As `encode`, with gradients and without its checks."""
        tokens = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        )
        return self(**{name: tokens[name].to(self.device) for name in ("input_ids", "attention_mask")})


def build_projection(config: LarimarConfig, shape: StateShape) -> KeyValueProjection:
    """``W_M`` for a decoder whose tokens have states of this shape, all zero."""
    return KeyValueProjection(
        (shape.layers, 2, shape.heads, shape.head_size),
        config.latent_size // config.memory_slots,
        config.memory_slots,
        config.key_gain,
        config.value_gain,
    )


def build_encoder(
    config: LarimarConfig, states: DecoderStates, analysis: KeyValueProjection
) -> LatentEncoder:
    """The encoder that ``config`` names.

    Raises:
        ValueError: a transformer encoder without a name.
    """
    if config.encoder_type == "decoder-states":
        return DecoderStateEncoder(states, analysis)
    if not config.encoder_name_or_path:
        raise ValueError("encoder_name_or_path must name the encoder when encoder_type is 'transformer'")
    return TransformerEncoder(
        resolve(config.encoder_name_or_path),
        config.latent_size,
        config.encoder_max_length,
        QUERIES[config.encoder_pooling],
    )
