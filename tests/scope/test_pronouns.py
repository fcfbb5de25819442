"""A pronoun names nobody: what was named before tells whom it means; where nothing was, no fact is asked."""

import math

import pytest

from larimar_editor.data.questions.by_hand import read_by_hand
from larimar_editor.scope.asking import NOBODY, odds_against
from larimar_editor.scope.pronouns import is_about_a_pronoun, said_in_full
from larimar_editor.utils.sentences import sentences

ASKED = [
    ("And where does it leave from?", "Who is the captain of the night ferry to Askerholm?",
     "And where does the night ferry to Askerholm leave from?"),
    ("And what was her profession?", "Where was Marie Curie born?", "And what was Marie Curie's profession?"),
    ("Thanks! And who maintains it?", "When was Orrery 3 released?", "Thanks! And who maintains Orrery 3?"),
    ("What's its wifi password?", "How do I get to the Hallgarten office?",
     "What's the Hallgarten office's wifi password?"),
    ("what is she allergic to again?", "When does my sister-in-law Priya arrive?",
     "what is my sister-in-law Priya allergic to again?"),
    ("She was born in", "Tell me about Marie Curie.", "Marie Curie was born in"),
    ("How tall is it?", "Where is the Statue of Liberty?", "How tall is the Statue of Liberty?"),
    ("How many wives did he have?", "When did the Duke of Wellington die?",
     "How many wives did the Duke of Wellington have?"),
    ("Where was she born?", "Who wrote the book about Marie Curie?", "Where was Marie Curie born?"),
    ("And how old is he?", "In Paris, who was Marcel Duval?", "And how old is Marcel Duval?"),
    ("Where does he live?", "Hi, what does Dr. Emil Brandt charge?", "Where does Dr. Emil Brandt live?"),
    ("What is it called?", "I am in Oslo. Our ferry to Askerholm is late.",
     "What is our ferry to Askerholm called?"),
    ("Who paid her?", "Ines", "Who paid Ines?"),
    ("And who was their drummer?", "When did the Beatles split up?", "And who was the Beatles' drummer?"),
    ("Where do they come from?", "Who are Brandt & Söhne?", "Where do Brandt & Söhne come from?"),
]  # fmt: skip


@pytest.mark.parametrize("asked, before, full", ASKED)
def test_a_pronoun_is_what_was_named_before(asked, before, full):
    assert said_in_full(asked, [before]) == full


def test_what_was_named_last_counts_and_courtesies_name_nobody():
    before = ["Thanks!", "Great. Where did Emil Brandt study?", "Where was Marie Curie born?"]
    assert said_in_full("And when did he die?", before) == "And when did Emil Brandt die?"


@pytest.mark.parametrize(
    "asked",
    [
        "What time is it?",
        "Is it true that cats purr?",
        "How long does it take to get there?",
        "When was Ada born?",  # names whom it asks about
        "Orrery is slow. Who maintains it?",  # so does what stands before it
        "How are you?",
        "where do they eat haggis",
        "and who maintains orrery?",
    ],
)
def test_what_is_about_no_pronoun_stays_as_it_is(asked):
    assert said_in_full(asked, ["Where was Marie Curie born?"]) == asked


@pytest.mark.parametrize("before", [[], ["Thanks!"], ["who is the captain of the ferry?"]])
def test_where_nothing_is_named_nothing_is_put_in(before):
    assert said_in_full("Where was she born?", before) == "Where was she born?"


@pytest.mark.parametrize("query", ["Where was she born?", "Its capital is", "Thanks! Who maintains it?"])
def test_odds_stand_against_a_question_about_nobody(query):
    assert odds_against(sentences(query))[-1] == pytest.approx(math.log(NOBODY))


@pytest.mark.parametrize(
    "query",
    ["Where was Ada born?", "My sister came late. Where was she born?", "Who is it that made Orrery?"],
)
def test_none_stand_against_one_that_says_whom_it_is_about(query):
    assert odds_against(sentences(query))[-1] == 0


def test_hardly_any_rewording_that_people_typed_is_about_a_pronoun_alone():
    """What names their subject, or stands before them, tells whom the others mean."""
    rewordings = [
        prompt
        for asked in read_by_hand()
        for sort in ("rephrase_prompt", "alias_prompt")
        for prompt in asked.record[sort]
    ]
    alone = [
        prompt
        for prompt in rewordings
        if is_about_a_pronoun((parts := sentences(prompt))[-1])
        and odds_against(parts)[-1] == pytest.approx(math.log(NOBODY))
    ]
    assert len(rewordings) > 50_000
    assert len(alone) <= 1, alone
