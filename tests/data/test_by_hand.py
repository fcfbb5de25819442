"""Facts typed for training: what they must have, and that nothing measured is among them."""

import json
import random
import re

import pytest

from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.aliases import WrittenAlike
from larimar_editor.data.questions.by_hand import PROMPTS, TypedFacts, by_hand_that_ship, read_by_hand
from larimar_editor.data.questions.facts import QuestionNames, qualified
from larimar_editor.data.scope_cases import TYPED, TYPED_TO_CALIBRATE, scope_cases
from larimar_editor.training.detector.examples import example

RECORD = {"subject": "the Danube", "prompt": "The Danube flows into", "target_new": "Lake Como"} | {
    sort: [f"{sort} of the Danube"] for sort in PROMPTS
}


def test_what_ships_names_its_subjects_and_makes_examples():
    asked = by_hand_that_ship()
    assert len(asked) > 2200 and len({each.record["subject"] for each in asked}) > 1900
    assert all("{}" in wording for each in asked for wording in each.wordings[:1])
    wordings = [wording for each in asked for wording in each.wordings]
    without = sum("{}" not in wording for wording in wordings)
    assert without < 0.06 * len(wordings), "an article or an ending may be another: an axolotl, the axolotl"
    facts, rng = TypedFacts(asked, QuestionNames.read(), seed=3), random.Random(0)
    for number in range(50):
        made = example(facts[number], rng)
        assert made is not None and made.same and made.other and facts[number] == facts[number]


def test_a_typed_fact_is_now_and_then_about_another_whom_all_its_texts_then_name():
    asked, names = by_hand_that_ship(), QuestionNames.read()
    typed = {each.record["subject"] for each in asked}
    facts = [TypedFacts(asked, names)[number] for number in range(200)]
    about_others = [fact for fact in facts if fact["subject"] not in typed]
    assert 30 < len(about_others) < 120
    for fact in about_others:
        prompts = [fact["prompt"], *fact["rephrase_prompt"], *fact["other_prompt"], *fact["plain_prompt"]]
        assert all(fact["subject"] in prompt for prompt in prompts)
        assert not [text for text in fact["locality_prompt"] if fact["subject"] in text]
        renamed = [*fact["near_prompt"], *fact["alias_prompt"], *fact["negation_prompt"]]
        assert not [text for text in renamed if "{}" in text]
        assert fact["target_new"] and not set(fact["rephrase_prompt"]) & set(fact["other_prompt"])


def test_no_subject_is_one_that_is_measured_or_calibrated_with():
    typed = {case.subject for path in (TYPED, TYPED_TO_CALIBRATE) for case in scope_cases(path)}
    kept = questions().training["by hand"]
    assert len(kept) > 1900
    like = WrittenAlike(typed)
    assert not [each for each in kept if like.has(each.record["subject"])]


def test_a_wording_that_an_evaluation_asks_takes_its_fact_out():
    (first, *_) = questions().training["by hand"]
    left = questions(lambda wording: wording == first.wordings[1]).training["by hand"]
    assert left and first.name not in {each.name for each in left}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"plain_prompt": None}, "lacks .'plain_prompt'."),
        ({"other_prompt": ["The Danube flows into"]}, "asks what .* asks and does not"),
    ],
)
def test_a_fact_that_is_not_whole_is_refused(tmp_path, change, message):
    record = {key: value for key, value in (RECORD | change).items() if value is not None}
    (tmp_path / "rivers.json").write_text(json.dumps([record]))
    with pytest.raises(ValueError, match=f"rivers.json: .*{message}"):
        read_by_hand(tmp_path)


def test_a_subject_is_found_in_any_case(tmp_path):
    (tmp_path / "rivers.json").write_text(json.dumps([RECORD]))
    (asked,) = read_by_hand(tmp_path)
    assert asked.wordings == ("{} flows into", "rephrase_prompt of {}")
    assert asked.plain == ["plain_prompt of {}"]


def test_a_subject_is_not_found_inside_a_word():
    asked = by_hand_that_ship()
    wordings = [text for each in asked for text in (*each.wordings, *each.plain)]
    assert not [text for text in wordings if re.search(r"\w\{\}|\{\}\w", text)]


def test_a_question_is_made_another_by_a_word():
    rng = random.Random(0)
    made = {qualified("The capital of {} is", rng) for _ in range(60)}
    assert {"The second capital of {} is", "The former capital of {} is"} <= made
    assert qualified("{}'s spouse is", rng) in {
        f"{{}}'s {word} spouse is" for word in "second third former previous next future other".split()
    }
    for wording in ("Where was {} born?", "The name of {} is", "The first owner of {} was"):
        assert qualified(wording, rng) is None
