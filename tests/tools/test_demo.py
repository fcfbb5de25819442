"""The demo without its page: two models side by side, reasons, probes, and facts that stay in a file."""

import json

import pytest
import torch
from conftest import FACTS, UNRELATED

from larimar_editor.state.fact import Fact
from larimar_editor.tools.demo.probes import probes_of, reworded, subject_of
from larimar_editor.tools.demo.workbench import Workbench

PROMPT, TARGET = FACTS[0]["prompt"], FACTS[0]["target_new"]


@pytest.fixture
def bench(larimar, tmp_path):
    bench = Workbench(larimar, tmp_path / "demo.db")
    yield bench
    larimar.close_state(keep=False)


def last(stream):
    *_, texts = stream
    return texts


def test_both_models_say_what_they_say_alone(bench, decoder, tokenizer):
    bench.write(PROMPT, TARGET)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    with torch.no_grad():
        alone = decoder.generate(**inputs, max_new_tokens=8, do_sample=False)[:, inputs.input_ids.shape[1] :]
    pairs = list(bench.ask(PROMPT, tokens=8))
    base, edited = pairs[-1]
    assert base == tokenizer.decode(alone[0], skip_special_tokens=True)
    assert edited.strip().startswith(TARGET) and not base.strip().startswith(TARGET)
    assert len(pairs) > 4, "they are shown as they grow"
    assert len(set(last(bench.ask(UNRELATED[0], tokens=8)))) == 1, "out of scope both say the same"
    assert last(bench.ask("What is the mother tongue of Danielle Darrieux?", True, 8))[1].startswith(TARGET)


def test_a_reason_for_every_sentence(bench):
    assert bench.why("Anything?")[0].why == "nothing is written"
    bench.write(PROMPT, TARGET)
    first, second = bench.why(f"I had soup for lunch. {PROMPT}")
    assert not first.in_scope and second.in_scope
    assert second.nearest == PROMPT and second.why == "it is the written prompt, word for word"
    (other,) = bench.why("Danielle Darrieux was born in")
    assert not other.in_scope and other.why in ("it asks something else", "no fact is near")
    scores = bench.nearest(PROMPT)
    assert scores[0][0] == PROMPT and scores[0][1] == pytest.approx(1, abs=1e-5)


def test_probes_know_what_they_ought_to_change():
    fact = Fact.from_request({"prompt": "The capital of Old Portugal is", "target_new": "Oslo"})
    assert subject_of(fact) == "Old Portugal"
    probes = {probe.sort: probe for probe in probes_of(fact)}
    assert probes["reworded"].prompt == "What is the capital of Old Portugal?"
    assert probes["negation"].prompt == "The capital of Old Portugal, which is not Oslo, is"
    assert probes["two hops"].prompt == "The capital of the neighbour of Old Portugal is"
    assert {sort for sort, probe in probes.items() if probe.asks_it} <= {
        "as written",
        "reworded",
        "another name",
    }
    assert reworded("Who wrote it?") == "Tell me: Who wrote it?"
    assert subject_of(Fact.from_request({"prompt": "The wifi password is", "target_new": "x"})) is None


def test_a_probe_says_whether_anything_changed_to_the_bit(bench):
    fact, milliseconds = bench.write(PROMPT, TARGET, "Danielle Darrieux")
    assert 0 < milliseconds < 60_000
    probed = {each.probe.sort: each for each in bench.probed(fact)}
    written = probed["as written"]
    assert written.in_scope and not written.same and written.as_wanted and written.edited.startswith(TARGET)
    for each in probed.values():
        assert each.same == (not each.in_scope), "what is not read is as before to the bit"


def test_facts_outlive_the_session_and_changes_are_counted(bench, larimar, tmp_path):
    fact, _ = bench.write(PROMPT, TARGET)
    bench.set_point()
    other, _ = bench.write("The capital of Portugal is", "Oslo")
    bench.forget([fact.id])
    assert bench.changes() == ([other], [fact])
    bench.undo()
    assert bench.changes() == ([other], []) and bench.change_counts() == (1, 0)
    assert bench.facts("PORTUGAL") == [other] and bench.facts() == [other, fact]
    assert bench.export_lines(tmp_path / "facts.jsonl") == 2
    lines = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert [line["target_new"] for line in lines] == [TARGET, "Oslo"]
    bench.forget([fact.id, other.id])
    assert bench.import_lines(tmp_path / "facts.jsonl") == 2
    larimar.close_state(keep=False)
    larimar.edited_state = larimar.edited_state.cleared()
    again = Workbench(larimar, tmp_path / "demo.db")
    assert [each.target_new for each in again.facts()] == ["Oslo", TARGET]


def test_of_many_changes_the_last_are_fetched_and_all_are_counted(bench, monkeypatch):
    bench.model.write([{"prompt": f"House {number} is", "target_new": "red"} for number in range(4)])
    fetched, entries = [], type(bench.model.edited_state.store.entries)
    facts = entries.facts
    monkeypatch.setattr(entries, "facts", lambda self, rows: fetched.extend(rows) or facts(self, rows))
    written, gone = bench.changes(limit=2)
    assert [fact.prompt for fact in written] == ["House 2 is", "House 3 is"]
    assert gone == [] and len(fetched) == 2 and bench.change_counts() == (4, 0)


def test_what_is_wrong_is_said(bench):
    with pytest.raises(ValueError, match="nothing to ask"):
        last(bench.ask("  "))
    with pytest.raises(ValueError, match="target_new"):
        bench.write(PROMPT, " ")
    assert bench.facts() == []
