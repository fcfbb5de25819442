"""A decoder's tokenizer."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase


def tokenizer_of(name: str | Path, **of_hub) -> PreTrainedTokenizerBase:
    """By a Hugging Face name or a folder. Where it has nothing to pad a batch with, as GPT-2's and Llama 3's,
    it pads with the end of a text; masks leave that out.

    Args:
        of_hub: passed to `AutoTokenizer.from_pretrained`.
    """
    tokenizer = AutoTokenizer.from_pretrained(name, **of_hub)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def opening_token(tokenizer: PreTrainedTokenizerBase, decoder: PretrainedConfig) -> int:
    """The token that opens a text: the tokenizer's BOS, else that of the decoder's configuration, else EOS.

    Where a decoder has a BOS that its tokenizer does not set, as Qwen's, the tokenizer's EOS would not do: it
    is another in a chat model, and EasyEdit sets one of its own.
    """
    own = getattr(decoder, "bos_token_id", None)
    own = own if isinstance(own, int) else None
    named = (tokenizer.bos_token_id, own, tokenizer.eos_token_id)
    return next(token for token in named if token is not None)
