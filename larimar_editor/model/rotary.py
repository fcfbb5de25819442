"""Takes the position out of a decoder's cached keys, and puts another one in.

A memory slot has no position of its own: its keys are stored without one and rotated to the slot's place when
they are read. Three kinds of decoder are known: rotary on half vectors (Llama, Qwen2, Mistral, GPT-NeoX, Phi,
...), interleaved rotary (GPT-J), and positions that are added to the embeddings (GPT-2, OPT, ...), where keys
stay as they are.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

ABSOLUTE_POSITIONS = frozenset({"gpt2", "gpt_neo", "gpt_bigcode", "opt", "biogpt", "xglm", "bloom", "mpt"})


class PositionCode:
    """Positions that are not in the keys: nothing to take out, nothing to put in."""

    def apply(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys ``(B, H, T, D)`` without a position, put at ``positions`` ``(B, T)`` or ``(1, T)``."""
        return keys

    def remove(self, keys: Tensor, positions: Tensor) -> Tensor:
        """The inverse of `apply`: keys at ``positions`` to keys without a position."""
        return keys


class HalfRotary(PositionCode):
    """Rotary embedding as Llama's, from the decoder's own module, so that its scaling rule is the
    decoder's.
    """

    def __init__(self, module: nn.Module):
        self.module = module

    def apply(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys ``(B, H, T, D)`` turned to ``positions`` ``(B, T)`` or ``(1, T)``."""
        cos, sin = self._angles(keys, positions)
        return self._rotate(keys, cos, sin)

    def remove(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys at ``positions`` turned back, so that they have none."""
        cos, sin = self._angles(keys, positions)
        length = (
            cos.square() + sin.square()
        )  # 1, or the square of the attention scaling of a long-context rule
        return self._rotate(keys, cos / length, -sin / length)

    def _angles(self, keys: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        probe = torch.empty(1, dtype=torch.float32, device=keys.device)
        cos, sin = self.module(probe, positions.to(keys.device))
        return cos[:, None], sin[:, None]

    @staticmethod
    def _rotate(keys: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        size = cos.shape[-1]
        turned, rest = keys[..., :size].to(cos), keys[..., size:]
        half = size // 2
        swapped = torch.cat((-turned[..., half:], turned[..., :half]), dim=-1)
        return torch.cat(((turned * cos + swapped * sin).to(keys), rest), dim=-1)


class InterleavedRotary(PositionCode):
    """Rotary embedding as GPT-J's: neighbouring pairs of the first ``rotary_dim`` numbers."""

    def __init__(self, rotary_dim: int):
        self.rotary_dim = rotary_dim

    def apply(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys ``(B, H, T, D)`` turned to ``positions`` ``(B, T)`` or ``(1, T)``."""
        return self._rotate(keys, positions, 1.0)

    def remove(self, keys: Tensor, positions: Tensor) -> Tensor:
        """Keys at ``positions`` turned back, so that they have none."""
        return self._rotate(keys, positions, -1.0)

    def _rotate(self, keys: Tensor, positions: Tensor, sign: float) -> Tensor:
        exponent = (
            torch.arange(0, self.rotary_dim, 2, device=keys.device, dtype=torch.float32) / self.rotary_dim
        )
        angles = positions.to(keys.device)[:, None, :, None] * 10000.0**-exponent
        cos, sin = angles.cos(), sign * angles.sin()
        turned, rest = keys[..., : self.rotary_dim].to(cos), keys[..., self.rotary_dim :]
        even, odd = turned[..., ::2], turned[..., 1::2]
        pairs = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
        return torch.cat((pairs.flatten(-2).to(keys), rest), dim=-1)


def position_code(decoder: PreTrainedModel) -> PositionCode:
    """How ``decoder`` (a Hugging Face causal language model) marks positions in its keys.

    Raises:
        ValueError: a decoder of a kind that is not known, by its ``model_type``.
    """
    body = decoder.base_model
    rotary = getattr(body, "rotary_emb", None)
    if rotary is not None:
        return HalfRotary(rotary)
    model_type = decoder.config.model_type
    if model_type in ("gptj", "codegen"):
        return InterleavedRotary(decoder.config.rotary_dim or decoder.config.head_dim)
    if model_type in ABSOLUTE_POSITIONS:
        return PositionCode()
    raise ValueError(
        f"decoder type {model_type!r} is not known to larimar_editor.model.rotary: it has no `rotary_emb` "
        "on its base model "
        f"and is not among {', '.join(sorted(ABSOLUTE_POSITIONS | {'gptj', 'codegen'}))}"
    )
