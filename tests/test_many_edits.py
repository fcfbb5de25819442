"""Many facts at once, and plain text beside them."""

import pytest
import torch
from test_single_edits import one_by_one
from torch.nn import functional as F

from larimar_editor.data import load_edits
from larimar_editor.evaluation.many_edits import score_many_edits, summarise_many, write_all
from larimar_editor.evaluation.perplexity import score_text


@pytest.mark.parametrize("sequentially", [False, True], ids=["together", "sequentially"])
def test_every_fact_is_asked_with_all_of_them_in_memory(tiny, sequentially):
    edits = load_edits(limit=5)
    again = type(edits[0])(edits[0].prompt, "Cairo", "Lisbon", "Portugal", case_id=99)
    records = score_many_edits(tiny, [*edits, again], sequentially, progress=False, batch=3)
    assert not tiny.facts(), "nothing is left behind"
    assert sorted(record["case_id"] for record in records) == [1, 2, 3, 4, 99], "of one prompt the last answer holds"
    write_all(tiny, [*edits[1:], again], sequentially, progress=False)
    assert len(tiny.facts()) == 5
    for edit in edits[1:]:
        found = next(record for record in records if record["case_id"] == edit.case_id)
        assert found["rewrite"] == pytest.approx(one_by_one(tiny, edit.prompt, edit.target_new)[1])
        assert found["rephrase"] == pytest.approx(one_by_one(tiny, edit.rephrase_prompts[0], edit.target_new)[1])
    mean = sum(record["rewrite"] for record in records) / 5
    summary = summarise_many(records)
    assert 0 <= summary.pop("neighbourhood_same") <= 1
    assert summary == {"edits": 5, "rewrite_accuracy": round(mean, 4),
                       "rephrase_accuracy": round(sum(r["rephrase"] for r in records[1:]) / 4, 4)}  # fmt: skip


def test_text_out_of_scope_has_the_base_models_perplexity(tiny):
    tiny.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    text = "Water boils when it is hot enough. Soup is cooked in a pot. " * 4
    result = score_text(tiny, text, window=16, progress=False)
    ids = torch.tensor(tiny.tokenizer(text).input_ids)
    parts = [part for part in ids.split(16) if len(part) > 1]
    with torch.no_grad():
        nats = sum(F.cross_entropy(tiny.decoder(part[None]).logits[0, :-1], part[1:], reduction="sum") for part in parts)
    expected = float((nats / sum(len(part) - 1 for part in parts)).exp())
    assert result["identical"] and result["windows"] == len(parts) and result["windows_in_scope"] == 0
    assert result["perplexity"] == result["base_perplexity"] == pytest.approx(expected, rel=1e-4)
    result = score_text(tiny, "The capital of Portugal is", progress=False)
    assert result["windows_in_scope"] == 1 and result["perplexity"] != result["base_perplexity"]
