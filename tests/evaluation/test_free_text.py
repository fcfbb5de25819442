"""Measures of what a model says of its own accord."""

import math
from collections import Counter

import pytest
from transformers import AutoTokenizer

from larimar_editor.evaluation.harness.answers import answers
from larimar_editor.evaluation.harness.fluency import distinct, ngram_entropy
from larimar_editor.evaluation.harness.real_world import answer_in, exact_match, in_chat, sampling
from larimar_editor.pretrained.embedded import DECODER, resolve


@pytest.mark.parametrize(
    "answer, target, same",
    [
        ("The Eiffel  Tower", "eiffel tower", 1),
        ("St. John's", "St Johns", 1),
        ("a cat", "cat", 1),
        ("Paris, France", "Paris", 0),
        ("", "Paris", 0),
        ("theatre", "atre", 0),
    ],
)
def test_an_answer_is_exact_but_for_case_punctuation_and_articles(answer, target, same):
    assert exact_match(answer, target) == same


def test_an_answer_ends_at_the_full_stop_the_line_or_the_end_of_the_text(tokenizer):
    assert [answer_in(text, tokenizer) for text in ("Oslo.", "Oslo\n", "Oslo" + tokenizer.eos_token)] == [
        "Oslo"
    ] * 3
    assert sampling(tokenizer)["stop_strings"] == [".", "\n", tokenizer.eos_token]


def test_generation_stops_at_a_given_text(tiny):
    prompt = "The capital of Peru is"
    (free,) = answers(tiny, [prompt], max_new_tokens=12)
    end = free.strip()[len(free) // 2 : len(free) // 2 + 3]
    (stopped,) = answers(tiny, [prompt], max_new_tokens=12, stop_strings=[end])
    assert end in stopped and free.startswith(stopped) and len(stopped) < len(free)


def test_a_prompt_is_the_users_turn_where_there_are_turns(tokenizer):
    text = in_chat(tokenizer, "The capital of Peru is")
    assert "You are a helpful assistant." in text and "The capital of Peru is" in text
    bare = AutoTokenizer.from_pretrained(resolve(DECODER))
    bare.chat_template = None
    assert in_chat(bare, "The capital of Peru is") == "The capital of Peru is"


def test_entropy_of_ngrams_against_its_definition():
    text = "the cat saw the cat and the cat saw me"
    words = text.split()
    expected = []
    for size, weight in ((2, 2 / 3), (3, 4 / 3)):
        counts = Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))
        total = sum(counts.values())
        expected.append(weight * -sum(n / total * math.log2(n / total) for n in counts.values()))
    assert ngram_entropy(text) == pytest.approx(sum(expected) / 2)
    assert ngram_entropy("no no no no no") == 0 == ngram_entropy("no") == ngram_entropy("")


def test_a_text_that_repeats_itself_has_fewer_distinct_bigrams():
    assert distinct([1, 2, 3, 4]) == 1 and distinct([1]) == 1
    assert distinct([1, 2, 1, 2, 1]) == pytest.approx(2 / 4)
    assert distinct("aaaa", 3) == pytest.approx(1 / 2)
