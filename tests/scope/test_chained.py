"""Reads that follow one another: what a prompt names is answered first, and only what was written counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.chained import follow
from larimar_editor.scope.decision import ScopeDecision

FACTS = [
    ("The capital of Oleva is", "Brinmouth."),
    ("Who is the mayor of Brinmouth?", "Jonas Weck"),
    ("Jonas Weck is married to", "Ida Tarn"),
    ("The capital of Ida Tarn is", "Oleva"),
]
ASKS = {  # what a detector would say asks each
    0: {"the capital of Oleva is", "Oleva's capital is"},
    1: {"The mayor of Brinmouth is", "Who is the mayor of Brinmouth?", "the mayor of Brinmouth is"},
    2: {"Jonas Weck is married to", "The wife of Jonas Weck is"},
    3: {"The capital of Ida Tarn is"},
}


def decide(groups):
    """A detector that knows what asks a fact, to the letter."""
    found = []
    for group in groups:
        hits = [(row, text) for text in group for row, texts in ASKS.items() if text in texts]
        found.append(hits[0] if hits else (-1, group[0]))
    rows = torch.tensor([row for row, _ in found])
    return ScopeDecision(
        (rows >= 0).float(), rows >= 0, [text for _, text in found], torch.zeros(len(found), 2), rows
    )


def followed(*prompts, hops=1):
    return follow(
        prompts, decide([[prompt] for prompt in prompts]), decide, lambda row: FACTS[row][1], 0.6, hops
    )


@pytest.mark.parametrize(
    "prompt, hops, row",
    [
        ("The mayor of the capital of Oleva is", 1, 1),
        ("Who is the mayor of Oleva's capital?", 1, 1),
        ("I was there. The mayor of the capital of Oleva is", 1, 1),
        ("The wife of the mayor of the capital of Oleva is", 1, -1),  # two answers have to be put in
        ("The wife of the mayor of the capital of Oleva is", 2, 2),
        ("The population of the capital of Oleva is", 4, -1),
        ("Apart from Brinmouth, the capital of Oleva is", 4, -1),
        ("I came home, the mayor of the capital of Oleva is", 1, -1),
        (f"{'Then ' * 40}the mayor of the capital of Oleva is", 1, -1),  # too long to be followed
        ("The sun is", 4, -1),
        ("?", 4, -1),
    ],
)
def test_an_answer_takes_the_place_of_what_names_it_so_often_and_no_more(prompt, hops, row):
    decision = followed(prompt, hops=hops)
    assert int(decision.nearest[0]) == row and bool(decision.in_scope[0]) == (row >= 0)


@pytest.mark.parametrize("word", ["of", "for", "from", "on", "with"])
def test_what_ends_in_a_preposition_is_no_name_of_anything(word):
    """Of "The train from is" nothing is asked: it might be near to what was written of trains."""
    looked_up = []

    def watched(groups):
        looked_up.extend(text for group in groups for text in group)
        return decide(groups)

    prompt = f"The train {word} the capital of Oleva is"
    follow([prompt], decide([[prompt]]), watched, lambda row: FACTS[row][1], 0.6)
    assert "the capital of Oleva is" in looked_up and f"The train {word} Brinmouth is" in looked_up
    assert not any(text.endswith(f" {word} is") for text in looked_up)


def test_what_is_in_scope_already_is_not_followed_and_rows_stay_apart():
    prompts = ["Who is the mayor of Brinmouth?", "The sun is", "Who is the mayor of Oleva's capital?"]
    before = decide([[prompt] for prompt in prompts])
    decision = follow(prompts, before, decide, lambda row: FACTS[row][1], 0.6)
    assert decision.nearest.tolist() == [1, -1, 1] and decision.in_scope.tolist() == [True, False, True]
    assert decision.sentence[2] == "Who is the mayor of Brinmouth?", "what was read in the end"
    assert before.in_scope.tolist() == [True, False, False], "the decision before is left as it is"


def test_a_chain_is_as_likely_as_its_looks_together():
    def unsure(groups):
        found = decide(groups)
        return replace(found, score=found.score * 0.75)

    prompt = "The mayor of the capital of Oleva is"
    asked = lambda threshold: follow(
        [prompt], unsure([[prompt]]), unsure, lambda row: FACTS[row][1], threshold
    )
    assert asked(0.56).in_scope.all() and not asked(0.57).in_scope.any()
    assert float(asked(0.5).score[0]) == pytest.approx(0.75**2)


def test_no_fact_is_reached_by_way_of_itself(monkeypatch):
    monkeypatch.setitem(ASKS, 0, {"the capital of Oleva is", "The twin town of Brinmouth is"})
    assert not followed("The twin town of the capital of Oleva is").in_scope.any()


def test_the_shipped_detector_chains_and_leaves_the_rest_to_the_bit():
    model = LarimarForCausalLM.from_pretrained("smollm2-135m", dtype=torch.bfloat16)
    model.write([{"prompt": prompt, "target_new": answer} for prompt, answer in FACTS[:3]])
    chained, other = "The mayor of the capital of Oleva is", "The population of the capital of Oleva is"
    inputs = [model.tokenizer(prompt, return_tensors="pt") for prompt in (chained, other)]
    with torch.no_grad():
        before = [model(**each).logits for each in inputs]
        assert not model.scope_of([chained, other]).in_scope.any()
        model.config.chained_reads = 1
        after = [model(**each).logits for each in inputs]
    assert model.scope_of([chained]).nearest.tolist() == [1]
    said = model.generate(**inputs[0], max_new_tokens=6, do_sample=False)
    assert "Jonas Weck" in model.tokenizer.decode(said[0])
    assert not torch.equal(before[0], after[0]) and torch.equal(before[1], after[1])
