"""Scoring of single edits: each on its own, many in one pass, and nothing left behind."""

from dataclasses import replace

import pytest
import torch

from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.scores import target_scores
from larimar_editor.evaluation.harness.single_edits import answered_alone, score_single_edits
from larimar_editor.evaluation.tables.counterfact import S_AND_M
from larimar_editor.model.prompts import announced_prompts


def one_by_one(model, prompt, target):
    """Log probability and accuracy by a pass of its own, without padding."""
    ids = model.tokenizer(f"{prompt} {target}", return_tensors="pt").input_ids
    count = ids.shape[1] - len(model.tokenizer(prompt).input_ids)
    with torch.no_grad(), announced_prompts([prompt]):
        scores = model(ids).logits[0, -count - 1 : -1].log_softmax(-1)
    labels = ids[0, -count:]
    return scores.gather(1, labels[:, None]).mean().item(), (
        scores.argmax(-1) == labels
    ).float().mean().item()


def test_single_edits_are_scored_apart_and_leave_the_state(tiny):
    edits = load_edits(limit=3)
    tiny.write([{"prompt": "The one that stays is", "target_new": "here"}])
    state = tiny.edited_state
    records = score_single_edits(tiny, edits, progress=False)
    assert tiny.edited_state is state and [len(r["rephrase"]) for r in records] == [2, 2, 2]
    tiny.reset()
    bare = [
        one_by_one(tiny, edits[1].prompt, answer) for answer in (edits[1].target_new, edits[1].ground_truth)
    ]
    tiny.write([{"prompt": edits[1].prompt, "target_new": edits[1].target_new}])
    alone = [
        one_by_one(tiny, edits[1].prompt, answer) for answer in (edits[1].target_new, edits[1].ground_truth)
    ]
    found = records[1]["rewrite"][0]
    assert found["in_scope"] and found["accuracy"] == alone[0][1] and found["base_accuracy"] == bare[0][1]
    exponential = lambda pair: torch.tensor([each[0] for each in pair]).exp().tolist()
    for prefix, pair in (("", alone), ("base_", bare)):
        new, old = exponential(pair)
        assert found[f"{prefix}success"] == float(new > old)
        assert found[f"{prefix}magnitude"] == pytest.approx(new - old, rel=1e-3, abs=1e-7)
    for asked in (each for record in records for each in record["locality"]):
        assert asked["in_scope"] or asked["same"] == 1


def test_a_prompt_that_ends_in_a_space_is_scored_on_every_token_of_its_target(tiny):
    for target in ("Oslo", "the old harbour of Oslo"):
        plain, spaced = target_scores(tiny, [("The capital is", target), ("The capital is ", target)])
        assert spaced.predicted == plain.predicted and len(spaced.predicted) >= 1
        assert spaced.log_probability == pytest.approx(plain.log_probability, abs=1e-5)


def test_texts_of_cases_that_share_a_pass_are_those_of_each_alone(tiny):
    edits = load_edits(limit=3)
    in_chat = lambda text: tiny.tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )
    prompts = lambda edit: [edit.prompt, in_chat(edit.prompt), edits[0].locality_prompts[0]]
    cases = [([edit.request], prompts(edit)) for edit in edits[:2]] + [([], prompts(edits[2]))]
    expected = []
    for requests, asked in cases:
        tiny.reset()
        if requests:
            tiny.write(requests)
        expected += [answers(tiny, [prompt], max_new_tokens=8)[0] for prompt in asked]
    tiny.reset()
    tiny.write([{"prompt": "The one that stays is", "target_new": "here"}])
    state = tiny.edited_state
    assert answered_alone(tiny, cases, batch=5, max_new_tokens=8) == expected
    assert tiny.edited_state is state
    tiny.reset()
    assert expected[0] != answers(tiny, [edits[0].prompt], max_new_tokens=8)[0]  # the memory did speak


def test_an_edit_without_an_old_answer_has_no_s_and_m(tiny):
    edits = [replace(edit, ground_truth="") for edit in load_edits(limit=2)]
    records = score_single_edits(tiny, [*edits, *load_edits(limit=2)], progress=False)
    without, of_old = records[:2], records[2:]
    assert "success" not in without[0]["rewrite"][0] and "success" in of_old[0]["rewrite"][0]
    assert without[0]["rewrite"][0]["accuracy"] == of_old[0]["rewrite"][0]["accuracy"]
    by_key = {column.key: column for column in S_AND_M}
    assert by_key["edit_S"].of(without) is None and by_key["edit_S"].of(records).count == 2
