"""Is this query about a written fact, and about which? (paper, section "Scope Detector")

A query is split into sentences, and its best sentence decides; a last one that names nothing is read with
those before it. The first stage finds the written prompts that are nearest to each sentence; the second,
where there is one, looks at the few nearest facts together with the sentence and says how likely it is that
both ask the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from larimar_editor.scope.asking import has_an_end, is_answered_with, odds_against, tells, with_context
from larimar_editor.scope.detectors import ScopeDetector
from larimar_editor.scope.letters import asks_something_else
from larimar_editor.scope.look import CloserLook, as_written
from larimar_editor.scope.names import OtherNames
from larimar_editor.scope.nearest import Lookup
from larimar_editor.scope.reader import Reader
from larimar_editor.scope.same_words import asks_in_its_words
from larimar_editor.utils.sentences import sentences

TOO_FAR_BEHIND = 0.25  # what is so much less similar than the nearest in the first stage gets no second look
LEAST_LETTERS = 4  # of a sentence beside others: one with fewer, as `"` or "It", asks nothing
_NEVER_QUITE = 1e-6  # a probability is as near to 0 and 1 as this, where log-odds are added
_THE_SAME = 0.999  # cosine from which two texts may be one
_NO_SPACES = "\u2e80"  # from here on a character may be a word
# Log-odds that the first stage's cosine is worth where several facts are in scope: which of a subject's
# facts a question asks for is told apart a little better by both stages than by one.
CLOSENESS = 10.0
READ = 3  # candidates of one query, beside the nearest, that are read once more: the likeliest
SURE = 0.98  # probability from which the nearest is taken without a look at those behind it


@dataclass(frozen=True)
class ScopeDecision:
    """What a detector says of N queries.

    Attributes:
        score: ``(N,)`` float32; higher is closer. -inf where nothing is written.
        in_scope: ``(N,)`` bool, on the CPU.
        sentence: the sentence of each query that came closest.
        embedding: ``(N, E)``, that sentence's embedding.
        nearest: ``(N,)`` row of the written prompt that was decided for; -1 where nothing is written.
    """

    score: Tensor
    in_scope: Tensor
    sentence: list[str]
    embedding: Tensor
    nearest: Tensor


@dataclass(frozen=True)
class Written:
    """A written prompt as the second stage sees it.

    Attributes:
        prompt: what it asks, which was embedded (`larimar_editor.scope.asking.asked_by`).
        subject: what it is about, where that is known.
        target: its answer, which only a second stage that was trained so is shown.
    """

    prompt: str
    subject: str | None = None
    target: str | None = None


_Pair = tuple[tuple[int, int], Written, str]  # sentence and place among those found; the two


@dataclass(frozen=True)
class SecondStage:
    """A closer look at the nearest written prompts.

    Attributes:
        look: gives a probability to a written prompt and a sentence.
        written: the written prompt of a row that a look-up found.
        candidates: written prompts that it looks at for each query, those nearest to any of its sentences;
            the nearest first, and at the others where it is not `SURE`. Facts about one subject are near to
            each other, and the one that is asked for need not be among the first few.
        least_cosine: of the first stage; what is less similar is no candidate, unless the two call one thing
            differently.
        reader: reads, where there is one, what `look` is unsure of: the nearest, and `READ` of the others.
        sure: probability from which, and up to one minus which, the word of `look` is taken.
        names: of known things; a query is read with each called as the written prompt calls it.
    """

    look: CloserLook
    written: Callable[[int], Written]
    candidates: int
    least_cosine: float = 0.4
    reader: Reader | None = None
    sure: float = 0.99
    names: OtherNames | None = None

    @classmethod
    def of(
        cls,
        detector: ScopeDetector,
        written: Callable[[int], Written],
        candidates: int,
        least_cosine: float,
        sure: float,
    ) -> SecondStage | None:
        """A detector's, with its third stage and the names that it looks up; None where it has none, or there
        are to be no ``candidates``. Arguments as the attributes.
        """
        if detector.look is None or not candidates:
            return None
        return cls(detector.look, written, candidates, least_cosine, detector.reader, sure, detector.names)

    def scores(self, parts: Sequence[Sequence[str]], against: Tensor, first: Tensor, rows: Tensor) -> Tensor:
        """Probabilities ``(S, k)`` in place of the first stage's scores, 0 for what it does not look at.

        Args:
            parts: sentences of each query, S in all.
            against: ``(S,)``, log-odds that are taken from each sentence's; where they are endless the last
                of a query asks only for what was written to the letter, and another for nothing.
            first: ``(S, k)``, the first stage's scores.
            rows: ``(S, k)``, of the written prompts.
        """
        result = torch.where(rows < 0, first, 0.0)
        looked_at: list[list[_Pair]] = []
        start = 0
        for group in parts:
            ours = slice(start, start + len(group))
            found = self._candidates(group, against[ours], first[ours], rows[ours])
            plain = [
                (s, k, written, *self.plain(written, group[s]))
                for s, k, written in found
                if not is_answered_with(group, s, written.target)
            ]
            same = [(s, k) for s, k, _, verdict, _ in plain if verdict]
            for s, k in same:  # nothing needs a look
                result[start + s, k] = 1.0
            open_to_doubt = [
                ((start + s, k), written, read) for s, k, written, verdict, read in plain if verdict is None
            ]
            if open_to_doubt and not same:
                looked_at.append(open_to_doubt)
            start += len(group)
        self._look(result, against, [pairs[:1] for pairs in looked_at])
        unsure = [pairs[1:] for pairs in looked_at if float(result[pairs[0][0]]) < SURE]
        self._look(result, against, unsure)
        return result

    def probability(self, written: Written, query: str) -> Tensor:
        """``()``, that both ask the same; 0 where their letters tell them apart."""
        result = torch.zeros(1, 1)
        verdict, read = self.plain(written, query)
        if verdict is not False:
            self._look(result, torch.zeros(1), [[((0, 0), written, read)]])
        return result[0, 0]

    def plain(self, written: Written, query: str) -> tuple[bool | None, str]:
        """What needs no look: True where a query is the written prompt, to the letter or turned round word
        for word; False where letters or words tell the two apart; else None. And the query with known things
        called as the written prompt calls them.

        What follows a sentence that `tells` something is no answer to a question: only that sentence asks
        for it.
        """
        if written.prompt == query:
            return True, query
        if tells(written.prompt) or has_an_end(written.prompt, query):
            return False, query
        read = self._as_called(written, query)
        verdict = asks_in_its_words(written.prompt, read, written.target)
        if verdict is None and asks_something_else(written.prompt, query, written.target, read):
            verdict = False
        return verdict, read

    def _look(self, result: Tensor, against: Tensor, groups: Sequence[Sequence[_Pair]]) -> None:
        """Put the probabilities of pairs, a group for each query, into ``result``."""
        pairs = [pair for group in groups for pair in group]
        if not pairs:
            return
        score = self.look.probabilities(_shown(pairs, self.look.reads_target))
        if self.reader is not None:
            self._read(self.reader, score, [len(group) for group in groups], pairs)
        sentence, place = torch.tensor([place for place, *_ in pairs]).T
        odds = against[sentence]
        less_likely = (score.logit(eps=_NEVER_QUITE) - odds).sigmoid()
        result[sentence, place] = torch.where(odds > 0, less_likely, score)

    def _read(self, reader: Reader, score: Tensor, counts: Sequence[int], pairs: Sequence[_Pair]) -> None:
        """Read again, of each query's pairs (``counts`` of them), the likeliest `READ` that `look` is unsure
        of. The others that it is unsure of are none.
        """
        places, start = [], 0
        for part in score.split(list(counts)):
            unsure = ((part < self.sure) & (part > 1 - self.sure)).nonzero()[:, 0]
            order = part[unsure].argsort(descending=True, stable=True)
            places.append(start + unsure[order[:READ]])
            part[unsure[order[READ:]]] = 0.0
            start += len(part)
        again = torch.cat(places)
        if len(again):
            shown = _shown([pairs[place] for place in again.tolist()], reader.reads_target)
            score[again] = reader.probabilities(shown, score[again])

    def _candidates(
        self, group: Sequence[str], against: Tensor, first: Tensor, rows: Tensor
    ) -> list[tuple[int, int, Written]]:
        """What is looked at for one query, of those nearest to any of its sentences, nearest first: sentence,
        place among those found, and prompt.
        """
        hardly, nothing = against.isinf(), against.isinf()
        nothing[-1] = False
        if len(group) > 1:
            hardly = hardly | torch.tensor([_is_fragment(sentence) for sentence in group])
        # What is nearly the written prompt may be it, to the letter.
        first = first.masked_fill(nothing[:, None] | (hardly[:, None] & (first < _THE_SAME)), -torch.inf)
        best = first.flatten().topk(min(self.candidates, first.numel()))
        least = max(self.least_cosine, float(best.values[0]) - TOO_FAR_BEHIND)
        found = []
        for score, flat in zip(best.values.tolist(), best.indices.tolist()):
            sentence, k = divmod(flat, first.shape[1])
            if rows[sentence, k] < 0 or score == -torch.inf:
                continue
            written = self.written(int(rows[sentence, k]))
            # Names of one thing may be alike in nothing, as initials are: no cosine is asked of them.
            if score >= least or self._as_called(written, group[sentence]) != group[sentence]:
                found.append((sentence, k, written))
            if [written.prompt] == group:  # nothing is nearer, and the others need not be fetched
                break
        return found

    def _as_called(self, written: Written, query: str) -> str:
        return query if self.names is None else self.names.as_called_in(written.prompt, query)


def _shown(pairs: Sequence[_Pair], with_target: bool) -> list[tuple[str, str]]:
    return [
        (as_written(written.prompt, written.subject, written.target if with_target else None), query)
        for _, written, query in pairs
    ]


def _is_fragment(sentence: str) -> bool:
    letters = sum(LEAST_LETTERS if each >= _NO_SPACES else 1 for each in sentence if each.isalnum())
    return letters < LEAST_LETTERS


def decide(
    detector: ScopeDetector,
    queries: Sequence[str],
    lookup: Lookup,
    threshold: float,
    second: SecondStage | None = None,
) -> ScopeDecision:
    """Score queries against the written prompts that ``lookup`` finds nearest; the best sentence of each
    query counts.

    Args:
        detector: embeds the queries' sentences.
        queries: N texts; none give an empty decision.
        lookup: finds the nearest written prompts of each sentence.
        threshold: score from which a query is in scope. Of several facts that reach it, `CLOSENESS` helps to
            choose one; where none does, the score is the highest.
        second: scores what was found; None keeps the first stage's scores (1-NN).
    """
    parts = [sentences(query) for query in queries]
    odds = [odds_against(group) for group in parts]
    decision = decide_among(
        detector, parts, lookup, threshold, second, [each for group in odds for each in group]
    )
    contexts = {place: context for place, group in enumerate(parts) if (context := with_context(group))}
    if second is None or not contexts:
        return decision
    # At the end of running text it is one of many sentences that may look like a question: only what was
    # written to the letter is found there.
    against = [0.0 if odds[place][-1] == 0 else math.inf for place in contexts]
    read = decide_among(detector, [[each] for each in contexts.values()], lookup, threshold, second, against)
    for at, (place, context) in enumerate(contexts.items()):
        if against[at] == 0:
            _weigh(decision, place, parts[place][-1], read, at, threshold, second)
        if read.score[at] > decision.score[place]:
            decision.sentence[place] = context
            for mine, others in (
                (decision.score, read.score),
                (decision.in_scope, read.in_scope),
                (decision.embedding, read.embedding),
                (decision.nearest, read.nearest),
            ):
                mine[place] = others[at]
    return decision


def _weigh(
    decision: ScopeDecision,
    place: int,
    last: str,
    read: ScopeDecision,
    at: int,
    threshold: float,
    second: SecondStage,
) -> None:
    """What the last sentence by itself was taken for counts for as much as the mean of its log-odds and those
    in context (``read``), where it is less likely there.
    """
    row, alone = int(decision.nearest[place]), decision.sentence[place] == last
    if row >= 0 and alone:
        written = second.written(row)
        if second.plain(written, last)[0]:
            return
        same = row == int(read.nearest[at])
        score = decision.score[place]
        within = read.score[at] if same else second.probability(written, read.sentence[at])
        if within < score:
            both = torch.stack((score, within)).logit(eps=_NEVER_QUITE)
            decision.score[place] = both.mean().sigmoid()
            decision.in_scope[place] = decision.score[place] >= threshold


def decide_among(
    detector: ScopeDetector,
    parts: Sequence[Sequence[str]],
    lookup: Lookup,
    threshold: float,
    second: SecondStage | None = None,
    against: Sequence[float] | None = None,
) -> ScopeDecision:
    """As `decide`, of queries that are split already: the best part of each counts, less the log-odds that
    stand against it, if any do.
    """
    flat = [sentence for group in parts for sentence in group]
    if not flat:
        nothing = torch.zeros(0)
        return ScopeDecision(
            nothing, nothing.bool(), [], torch.zeros(0, detector.embedding_size), nothing.long()
        )
    embedding = detector.embed(flat)
    # A synchronisation with the device: which prompt is nearest, and so in scope, is decided on the host.
    found = lookup(embedding, 1 if second is None else second.candidates)
    first, rows = (result.cpu() for result in found)
    odds = torch.zeros(len(flat)) if against is None else torch.tensor(against)
    score = first if second is None else second.scores(parts, odds, first, rows)
    inside = score >= threshold
    closeness = score if second is None else torch.where(inside, score.logit() + CLOSENESS * first, score)
    chosen, places, start = [], [], 0
    for group in parts:
        end = start + len(group)
        # Of equal ones, the one that is nearer.
        best = max(
            (bool(inside[i, k]), float(closeness[i, k]), float(first[i, k]), -i, -k)
            for i in range(start, end)
            for k in range(score.shape[1])
        )
        chosen.append(-best[3])
        places.append(-best[4])
        start = end
    at = torch.tensor(chosen), torch.tensor(places)
    return ScopeDecision(
        score=score[at],
        in_scope=inside[at],
        sentence=[flat[i] for i in chosen],
        embedding=embedding[at[0].to(embedding.device)],
        nearest=rows[at],
    )
