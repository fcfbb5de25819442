"""A question that says only what is new in it is read with what was asked before."""

import time

import pytest

from larimar_editor.scope.follow_ups import said_in_full

CAPITAL, BORN = "What is the capital of Chile?", "Where was Marie Curie born?"


@pytest.mark.parametrize(
    "asked, before, full",
    [
        ("And Peru?", CAPITAL, "What is the capital of Peru?"),
        ("And of Peru?", CAPITAL, "What is the capital of Peru?"),
        ("And Peru's?", "What is Chile's capital?", "What is Peru's capital?"),
        ("Thanks! What about Peru then?", CAPITAL, "Thanks! What is the capital of Peru?"),
        ("How about the Netherlands?", CAPITAL, "What is the capital of the Netherlands?"),
        ("what about Peru", CAPITAL, "What is the capital of Peru?"),
        ("And in Peru?", "Tell me what is spoken in Chile.", "Tell me what is spoken in Peru."),
        ("And my brother Emil?", "What is Priya allergic to?", "What is my brother Emil allergic to?"),
        ("And my uncle Bo?", "Is my sister Priya allergic to celery?", "Is my uncle Bo allergic to celery?"),
        ("And Emil?", "When does my sister Priya arrive?", "When does Emil arrive?"),
        ("And Orrery 4.1?", "Who maintains Orrery 3?", "Who maintains Orrery 4.1?"),
        ("And the Statue of Liberty?", "How tall is the Eiffel Tower?", "How tall is the Statue of Liberty?"),
        ("And Ada Lovelace?", BORN, "Where was Ada Lovelace born?"),
        ("And Acme?", "Who led Orrery in 1999?", "Who led Acme in 1999?"),
        ("And Peru?", "It rains. What is the capital of Chile? One word.", "What is the capital of Peru?"),
        ("And when?", BORN, "And when was Marie Curie born?"),
        ("In which year?", BORN, "In which year was Marie Curie born?"),
        ("OK, and what year?", BORN, "OK, and what year was Marie Curie born?"),
        ("And where?", "In which year did Marie Curie die?", "And where did Marie Curie die?"),
        ("With whom?", "When does the Halcyon Drift compete?", "With whom does the Halcyon Drift compete?"),
        ("And how often?", "When is Orrery released?", "And how often is Orrery released?"),
    ],
)  # fmt: skip
def test_what_is_left_out_is_as_it_was_asked_before(asked, before, full):
    assert said_in_full(asked, [before]) == full


@pytest.mark.parametrize(
    "asked, before",
    [
        ("And Peru?", "When did Chile fight Bolivia?"),  # one of two
        ("And Peru?", "What is the capital?"),
        ("And Peru?", "My cat is ill."),
        ("And Peru?", "I went to Chile."),  # asked nothing
        ("Peru!", CAPITAL),  # says so
        ("And my dog?", "What is my sister Priya allergic to?"),  # named nowhere
        ("And the mayor?", "Who is the captain of the Halcyon Drift?"),  # another question
        ("And the mayor of Lima?", CAPITAL),
        ("And what does Peru export?", CAPITAL),  # says all
        ("What is the mayor's name?", CAPITAL),
        ("And the French one?", "Who is the German chancellor?"),
        ("And when?", "Who founded Acme?"),  # would be "When was Acme founded?"
        ("And when?", CAPITAL),  # nothing that is done
        ("And since when?", "What is Chile's capital?"),
        ("When?", "Is Chile large?"),
        ("Why?", BORN),
        ("Who?", BORN),
    ],
)
def test_in_doubt_it_stays_as_it_is(asked, before):
    assert said_in_full(asked, [before]) == asked
    assert said_in_full(asked, []) == asked


def test_one_follow_up_may_follow_another():
    chat = [BORN, "And when?", "Thanks!", "And Ada Lovelace?", "And where did she die?", "And Emil Brandt?"]
    read = [said_in_full(asked, chat[:place][::-1]) for place, asked in enumerate(chat)]
    assert read == [
        "Where was Marie Curie born?",
        "And when was Marie Curie born?",
        "Thanks!",
        "And when was Ada Lovelace born?",
        "And where did Ada Lovelace die?",
        "And where did Emil Brandt die?",
    ]


@pytest.mark.parametrize("said", ["And Peru?", "And when?", "Thanks!", "And its mayor?", BORN])
def test_of_a_long_chat_eight_turns_are_looked_at(said):
    turns = iter([said] * 2000)
    start = time.process_time()
    said_in_full("And Bolivia?", turns)
    assert sum(1 for _ in turns) >= 2000 - 8
    assert time.process_time() - start < 1
