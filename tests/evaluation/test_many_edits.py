"""Many facts at once, and plain text beside them."""

import pytest
import torch
from test_single_edits import one_by_one
from torch.nn import functional as F

from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness.many_edits import score_many_edits, write_all
from larimar_editor.evaluation.tables.perplexity import perplexity, score_window, windows_of


@pytest.mark.parametrize("sequentially", [False, True], ids=["together", "sequentially"])
def test_every_fact_is_asked_with_all_of_them_in_memory(tiny, sequentially):
    edits = load_edits(limit=5)
    again = type(edits[0])(edits[0].prompt, "Cairo", "Lisbon", "Portugal", case_id=99)
    records = score_many_edits(tiny, [*edits, again], sequentially, progress=False, batch=3)
    assert not tiny.facts(), "nothing is left behind"
    assert sorted(record["case_id"] for record in records) == [1, 2, 3, 4, 99], (
        "of one prompt the last answer holds"
    )
    write_all(tiny, [*edits[1:], again], sequentially, progress=False)
    assert len(tiny.facts()) == 5
    for edit in edits[1:]:
        found = next(record for record in records if record["case_id"] == edit.case_id)
        assert found["rewrite"] == pytest.approx(one_by_one(tiny, edit.prompt, edit.target_new)[1])
        assert found["rephrase"] == pytest.approx(
            one_by_one(tiny, edit.rephrase_prompts[0], edit.target_new)[1]
        )


def test_text_out_of_scope_has_the_base_models_perplexity(tiny):
    tiny.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    text = "Water boils when it is hot enough. Soup is cooked in a pot. " * 4
    windows = windows_of(tiny, text, window=16)
    records = [score_window(tiny, ids) for ids in windows]
    with torch.no_grad():
        nats = sum(
            F.cross_entropy(tiny.decoder(part[None]).logits[0, :-1], part[1:], reduction="sum")
            for part in windows
        )
    expected = float((nats / sum(len(part) - 1 for part in windows)).exp())
    assert all(record["identical"] and not record["in_scope"] for record in records) and len(records) > 3
    assert perplexity(records) == perplexity(records, "base_nats") == pytest.approx(expected, rel=1e-4)
    (ids,) = windows_of(tiny, "The capital of Portugal is")
    record = score_window(tiny, ids)
    assert record["in_scope"] and record["nats"] != record["base_nats"]
