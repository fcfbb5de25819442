"""An answer at the start of a line, as in the assistant's turn of a chat, has no space in front: " Alma" is
one token, "Alma" two. Slots say token after token what comes, and so hold both beginnings where they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from larimar_editor.memory.slots import SlotLayout
from larimar_editor.utils.text import answer_ids, same_at_end, token_ids


@dataclass(frozen=True)
class LineStart:
    """How an answer's tokens differ where it opens a line.

    A latent with both beginnings is the usual one with the slots of the other beginning in front.

    Attributes:
        text: prompt and answer, a line each, as the encoder reads them for the other beginning.
        spaced: tokens of the beginning behind a space.
        bare: tokens of the same at the start of a line.
        rest: tokens of the answer behind it, which are the same in both.
    """

    text: str
    spaced: int
    bare: int
    rest: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, prompt: str, target: str, most: int) -> LineStart | None:
        """None where both beginnings have the same letters in their tokens, and for an answer of more than
        ``most`` tokens.
        """
        line, behind, opening, rest = _both(tokenizer, prompt, target)
        spaced, bare = len(behind) - rest, len(opening) - rest
        if not spaced or not bare or max(len(behind), len(opening)) > most:
            return None
        letters = lambda tokens: [text.strip() for text in tokenizer.batch_decode([[id] for id in tokens])]
        if letters(behind[:spaced]) == letters(opening[:bare]):
            return None
        return cls(line, spaced, bare, rest)

    @property
    def tokens(self) -> int:
        """Of the whole answer behind a space."""
        return self.spaced + self.rest

    @property
    def tokens_of_line(self) -> int:
        """Of the whole answer at the start of a line."""
        return self.bare + self.rest

    def added(self, codes: Tensor, of_line: Tensor) -> Tensor:
        """Codes ``(S, code size)`` of the usual text, with the other beginning in front.

        Args:
            codes: of the last S tokens.
            of_line: of the last tokens of `text`, at least `tokens_of_line`.
        """
        start = of_line.shape[0] - self.tokens_of_line
        return torch.cat((of_line[start : start + self.bare], codes))

    def chosen(self, codes: Tensor, at_line_start: bool) -> Tensor:
        """Of codes that `added` has made, those that a prompt is answered with."""
        usual = codes[self.bare :]
        if not at_line_start:
            return usual
        before, behind = usual[: len(usual) - self.tokens], usual[len(usual) - self.rest :]
        return torch.cat((before, codes[: self.bare], behind))


def ids_at_line_start(tokenizer: PreTrainedTokenizerBase, prompt: str, target: str) -> list[int]:
    """The tokens of a target on the line after its prompt."""
    return _both(tokenizer, prompt, target)[2]


def _both(
    tokenizer: PreTrainedTokenizerBase, prompt: str, target: str
) -> tuple[str, list[int], list[int], int]:
    """Prompt and target, a line each; the target's tokens behind a space and on its line; how many of the
    last are the same.
    """
    stem = prompt.rstrip()
    line, text = f"{stem}\n", f"{stem}\n{target.strip()}"
    behind = answer_ids(tokenizer, prompt, target)
    opening = token_ids(tokenizer, text)[len(token_ids(tokenizer, line)) :]
    return text, behind, opening, same_at_end(behind, opening)


def with_both_beginnings(
    layout: SlotLayout, latents: Tensor, starts: Sequence[LineStart | None], of_lines: Tensor
) -> Tensor:
    """Latents ``(N, width)`` that hold, where a fact has a `LineStart`, both beginnings.

    Args:
        layout: of both.
        latents: ``(N, width)``, of the usual texts.
        starts: N.
        of_lines: ``(n, width)``, encodings of the texts of those that are not None.
    """
    rows = _rows(layout, latents)
    lines = iter(_rows(layout, of_lines))
    return _joined(
        layout,
        [codes if start is None else start.added(codes, next(lines)) for codes, start in zip(rows, starts)],
    )


def as_asked(
    layout: SlotLayout,
    latents: Tensor,
    starts: Sequence[LineStart | None],
    at_line_start: Sequence[bool],
) -> tuple[Tensor, list[bool]]:
    """Readouts ``(N, width)`` with the beginning that each prompt wants, and which begin as a line does. One
    that holds no other beginning, as it was written without, stays as it is.

    Args:
        layout, latents: see `with_both_beginnings`.
        starts: of the facts that were decided for, N.
        at_line_start: N.
    """
    neither = [False] * len(starts)
    if not any(starts):
        return latents, neither
    rows = _rows(layout, latents)
    holds = [
        start is not None and len(codes) == layout.needed(start.tokens) + start.bare
        for codes, start in zip(rows, starts)
    ]
    if not any(holds):
        return latents, neither
    chosen = [
        start.chosen(codes, opens) if start is not None and held else codes
        for codes, start, held, opens in zip(rows, starts, holds, at_line_start)
    ]
    return _joined(layout, chosen), [opens and held for opens, held in zip(at_line_start, holds)]


def _rows(layout: SlotLayout, latents: Tensor) -> list[Tensor]:
    codes, counts = layout.split(latents)
    return [row[len(row) - count :] for row, count in zip(codes, counts.tolist())]


def _joined(layout: SlotLayout, rows: Sequence[Tensor]) -> Tensor:
    """Latents of codes; before a row of fewer than P its first is repeated."""
    rows = [torch.cat((row[:1].expand(max(0, layout.slots - len(row)), -1), row)) for row in rows]
    most = max(map(len, rows))
    padded = torch.stack([torch.cat((row.new_zeros(most - len(row), row.shape[1]), row)) for row in rows])
    return layout.joined(padded, torch.tensor([len(row) for row in rows]))
