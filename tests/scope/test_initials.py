"""Initials are read as the name that they are of, and nothing else is."""

import time

import pytest
from conftest import ASKED_OTHERWISE
from hypothesis import given
from hypothesis import strategies as st
from told import Letters, Told

from larimar_editor.data.questions.by_hand import PROMPTS, by_hand_that_ship
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.initials import abbreviation
from larimar_editor.scope.names import OtherNames
from larimar_editor.scope.nearest import exact

as_abbreviated_in = OtherNames([]).as_called_in  # with no list of names
SCHOOL = "The head of Kestrel Lane Comprehensive School is"


@pytest.mark.parametrize(
    ("prompt", "query", "read"),
    [
        (SCHOOL, "Who is head of KLCS?", "Who is head of Kestrel Lane Comprehensive School?"),
        (SCHOOL, "K.L.C.S. is headed by", "Kestrel Lane Comprehensive School is headed by"),
        (SCHOOL, "who is head of klcs", "who is head of Kestrel Lane Comprehensive School"),
        (SCHOOL, "KLCS's head?", "Kestrel Lane Comprehensive School's head?"),
        ("The head of KLCS is", "Who leads Kestrel Lane Comprehensive School?", "Who leads KLCS?"),
        ("Fares of the Isle of Wight Ferry:", "IWF fares", "Isle of Wight Ferry fares"),
        ("Fares of the Isle of Wight Ferry:", "IOWF fares", "Isle of Wight Ferry fares"),
        ("Is Trans-Baltic Venture Council rich?", "Is TBVC?", "Is Trans-Baltic Venture Council?"),
        (
            "President John Fitzgerald Kennedy was born in",
            "JFK's birthplace?",
            "John Fitzgerald Kennedy's birthplace?",
        ),
        ("In Dover, Kestrel Lane Society is led by", "Who leads KLS?", "Who leads Kestrel Lane Society?"),
        (
            "Who founded the World Health Organization?",
            "Since when is there a WHO?",
            "Since when is there a World Health Organization?",
        ),
        ("The head of KLS is", "Kestrel Lane Society: is Kestrel Lane Society led?", "KLS: is KLS led?"),
        (
            SCHOOL,
            "Is KLCS (klcs.org) old, and who heads KLCS?",
            "Is Kestrel Lane Comprehensive School (klcs.org) old, and who heads "
            "Kestrel Lane Comprehensive School?",
        ),
        ("Who solved Fermat's Last Theorem?", "Who proved FLT?", "Who proved Fermat's Last Theorem?"),
    ],
)
def test_initials_and_the_name_are_one(prompt, query, read):
    assert as_abbreviated_in(prompt, query) == read


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        (SCHOOL, "Who is head of KLCT?"),
        (SCHOOL, "Who is head of Kestrel Lane Comprehensive School?"),
        (SCHOOL, "Who is head of Kings Langley Catholic School (KLCS)?"),
        (SCHOOL, "When was the KLCS Annual Fair?"),
        (SCHOOL, "When was the K.L.C.S. Annual Fair?"),
        ("The WHO was founded in", "Was Henry Owen ill?"),
        ("The manager of Hannah Elliott Anderson Dance is", "who's the head"),
        (SCHOOL, "Who owns klcs.org?"),
        (SCHOOL, "Who is head of klcs?"),
        (SCHOOL, "WHO IS HEAD OF KLCS?"),
        (SCHOOL, "KL is"),
        ("The head of Kestrel Lane Comprehensive School, KLCS, is", "Who is head of KLCS?"),
        ("The bell of Wells Holy Angels Temple is", "what is it"),
        ("The head of Royal Kestrel Lane Comprehensive School is", "Who is head of KLCS?"),
        ("The head of Kestrel Lane Comprehensive School Dover is", "Who is head of KLCS?"),
        ("Their dog eats what the cook leaves", "TDE is"),
    ],
)
def test_what_are_not_its_initials_stays(prompt, query):
    assert as_abbreviated_in(prompt, query) == query


WORDS = [
    "KLCS",
    "K.L.C.S.",
    "klcs",
    "Kestrel",
    "Lane",
    "Comprehensive",
    "School",
    "of",
    "the",
    ",",
    "-",
    "'s",
    "?",
]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=9).map(" ".join)


@given(TEXTS, TEXTS)
def test_any_two_texts_can_be_read_and_one_beside_itself_is_as_it_was(prompt, query):
    assert as_abbreviated_in(query, query) == query
    as_abbreviated_in(prompt, query)


@pytest.mark.parametrize(
    "written", ["Royal Kestrel Lane School of Ants and ", "Ask at the Kestrel Lane School of Ants in "]
)
@pytest.mark.parametrize("asked", ["KLSA, TQQA and KAAS. ", "klsa khsa kxxa any words stand here "])
def test_a_long_text_takes_no_longer_a_word_than_a_short_one(written, asked):
    def seconds(count):
        start = time.perf_counter()
        abbreviation(written * count, asked * count)
        abbreviation(asked * count, written * count)
        return time.perf_counter() - start

    short, long = (min(seconds(count) for _ in range(3)) for count in (20, 400))
    assert long < 60 * short


def test_initials_that_are_known_are_of_no_other_name():
    names = OtherNames(
        [("Massachusetts Institute of Technology", "MIT"), ("North Atlantic Treaty Organization", "NATO")]
    )
    manchester = "Who is rector of the Manchester Institute of Technology?"
    assert names.as_called_in("The rector of MIT is", manchester) == manchester
    area = "What is NATO's area code?"
    assert names.as_called_in("The area code of the North Atlantic Trading Office is", area) == area
    # Three letters are many things'.
    office = "The rector of the Manchester Institute of Technology is"
    assert names.as_called_in(office, "Who is rector of MIT?") == manchester.replace("the ", "")


def test_a_query_that_is_like_the_prompt_in_nothing_but_the_initials_is_looked_at():
    def answered(look, query, names):
        stage = SecondStage(look, lambda row: Written(SCHOOL), 4, 0.999, names=names)
        lookup = exact(Letters.similarity, Letters.embed([SCHOOL]))
        return bool(decide(Letters, [query], lookup, 0.5, stage).in_scope)

    look = Told(otherwise=1.0)
    assert answered(look, "KLCS boss?", OtherNames([]))
    assert look.asked == [[(SCHOOL, "Kestrel Lane Comprehensive School boss?")]]
    assert not answered(look, "KLCT boss?", OtherNames([]))
    assert not answered(look, "KLCS boss?", None)


def test_of_what_was_typed_by_hand_other_names_have_initials_and_next_to_nothing_else():
    found = {sort: [0, 0] for sort in PROMPTS}
    for asked in by_hand_that_ship():
        for sort in PROMPTS:
            if sort == "other_prompt" and asked.subject in ASKED_OTHERWISE:
                continue
            for query in asked.record[sort]:
                found[sort][0] += as_abbreviated_in(asked.record["prompt"], query) != query
                found[sort][1] += 1
    share = {sort: count / of for sort, (count, of) in found.items()}
    assert share["alias_prompt"] > 0.015
    others = {"other_prompt", "locality_prompt", "near_prompt", "negation_prompt"}
    assert max(share[sort] for sort in others) < 0.0005
