"""Takes the position out of a decoder's cached keys, and puts another one in.

A memory slot has no position of its own: its keys are stored without one and rotated to the slot's place when
they are read. How a decoder marks positions differs by family and, with sliding windows or layers without
positions, by layer; so it is measured: a lone token attends to itself alone, so that its keys, without their
position, are the same wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

ABSOLUTE_POSITIONS = frozenset({"gpt2", "gpt_neo", "gpt_bigcode", "opt", "biogpt", "xglm", "bloom", "mpt"})
FAR = 100  # position at which keys are measured
_UNLIKE = 0.05  # relative difference from which two keys are not the same; that of bfloat16 is below 0.01

# Positions (B, T) to cosines and sines (B, T, R / 2) float32, one of each pair of numbers that is turned.
Angles = Callable[[Tensor], tuple[Tensor, Tensor]]


class PositionCode:
    """Positions that are not in the keys: nothing to take out, nothing to put in."""

    def apply(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys ``(B, H, T, D)`` without a position, put at ``positions`` ``(B, T)`` or ``(1, T)``."""
        return keys

    def remove(self, keys: Tensor, positions: Tensor) -> Tensor:
        """The inverse of `apply`: keys at ``positions`` to keys without a position."""
        return keys


class Rotary(PositionCode):
    """Rotary embedding: pairs among the first R numbers of a key are turned.

    Args:
        angles: of positions.
        neighbours: whether numbers 2i and 2i + 1 are a pair (GPT-J, Cohere, GLM), rather than i and R / 2 + i
            (Llama and most).
    """

    def __init__(self, angles: Angles, neighbours: bool = False):
        self.angles, self.neighbours = angles, neighbours

    def apply(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys ``(B, H, T, D)`` turned to ``positions`` ``(B, T)`` or ``(1, T)``."""
        cos, sin = self._at(keys, positions)
        return self._turned(keys, cos, sin)

    def remove(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys at ``positions`` turned back, so that they have none."""
        cos, sin = self._at(keys, positions)
        # 1, or the square of the attention scaling of a long-context rule.
        length = cos.square() + sin.square()
        return self._turned(keys, cos / length, -sin / length)

    def _at(self, keys: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self.angles(positions.to(keys.device))
        return cos[:, None], sin[:, None]

    def _turned(self, keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = cos.shape[-1]
        turned, rest = keys[..., : 2 * half].to(cos), keys[..., 2 * half :]
        if self.neighbours:
            one, other = turned[..., ::2], turned[..., 1::2]
        else:
            one, other = turned[..., :half], turned[..., half:]
        pairs = one * cos - other * sin, other * cos + one * sin
        both = torch.stack(pairs, dim=-1).flatten(-2) if self.neighbours else torch.cat(pairs, dim=-1)
        return torch.cat((both.to(keys), rest), dim=-1)


def position_codes(
    decoder: PreTrainedModel, keys_at: Callable[[int], Sequence[Tensor]]
) -> list[PositionCode]:
    """How each layer of ``decoder`` (a Hugging Face causal language model) marks positions in its keys.

    Args:
        decoder: of a kind that adds positions to its embeddings (`ABSOLUTE_POSITIONS`), turns keys by a
            rotary embedding, or leaves them as they are, in all layers or some.
        keys_at: keys ``(1, H, 1, D)`` float32 of each layer, for a lone token at a position.

    Raises:
        ValueError: a layer that does none of these; the message has its number and the ``model_type``.
    """
    near = keys_at(0)
    model_type = decoder.config.model_type
    if model_type in ABSOLUTE_POSITIONS:
        return [PositionCode() for _ in near]
    limit = getattr(decoder.config, "max_position_embeddings", None) or FAR + 1
    far = min(FAR, limit - 1)
    known = list(_known(decoder))
    codes = []
    for layer, (here, there) in enumerate(zip(near, keys_at(far), strict=True)):
        unlike = [_unlike(code, here, there, far) for code in known]
        best = min(range(len(known)), key=unlike.__getitem__)
        if unlike[best] > _UNLIKE:
            raise ValueError(
                f"larimar_editor.model.rotary does not know how layer {layer} of a decoder of type "
                f"{model_type!r} marks positions: no rotary embedding of its base model's `rotary_emb` takes "
                f"them out of its keys (relative difference {unlike[best]:.2f})"
            )
        codes.append(known[best])
    return codes


def _unlike(code: PositionCode, here: Tensor, there: Tensor, far: int) -> float:
    """Relative difference of keys at positions 0 and ``far``, both taken out; infinite where the code is not
    for such keys.
    """
    position = torch.zeros(1, 1, dtype=torch.long, device=here.device)
    try:
        one, other = code.remove(here, position), code.remove(there, position + far)
    except (RuntimeError, TypeError, ValueError):  # angles of another shape or kind
        return float("inf")
    # Keys that are nothing tell nothing.
    return float((one - other).norm() / one.norm()) if bool(one.norm()) else float("inf")


def _known(decoder: PreTrainedModel) -> Iterator[PositionCode]:
    """What a decoder's layers may do, the usual first."""
    module = getattr(decoder.base_model, "rotary_emb", None)
    if module is not None:
        first_half = lambda values: values[..., : values.shape[-1] // 2]
        for layer_type in getattr(module, "layer_types", None) or (None,):
            # A module gives each number twice, after one another or side by side, or once.
            for single, neighbours in (
                (first_half, False),
                (first_half, True),
                (lambda values: values[..., ::2], True),
                (lambda values: values, False),
            ):
                yield Rotary(_angles_of(module, layer_type, single), neighbours)
    elif size := getattr(decoder.config, "rotary_dim", None) or getattr(decoder.config, "head_dim", None):
        yield Rotary(_plain_angles(size), neighbours=True)  # GPT-J's
    yield PositionCode()


def _angles_of(module: nn.Module, layer_type: str | None, single: Callable[[Tensor], Tensor]) -> Angles:
    """From the decoder's own module, so that its scaling rule is the decoder's."""
    also = {} if layer_type is None else {"layer_type": layer_type}

    def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
        probe = torch.empty(1, dtype=torch.float32, device=positions.device)
        cos, sin = module(probe, positions, **also)
        return single(cos), single(sin)

    return angles


def _plain_angles(size: int) -> Angles:
    def angles(positions: Tensor) -> tuple[Tensor, Tensor]:
        exponent = torch.arange(0, size, 2, device=positions.device, dtype=torch.float32) / size
        turns = positions[..., None] * 10000.0**-exponent
        return turns.cos(), turns.sin()

    return angles
