"""A decoder's tokenizer."""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase


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
