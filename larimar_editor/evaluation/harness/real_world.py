"""EasyEdit's real-world evaluation: the prompt as a user's turn in the decoder's chat template, greedy until
the answer ends of its own accord, and exact match. EasyEdit refuses a decoder without a template.
"""

from __future__ import annotations

import re
import string

from transformers import PreTrainedTokenizerBase

SYSTEM = "You are a helpful assistant."
# EasyEdit goes on for 512 tokens. What has not ended after so many is no exact match of any target shorter.
MOST_TOKENS = 64


def in_chat(tokenizer: PreTrainedTokenizerBase, prompt: str) -> str:
    """A prompt as the user's turn, up to where the assistant's begins. Where the tokenizer has no chat
    template, as those of decoders that were trained on plain text alone, it stays as it is.
    """
    if not getattr(tokenizer, "chat_template", None):
        return prompt
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))


def sampling(tokenizer: PreTrainedTokenizerBase) -> dict:
    """Arguments of `generate`, as EasyEdit's: greedy, without a cache, until a full stop, a line's end or the
    end of the text.
    """
    return {"max_new_tokens": MOST_TOKENS, "stop_strings": _ends(tokenizer), "use_cache": False}


def answer_in(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """A generated text without what ended it."""
    for end in _ends(tokenizer):
        text = text.removesuffix(end)
    return text


def exact_match(answer: str, target: str) -> float:
    """1 where both are the same but for case, punctuation, articles and white space, else 0."""
    return float(_plain(answer) == _plain(target))


def _plain(text: str) -> str:
    text = text.lower().translate(str.maketrans("", "", string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _ends(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [".", "\n", *filter(None, [tokenizer.eos_token])]
