"""What else a thing is called: a query that calls it otherwise is read as if it did not, and no other is."""

import time
import unicodedata

import pytest
import torch
from conftest import ASKED_OTHERWISE, some_of
from hypothesis import given
from hypothesis import strategies as st
from told import Letters, Told

from larimar_editor.data.other_names import groups_that_ship
from larimar_editor.data.questions.by_hand import PROMPTS, by_hand_that_ship
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.detectors import ExternalScopeDetector, sentence_encoder
from larimar_editor.scope.names import OtherNames, names_that_ship
from larimar_editor.scope.nearest import exact

NAMES = OtherNames(
    [
        ("tungsten", "wolfram", "W"),
        ("Mark Twain", "Samuel Langhorne Clemens", "Clemens", "Twain"),
        ("Louis XIV", "Sun King"),
        ("United Kingdom", "UK", "U.K."),
        ("United States", "US", "the States"),
        ("K2", "Mount Godwin-Austen", "Chogori"),
        ("Charlemagne", "Charles"),
        ("Eros", "433 Eros", "1898 DQ"),
        ("sulfur", "sulphur", "S"),
        ("World Health Organization", "WHO"),
        ("Taiwan", "China"),
        ("China", "PRC"),
        ("Elis", "Mary"),
        ("Mercury", "Hermes"),
        ("mercury", "quicksilver", "Hydrargyrum"),
        ("Łódź", "Litzmannstadt"),
    ]
)


SHIPPED = names_that_ship()
UK = "The capital of the United Kingdom is"


@pytest.mark.parametrize(
    ("prompt", "query", "read"),
    [
        ("Tungsten melts at", "Where does wolfram melt?", "Where does tungsten melt?"),
        ("Mark Twain's cat was", "Samuel Langhorne Clemens's cat was", "Mark Twain's cat was"),
        ("Mark Twain's cat was", "what was clemens's cat called", "what was Mark Twain's cat called"),
        ("The mother of Louis XIV was", "Who was the Sun King's mother?", "Who was Louis XIV's mother?"),
        (UK, "The capital of UK is", UK),
        ("The capital of the UK is", "Name the capital of the U.K.!", "Name the capital of the UK!"),
        ("K2 is in", "Where is Mount Godwin Austen?", "Where is K2?"),
        ("The mayor of Łódź is", "Must Litzmannstadt have a mayor?", "Must Łódź have a mayor?"),
        ("The mayor of Łódź is", "Who is the mayor of Litzmannstadt?", "Who is the mayor of Łódź?"),
        ("Hermes is the god of", "Of what is Mercury the god?", "Of what is Hermes the god?"),
        ("The mayor of Łódź is", "Who is mayor of litzmannstadt?", "Who is mayor of Łódź?"),
        ("The mayor of Łódź is", "WHO IS MAYOR OF LITZMANNSTADT?", "WHO IS MAYOR OF Łódź?"),
        (
            "The capital of the UK is",
            "tell me the capital of the united kingdom",
            "tell me the capital of the UK",
        ),
        (
            "Is Mark Twain dead?",
            "Is President Samuel Langhorne Clemens dead?",
            "Is President Mark Twain dead?",
        ),
        ("Eros was seen in", "In which year was 1898 DQ seen?", "In which year was Eros seen?"),
    ],
)
def test_a_thing_is_called_as_the_written_prompt_calls_it(prompt, query, read):
    assert NAMES.as_called_in(prompt, query) == read


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("Tungsten melts at", "What is the melting point of iron?"),
        ("Tungsten melts at", "What is tungsten, also called wolfram, made of?"),
        ("Mark Twain's cat was", "What was Roger Clemens's cat called?"),
        ("Roger Clemens's cat was", "What was Mark Twain's cat called?"),
        ("Mark Twain's cat was", "What did Twain call his cat?"),
        ("Charlemagne was crowned by", "Charles the Bald was crowned by"),
        ("The president of the United States is", "tell us who the president is"),
        ("The president of the United States is", "Tell us who the president is"),
        ("Hermes is the god of", "What is quicksilver?"),
        ("The mother of Louis XIV was", "Who was the sun's mother?"),
        ("Sulfur melts at", "what's the melting point of iron"),
        ("The United States's motto is", "What are the states of matter?"),
        ("The head of the World Health Organization is", "WHO IS THE HEAD OF THE UN?"),
        ("The mayor of Łódź is", "Who owns litzmannstadt.com?"),
        ("The mayor of Łódź is", "Who is the mayor of Litzmannstadt-Nord?"),
        ("China's president is", "Who is Taiwan's president?"),
        ("The Queen of Elis was", "Who was Mary of Scots?"),
        ("The mother of Louis XIV was", "Who was Young Sun King's mother?"),
    ],
)
def test_what_is_no_other_name_of_something_in_the_prompt_stays(prompt, query):
    assert NAMES.as_called_in(prompt, query) == query


def test_the_usual_name_is_the_same_whatever_a_thing_is_called():
    asked = "Who climbed {} first?"
    ways = ("K2", "Mount Godwin-Austen", "mount godwin-austen", "Mount Godwin Austen", "Chogori")
    read = {NAMES.usual(asked.format(way)) for way in ways[:2] + ways[3:]}
    assert read == {"Who climbed K2 first?"}
    assert NAMES.usual("who climbed mount godwin-austen first") == "who climbed K2 first"
    assert NAMES.usual("The mayor of Litzmannstadt is") == "The mayor of Lodz is"
    # Of several things, a part of the usual name, or as like a word as a name.
    for text in ("Is Mercury hot?", "Did Twain sleep?", "What are the states?", "Tell us.", "W is a letter"):
        assert NAMES.usual(text) == text


LISTED = [name for group in groups_that_ship()[::7] for name in group]
CASES = [str, str.lower, str.upper, str.title, lambda text: unicodedata.normalize("NFD", text)]


@given(st.sampled_from(LISTED), st.sampled_from(LISTED), st.sampled_from(CASES), st.text(max_size=20))
def test_any_text_can_be_read_and_one_beside_itself_is_as_it_was(name, other, case, rest):
    prompt, query = f"{rest} {other}", case(f"Who saw {name}'s {rest}?")
    assert SHIPPED.as_called_in(query, query) == query
    read = SHIPPED.as_called_in(prompt, query)
    assert read == query or read.endswith(unicodedata.normalize("NFC", case("?")))
    assert SHIPPED.usual(query)


def test_two_things_of_like_names_stay_two():
    apart = [
        ("Who was George W. Bush's mother?", "Who was George H. W. Bush's mother?"),
        ("Charles I was executed in", "Was Charles II executed?"),
        ("When was the Six-Day War?", "When was the Yom Kippur War?"),
        (
            "The capital of the Republic of the Congo is",
            "The capital of the Democratic Republic of the Congo is",
        ),
        ("The president of Taiwan is", "The president of China is"),
    ]
    for one, other in apart:
        assert SHIPPED.usual(one) != SHIPPED.usual(other)
        assert SHIPPED.as_called_in(one, other) == other


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        ("Acme's CEO is", "Who is Acme's chief operating officer?"),
        ("The black pepper is in", "Where is the white pepper?"),
        ("The Arab-Israeli War began in", "When did the Six-Day War begin?"),
        ("The Russian Revolution began in", "When did the February Revolution begin?"),
        ("The largest country of Europe is", "What is the largest country of the European Union?"),
        ("The Irish National Liberation Army rose in", "When did the People's Liberation Army rise?"),
        ("The TV is in", "Where is the video?"),
        ("Our PO box is in", "Where is our letter box?"),
        ("Our gymnasium is in", "Where is our middle school?"),
        ("Iguazu is in", "Where is Victoria Falls?"),
    ],
)
def test_what_is_only_like_a_thing_or_a_sort_of_it_is_not_called_by_its_name(prompt, query):
    assert SHIPPED.as_called_in(prompt, query) == query


def test_a_long_text_takes_no_longer_a_word_than_a_short_one():
    def seconds(text):
        start = time.perf_counter()
        SHIPPED.as_called_in("The mayor of Mumbai is", text)
        return time.perf_counter() - start

    text = "Bombay and Chogori lie in Asia. "
    short, long = (min(seconds(text * count) for _ in range(3)) for count in (20, 400))
    assert long < 60 * short


def test_both_stages_see_the_name_that_was_written_and_the_letters_what_was_asked():
    look = Told(otherwise=1.0)
    written = Written("The mother of Louis XIV is", target="Wolfram")
    stage = SecondStage(look, lambda row: written, 4, -1.0, names=NAMES)
    lookup = exact(Letters.similarity, Letters.embed([written.prompt]))
    decision = decide(
        Letters, ["Who was the Sun King's mother?", "Besides Wolfram, who?"], lookup, 0.5, stage
    )
    assert decision.in_scope.tolist() == [True, False]
    assert [query for pairs in look.asked for _, query in pairs] == ["Who was Louis XIV's mother?"]


def test_two_names_of_one_thing_are_embedded_alike():
    encoder = sentence_encoder()
    texts = ["Who climbed K2 first?", "Who climbed Chogori first?"]
    looked_up = ExternalScopeDetector(encoder, names=NAMES).embed(texts)
    as_they_are = ExternalScopeDetector(encoder).embed(texts)
    assert torch.allclose(looked_up[0], looked_up[1], atol=1e-6)
    assert float(as_they_are[0] @ as_they_are[1]) < 0.95


def test_of_what_was_typed_by_hand_it_finds_the_subject_in_other_names_and_next_to_nowhere_else():
    names, found = SHIPPED, {}
    for asked in some_of(by_hand_that_ship()):
        prompt, subject = asked.record["prompt"], asked.record["subject"].lower()
        for sort in PROMPTS:
            if sort == "other_prompt" and asked.subject in ASKED_OTHERWISE:
                sort = "other_prompt, by another name"
            found.setdefault(sort, []).extend(
                subject in names.as_called_in(prompt, query).lower() and subject not in query.lower()
                for query in asked.record[sort.partition(",")[0]]
            )
    share = {sort: sum(each) / len(each) for sort, each in found.items()}
    assert min(share["alias_prompt"], share["other_prompt, by another name"]) > 0.1
    # Typed to be mistaken for it: "Cassius Marcellus Clay, the Kentucky abolitionist".
    assert share["near_prompt"] < share["alias_prompt"] / 20
    assert max(share["other_prompt"], share["negation_prompt"]) < 0.001
