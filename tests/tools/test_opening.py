"""A model with its facts, as server, demo and harness open it."""

import json

import pytest
from conftest import FACTS, make_tiny, save_with_decoder, share_sentence_encoder

from larimar_editor import LarimarForCausalLM
from larimar_editor.tools.opening import open_larimar


@pytest.fixture
def folder(tokenizer, tmp_path):
    return save_with_decoder(make_tiny(tokenizer), tmp_path / "decoder", tmp_path / "checkpoint")


def test_a_file_of_facts_is_read_and_not_written(folder, tmp_path):
    path = tmp_path / "facts.db"
    model = share_sentence_encoder(LarimarForCausalLM.from_pretrained(folder))
    model.open_state(path)
    model.write(FACTS)
    model.close_state()
    before = path.read_bytes()
    opened = share_sentence_encoder(open_larimar(folder, path, dtype="float32"))
    assert [fact.prompt for fact in opened.facts()] == [fact["prompt"] for fact in FACTS]
    assert opened.read([FACTS[0]["prompt"]]).in_scope.all()
    with pytest.raises(OSError):
        opened.write([{"prompt": "The capital of Norway is", "target_new": "Rome"}])
    opened.close_state()
    assert path.read_bytes() == before


def test_lines_of_facts_are_written_and_a_file_that_is_not_there_is_named(folder, tmp_path):
    path = tmp_path / "facts.jsonl"
    path.write_text("".join(json.dumps(fact) + "\n" for fact in FACTS))
    opened = open_larimar(folder, path, dtype="float32")
    assert [fact.target_new for fact in opened.facts()] == [fact["target_new"] for fact in FACTS]
    with pytest.raises(FileNotFoundError, match=r"no facts in .*nothing\.db"):
        open_larimar(folder, tmp_path / "nothing.db")
