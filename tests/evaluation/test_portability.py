"""What follows from two facts: the pairs that ship are pairs, and the table counts what it says."""

import json

import pytest
from conftest import make_tiny

from larimar_editor.data.chains import CHAINS, read_chains
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.tables import portability
from larimar_editor.hparams import find_hparams


def test_what_ships_never_names_the_answer_in_between():
    chains = read_chains()
    assert len(chains) >= 50
    for chain in chains:
        middle = chain.first["target_new"].lower()
        assert not [text for text in chain.two_hops if middle in text.lower()]
        assert all(middle in text.lower() for text in chain.turned_round)
        asked = chain.two_hops + chain.turned_round + chain.aliases
        assert not set(asked) & {*chain.lookalikes, chain.first["prompt"], chain.second["prompt"]}


def test_a_pair_that_is_none_is_refused_by_number(tmp_path):
    records = json.loads(CHAINS.read_text())[:2]
    records[1]["second"]["subject"] = "somebody else"
    (tmp_path / "bad.json").write_text(json.dumps(records))
    with pytest.raises(ValueError, match=r"bad\.json, record 1: the second fact is not about"):
        read_chains(tmp_path / "bad.json")


def test_lookalikes_count_what_stays_and_the_rest_what_is_right(tokenizer, tmp_path):
    chain = read_chains()[0]
    pairs = sum(len(each) for each in portability._asked(chain).values())
    record = portability._record(chain, "0", [(1.0, 0.25)] * pairs)
    assert record == {
        "case_id": "0",
        "written": 1,
        "two_hops": 1,
        "turned_round": 1,
        "aliases": 1,
        "lookalikes": 0.25,
    }
    context = Context(find_hparams("LARIMAR/smollm2-135m"), out=tmp_path, limit=1, baseline_cases=0)
    for settings in ("{}", '{"chained_reads": 1}'):
        context._models[settings] = make_tiny(tokenizer, **json.loads(settings))
    summary = portability.EVALUATION.run(context, tmp_path / "portability", progress=False)
    base, own = ({row["name"]: row for row in summary["rows"]}[name] for name in ("base model", "Larimar"))
    assert base["lookalikes"]["value"] == 1 and base["written"]["value"] == 0
    assert own["written"]["count"] == 1 and len(summary["rows"]) == 4
