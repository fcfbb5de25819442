"""Training chunks: what is kept, what is dropped, and that nothing is counted twice."""

import copy
import json
from types import SimpleNamespace

import pytest
import torch
from conftest import SENTENCES, tiny_llama

from larimar_editor.training import corpus
from larimar_editor.training.sources import LineFile


def test_sentences_are_cut_counted_and_written(tokenizer, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(
        "The old sailor found a green boat. It sank. "
        + "very " * 80
        + "long.\n\nA clever fox lost the bridge.\n"
    )
    counts = corpus.Counts()
    chunks = corpus.sentence_chunks(corpus.paragraphs([text]), tokenizer, counts)
    corpus.write_chunks(chunks, tmp_path / "out.jsonl", counts, progress=False)
    kept = [json.loads(line)["text"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert kept == ["The old sailor found a green boat.", "A clever fox lost the bridge."]
    assert counts.to_dict()["dropped"] == {"too short": 1, "too long": 1} and counts.written == 2
    assert counts.tokens == sum(len(tokenizer(each).input_ids) for each in kept)
    assert [record["text"] for record in map(LineFile(tmp_path / "out.jsonl").__getitem__, range(2))] == kept


def test_blocks_hold_every_token_of_a_paragraph(tokenizer):
    paragraph = " ".join(SENTENCES[:20])
    counts = corpus.Counts()
    blocks = list(corpus.block_chunks([paragraph, "", "Hi"], tokenizer, counts, size=16))
    ids = tokenizer(paragraph).input_ids
    assert counts.tokens + counts.dropped["too short"] * 4 >= len(ids) and counts.dropped["too short"] >= 1
    assert counts.tokens == len(ids) and counts.dropped == {"too short": 1}, "Hi alone is left out"
    assert paragraph.startswith(" ".join(blocks)[:200]) and len(blocks) == -(-len(ids) // 16)


def test_json_lines_must_have_a_text(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "One."}\n{"title": "Two."}\n')
    with pytest.raises(ValueError, match="line 2 has no `text`"):
        list(corpus.paragraphs([tmp_path / "x.jsonl"]))
    with pytest.raises(FileNotFoundError):
        list(corpus.paragraphs([tmp_path / "y.txt"]))
    (tmp_path / "z.txt").write_text("One.\n")
    with pytest.raises(FileNotFoundError):
        next(corpus.paragraphs([tmp_path / "z.txt", tmp_path / "y.txt"]))


def test_samples_repeat_for_a_seed_and_end_when_there_is_no_more(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    options = {"batch_size": 4, "max_new_tokens": 8}
    take = lambda seed, counts: list(
        corpus.sampled_texts(decoder, tokenizer, 2, counts, seed=seed, **options)
    )
    first, again = corpus.Counts(), corpus.Counts()
    assert take(1, first) == take(1, again) and first.dropped == again.dropped
    assert sum(first.dropped.values()) > 0, "a random decoder hardly finishes a sentence"


class Saying:
    """A decoder that says one of two sentences, or half of one, after a token that it notes."""

    config = SimpleNamespace(bos_token_id=7)

    def __init__(self, tokenizer):
        said = [
            "The old sailor found a boat.",
            "A clever fox lost the bridge.",
            "My neighbour painted the bridge and the",
        ]
        self.ids = tokenizer(said, padding=True, padding_side="right", return_tensors="pt").input_ids
        self.opened_with = set()

    def parameters(self):
        yield self.ids

    def generate(self, prompt, **options):
        self.opened_with |= {*prompt.flatten().tolist()}
        return torch.cat((prompt, self.ids[torch.randint(3, (len(prompt),))]), dim=1)


def test_each_finished_sentence_is_taken_once_and_the_same_for_a_seed(tokenizer):
    decoder = Saying(tokenizer)
    counts = corpus.Counts()
    taken = list(corpus.sampled_texts(decoder, tokenizer, 3, counts, batch_size=8, seed=1))
    assert sorted(taken) == ["A clever fox lost the bridge.", "The old sailor found a boat."]
    assert counts.dropped.keys() == {"unfinished", "repeated"}
    assert taken == list(corpus.sampled_texts(decoder, tokenizer, 3, corpus.Counts(), batch_size=8, seed=1))


def test_what_is_sampled_opens_with_the_decoders_bos_where_the_tokenizer_sets_none(tokenizer):
    without = copy.deepcopy(tokenizer)
    without.bos_token = None
    decoder = Saying(tokenizer)
    next(corpus.sampled_texts(decoder, without, 1, corpus.Counts()))
    assert without.bos_token_id is None and decoder.opened_with == {7}
