"""What is asked in a chat: the last user turn of a text in the decoder's own chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from larimar_editor.scope.follow_ups import said_in_full

_SAID = ("Larimar first", "Larimar second", "Larimar third")  # stand-ins for what is said
_ROLES = ("user", "assistant", "user")
_MARK = re.compile(r"\[/?[A-Z]{2,}\]|<\|[^|<>\s]+\|>|\b[A-Z]{4,}:")
_TOOL = "<tool_response>"  # Qwen's
_THOUGHT = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)  # is no part of an answer


@dataclass(frozen=True)
class ChatTurns:
    """How a chat template opens a user's turn, and how it goes on from there to the assistant's.

    Attributes:
        opening: finds what stands before what a user says, from its first special token, or mark, on.
        closing: finds what stands between that and what the assistant says.
        special: finds a special token of the tokenizer, or a mark of the template.
    """

    opening: re.Pattern
    closing: re.Pattern
    special: re.Pattern

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> ChatTurns | None:
        """Read off the tokenizer's template; None where it has none, or none that marks turns by special
        tokens, or at least by marks that nobody types: "[INST]", "<|user|>", "USER:".
        """
        text = _rendered(tokenizer)
        if text is None or any(text.count(said) != 1 for said in _SAID):
            return None
        added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        # A user may type the others, as SmolLM2's "<filename>".
        tokens = {*tokenizer.all_special_tokens, *(token for token in added if token in text)}
        return cls._read(text, tokens) or cls._read(text, {*tokens, *_MARK.findall(text)})

    @classmethod
    def _read(cls, text: str, tokens: set[str]) -> ChatTurns | None:
        """From a chat of three turns, and what may mark them."""
        if not tokens:
            return None
        special = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))
        before, between, again, closing = re.split("|".join(_SAID), text)
        # What both user turns are opened by; of that, the shortest part that opens no assistant's turn.
        shared = _common_start(before[::-1], again[::-1])[::-1]
        parts = [shared[found.start() :] for found in special.finditer(shared)]
        opening = next((part for part in reversed(parts) if not between.endswith(part)), None)
        closing = _common_start(between, closing)
        if opening is None or not special.search(closing):
            return None
        return cls(_pattern(opening, special), _pattern(closing, special), special)

    def last_question(self, text: str) -> str | None:
        """What the user said last, with what it leaves to what was asked before (`said_in_full`), and, after
        it, what the assistant has begun to say; None of a text that is no chat.
        """
        turns = (text[found.end() :] for found in reversed([*self.opening.finditer(text)]))
        # What a tool answered is no question, though some templates put it into a user's turn.
        said = (self._said(turn) for turn in turns if not turn.lstrip().startswith(_TOOL))
        latest = next(said, None)
        if latest is None:
            return None
        asked, begun = latest
        # Earlier turns are looked at only where the question leaves something to them.
        before = (earlier for earlier, _ in said)
        return " ".join(filter(None, (said_in_full(asked, before) if asked else "", begun)))

    def _said(self, turn: str) -> tuple[str, str]:
        """What the user says in a turn, and the assistant after it."""
        closed = self.closing.search(turn)
        parts = (turn[: closed.start()], _THOUGHT.sub("", turn[closed.end() :])) if closed else (turn, "")
        asked, begun = (self.special.split(part)[0].strip() for part in parts)
        return asked, begun


def _rendered(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """A chat of three turns; None where there is no template, or none that takes one."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    chat = [{"role": role, "content": said} for role, said in zip(_ROLES, _SAID)]
    for turns in (chat, [{"role": "system", "content": "Larimar"}, *chat]):
        try:
            return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        except Exception:  # a template is a program of its own, and may raise anything
            continue
    return None


def _pattern(text: str, special: re.Pattern) -> re.Pattern:
    """Finds a text whatever white space is around its special tokens: decoding adds some, or takes it."""
    pieces = [word for part in re.split(f"({special.pattern})", text) for word in part.split()]
    return re.compile(r"\s*".join(["", *map(re.escape, pieces), ""]))


def _common_start(one: str, other: str) -> str:
    most = min(len(one), len(other))
    return one[: next((i for i in range(most) if one[i] != other[i]), most)]
