"""The demo without its page: two models side by side, reasons, probes, and facts that stay in a file."""

import json

import pytest
import torch
from conftest import FACTS, UNRELATED

from larimar_editor.state.fact import Fact
from larimar_editor.tools.demo.probes import probes_of, reworded, subject_of
from larimar_editor.tools.demo.session import Session

PROMPT, TARGET = FACTS[0]["prompt"], FACTS[0]["target_new"]


@pytest.fixture
def session(larimar, tmp_path):
    session = Session(larimar, tmp_path / "demo.db")
    yield session
    larimar.close_state(keep=False)


def last(stream):
    *_, texts = stream
    return texts


def test_both_models_say_what_they_say_alone(session, decoder, tokenizer):
    session.write(PROMPT, TARGET)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    with torch.no_grad():
        alone = decoder.generate(**inputs, max_new_tokens=8, do_sample=False)[:, inputs.input_ids.shape[1] :]
    pairs = list(session.ask(PROMPT, tokens=8))
    base, edited = pairs[-1]
    assert base == tokenizer.decode(alone[0], skip_special_tokens=True)
    assert edited.strip().startswith(TARGET) and not base.strip().startswith(TARGET)
    assert len(pairs) > 4, "they are shown as they grow"
    assert len(set(last(session.ask(UNRELATED[0], tokens=8)))) == 1, "out of scope both say the same"
    assert last(session.ask("What is the mother tongue of Danielle Darrieux?", True, 8))[1].startswith(TARGET)


def test_a_reason_for_every_sentence(session):
    assert session.why("Anything?")[0].why == "nothing is written"
    session.write(PROMPT, TARGET)
    first, second = session.why(f"I had soup for lunch. {PROMPT}")
    assert not first.in_scope and second.in_scope
    assert second.nearest == PROMPT and second.why == "it is the written prompt, word for word"
    (other,) = session.why("Danielle Darrieux was born in")
    assert not other.in_scope and other.why in ("it asks something else", "no fact is near")
    scores = session.nearest(PROMPT)
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


def test_a_probe_says_whether_anything_changed_to_the_bit(session):
    fact, milliseconds = session.write(PROMPT, TARGET, "Danielle Darrieux")
    assert 0 < milliseconds < 60_000
    probed = {each.probe.sort: each for each in session.probed(fact)}
    written = probed["as written"]
    assert written.in_scope and not written.same and written.as_wanted and written.edited.startswith(TARGET)
    for each in probed.values():
        assert each.same == (not each.in_scope), "what is not read is as before to the bit"


def test_facts_outlive_the_session_and_changes_are_counted(session, larimar, tmp_path):
    fact, _ = session.write(PROMPT, TARGET)
    session.set_point()
    other, _ = session.write("The capital of Portugal is", "Oslo")
    session.forget([fact.id])
    assert session.changes() == ([other], [fact])
    session.undo()
    assert session.changes() == ([other], [])
    assert session.facts("PORTUGAL") == [other] and session.facts() == [other, fact]
    assert session.export_lines(tmp_path / "facts.jsonl") == 2
    lines = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert [line["target_new"] for line in lines] == [TARGET, "Oslo"]
    session.forget([fact.id, other.id])
    assert session.import_lines(tmp_path / "facts.jsonl") == 2
    larimar.close_state(keep=False)
    larimar.edited_state = larimar.edited_state.cleared()
    again = Session(larimar, tmp_path / "demo.db")
    assert [each.target_new for each in again.facts()] == ["Oslo", TARGET]


def test_what_is_wrong_is_said(session):
    with pytest.raises(ValueError, match="nothing to ask"):
        last(session.ask("  "))
    with pytest.raises(ValueError, match="target_new"):
        session.write(PROMPT, " ")
    assert session.facts() == []
