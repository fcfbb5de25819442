"""What the letters alone say: that a number or a negation decides, and that nothing else does."""

import time

import pytest
import torch
from conftest import EVERYTHING, some_of
from hypothesis import given
from hypothesis import strategies as st
from told import Letters

from larimar_editor.data.questions.by_hand import PROMPTS, by_hand_that_ship
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.letters import asks_something_else
from larimar_editor.scope.nearest import exact

OLYMPICS = "The host city of the 1936 Summer Olympics was"


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        (OLYMPICS, "Which city hosted the 1932 Summer Olympics?"),
        ("The bolt of 5/8 is kept in", "Where is the bolt of 5.8 kept?"),
        ("The mother of Louis XIV was", "Who was the mother of Louis XVI?"),
        ("The mother of Charles V was", "Who was the mother of Charles VI?"),
        ("Code 33-B on the labeller means", "What does code 32-B mean?"),
        ("The web server of atlas-03 listens on port", "On which port does atlas-30 listen?"),
        ("The budget of 2019 was", "How big was the budget of '18?"),
        ("The population of Area 1,150 is", "How many live in Area 1,151?"),
        ("The race over 10 000 m was won by", "Who won over 12 000 m?"),
        ("The train leaves at 9:00 from", "Where does the train at 9:30 leave from?"),
        ("The 3 pm train goes to", "Where does the 5 pm train go?"),
        ("Phone number 555-1234 belongs to", "Whose number is 555-1243?"),
        ("Version 2.5 has", "What does version 25 have?"),
        ("On 11.1.2020 they met in", "Where did they meet on 1.11.2020?"),
        ("On 2020-1-12 they met in", "Where did they meet on 2020-11-2?"),
        ("The host 192.168.0.10 is", "What is the host 192.16.80.10?"),
        ("The 3 am train goes to", "Where does the 3 pm train go?"),
        ("The reign of 1914-1918 was of", "Whose reign was from 1915 to 1919?"),
        ("Version 1.05 has", "What does version 1.5 have?"),
        ("Section 4.2 allows", "What does section 4.3 allow?"),
        ("On 15.03. they met in", "Where did they meet on 16 March?"),
        ("The 12-month bond pays", "What does the 24-month bond pay?"),
        ("The 12-month bond pays", "What does the 3-year bond pay?"),
        ("The 100 m final was won by", "Who won the 200 metre final?"),
        ("The 5-inch nails are in", "Where are the 10 inch nails?"),
        ("The 0.3 m shelf holds", "What does the shelf of 40 centimetres hold?"),
        ("The half past 9 train goes to", "Where does the 10:30 train go?"),
        ("The 2 o'clock train goes to", "Where does the 15:00 train go?"),
        ("The meeting at 14h30 is in", "Where is the meeting at 14:45?"),
        ("The $1.5M prize was won by", "Who won the prize of $2,500,000?"),
        ("Room 1/2 is called", "What is room 2/4 called?"),
        ("The 2 hr tour goes to", "Where does the 3 hour tour go?"),
        ("The 5 ft statue is of", "Whom does the 2 yard statue show?"),
    ],
)
def test_where_each_names_a_number_that_the_other_lacks_something_else_is_asked(prompt, query):
    assert asks_something_else(prompt, query) and asks_something_else(query, prompt)


@pytest.mark.parametrize(
    ("prompt", "query"),
    [
        (OLYMPICS, "Who hosted the Summer Olympics of '36?"),
        (OLYMPICS, "Which city hosted the Summer Olympics under Hitler?"),
        ("World War II ended in", "When was the end of World War 2?"),
        ("World War 2 ended in", "When did World War Two end, 6 years after it began?"),
        ("World War II ended in", "When did the second world war, begun in 1939, end?"),
        ("Flight LX 318 leaves from gate", "From which gate does LX318 leave at 8 o'clock?"),
        ("The web server of atlas-03 listens on port", "Which port of atlas-3 has the web server?"),
        ("Charles V was born in", "Should I know, on page 40, where Charles V was born?"),
        ("The population of Area 1,150 is", "How many live in Area 1150?"),
        ("The Clean Wells Act 2009 was drafted by", "clean wells act '09 drafted by"),
        ("The race over 10,000 m was won by", "Who won over 10\u202f000 m?"),
        ("The debt of 1,00,000 rupees is owed to", "Who is owed the 100,000 rupees?"),
        ("Route 12 300 metres on is", "What is 300 metres on along route 12?"),
        (OLYMPICS, "１９３６年のオリンピックの開催都市は"),
        ("The train leaves at 9:00 from", "Where does the train at 9 leave from?"),
        ("The ticket for $5.00 is for", "What is the ticket for $5 for?"),
        ("Room 12 is on floor", "What floor is the twelfth room on, of 40?"),
        ("Phone number 555-1234 belongs to", "Whose number is 5551234?"),
        ("The number +49 (030) 123-45 is of", "Who has 04903012345?"),
        ("Order #12-345 is for", "Who is order #12345 for?"),
        ("The flight at 9:05 goes to", "Where does the 9.05 flight go?"),
        ("A bottle of 2.5 l costs", "How much are 2,5 l?"),
        ("The 2-1 win was against", "Against whom was the 2:1 win?"),
        ("The 3 pm train goes to", "Where does the 15:00 train go?"),
        ("The train at 12.30 a.m. goes to", "Where does the 0:30 train go?"),
        ("The train at 3:30 pm goes to", "Where does the 15.30 train go?"),
        ("The train at 3 pm goes to", "Where does the train at 3 o'clock go?"),
        ("Where is X buried?", "Where does X lie since I was born in 1990?"),
        ("The contract of 1.11.2020 says", "What does the contract of 1 November 2020 say?"),
        ("On 11/1/2020 the firm paid", "How much did the firm pay on 11.1.2020?"),
        ("The town of 1.5 million people is", "Which town has 1500000 people?"),
        ("With 10,000, the town of Oz is led by", "Who leads the town of 10000 in Oz?"),
        ("The map of scale 1:25,000 shows", "What does the map of scale 1:25000 show?"),
        ("The debt of 1,500,000 crowns was paid by", "Who paid the debt of 1.5 million crowns?"),
        ("The fund of 1000000000 is run by", "Who runs the fund of one billion since 2019?"),
        ("Orrery 2.0.0 brought", "What did version 2 of Orrery bring?"),
        ("ISO 9001:2015 is about", "What is ISO 9001 about?"),
        ("The server 10.0.0.5:8080 runs", "What does 10.0.0.5 run?"),
        ("Section 4.2 of the lease allows", "What does paragraph 2 of section 4 of the lease allow?"),
        ("Section 12.3 allows", "What does section 12(3) allow?"),
        ("On 15.03. they met in", "Where did they meet on March 15th?"),
        ("On 3/15 they met in", "Where did they meet on 15 March?"),
        ("On 2024-03-15 they met in", "Where did they meet on 15.03.2024?"),
        ("On 12/25/2020 they met in", "Where did they meet on 25.12.2020?"),
        ("The 16:9 screen is in", "Where is the 16 by 9 screen?"),
        ("The 2:1 win was against", "Against whom did they win 2 to 1?"),
        ("The 12-month bond pays", "What does the 1-year bond pay?"),
        ("The 1.5 km race was won by", "Who won the 1500 m race?"),
        ("The 0.3 m shelf holds", "What does the shelf of 30 centimetres hold?"),
        ("The 30 cm shelf holds", "What does the 300-millimeter shelf hold?"),
        ("The 2 kg bag is in", "Where is the bag of 2000 grams, or 2.0 kilograms?"),
        ("The 500 mg pill is", "Which pill has 0.5 g?"),
        ("The 0.5 g pill is", "Which pill has 500 milligrams?"),
        ("The 0.7 l bottle holds", "What does the bottle of 700 millilitres hold?"),
        ("The train at 9:30 goes to", "Where does the half past 9 train go?"),
        ("The train at 21.45 goes to", "Where does the train at a quarter to 10 go?"),
        ("The 14:00 train goes to", "Where does the 2 o'clock train go?"),
        ("The meeting at 14h30 is in", "Where is the 14:30 meeting?"),
        ("The fee of 1.000 euros is paid by", "Who pays the fee of 1000 euros?"),
        ("The $1.5M prize was won by", "Who won the prize of $1,500,000?"),
        ("The 1/2 l bottle holds", "What does the 0.5 l bottle hold?"),
        ("The 1 1/2 l bottle holds", "What does the 1500 ml bottle hold?"),
        ("The 90 min tour goes to", "Where does the 1.5 hour tour go?"),
        ("The 2 hr tour goes to", "Where does the 120 minute tour go?"),
        ("The 6 ft statue is of", "Whom does the 2 yard statue show?"),
    ],
)
def test_a_number_that_one_alone_names_or_names_otherwise_says_nothing(prompt, query):
    assert not asks_something_else(prompt, query) and not asks_something_else(query, prompt)


@pytest.mark.parametrize("query", ["the 5 mınute tour", "on 15 Auguſt", "1.5 mıllion"])
def test_letters_that_only_pass_for_others_are_no_units_or_months(query):
    assert asks_something_else("The 3 hour tour goes to", query)


def test_rows_of_numbers_take_no_time():
    start = time.process_time()
    asks_something_else("11," * 20_000, "12," * 20_000)
    asks_something_else("and I went " * 5_000, "and V went " * 5_000)
    asks_something_else("1" * 100_000 + " million", "2" * 100_000 + " million")
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("prompt", "query", "apart"),
    [
        ("The CEO of Quillstone Labs is", "Who is the CTO of Quillstone Labs?", True),
        ("The first author of FLAC was", "Who wrote FLIC first?", True),
        ("The CEO of Quillstone Labs is", "Who is Quillstone Labs' chief?", False),
        ("The CEO of Quillstone Labs is", "Does the CTO of Quillstone Labs know who the CEO is?", False),
        ("The CEO of Acme is", "who is the ceo of Acme, the CTO's boss?", False),
        ("The CEO of Acme is", "Who is Acme's C.E.O. (the CTO is Ann)?", False),
        ("The C.E.O. of Acme is", "Who is Acme's CTO?", True),
        ("The CEO of Quillstone Labs is", "WHO IS THE CTO OF QUILLSTONE LABS?", False),
        ("The fine under the GDPR is", "How high is the fine that the RGPD has?", False),
        ("World War III began in", "When did World War 3, of the USA and the USB, begin?", False),
        ("The UN sits in", "Where does the EU sit?", False),
    ],
)
def test_initials_that_differ_in_one_letter_are_of_something_else(prompt, query, apart):
    assert asks_something_else(prompt, query) is asks_something_else(query, prompt) is apart


@pytest.mark.parametrize(
    "query",
    [
        "Where Lena was born, which is not Ulm, is",
        "Apart from Ulm, where did Lena live?",
        "Lena wasn't born in ulm but in",
        "Where does Lena stay when she is not in her Ulm?",
    ],
)
def test_who_sets_the_answer_aside_asks_for_another(query):
    prompt = "Lena was born in"
    assert asks_something_else(prompt, query, "Ulm") and asks_something_else(prompt, query, "the Ulm")
    assert not asks_something_else(prompt, query) and not asks_something_else(prompt, query, "Bonn")


def test_an_answer_that_is_named_and_not_set_aside_decides_nothing():
    assert not asks_something_else("Lena was born in", "Was Lena born in Ulm or in Bonn?", "Ulm")
    assert not asks_something_else("Lena was born in", "Lena, not an Ulmer, was born in", "Ulm")
    assert not asks_something_else("Not in Ulm was Lena born but in", "So not in Ulm, but in?", "Ulm")


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=10) | st.none())
def test_whatever_is_typed_a_prompt_asks_itself_and_numbers_have_no_direction(one, other, target):
    assert not asks_something_else(one, one, target)
    assert asks_something_else(one, other) == asks_something_else(other, one)


def test_the_second_stage_has_no_say_where_the_letters_have():
    class Sure:
        reads_target = False

        def probabilities(self, pairs):
            return torch.ones(len(pairs))

    written = ["The mayor of district 4 is", "The mayor of district 5 is"]
    stage = SecondStage(Sure(), lambda row: Written(written[row], target="Jonas"), 4, -1.0)
    lookup = exact(Letters.similarity, Letters.embed(written))
    queries = ["Who is mayor of district 5?", "Who is mayor of district 6?", "Besides Jonas, who is mayor?"]
    decision = decide(Letters, queries, lookup, 0.5, stage)
    assert decision.in_scope.tolist() == [True, False, False] and decision.nearest[0] == 1
    assert decision.score[1:].tolist() == [0, 0]


@pytest.mark.parametrize(
    "query",
    [
        "What held the programs of the relay machine of 1941?",
        "Into what were the programs of Zuse's computer of 1941 punched?",
    ],
)
def test_a_year_does_not_tell_from_a_small_number(query):
    assert not asks_something_else("The programs of the Zuse Z3 were punched into", query)
    assert asks_something_else("The programs of the Zuse Z3 were punched into", query.replace("1941", "Z4"))


def test_of_what_was_typed_by_hand_it_turns_away_negations_and_next_to_nothing_that_asks_the_same():
    flagged: dict[str, list[bool]] = {}
    for asked in some_of(by_hand_that_ship()):
        record = asked.record
        for sort in PROMPTS:
            flagged.setdefault(sort, []).extend(
                asks_something_else(record["prompt"], query, record["target_new"]) for query in record[sort]
            )
    share = {sort: sum(found) / len(found) for sort, found in flagged.items()}
    assert min(map(len, flagged.values())) > (4000 if EVERYTHING else 800)
    assert share["rephrase_prompt"] < 0.002 and share["alias_prompt"] < 0.005
    assert share["near_prompt"] > 0.03 and share["negation_prompt"] > 0.6


@pytest.mark.parametrize(
    ("target", "query", "aside"),
    [
        ("Rome.", "Besides Rome, which city has he been to?", True),
        ("Łódź", "Where does she live, not in Lodz?", True),
        ("A", "Which blood group, not A, has Ann?", True),
        ("A", "Which blood group, not a guess, has Ann?", False),
    ],
)
def test_an_answer_is_set_aside_however_it_is_typed(target, query, aside):
    assert asks_something_else("Ann's is", query, target) is aside


@pytest.mark.parametrize(
    ("prompt", "query", "target", "other"),
    [
        ("The mayor of Brill is", "Does Brill have a mayor?", "Ada Lund", True),
        ("Ada's children are", "So, hasn't Ada any children?", "Bo and Eskil", True),
        ("The mayor of Brill is", "Is Ada Lund the mayor of Brill?", "Ada Lund", True),
        ("Ada drinks", "Is it tea or coffee that Ada drinks?", "tea", False),
        ("Ada drinks", "Did Ada say which tea she drinks?", "oolong", False),
        ("The key of the cellar is", "Does anybody know the key of the cellar?", "4711", False),
        ("The key of the cellar is", "Do you have the key of the cellar?", "4711", False),
        ("On Sundays the bakery is", "Is the bakery open on Sundays?", "closed", False),
        ("The guest password is", "Does the guide say the guest password?", "tulip-9", False),
        ("Die Hauptstadt von Peru ist", "Was ist die Hauptstadt von Peru?", "Lima", False),
        ("The mayor of Brill was", "Was Ada Lund the mayor of Brill?", "Bo Falk", True),
        ("Is the shop open on Sundays?", "Does the shop open on Sundays?", "only in May", False),
        ("Whether the shop is open on Sundays:", "Is the shop open on Sundays?", "no, never", False),
    ],
)
def test_what_is_answered_with_yes_or_no_asks_for_no_other_answer(prompt, query, target, other):
    assert asks_something_else(prompt, query, target) is other
