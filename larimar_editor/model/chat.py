"""What is asked in a chat: the last user turn of a text in the decoder's own chat template."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

_TURNS = ("Larimar first", "Larimar second", "Larimar third")  # stand-ins for what is said


@dataclass(frozen=True)
class ChatTurns:
    """How a chat template opens a user's turn, and how it goes on from there to the assistant's.

    Attributes:
        opening: what stands before what a user says, from its first special token on.
        closing: what stands between that and what the assistant says.
    """

    opening: str
    closing: str

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> ChatTurns | None:
        """Read off the tokenizer's template; None where it has none, or none that marks turns by special
        tokens.
        """
        if not getattr(tokenizer, "chat_template", None):
            return None
        roles = ("user", "assistant", "user")
        chat = [{"role": role, "content": said} for role, said in zip(roles, _TURNS)]
        text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        if any(text.count(said) != 1 for said in _TURNS):
            return None
        before, between, again, closing = _split(text, _TURNS)
        # What both user turns are opened by; of that, the shortest part that opens no assistant's turn.
        shared = _common_end(before, again)
        starts = sorted({i for token in tokenizer.all_special_tokens for i in _places(shared, token)})
        opening = next((shared[i:] for i in reversed(starts) if not between.endswith(shared[i:])), None)
        return cls(opening, closing) if opening and closing.strip() else None

    def last_question(self, text: str) -> str | None:
        """What the user said last and, after it, what the assistant has begun to say; None of a text that
        is no chat.
        """
        _, found, rest = text.rpartition(self.opening)
        if not found:
            return None
        question, answered, answer = rest.partition(self.closing)
        if not answered:
            question = rest.partition(self.closing.split()[0])[0]
        return f"{question.strip()} {answer.strip()}".strip()


def _split(text: str, marks: tuple[str, ...]) -> list[str]:
    parts = []
    for mark in marks:
        part, _, text = text.partition(mark)
        parts.append(part)
    return [*parts, text]


def _common_end(one: str, other: str) -> str:
    most = min(len(one), len(other))
    length = next((i for i in range(most) if one[-1 - i] != other[-1 - i]), most)
    return one[len(one) - length :]


def _places(text: str, token: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(token, i)] if token else []
