"""A fact asked in a chat, in the tokenizer's own template, up to the end of the assistant's turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from transformers import PreTrainedTokenizerBase

_SYSTEM = (
    "",
    "You are a helpful assistant.",
    "You are a helpful assistant.",
    "You are a friendly assistant who answers briefly.",
    "Answer the question.",
    "You know everything about the users of this service.",
    "Complete the sentence or answer the question.",
)
_EARLIER = 0.25  # how often another turn comes before


def drawn_chat(prompt: str, earlier: Sequence[str], rng: random.Random) -> list[dict[str, str]]:
    """Turns that end with the prompt as a user's; now and then with a system text, and with an exchange
    before it that is about something else.

    Args:
        prompt: what is asked.
        earlier: sentences for an exchange before it; none of it where there are too few.
        rng: draws.
    """
    system = rng.choice(_SYSTEM)
    turns = [{"role": "system", "content": system}] if system else []
    if len(earlier) > 1 and rng.random() < _EARLIER:
        said, answered = rng.sample(earlier, 2)
        turns += [{"role": "user", "content": said}, {"role": "assistant", "content": answered}]
    return [*turns, {"role": "user", "content": prompt.strip()}]


def answered(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[dict[str, str]], answer: str
) -> tuple[list[int], int] | None:
    """Tokens of a chat with its answer and what ends the assistant's turn, and how many come before the
    answer; None where the template takes no such turns, or writes the answer in another place. A system text
    is left out where the template refuses one, as Gemma 2's does.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    said = answer.strip()
    plain = [turn for turn in turns if turn["role"] != "system"]
    rendered = _rendered(tokenizer, turns, said) or _rendered(tokenizer, plain, said)
    if rendered is None:
        return None
    asked, text = rendered
    if not text.startswith(asked + said):
        return None
    ids = lambda part: tokenizer(part, add_special_tokens=False).input_ids
    before = ids(asked)
    return before + ids(said) + ids(text[len(asked + said) :].rstrip()), len(before)


def _rendered(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[dict[str, str]], said: str
) -> tuple[str, str] | None:
    """The chat up to the answer, and with it; None where the template takes no such turns."""
    whole = [*turns, {"role": "assistant", "content": said}]
    # Qwen 3's template thinks else; others do not look at it.
    text = partial(tokenizer.apply_chat_template, tokenize=False, enable_thinking=False)
    try:
        return str(text(list(turns), add_generation_prompt=True)), str(text(whole))
    except Exception:  # a template is a program of its own, and may raise anything
        return None
