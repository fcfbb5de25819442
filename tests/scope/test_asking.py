"""Of a longer query: what asks counts in full, and what is only said needs to be the more like a fact."""

import math
import time

import pytest
import torch
from told import Letters

from larimar_editor.data.questions.by_hand import by_hand_that_ship
from larimar_editor.scope.asking import (
    FEW,
    SAID,
    asked_by,
    has_an_end,
    odds_against,
    tells,
    with_context,
)
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.nearest import exact
from larimar_editor.utils.sentences import sentences


class Likely:
    """A second stage that finds whatever it is shown equally likely."""

    reads_target = False

    def __init__(self, probability):
        self.probability = probability

    def probabilities(self, pairs):
        return torch.full((len(pairs),), self.probability)


@pytest.mark.parametrize(
    ("text", "asking"),
    [
        ("The mother tongue of Lena is", 0),
        ("I met Lena. She was born in", 1),
        ("It rained. It snowed. It froze. Lena was born in", 3),
        ("Where was Lena born? Answer in one word.", 0),
        ("tell me where lena was born. thanks!", 0),
        ("Hi! Please name the town of Lena. Be brief.", 1),
        ("I'd like to know where Lena was born. It is for a form.", 0),
        ("Well, tell me where Lena was born. It is for a form.", 0),
        ("Thanks, I need the town of Lena. It is for a form.", 0),
    ],
)
def test_nothing_stands_against_what_asks(text, asking):
    assert odds_against(sentences(text))[asking] == 0


def test_what_is_said_before_the_last_has_odds_against_it_and_a_far_end_a_few():
    page = [f"Then, on day {day}:" for day in range(9)]
    assert odds_against([*page, "Lena was born in"]) == [math.log(SAID)] * 9 + [math.log(9 - FEW + 1)]
    assert odds_against([*page, "Where was Lena born?"])[-1] == 0
    assert odds_against(["Lena was born in"]) == [0] and odds_against([]) == []


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("When Ada was a child she lived in Ulm.", False),
        ("Where there is smoke there is fire.", False),
        ("Will Smith was born in Ulm.", False),
        ("State Farm was founded in 1922.", False),
        ("Where was Lena born.", True),
        ("When exactly was Lena born.", True),
        ("Will Lena come to Ulm.", True),
        ("Does Ada Lund have a cat.", True),
        ("Name Ada Lund's mother.", True),
    ],
)
def test_what_only_begins_as_a_request_does_is_told(sentence, asked):
    assert (odds_against([sentence, "Lena was born in"])[0] == 0) == asked


def test_what_somebody_says_of_himself_is_no_request_where_a_question_follows():
    odds = odds_against(sentences("I am in Paris. How tall is the tower? Answer briefly."))
    assert odds == [math.log(SAID), 0, 0]


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("What is the capital of Peru? Answer in English.", "What is the capital of Peru?"),
        ("秘鲁的首都是哪里？ 请回答。", "秘鲁的首都是哪里？"),
        ("It rained. The capital of Peru is", "The capital of Peru is"),
    ],
)
def test_what_is_said_behind_a_question_is_not_asked(prompt, asked):
    assert asked_by(prompt) == asked


@pytest.mark.parametrize("ends", ["b", "1", "Answer."])
def test_a_page_of_spaces_takes_no_time(ends):
    start = time.process_time()
    odds_against([f"a{' ' * 20_000}{ends}", f"The {' ' * 20_000}{ends}.", "Lena was born in"])
    assert time.process_time() - start < 1


def test_a_question_before_and_behind_thousands_of_sentences_takes_no_time():
    text = "It rained. " * 5000 + "Where was Lena born? " + "It snowed. " * 5000
    start = time.process_time()
    assert asked_by(text.strip()) == "Where was Lena born?"
    odds_against(sentences(text + "?" * 20_000 + " a"))
    assert time.process_time() - start < 2


def test_the_odds_are_taken_from_what_the_second_stage_finds_and_from_nothing_else():
    written = ["Lena was born in"]
    lookup = exact(Letters.similarity, Letters.embed(written))

    def score(query, probability=0.9):
        stage = SecondStage(Likely(probability), lambda row: Written(written[row]), 4, -1.0)
        return float(decide(Letters, [query], lookup, 0.5, stage).score)

    said, asked = "Lena, born once, ran. Dogs like Rex", "Where was Lena born? Dogs ran."
    assert score(asked) == pytest.approx(0.9) and score("Lena ran to") == pytest.approx(0.9)
    assert score("They sat. Lena, born, ran.") == pytest.approx(0.9)  # the last of few
    before_the_last = decide(
        Letters,
        [said],
        lookup,
        0.5,
        SecondStage(Likely(0.9), lambda row: Written(written[row]), 1, -1.0),
    )
    assert before_the_last.sentence == ["Lena, born once, ran."]
    assert float(before_the_last.score) == pytest.approx(9 / (9 + SAID), rel=1e-4)
    # A written prompt to the letter asks wherever it stands.
    assert score("Lena was born in\nDogs ran.", 0.0) == 1.0


@pytest.mark.parametrize(
    "sentence, is_told",
    [
        ("The capital of Peru is Lima.", True),
        ("Lena's mother tongue was Finnish.", True),
        ("In 1855 she moved to Greenwich, where she ground the lenses of three refractors.", True),
        ("Ada Lund was born in Ulm.", True),
        ("In 1950 Ada Lund was born in Ulm.", True),
        ("Bo lives in Ulm.", True),
        ("Will Smith was born in Ulm.", True),
        ("The year was 1914, and the war began.", True),
        ("The date the contract was signed.", False),
        ("The year Ada moved to Rome.", False),
        ("The number of moons orbiting the planet Mars.", False),
        ("The capital of Peru is, in one word.", False),
        ("The capital of Peru is currently.", False),
        ("Het was een goed jaar.", False),
        ("The capital of Peru is", False),
        ("Is the capital of Peru Lima?", False),
        ("I forgot what the capital of Peru is.", False),
        ("The capital of Peru is ___.", False),
        ("Please tell me the capital of Peru.", False),
        ("The teacher asked for the capital of Peru.", False),
        ("Capital of Peru.", False),
        ("The CEO of Acme Inc.", False),
        ("The capital of Peru is.", False),
        ("The capital of Peru is [MASK].", False),
        ("The opening hours of the shop.", False),
        ("The city where Lena was born.", False),
        ("Provide the names of the founders.", False),
        ("By whom was the Eiffel Tower designed.", False),
        ("Has the office been opened by the mayor.", False),
        ("Alexa, where is the office of the firm.", False),
        ("The user would like the capital of Peru.", False),
        ("Ich weiß nicht, was die Hauptstadt von Peru ist.", False),
        ("Sag mir, was die IT empfiehlt.", False),
        ("Noem Lena's ouders.", False),
    ],
)
def test_what_tells_something_asks_nothing(sentence, is_told):
    assert tells(sentence) == is_told
    assert (odds_against(["It rained.", sentence])[-1] == math.inf) == is_told


def test_hardly_any_rewording_that_people_typed_is_taken_for_something_told():
    rewordings = [
        sentences(prompt)[-1]
        for each in by_hand_that_ship()
        for sort in ("rephrase_prompt", "alias_prompt")
        for prompt in each.record[sort]
    ]
    plain = [sentences(text)[-1] for each in by_hand_that_ship() for text in each.record["plain_prompt"]]
    assert sum(map(tells, rewordings)) < 0.0002 * len(rewordings) and sum(map(tells, plain)) > 0.3 * len(
        plain
    )


@pytest.mark.parametrize(
    "query, ends",
    [
        ("Wilma is allergic to nuts.", True),
        ("Wilma is allergic to nuts and penicillin!", True),
        ("Wilma is allergic to", False),
        ("Wilma is allergic to nuts", False),
        ("Wilma is allergic to.", False),
        ("Wilma is allergic to what?", False),
        ("Wilma is allergic to something I forgot.", False),
        ("Wilma is allergic to ___.", False),
        ("Wilma is allergic to the.", False),
        ("Wilma is allergic together.", False),
        ("Wilma is allergic to (answer in one word).", False),
        ("Wilma is allergic to, in 2 words.", False),
        ("Wilma is allergic to, briefly.", False),
        ("Wilma is allergic to currently.", False),
        ("Wilma is allergic to nuts now.", True),
    ],
)
def test_a_written_prompt_that_somebody_finished_asks_nothing(query, ends):
    assert has_an_end("Wilma is allergic to", query) == ends
    stage = SecondStage(Likely(0.9), lambda row: Written("Wilma is allergic to"), 1, -1.0)
    assert (stage.plain(Written("Wilma is allergic to"), query)[0] is False) == ends


Q = "Where was Lena born?"


@pytest.mark.parametrize(
    "query, asks_it",
    [
        (f"Q: {Q}\nA: In Oslo.\n\nQ: How tall is Rex?\nA:", False),
        (f"Question: {Q}\nAnswer: Bergen\n\nQuestion: How tall is Rex?\nAnswer:", False),
        (f"User: {Q}\nAssistant: She was born in Oslo.\nUser: How tall is Rex?\nAssistant:", False),
        (f"{Q}\nOslo\nHow tall is Rex?\n", False),  # the fact's answer
        (f"{Q}\nI am in Bergen.\nCan you tell me?", True),
        (f"{Q}\nA: Bergen\nB: Oslo\nC: Paris\nWhich is it?", True),
        (f"{Q}\nOslo\nBergen\nParis", True),
        (f"Q: {Q}\nA: In Oslo.\nShe died by the sea.", True),
        (f"User: {Q}\nAssistant: Which Lena?\nUser: Is there more than one?\nAssistant:", True),
        (f"{Q}\nAnswer: one word.\nThanks.", True),
        (f"A: {Q}\nB: Good question. I think she was born in", True),
        (f"Q: {Q}\nA:", True),
        (f"Q: {Q}\nA: Os", True),
        (f"Q: How tall is Rex?\nA: Very.\n\nQ: {Q}\nA:", True),
        (f"Q: {Q}\nA: In Oslo.\n\nQ: {Q}\nA:", True),
    ],
)
def test_a_question_that_is_answered_before_the_text_goes_on_asks_nothing(query, asks_it):
    lookup = exact(Letters.similarity, Letters.embed([Q]))
    label = query.partition(":")[0] + ": " if query[:2] in ("Q:", "Qu", "Us", "A:") else ""

    def score(written):
        stage = SecondStage(Likely(0.01), lambda row: Written(written, target="Oslo"), 8, -1.0)
        return float(decide(Letters, [query], lookup, 0.5, stage).score)

    assert (max(score(Q), score(label + Q), score(f"{label}{Q} A:")) == 1.0) == asks_it


@pytest.mark.parametrize("page", ["", "It rained on the first day. " * 9])
def test_what_follows_something_told_is_asked_by_who_ends_with_it_and_by_nobody_else(page):
    told = f"{page}Lena was a painter. She was born in the north and lived by the sea."
    asked = asked_by(told)
    lookup = exact(Letters.similarity, Letters.embed([asked]))
    stage = SecondStage(Likely(0.9), lambda row: Written(asked), 4, -1.0)
    score = lambda query: float(decide(Letters, [query], lookup, 0.5, stage).score)
    assert score(told) == 1.0
    for query in (
        f"{told} She died in",
        "Lena was born in",
        "Where was Lena born?",
        "Lena was born in the sea.",
    ):
        assert score(query) < 0.5, query


def test_what_somebody_says_of_himself_is_no_request_before_a_question():
    own = "I am standing in front of the Eiffel Tower."
    assert odds_against([own, "How tall is it?"]) == [math.log(SAID), 0]
    assert odds_against(["I need the wifi password.", "Thanks."])[0] == 0
    assert odds_against(["What is the wifi password?", "Can you tell me?"]) == [0, 0]


@pytest.mark.parametrize(
    "text, context",
    [
        ("Bracken is new to me. In the settings I should enter", True),
        ("We met Lena. Where was she born?", True),
        ("It rained. The capital of Peru is", False),
        ("It rained. how far is peru from room 204", False),
        ("Where was she born?", False),
        ("Lena war da. Étienne und élan sind", True),
        ("Lena war da. Wo wohnt Étienne", False),
        ("Лена тут. где она была", True),
        ("Лена тут. где жил Пётр", False),
        ("リマは町です。東京 は どこ", False),
    ],
)
def test_a_last_sentence_that_names_nothing_is_read_with_those_before_it(text, context):
    assert with_context(sentences(text)) == (text if context else None)


def test_what_a_written_prompt_asks_is_its_last_sentence_in_context():
    assert asked_by("It rained. The capital of Peru is") == "The capital of Peru is"
    assert asked_by("Do you know Lena? How big is Peru?") == "How big is Peru?"
    for whole in (
        "Marie Curie was a physicist. She was",
        "Ada Lovelace was a poet. Where was she born? She was born in",
        "What does Ada play? They play",
        "Moulin Rouge! was directed by",
    ):
        assert asked_by(whole) == whole
    for said in ("Answer in one word.", "Answer in English.", "Be brief. Thank you, Lena."):
        assert asked_by(f"What is the capital of Peru? {said}").startswith("What is the capital of Peru?")
    assert asked_by("What is the capital of Peru? Answer in English.") == "What is the capital of Peru?"
    assert asked_by("I know Lena. Where was she born? Be brief.") == "I know Lena. Where was she born?"
    passage = "Passage: Ada Lovelace was a poet.\nQuestion: where was she born?\nAnswer:"
    assert asked_by(passage) == passage.replace("\n", " ")


@pytest.mark.parametrize(
    "when",
    ["At 5 p.m.", "On Monday at 9 a.m.", "On the first Monday of May at 9:30 a.m.", "From 9 a.m. to 5 p.m."],
)
def test_an_hour_before_a_name_is_no_sentence_of_its_own(when):
    assert asked_by(f"{when} Ada meets Bo at") == f"{when} Ada meets Bo at"
    assert sentences(f"We left {when.lower()} Ada meets Bo at")[-1] == "Ada meets Bo at"
    assert sentences(f"When? {when} Where is it?")[-1] == "Where is it?"


def test_only_a_few_sentences_come_with_the_last():
    page = ["One went.", "Two went.", "Three went.", "then they asked"]
    assert with_context(page) == "Two went. Three went. then they asked"
