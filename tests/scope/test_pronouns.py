"""A pronoun names nobody: what was named before tells whom it means; where nothing was, no fact is asked."""

import math

import pytest

from larimar_editor.data.questions.by_hand import by_hand_that_ship
from larimar_editor.scope.asking import NOBODY, odds_against
from larimar_editor.scope.follow_ups import said_in_full
from larimar_editor.scope.pronouns import is_about_a_pronoun
from larimar_editor.utils.sentences import sentences

ASKED = [
    ("And what was her profession?", "Where was Marie Curie born?", "And what was Marie Curie's profession?"),
    ("Thanks! And who maintains it?", "When was Orrery 3 released?", "Thanks! And who maintains Orrery 3?"),
    ("When does it leave?", "Is the night ferry to Askerholm late?",
     "When does the night ferry to Askerholm leave?"),
    ("what is she allergic to again?", "When does my sister-in-law Priya arrive?",
     "what is my sister-in-law Priya allergic to again?"),
    ("She was born in", "Tell me about Marie Curie.", "Marie Curie was born in"),
    ("How tall is it?", "Where is the Statue of Liberty?", "How tall is the Statue of Liberty?"),
    ("How many wives did he have?", "When did the Duke of Wellington die?",
     "How many wives did the Duke of Wellington have?"),
    ("And how old is he?", "In Paris, who was Marcel Duval?", "And how old is Marcel Duval?"),
    ("How old is he?", "Where's Emil Brandt?", "How old is Emil Brandt?"),
    ("Where does he live?", "Hi, what does Dr. Emil Brandt charge?", "Where does Dr. Emil Brandt live?"),
    ("Who bought it?", "Orrery is slow.", "Who bought Orrery?"),
    ("Who refitted it?", "Is the Halcyon Drift at sea?", "Who refitted the Halcyon Drift?"),
    ("And where is it laid up for the winter?", "How old is the Halcyon Drift?",
     "And where is the Halcyon Drift laid up for the winter?"),
    ("Where is it based?", "Where is Acme? Answer in English.", "Where is Acme based?"),
    ("And who was their drummer?", "When did the Beatles split up?", "And who was the Beatles' drummer?"),
    ("When was it released?", "Who maintains Orrery?", "When was Orrery released?"),
    ("When was it founded?", "Who is the head of Zander Robotics?", "When was Zander Robotics founded?"),
    ("Is it open on Sundays?", "Where is the Fennimore?", "Is the Fennimore open on Sundays?"),
    ("Was she married?", "I would like to know when Frida Kahlo died.", "Was Frida Kahlo married?"),
    ("WHERE WAS SHE BORN?", "When did Marie Curie die?", "WHERE WAS Marie Curie BORN?"),
    ("Hi, when did she die?", "Where was Marie Curie born?", "Hi, when did Marie Curie die?"),
    ("And where was she born? please be brief", "When did Marie Curie die?",
     "And where was Marie Curie born? please be brief"),
    ("What year was it founded?", "Who is the head of Zander Robotics?",
     "What year was Zander Robotics founded?"),
    ("Where do they play?", "Who are Manchester Rovers?", "Where do Manchester Rovers play?"),
    ("Where do they sell?", "Who founded Brandt Brothers?", "Where do Brandt Brothers sell?"),
    ("Where do they come from?", "Who are Brandt & Söhne?", "Where do Brandt & Söhne come from?"),
    ("What is it made of?", "Kvass?", "What is Kvass made of?"),
    ("Who built it?", "How high is the Eiffel Tower above sea level?", "Who built the Eiffel Tower?"),
    ("Who designed it?", "When was the Eiffel Tower built?", "Who designed the Eiffel Tower?"),
    ("Who built it?", "How old is the Cape Morn lighthouse?", "Who built the Cape Morn lighthouse?"),
    ("And what is the wifi password there?", "Who is the night porter of the Hotel Almeria?",
     "And what is the wifi password in the Hotel Almeria?"),
    ("How many rooms are there?", "When was the Hotel Almeria built?",
     "How many rooms are there in the Hotel Almeria?"),
    ("How do I get there?", "When does the Fennimore open?", "How do I get to the Fennimore?"),
    ("Is parking free there?", "When does the Fennimore open?", "Is parking free in the Fennimore?"),
    ("And what can I see from there?", "When does the Fennimore open?",
     "And what can I see from the Fennimore?"),
    ("Where was she born?", "When did Theresa May resign?", "Where was Theresa May born?"),
    ("What's its capital?", "How big is the Isle of Man?", "What's the Isle of Man's capital?"),
    ("Who directed it?", "When was Iron Man released?", "Who directed Iron Man?"),
    ("What is its currency?", "How big is the US?", "What is the US's currency?"),
    ("Where did she die?", "Hi, when was Elizabeth I born?", "Where did Elizabeth I die?"),
    ("Who created it?", "When was C++ released?", "Who created C++?"),
    ("Where was she born?", "Is Adele British?", "Where was Adele born?"),
    ("Where was he born?", "And was Bob Marley Jamaican?", "Where was Bob Marley born?"),
    ("How tall is it?", "Is the Statue of Liberty American?", "How tall is the Statue of Liberty?"),
    ("Do you know where she was born?", "When did Marie Curie die?",
     "Do you know where Marie Curie was born?"),
    ("Can you tell me when she died?", "Where was Marie Curie born?",
     "Can you tell me when Marie Curie died?"),
    ("Tell me where she was born.", "When did Marie Curie die?", "Tell me where Marie Curie was born."),
    ("What was the name of her husband?", "When did Marie Curie die?",
     "What was the name of Marie Curie's husband?"),
]  # fmt: skip


@pytest.mark.parametrize("asked, before, full", ASKED)
def test_a_pronoun_is_what_was_named_before(asked, before, full):
    assert said_in_full(asked, [before]) == full


@pytest.mark.parametrize(
    "asked, full",
    [
        ("Kvass? What is it made of?", "Kvass? What is Kvass made of?"),
        ("Hi! Priya? Where does she live?", "Hi! Priya? Where does Priya live?"),
        ("The Halcyon Drift? Who refitted it?", "The Halcyon Drift? Who refitted the Halcyon Drift?"),
        ("Really? Who refitted it?", "Really? Who refitted Orrery?"),
        ("Now? Who refitted it?", "Now? Who refitted Orrery?"),
    ],
)
def test_it_is_what_is_named_alone_just_before(asked, full):
    assert said_in_full(asked, ["Orrery is slow."]) == full


def test_courtesies_and_questions_about_the_same_pronoun_are_passed_over():
    before = ["Thanks!", "And where did he study?", "When was Emil Brandt born?", "Where is Marie Curie?"]
    assert said_in_full("And when did he die?", before) == "And when did Emil Brandt die?"


@pytest.mark.parametrize(
    "asked, before",
    [
        ("When was he born?", ["Who wrote Hamlet?"]),  # whoever wrote it
        ("When did he die?", ["Who was her husband?", "Where was Marie Curie born?"]),
        ("When did he die?", ["Who is Marie Curie's husband?"]),
        ("Who maintains it?", ["When did Netflix buy Orrery?"]),  # one of two
        ("How big is it?", ["Where was Marie Curie born?"]),  # the place
        ("Where is it based?", ["What did Steve Jobs found in 1976?"]),
        ("How old is he?", ["Who is the German chancellor?"]),  # no name of his
        ("Where do they live?", ["Where is Oslo?"]),
        ("Where do they live?", ["Where is Paris?"]),
        ("Who made it?", ["Wow!"]),
        ("Who directed Her?", ["Where is Acme?"]),
        ("How old is she?", ["Who is the German chancellor?"]),
        ("Who works there?", ["Where is Acme?"]),  # in that town, or in that firm
        ("What do they speak there?", ["Where was Marie Curie born?"]),
        ("What is the wifi password there?", ["Who is the porter?"]),
        ("Where was she born?", ["My cat is ill.", "Where is Marie Curie?"]),
        ("How old is she?", ["Does Emil Brandt have a wife?"]),  # the wife
        ("What's her name?", ["Does Emil Brandt have a wife?"]),
        ("What is it called?", ["Does Ada have a cat?"]),
        ("What colour is it?", ["When did Ada Lund buy her car?"]),
        ("How old is he?", ["When did Ada meet her brother?"]),
        ("When was it released?", ["Did Adele record an album in 2021?"]),
    ],
)
def test_in_doubt_nothing_is_put_in(asked, before):
    assert said_in_full(asked, before) == asked


@pytest.mark.parametrize(
    "asked",
    [
        "What time is it?",
        "What day is it today?",
        "Do you know what time it is?",
        "Can you tell me what day it is?",
        "Is it raining?",
        "Is it true that cats purr?",
        "How long does it take to get there?",
        "When was Ada born?",  # names whom it asks about
        "Orrery is slow. Who maintains it?",  # so does what stands before it
        "How are you?",
        "where do they eat haggis",
        "Are you there?",
        "Is there a pool?",
        "What is that over there?",
        "Who is the mayor of the town there in Peru?",
        "and who maintains orrery?",
    ],
)
def test_what_is_about_no_pronoun_stays_as_it_is(asked):
    assert said_in_full(asked, ["Where was Marie Curie born?"]) == asked


@pytest.mark.parametrize("before", [[], ["Thanks!"], ["who is the captain of the ferry?"]])
def test_where_nothing_is_named_nothing_is_put_in(before):
    assert said_in_full("Where was she born?", before) == "Where was she born?"


@pytest.mark.parametrize(
    "query",
    [
        "Where was she born?",
        "Its capital is",
        "Thanks! Who maintains it?",
        "Do you know where she was born?",
        "Tell me where she was born.",
        "What was the name of her husband?",
    ],
)
def test_odds_stand_against_a_question_about_nobody(query):
    assert odds_against(sentences(query))[-1] == pytest.approx(math.log(NOBODY))


@pytest.mark.parametrize(
    "query",
    [
        "Where was Ada born?",
        "My sister came late. Where was she born?",
        "Who is it that made Orrery?",
        "Kvass? What's its source?",
    ],
)
def test_none_stand_against_one_that_says_whom_it_is_about(query):
    assert odds_against(sentences(query))[-1] == 0


def test_hardly_any_rewording_that_people_typed_is_about_a_pronoun_alone():
    """What names their subject, or stands before them, tells whom the others mean."""
    rewordings = [
        prompt
        for asked in by_hand_that_ship()
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
