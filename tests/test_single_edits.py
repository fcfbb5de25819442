"""Scoring of single edits: each on its own, and nothing left behind."""

from larimar_editor.data import load_edits
from larimar_editor.evaluation.single_edits import score_single_edits, summarise, target_score


def test_single_edits_are_scored_apart_and_leave_the_state(tiny):
    edits = load_edits(limit=3)
    tiny.write([{"prompt": "The one that stays is", "target_new": "here"}])
    state = tiny.edited_state
    records = score_single_edits(tiny, edits, progress=False)
    assert tiny.edited_state is state and [len(r["rephrase"]) for r in records] == [2, 2, 2]
    tiny.reset()
    tiny.write([{"prompt": edits[1].prompt, "target_new": edits[1].target_new}])
    alone = [target_score(tiny, edits[1].prompt, answer)[0] for answer in (edits[1].target_new, edits[1].ground_truth)]
    assert records[1]["rewrite"][0]["success"] == float(alone[0] > alone[1])
    summary = summarise(records)
    assert summary["edits"] == 3 and len(summary["rephrase_accuracy"]) == 2
    assert summary["rewrite_success"] == [round(sum(r["rewrite"][0]["success"] for r in records) / 3, 4)]
