"""Past key values of a batch whose rows may or may not have a memory in front of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import Cache

from larimar_editor.model.after_answer import AnswersSaid
from larimar_editor.model.columns import Columns
from larimar_editor.model.copying import Copying


@dataclass(frozen=True)
class Prefix:
    """What stands in front of the rows in scope: BOS, where there is one, and memory slots.

    Attributes:
        cache: their keys and values, which the text's are added to.
        there: bool ``(n, 1 + S)``, or ``(n, S)`` without BOS; False for a slot that a row does not have, as
            its answer is shorter.
        text_positions: int ``(n, 1)``, position of each row's first token.
        whole: whether every row has every slot.
        shift: ``(n, hidden size)``, what is added to the embeddings of each row's tokens; None adds nothing.
    """

    cache: DynamicCache
    there: Tensor
    text_positions: Tensor
    whole: bool
    shift: Tensor | None = None

    @property
    def length(self) -> int:
        """How many positions that is."""
        return self.there.shape[1]

    def shifted(self, embedded: Tensor) -> Tensor:
        """Embeddings of the rows' tokens ``(n, T, hidden size)``, with what is added to them."""
        return embedded if self.shift is None else embedded + self.shift[:, None].to(embedded)

    def of_rows(self, rows: Tensor) -> Prefix:
        """That of the rows of these indices, in their order, with the same cache, which is changed in
        place.
        """
        shift = None if self.shift is None else self.shift[rows]
        return Prefix(self.cache, self.there[rows], self.text_positions[rows], self.whole, shift)


class LarimarCache(Cache):
    """Two caches behind one face.

    ``base`` holds the rows as the decoder alone would have them; ``prefix`` has the cache of the rows in
    scope, with BOS and memory slots in front. Either is None when no row needs it. `get_seq_length` counts
    text tokens only, which is what `generate` and hand-written loops expect.

    Args:
        base: the decoder's own so far, where nothing is written; it grows in place.

    Attributes:
        base: cache of all B rows, or None when every row is in scope.
        prefix: of the rows in scope, or None when there is none, or every row has said its answer.
        said: which rows have; None where the memory stays.
        copying: what the rows' answers go on with; None where nothing is copied.
        mask: attention mask over the text so far ``(B, T)``, or None when nothing is masked.
        length: T.
    """

    def __init__(self, base: Cache | None = None):
        super().__init__(layers=[])
        self.base = base
        self.prefix: Prefix | None = None
        self._in_scope: Tensor | None = None
        self._decoder_config: PretrainedConfig | None = None
        self._records = False
        self.said: AnswersSaid | None = None
        self.copying: Copying | None = None
        self.mask: Tensor | None = None
        self.length = self.base_length

    def __bool__(self) -> bool:
        return True  # it has no layers of its own, whose number a cache's truth is otherwise

    @property
    def is_read(self) -> bool:
        """Whether it is known which rows are in scope."""
        return self._in_scope is not None

    @property
    def in_scope(self) -> Tensor:
        """Bool ``(B,)``, on the CPU."""
        assert self._in_scope is not None, "read first"
        return self._in_scope

    @property
    def is_base(self) -> bool:
        """Whether every row is the decoder's own."""
        return self.is_read and not bool(self.in_scope.any())

    @property
    def base_length(self) -> int:
        """Text tokens in the cache of the base model."""
        return 0 if self.base is None else int(self.base.get_seq_length())  # a static cache has a tensor

    @property
    def _caches(self) -> list[Cache]:
        prefix = None if self.prefix is None else self.prefix.cache
        return [cache for cache in (self.base, prefix) if cache is not None]

    def read(
        self,
        in_scope: Tensor,
        prefix: Prefix | None,
        said: AnswersSaid | None,
        copying: Copying | None,
        config: PretrainedConfig,
    ) -> None:
        """Begin with what the memory says to a batch; ``config`` is the decoder's."""
        self._in_scope, self.prefix, self.said, self.copying = in_scope, prefix, said, copying
        self._decoder_config = config
        if self._records:
            self.activate_past_recording()

    def activate_past_recording(self) -> None:
        """From the next token on keep what `crop` needs, as assisted generation asks."""
        self._records = True
        if self.base is None and self._decoder_config is not None:
            # The decoder, which may be asked later, would make one that records nothing.
            self.base = DynamicCache(config=self._decoder_config)
        for cache in self._caches:
            cache.activate_past_recording()

    def reset(self) -> None:
        """As before anything was read: what comes next is another text. Whether it records stays as it is."""
        records = self._records
        LarimarCache.__init__(self)
        self._records = records

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
        for cache in self._caches:
            if cache.get_seq_length():  # a sliding layer that has seen nothing has no crop
                cache.crop(tokens_to_remove)
        for columns in self._columns:
            columns.crop(abs(tokens_to_remove))
        left = self.length - abs(tokens_to_remove)
        self.mask = None if self.mask is None else self.mask[:, :left]
        self.length = left

    @property
    def _columns(self) -> list[Columns]:
        return [columns for columns in (self.said, self.copying) if columns is not None]

    def _select(self, indices: Tensor, operation, given: Tensor) -> None:
        place = self.in_scope.cumsum(0) - 1
        chosen = self.in_scope[indices]
        if self.base is not None:
            operation(self.base, given)
        if self.prefix is not None:
            rows = place[indices[chosen]].to(given.device)
            operation(self.prefix.cache, rows)
            self.prefix = self.prefix.of_rows(rows.to(self.prefix.there.device))
        if self.mask is not None:
            self.mask = self.mask[indices.to(self.mask.device)]
        for columns in self._columns:
            columns.select(indices)
        self._in_scope = chosen
