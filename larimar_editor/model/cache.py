"""Past key values of a batch whose rows may or may not have a memory in front of them."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import Cache


class LarimarCache(Cache):
    """Two caches behind one face.

    ``base`` holds the rows as the decoder alone would have them; ``memory`` holds the rows in scope, with BOS
    and memory slots in front. Either is None when no row needs it. `get_seq_length` counts text tokens only,
    which is what `generate` and hand-written loops expect.

    Args:
        in_scope: bool ``(B,)``, on the CPU.
        base: cache of all B rows, or None when every row is in scope.
        memory: cache of the rows in scope, or None when there is none.
        mask: attention mask over the text so far ``(B, T)``, or None when nothing is masked.
        length: T.
    """

    def __init__(self, in_scope: Tensor, base: Cache | None, memory: Cache | None):
        super().__init__(layers=[])
        self.in_scope, self.base, self.memory = in_scope, base, memory
        self.mask: Tensor | None = None
        self.length = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Text tokens in the cache."""
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """-1: the cache grows without a limit."""
        return -1

    @property
    def is_compileable(self) -> bool:
        """Whether `torch.compile` may take its shape as fixed: no, it grows."""
        return False

    def grow(self, tokens: int, mask: Tensor | None, batch_size: int) -> Tensor | None:
        """The attention mask ``(B, T + tokens)`` with ``tokens`` more, remembered for the next call.

        ``mask`` may cover the whole text or only the new tokens (as loops that slice it do).
        """
        total = self.length + tokens
        if mask is not None and mask.ndim != 2:
            raise ValueError(f"attention_mask must be (B, T) where a memory is read, got {tuple(mask.shape)}")
        if mask is not None and mask.shape[1] != total:
            if mask.shape[1] != tokens:
                raise ValueError(
                    f"attention_mask covers {mask.shape[1]} tokens, the cache and the input have {total}"
                )
            before = self.mask if self.mask is not None else mask.new_ones(batch_size, self.length)
            mask = torch.cat((before, mask), dim=1)
        elif mask is None and self.mask is not None:
            mask = torch.cat((self.mask, self.mask.new_ones(batch_size, tokens)), dim=1)
        self.mask, self.length = mask, total
        return mask

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows in another order, as beam search wants them."""
        self._select(beam_idx.cpu(), Cache.reorder_cache, beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep the rows of these indices ``(n,)``, in their order."""
        self._select(indices.cpu(), DynamicCache.batch_select_indices, indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row ``repeats`` times."""
        indices = torch.arange(len(self.in_scope)).repeat_interleave(repeats)
        self.batch_select_indices(indices)

    def crop(self, tokens_to_remove: int) -> None:
        """Drop the last tokens; a negative number of them, as in transformers."""
        for cache in (self.base, self.memory):
            if cache is not None:
                cache.crop(tokens_to_remove)
        left = self.length - abs(tokens_to_remove)
        self.mask = None if self.mask is None else self.mask[:, :left]
        self.length = left

    def _select(self, indices: Tensor, operation, given: Tensor) -> None:
        place = self.in_scope.cumsum(0) - 1
        chosen = self.in_scope[indices]
        if self.base is not None:
            operation(self.base, given)
        if self.memory is not None:
            operation(self.memory, place[indices[chosen]].to(given.device))
        if self.mask is not None:
            self.mask = self.mask[indices.to(self.mask.device)]
        self.in_scope = chosen
