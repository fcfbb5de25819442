"""Reads that follow one another: a prompt of several hops, each of which is written.

"The mayor of the capital of Oleva is" asks nothing that was written, but what it names, "the capital of
Oleva", is: with the answer in its place it reads "The mayor of Brinmouth is", which may have been written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from larimar_editor.scope.asking import asked_by
from larimar_editor.scope.decision import ScopeDecision
from larimar_editor.scope.verbs import MODALS, TENSES
from larimar_editor.scope.words import ARTICLES, OURS, OWNERS, USUAL_PREPOSITIONS

MOST_WORDS = 9  # of what a prompt names in place of an answer
LONGEST = 40  # words of a text that is followed
_WORD = re.compile(r"\w+(?:[-.'’&]\w+)*")
_BETWEEN = re.compile(r"[\s\"“”«»()]*")  # words of one name
_OPENS_A_NAME = ARTICLES | OURS | OWNERS.keys()
# Modals may be names: "the mother of Will".
_ENDS_NO_NAME = _OPENS_A_NAME | (TENSES.keys() - MODALS - {"am", "being"}) | USUAL_PREPOSITIONS

# Texts in groups, of each of which the best counts.
Decide = Callable[[Sequence[Sequence[str]]], ScopeDecision]


def follow(
    prompts: Sequence[str],
    decision: ScopeDecision,
    decide: Decide,
    answer: Callable[[int], str],
    threshold: float,
    hops: int = 1,
) -> ScopeDecision:
    """The decision on prompts, where those out of scope may ask something written by way of others.

    Args:
        prompts: N; of each is followed what it asks (`asked_by`), if it is not of more than 40 words.
        decision: on them as they are; those in scope stay.
        decide: decides on groups of texts as it was decided on the prompts.
        answer: of a row's fact.
        threshold: of scores, from which a prompt is in scope; of several looks in a row their product counts.
        hops: how many answers may be put in place one after another.

    Returns:
        the decision, with the prompt that was read in the end as the sentence.
    """
    asked = {
        place: asked_by(prompts[place])
        for place, inside in enumerate(decision.in_scope.tolist())
        if not inside
    }
    used: dict[int, set[int]] = {place: set() for place in asked}
    likely = dict.fromkeys(asked, 1.0)
    for _ in range(hops):
        asked = _with_answers(asked, used, likely, decide, answer)
        if not asked:
            break
        found = decide([[text] for text in asked.values()])
        for at, place in enumerate(list(asked)):
            score = likely[place] * float(found.score[at])
            if score >= threshold and int(found.nearest[at]) not in used[place]:
                decision = _put(decision, place, found, at, score)
                del asked[place]
    return decision


def _with_answers(
    asked: dict[int, str],
    used: dict[int, set[int]],
    likely: dict[int, float],
    decide: Decide,
    answer: Callable[[int], str],
) -> dict[int, str]:
    """Those texts that name something written, with its answer in its place."""
    named = {place: spans for place, text in asked.items() if (spans := list(_spans(text)))}
    if not named:
        return {}
    found = decide([[f"{asked[place][a:b]} is" for a, b in spans] for place, spans in named.items()])
    result = {}
    for at, (place, spans) in enumerate(named.items()):
        row = int(found.nearest[at])
        if not bool(found.in_scope[at]) or row in used[place]:
            continue
        text = asked[place]
        start, end = next((a, b) for a, b in spans if f"{text[a:b]} is" == found.sentence[at])
        used[place].add(row)
        likely[place] *= float(found.score[at])
        result[place] = text[:start] + answer(row).strip().rstrip(".") + text[end:]
    return result


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where in a text something may be named by what was written of another: two words or more, whole with
    what opens them, less than the text.
    """
    words = list(_WORD.finditer(text))
    if len(words) > LONGEST:
        return
    for first, word in enumerate(words):
        if first and words[first - 1][0].lower() in _OPENS_A_NAME:
            continue
        for last in range(first + 1, min(first + MOST_WORDS, len(words))):
            if not _BETWEEN.fullmatch(text, words[last - 1].end(), words[last].start()):
                break
            whole = (first, last) == (0, len(words) - 1)
            if whole or words[last][0].lower() in _ENDS_NO_NAME:
                continue
            end = words[last].end()
            yield word.start(), end
            if text[:end].endswith(("'s", "’s")):  # "Oleva's capital's": what is named has no ending
                yield word.start(), end - 2


def _put(decision: ScopeDecision, place: int, found: ScopeDecision, at: int, likely: float) -> ScopeDecision:
    score, in_scope, nearest = decision.score.clone(), decision.in_scope.clone(), decision.nearest.clone()
    embedding, sentence = decision.embedding.clone(), list(decision.sentence)
    score[place], in_scope[place], nearest[place] = likely, True, found.nearest[at]
    embedding[place], sentence[place] = found.embedding[at], found.sentence[at]
    return replace(
        decision,
        score=score,
        in_scope=in_scope,
        sentence=sentence,
        embedding=embedding,
        nearest=nearest,
    )
