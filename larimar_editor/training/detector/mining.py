"""Hard negatives: what the detector itself takes for a fact, among very many.

Beside one fact a question about something else is easily told apart; among ten thousand there is one that is
like it. So queries are looked up in a pool of facts, and those that the second stage finds likely are kept
with the fact that they were taken for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.data.questions.aliases import written_alike
from larimar_editor.data.questions.facts import fitting_target
from larimar_editor.data.texts import SENTENCES, TRIVIA, read_sentences
from larimar_editor.scope.detectors import ScopeDetector
from larimar_editor.scope.look import CloserLook, as_written
from larimar_editor.scope.nearest import exact
from larimar_editor.training.detector.examples import MINED

_AT_ONCE = 2048  # queries that are looked up together
_MOST = 12  # of one fact
_ASKING = ("prompt", "rephrase_prompt", "alias_prompt", "two_hop_prompt", "other_prompt")


@dataclass(frozen=True)
class Query:
    """A text that is looked up.

    Attributes:
        text: of one sentence.
        fact: what it asks about; None for a text that is of no fact.
        asks_it: whether it asks what the fact says, rather than something else about its subject.
    """

    text: str
    fact: Mapping | None = None
    asks_it: bool = True

    def is_not(self, written: Mapping) -> bool:
        """Whether it surely asks something else than a written fact says: about another subject, or another
        question of the same source about the same one.
        """
        if self.fact is None:
            return written["subject"].lower() not in self.text.lower()
        if self.fact["subject"] == written["subject"]:
            same_source = self.fact["source"] == written["source"]
            return self.asks_it and same_source and self.fact["relation"] != written["relation"]
        return not written_alike(self.fact["subject"], written["subject"])


def queries_of(facts: Sequence[Mapping], count: int, seed: int = 0) -> list[Query]:
    """Queries about facts, three in four, and of the texts that ship, which are about none of them."""
    rng = random.Random(seed)
    trivia = [line.partition("?")[0] + "?" for line in read_sentences(TRIVIA, seed=seed) if "?" in line]
    plain = [*trivia[: count // 6], *read_sentences(SENTENCES, count // 4 - count // 6, seed=seed)]
    plain = [text if rng.random() < 0.7 else text.rstrip("?.").lower() for text in plain]
    queries = [Query(text) for text in plain]
    while len(queries) < count:
        fact = rng.choice(facts)
        sort = rng.choice([sort for sort in _ASKING if fact.get(sort)])
        texts = [fact[sort]] if isinstance(fact[sort], str) else fact[sort]
        queries.append(Query(rng.choice(texts), fact, sort not in ("two_hop_prompt", "other_prompt")))
    return queries


def mined(
    facts: Sequence[Mapping],
    detector: ScopeDetector,
    pool: int,
    queries: int,
    candidates: int = 4,
    least: float = 0.02,
    seed: int = 0,
) -> Iterator[dict]:
    """The facts, each with what is taken for it and is not: up to 12 texts, the likeliest, as `MINED`.

    Args:
        facts: records of `larimar_editor.data.question_sources`.
        detector: of two stages.
        pool: facts among which a query is looked up; the first of a random order.
        queries: how many are looked up.
        candidates: nearest facts that the second stage looks at.
        least: probability from which a text is hard enough to be worth learning from.
        seed: of the pool and of the queries.

    Raises:
        ValueError: a detector without a second stage, no facts, or a fact that does not say of which source
            and relation it is; at once.
    """
    if detector.look is None:
        raise ValueError("mining needs a detector with a second stage, which says what is hard")
    if not facts or not all({"source", "relation"} <= fact.keys() for fact in facts):
        raise ValueError(
            "mining needs the facts of `larimar-editor data questions`: source and relation of each"
        )
    return _mined(facts, detector, detector.look, pool, queries, candidates, least, seed)


def _mined(
    facts: Sequence[Mapping],
    detector: ScopeDetector,
    look: CloserLook,
    pool: int,
    queries: int,
    candidates: int,
    least: float,
    seed: int,
) -> Iterator[dict]:
    places = random.Random(seed).sample(range(len(facts)), min(pool, len(facts)))
    chosen = [facts[place] for place in places]
    asked = queries_of(facts, queries, seed)
    found = _nearest(
        detector, [fact["prompt"] for fact in chosen], [query.text for query in asked], candidates
    )
    pairs = [
        (place, query)
        for query, row in zip(asked, found.tolist())
        for place in row
        if place >= 0 and query.is_not(chosen[place]) and query.text != chosen[place]["prompt"]
    ]
    taken: dict[int, dict[str, float]] = {}
    for start in tqdm(range(0, len(pairs), _AT_ONCE), desc="looking", unit="batch"):
        part = pairs[start : start + _AT_ONCE]
        texts = [(_shown(chosen[place], look), query.text) for place, query in part]
        for (place, query), likely in zip(part, look.probabilities(texts).tolist()):
            if likely >= least:
                taken.setdefault(places[place], {})[query.text] = likely
    for place, fact in enumerate(facts):
        likely = taken.get(place, {})
        yield {**fact, MINED: sorted(likely, key=likely.__getitem__, reverse=True)[:_MOST]}


def _shown(fact: Mapping, look: CloserLook) -> str:
    return as_written(fact["prompt"], None, fitting_target(fact) if look.reads_target else None)


def _nearest(detector: ScopeDetector, written: Sequence[str], queries: Sequence[str], count: int) -> Tensor:
    """Rows ``(Q, count)`` of the written prompts that the first stage finds nearest."""
    lookup = exact(detector.similarity, _embedded(detector, written, "embedding facts"))
    rows = _embedded(detector, queries, "embedding queries")
    return torch.cat([lookup(part, count)[1] for part in rows.split(_AT_ONCE)])


def _embedded(detector: ScopeDetector, texts: Sequence[str], doing: str) -> Tensor:
    starts = tqdm(range(0, len(texts), _AT_ONCE), desc=doing, unit="batch")
    return torch.cat([detector.embed(texts[start : start + _AT_ONCE]) for start in starts])
