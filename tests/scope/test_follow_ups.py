"""A question that says only what is new in it is read with what was asked before."""

import json
import re
import time
from pathlib import Path

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
        ("And since when?", "Is Petra Lind the chair?", "And since when is Petra Lind the chair?"),
        ("and peru", "what is the capital of chile", "what is the capital of peru"),
        ("what about sv altbruck?", "who is the coach of fc norrhaven?", "who is the coach of sv altbruck?"),
        ("And when?", "Who founded the Red Cross?", "And when was the Red Cross founded?"),
        ("In which year?", "Who wrote The Salt Lantern?", "In which year was The Salt Lantern written?"),
        ("And in 1988?", "Who won the Rowing Cup in 1974?", "Who won the Rowing Cup in 1988?"),
        ("And to Milan?", "How far is it from Lyon to Geneva?", "How far is it from Lyon to Milan?"),
        ("And Windows 8?", "Is Windows 10 supported by Fotobench?", "Is Windows 8 supported by Fotobench?"),
        ("And of Kestrel Foods?", "Who is the CEO of Orbel Optics?", "Who is the CEO of Kestrel Foods?"),
        ("And the Mary Rose?", "Tell me when the Vasa sank.", "Tell me when the Mary Rose sank."),
        ("Same question for PostgreSQL.", "Which port does Redis use?", "Which port does PostgreSQL use?"),
        ("And Great Wickford, please? Thank you!", "What is the postcode of Little Wickford?",
         "What is the postcode of Great Wickford? Thank you!"),
        ("And Peru? answer in one word", CAPITAL, "What is the capital of Peru? answer in one word"),
        ("And where did she die?\nAnswer:", BORN, "And where did Marie Curie die?\nAnswer:"),
        ("And Peru?  Answer:", CAPITAL, "What is the capital of Peru?  Answer:"),
        ("And Hello Kitty?", "Who designed Miffy?", "Who designed Hello Kitty?"),
        ("When? When?", BORN, "When? When was Marie Curie born?"),
        ("Under whom?", "When did Nelson serve in the navy?", "Under whom did Nelson serve in the navy?"),
        ("But when?", BORN, "But when was Marie Curie born?"),
        ("But what about Peru?", CAPITAL, "What is the capital of Peru?"),
        ("And Harvard?", "When was the University of Oslo founded?", "When was Harvard founded?"),
        ("And Y Combinator?", "Who founded Acme?", "Who founded Y Combinator?"),
        ("And Brad Pitt?", "How old is Will Smith?", "How old is Brad Pitt?"),
        ("And Will Smith?", "How old is Brad Pitt?", "How old is Will Smith?"),
        ("And Chile?", "What is the capital of the Isle of Man?", "What is the capital of Chile?"),
        ("And Lima?", "How big is La Paz?", "How big is Lima?"),
        ("And the US?", "How big is Chile?", "How big is the US?"),
        ("And Hey Jude?", "Who wrote Let It Be?", "Who wrote Hey Jude?"),
        ("And Madonna?", "Is Adele British?", "Is Madonna British?"),
        ("And C++?", "Who created Python?", "Who created C++?"),
        ("What about C#, please?", "Who created Python?", "Who created C#?"),
        ("And F#?", "Who created C#?", "Who created F#?"),
        ("And Peru?", "Capital of Chile?", "Capital of Peru?"),
        ("And on Sunday?", "Is the Louvre open on Monday?", "Is the Louvre open on Sunday?"),
        ("and in july?", "is it hot in june?", "is it hot in july?"),
        ("and in peru?", "what is spoken in chile?", "what is spoken in peru?"),
        ("And the Odeon, by any chance?", "I'd like to know how many seats the Verde has.",
         "I'd like to know how many seats the Odeon has."),
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
        ("And when?", "Who maintains Orrery?"),
        ("And when?", CAPITAL),  # nothing that is done
        ("And since when?", "What is Chile's capital?"),
        ("Who?", BORN),
        ("Price?", "Is the Pentax K1000 good?"),
        ("Thanks, Peter!", "What time is it in Sydney?"),
        ("And at the Rectory?", "What is the code of Kirkgate at night?"),  # at another time
        ("How nice!", BORN),
        ("and you", "what is the capital of chile"),
        ("and the one over there", "what is the capital of chile"),
        ("peru", CAPITAL),
        ("And lunch?", "Does the Marigold serve breakfast?"),
        ("What else?", BORN),
        ("What happened?", "When did the Vasa sink?"),
        ("What for?", BORN),
        ("How so?", BORN),
        ("What for then?", BORN),
        ("And on Monday?", "Who is the captain of the Halcyon Drift?"),  # no other ship
        ("At Christmas?", CAPITAL),
        ("And on Thanksgiving?", "When does the Louvre open?"),
        ("And the road across Peru?", CAPITAL),
        ("and today?", "what is the capital of chile"),
        ("And the one in Gouda?", "Is the museum in Delft open?"),
        ("But Valparaíso?", CAPITAL),  # is not that the answer?
        ("but New Zealand?", CAPITAL),
        ("¿Y Perú?", "¿Cuál es la capital de Chile?"),
        ("Und Peru?", "Was ist die Hauptstadt von Chile?"),
        ("And Section 5?", "What does Section 4 of the Lease Act say?"),
        ("and by train?", "how far is it to ulm?"),
        ("and for free?", "where can i park in ulm?"),
        ("and in july?", "is it hot in rome?"),
        ("And in July?", "How warm is it in Rome?"),
        ("And in December?", "How many people live in Chile?"),
        ("And at Christmas?", "When does the shop open at Harrods?"),
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


@pytest.mark.parametrize("much", ["! ", " ", "what ", "and ", "of x ", "Ada ", "'", "in "])
@pytest.mark.parametrize(
    "asked", ["And {}Peru", "And {}Peru?", "What about {}?", "When {}?", "Where did she {}die?"]
)
def test_whatever_is_said_takes_no_time(asked, much):
    start = time.process_time()
    said_in_full(asked.format(much * 6_000), [CAPITAL])
    said_in_full(asked.format(""), [f"Where is {much * 6_000}of Chile?"])
    assert time.process_time() - start < 1


def test_a_long_text_behind_a_question_is_no_trouble():
    asked = "And Peru? " + "It rains. " * 6_000
    full = said_in_full(asked.strip(), [CAPITAL])
    assert full.startswith("What is the capital of Peru? It rains.") and full.count("It rains.") == 6_000


@pytest.mark.parametrize(("typed", "understood", "wrongly"), [("seen", 89, 13), ("unseen", 50, 9)])
def test_of_what_strangers_typed_hardly_any_is_misunderstood(typed, understood, wrongly):
    """The second file was typed when the rules stood. Wrongly: not word for word as the stranger says it in
    full, though most of these mean the same.
    """
    strangers = json.loads((Path(__file__).parent / "strangers/follow_ups.json").read_text(encoding="utf-8"))
    read = [(chat, said_in_full(chat["asked"], chat["before"][::-1])) for chat in strangers[typed]]
    assert all(full == chat["asked"] for chat, full in read if chat["full"] is None), "in doubt, as it stands"
    changed = [(chat["full"], full) for chat, full in read if full != chat["asked"]]
    assert len(changed) >= understood
    assert sum(_words(full) != _words(wanted) for wanted, full in changed) <= wrongly


def _words(question):
    plain = re.sub(r"\W+", " ", question.lower())
    return re.sub(r"\b(?:and|ok|okay|great|thanks|thank you|please|could you tell me)\b", " ", plain).split()
