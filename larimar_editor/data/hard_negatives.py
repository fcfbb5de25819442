"""Made-up facts with locality prompts that are hard to tell from them: the same question about the names most
like the subject.

"Maria Lopez was born in" is no edit of "Mario Lopez was born in", and a sentence encoder hardly sees the
difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from larimar_editor.data.relations import Names, Relation, RephrasedFacts, read_relations
from larimar_editor.data.texts import SENTENCES, TRIVIA, read_sentences


def made_up_facts(
    count: int,
    embed: Callable[[Sequence[str]], Tensor],
    *,
    held_out: bool = False,
    seed: int = 0,
    pool: int = 9000,
) -> list[dict]:
    """Facts made by rule from what ships, with near names: one part of the relations, or the other.

    Args:
        count: how many, at most.
        embed: texts to unit embeddings ``(N, E)``; what "like" means.
        held_out: whether to take every fourth relation (in an order of ``seed``), or all the others.
        seed: of everything random.
        pool: names of each kind among which the nearest are looked for.

    Returns:
        records of `larimar_editor.data.relations` with ``near_prompt`` besides ``locality_prompt``, and
        ``other_prompt``, other questions about the same subject. A fact that lacks one of them is left out.
    """
    relations = read_relations()
    random.Random(seed).shuffle(relations)
    relations = [relation for place, relation in enumerate(relations) if (place % 4 == 0) == held_out]
    names = Names(text=read_sentences(SENTENCES) + read_sentences(TRIVIA), text_share=0.6)
    made = RephrasedFacts(relations, names, seed + held_out, openers=0.0)
    facts = [
        fact | {"other_prompt": _other_questions(fact, relations)}
        for fact in map(made.__getitem__, range(count))
    ]
    facts = [fact for fact in facts if fact["locality_prompt"] and fact["other_prompt"]]
    return add_near_names(facts, relations, names, embed, seed, pool)


def add_near_names(
    facts: Sequence[dict],
    relations: Sequence[Relation],
    names: Names,
    embed: Callable[[Sequence[str]], Tensor],
    seed: int = 0,
    pool: int = 9000,
    nearest: int = 20,
    count: int = 2,
) -> list[dict]:
    """``facts`` with ``near_prompt``: the fact's wording, or another, asked of some of the ``nearest`` other
    names.

    A name that contains the subject, or is contained in it, may be the subject under a shorter name and is
    passed over.
    """
    rng = random.Random(seed)
    kinds = {relation.name: relation for relation in relations}
    others: dict[str, _NamePool] = {}
    result = []
    for fact in facts:
        relation = kinds[fact["relation"]]
        if relation.subject not in others:
            others[relation.subject] = _NamePool(
                sorted({names.subject(relation.subject, rng) for _ in range(pool)}), embed
            )
        near = others[relation.subject].like(fact["subject"], nearest)
        asked = [fact["prompt"].replace(fact["subject"], "{}"), *rng.choices(relation.prompts, k=count)]
        prompts = [
            prompt.replace("{}", name) for prompt, name in zip(asked, rng.sample(near, min(count, len(near))))
        ]
        if prompts:
            result.append(fact | {"near_prompt": prompts})
    return result


def _other_questions(fact: dict, relations: Sequence[Relation], count: int = 2) -> list[str]:
    rng = random.Random(fact["case_id"])
    kind = next(relation.subject for relation in relations if relation.name == fact["relation"])
    fitting = [
        relation for relation in relations if relation.subject == kind and relation.name != fact["relation"]
    ]
    return [
        rng.choice(each.prompts).replace("{}", fact["subject"])
        for each in rng.sample(fitting, min(count, len(fitting)))
    ]


class _NamePool:
    """Names and their embeddings."""

    def __init__(self, names: list[str], embed: Callable[[Sequence[str]], Tensor], batch: int = 256):
        self.names, self.embed = names, embed
        self.embeddings = torch.cat(
            [embed(names[start : start + batch]) for start in range(0, len(names), batch)]
        )

    def like(self, name: str, count: int) -> list[str]:
        """The ``count`` names most like ``name`` that are not it, nor a part of it, nor it a part of them."""
        order = (self.embeddings @ self.embed([name])[0]).argsort(descending=True)[: 20 * count].tolist()
        small = name.lower()
        others = [
            self.names[i]
            for i in order
            if self.names[i].lower() not in small and small not in self.names[i].lower()
        ]
        return others[:count]
