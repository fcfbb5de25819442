"""Facts and questions typed without a look at the detector; nothing is trained or calibrated on them. What
letters and words decide, without any encoder, is never wrong there.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from larimar_editor.scope.decision import SecondStage, Written

FOLDER = Path(__file__).parent / "strangers"
THE_SAME, ANOTHER = ("reworded", "alias"), ("other", "near_name", "hop")


@pytest.mark.parametrize(("file", "taken", "turned_away"), [("everyday", 30, 5), ("world", 5, 3)])
def test_what_is_decided_without_an_encoder_is_right(file, taken, turned_away):
    facts = json.loads((FOLDER / f"{file}.json").read_text(encoding="utf-8"))
    stage, found = SecondStage(look=None, written=None, candidates=1), Counter()
    for fact in facts:
        for sort in (*THE_SAME, *ANOTHER):
            queries = [fact[sort]] if isinstance(fact[sort], str) else fact[sort]
            for query in queries:
                verdict, _ = stage.plain(Written(fact["prompt"], target=fact["target_new"]), query)
                assert verdict in (None, sort in THE_SAME), (fact["prompt"], query)
                found[verdict] += 1
    assert found[True] >= taken and found[False] >= turned_away
