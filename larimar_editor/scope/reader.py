"""The third stage of the scope detector: a larger encoder reads what the second is unsure of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from larimar_editor.scope.look import READS_TARGET, CloserLook

MIX = "mix"


class Reader:
    """Whether a query asks what a written prompt asks, once more, where the second stage is unsure.

    A second, larger sentence encoder with trained changes of low rank reads the two as a pair. Its log-odds
    come on top of the second stage's, times a trained weight. It is loaded when it is first needed.

    Args:
        load: gives the encoder's network, below its pooling, and its tokenizer.
        weights: those of a `CloserLook`, and ``mix`` ``()``, the weight of the second stage's log-odds.

    Attributes:
        reads_target: whether a written prompt is shown with its answer behind it.
    """

    def __init__(
        self,
        load: Callable[[], tuple[nn.Module, PreTrainedTokenizerBase]],
        weights: Mapping[str, Tensor],
    ):
        self._load, self._weights = load, dict(weights)
        self._mix = float(self._weights.pop(MIX))
        self.reads_target = READS_TARGET in self._weights

    @cached_property
    def look(self) -> CloserLook:
        """The encoder with its changes.

        Raises:
            ValueError: weights for another encoder.
        """
        return CloserLook(*self._load(), self._weights)

    def probabilities(self, pairs: Sequence[tuple[str, str]], before: Tensor) -> Tensor:
        """Probabilities ``(N,)``, float32 on the CPU, that (written prompt, query) ask the same.

        Args:
            pairs: written prompts, as `as_written` gives them, with queries.
            before: the second stage's probabilities ``(N,)``, in (0, 1).
        """
        return torch.sigmoid(self._mix * before.logit() + self.look.log_odds(pairs))

    def to(self, device: torch.device) -> None:
        """Move it, where it is loaded."""
        if "look" in vars(self):
            self.look.to(device)
