"""What an answer that has begun goes on with, spelled out by the readout itself: a pointer over its slots.

A slot's code holds the first layer's value of its token, which hangs on the token alone, so that the nearest
of all tokens' values is the token that was written. Where what was said last are the first tokens of the
answer, its next one takes a share of the decoder's probability, as a pointer-generator network's does (See,
Liu and Manning 2017, eq. 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from larimar_editor.model.columns import Columns
from larimar_editor.model.encoders import KeyValueProjection
from larimar_editor.model.key_values import DecoderStates
from larimar_editor.model.reading import AnswerIds, Reading
from larimar_editor.utils.text import same_at_end

# A slot's token is known where its value is nearer than so much of the way to the next token's.
CLEARLY_NEARER = 0.8
_CANDIDATES = 8
_SLOTS_AT_ONCE = 256


class SlotTokens:
    """Reads off codes which tokens they are of.

    Args:
        states: of the decoder.
        analysis: what made the codes.
    """

    def __init__(self, states: DecoderStates, analysis: KeyValueProjection):
        self.states, self.analysis = states, analysis

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        """The values of every token, and their squared lengths."""
        values = self.states.first_values()
        return values, values.float().square().sum(dim=1)

    @torch.no_grad()
    def of(self, codes: Tensor) -> list[int | None]:
        """The token of each of ``codes`` ``(n, C / P)``; None where it is not clear."""
        (table, squares), analysis = self._table, self.analysis
        size = table.shape[1]
        values = slice(size, 2 * size)  # of the first layer: keys, then values
        wanted = codes.to(analysis.basis) @ analysis.basis[values].T * analysis.scale[values]
        wanted = (wanted + analysis.mean[values]).to(table.device)
        result: list[int | None] = []
        for part in wanted.split(_SLOTS_AT_ONCE):
            rough = squares - 2 * (part.to(table) @ table.T).float()
            near = rough.topk(_CANDIDATES, dim=1, largest=False).indices
            away = (table[near].float() - part[:, None]).norm(dim=2)
            ordered, place = away.sort(dim=1)
            clear = ordered[:, 0] < CLEARLY_NEARER * ordered[:, 1]
            best = near.gather(1, place[:, :1]).flatten()
            result += [id if sure else None for id, sure in zip(best.tolist(), clear.tolist())]
        return result

    def answers(self, reading: Reading) -> list[SpelledAnswer | None]:
        """What is said to each row of a batch; None where nothing is."""
        codes, _ = self.analysis.layout.split(reading.latents)
        ends = [row[max(0, len(row) - len(own.in_slots)) :] for row, own in zip(codes, reading.answer_ids)]
        tokens = iter(self.of(torch.cat(ends)))
        spelled = iter(
            [SpelledAnswer.of([next(tokens) for _ in end], own) for end, own in zip(ends, reading.answer_ids)]
        )
        return [next(spelled) if inside else None for inside in reading.in_scope.tolist()]


@dataclass(frozen=True)
class SpelledAnswer:
    """An answer by the tokens of its slots.

    Attributes:
        forms: ways in which it may be said, of which the first is how it opens where it is asked. None is a
            token that is not clear: nothing is copied there, and whatever is said goes for it.
    """

    forms: tuple[tuple[int | None, ...], ...]

    @classmethod
    def of(cls, tokens: Sequence[int | None], ids: AnswerIds) -> SpelledAnswer | None:
        """Of the tokens of the last slots, as far as they are those of the answer's: where it was cut, or the
        readout is not of this fact alone, some are another's. None where none are.
        """
        for count in range(len(tokens), 0, -1):
            own, wanted = tuple(tokens[-count:]), ids.in_slots[:count]
            if own[0] == wanted[0] and all(one in (None, other) for one, other in zip(own, wanted)):
                break
        else:
            return None
        if not ids.as_asked or ids.as_asked == ids.in_slots:
            return cls((own,))
        rest = same_at_end(ids.as_asked, ids.in_slots)
        begins = len(ids.in_slots) - rest  # tokens that are others where it is asked
        if None in own[:begins] or len(own) < begins:
            return cls((own,))
        return cls((ids.as_asked[: len(ids.as_asked) - rest] + own[begins:], own))

    def begun(self, said: Sequence[int]) -> tuple[int, tuple[int | None, ...]]:
        """How many of the first tokens of a form are the last that were said, and what of it comes next."""
        best = 0, self.forms[0]
        for form in self.forms:
            for count in range(min(len(form), len(said)), best[0], -1):
                behind = said[len(said) - count :]
                if behind[0] == form[0] and all(own in (None, id) for id, own in zip(behind, form)):
                    best = count, form[count:]
                    break
        return best


class Copying(Columns[SpelledAnswer]):
    """Which token the answer of each row of a batch goes on with.

    Args:
        answers: of each row; None where nothing is copied.
        starts: columns of each row that are the prompt; 0 where that is not known.
        share: of the probability, for the token that goes on.
        first: the same for the token that the answer begins with, right after the prompt.
    """

    def __init__(
        self,
        answers: Sequence[SpelledAnswer | None],
        starts: Sequence[int],
        share: float,
        first: float,
    ):
        super().__init__(answers, starts)
        self.share, self.first = share, first

    def grow(self, ids: Tensor) -> list[tuple[int, int, int, float]]:
        """Take in the next columns ``(B, T)``.

        Returns:
            row, column among these, token and its share, of every column that an answer goes on behind.
        """
        before = self.length
        return [each for told in self.take(ids) for each in self._of_row(*told, before)]

    def _of_row(
        self, row: int, answer: SpelledAnswer, tokens: list[int], before: int
    ) -> list[tuple[int, int, int, float]]:
        start = self.starts[row]
        # "drives a": where the answer is "a green car" a word of it stands there already.
        count, left = answer.begun(tokens[:start])
        first = start - count if left else start
        result = []
        for end in range(max(start, before + 1), len(tokens) + 1):
            begun, left = answer.begun(tokens[first:end])
            if not left:
                if not start:
                    continue  # it may stand in the prompt, and be asked for again
                self._over[row] = end, end
                break
            share = self.share if begun else self.first * (end == start)
            if left[0] is not None and share:
                result.append((row, end - 1 - before, left[0], share))
        return result


def copied(
    logits: Tensor, goes_on: Sequence[tuple[int, int, int, float]], in_scope: Tensor, kept: Sequence[int]
) -> Tensor:
    """Logits ``(n, kept columns, V)`` of the rows in scope, with what their answers go on with.

    Args:
        logits: of the decoder with the memory.
        goes_on: as `Copying.grow` returns it, of all rows and columns.
        in_scope: bool ``(B,)``, on the host.
        kept: which of the columns the logits are of.
    """
    rows = (in_scope.cumsum(0) - 1).tolist()
    place = {column: index for index, column in enumerate(kept)}
    return mixed(logits, [(rows[row], place[at], *what) for row, at, *what in goes_on if at in place])


def mixed(logits: Tensor, places: Sequence[tuple[int, int, int, float]]) -> Tensor:
    """Logits ``(B, T, V)`` whose softmax at each place ``(row, column, token, share)`` is
    share * 1[w = token] + (1 - share) * P_decoder(w); all others as they are.
    """
    if not places:
        return logits
    rows, columns, tokens, shares = (list(each) for each in zip(*places))
    said = logits[rows, columns].float()
    chosen = said.gather(1, torch.tensor(tokens, device=logits.device)[:, None]).flatten()
    share = torch.tensor(shares, device=logits.device)
    whole = said.logsumexp(dim=1)
    # The others keep their logits; this one gets what makes its share of the sum right.
    new = whole + torch.log(share + (1 - share) * (chosen - whole).exp()) - torch.log1p(-share)
    at = tuple(torch.tensor(each, device=logits.device) for each in (rows, columns, tokens))
    return logits.index_put(at, new.to(logits))
