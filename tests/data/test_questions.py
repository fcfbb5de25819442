"""Kinds of questions: every kind is whole, no wording is from data that is measured on, and facts are what
they say.
"""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.edits import Edit, load_edits
from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.aliases import WrittenAlike, made_alias, may_be_known, written_alike
from larimar_editor.data.questions.facts import AskedFacts, QuestionNames, negated
from larimar_editor.data.questions.kinds import (
    ANY_TARGET,
    HELD_OUT_KINDS,
    SAME,
    Asked,
    Kind,
    falls_in,
    read_kinds,
)
from larimar_editor.data.questions.sheets import SHEETS, Sheet, read_sheets
from larimar_editor.data.questions.simplequestions import cut_wordings, read_wordings
from larimar_editor.data.relations import wording_of, wordings_of

SHARED = Path(os.environ.get("LARIMAR_PUBLIC_DATA") or Path(__file__).parents[3] / "shared" / "data")
PUBLIC = [
    SHARED / "counterfact" / "counterfact-first2000.json",
    SHARED / "zsre" / "zsre-700.json",
    SHARED / "knowedit" / "zsre-test.json",
]


def test_there_are_hundreds_of_kinds_each_in_all_forms():
    kinds, names = read_kinds(), QuestionNames.read()
    assert len(kinds) >= 300 and sum(len(kind.wordings) for kind in kinds) >= 5000
    for kind in kinds:
        assert len(set(kind.wordings)) == len(kind.wordings) >= sum(SAME.values()), kind.relation
        assert len(names.subjects[kind.subject]) >= 40, kind.subject
        assert len(names.targets[kind.target]) >= 20, kind.target
        assert all(wording.rstrip().endswith("?") is False for wording in kind.statements), kind.relation
    share = sum(falls_in(kind.name, HELD_OUT_KINDS) for kind in kinds) / len(kinds)
    assert 0.18 < share < 0.32, "about a quarter is held out, but for what everybody asks"
    assert 20 <= sum(kind.is_held_out for kind in kinds) < share * len(kinds)
    subjects = [kind.subject for kind in kinds]
    alone = [kind.relation for kind in kinds if subjects.count(kind.subject) < 2]
    assert not alone, "another question about the same subject is there to be told apart"


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_no_wording_is_from_data_that_is_measured_on(path):
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    seen = wordings_of(load_edits(path))
    assert not [w for many in read_wordings().values() for w in many if wording_of(w) in seen]
    assert not [wording for kind in read_kinds() for wording in kind.wordings if wording_of(wording) in seen]
    of_sheets = [wording for sheet in read_sheets() for row in sheet.asked for wording in row]
    assert not [wording for wording in of_sheets if wording_of(wording) in seen]


def test_a_wording_of_excluded_edits_is_left_out():
    kind = read_kinds()[0]
    edit = Edit(kind.statements[0].replace("{}", "Ada"), "x", "", "Ada")
    seen = wordings_of([edit])
    asked = questions(lambda wording: wording_of(wording) in seen)
    kept = [each for every in (*asked.training.values(), asked.held_out) for each in every]
    (same,) = [each for each in kept if each.name == kind.name]
    assert {*kind.wordings} - {*same.wordings} == {kind.statements[0]}


def test_facts_are_the_same_for_the_same_seed_and_ask_what_they_say():
    kinds = read_kinds()
    names = QuestionNames.read()
    facts, again, others = (AskedFacts(kinds, names, seed) for seed in (3, 3, 4))
    of_name = {kind.name: kind for kind in kinds}
    for number in range(200):
        fact = facts[number]
        assert fact == again[number] and fact != others[number]
        kind, subject = of_name[fact["relation"]], fact["subject"]
        asks = {wording.replace("{}", subject) for wording in kind.wordings}
        assert {fact["prompt"], *fact["rephrase_prompt"]} <= asks and len(fact["rephrase_prompt"]) == 4
        assert len(fact["alias_prompt"]) == 2 and not {*fact["alias_prompt"]} & {*fact["near_prompt"]}
        other = (*fact["other_prompt"], *fact["negation_prompt"], *fact["two_hop_prompt"])
        assert not asks & set(other) and all(subject in prompt for prompt in other)
        assert not asks & {*fact["locality_prompt"], *fact["near_prompt"], *fact["inverse_prompt"]}
        assert all(fact["target_new"] in prompt for prompt in fact["inverse_prompt"])
        assert "{}" not in json.dumps(fact) and "[T]" not in json.dumps(fact)


def test_a_kind_that_lacks_something_is_refused_by_name(tmp_path):
    row = vars(read_kinds()[0]) | {"questions": ("Where?",)}
    rows = [{key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rows))
    with pytest.raises(ValueError, match=f"{row['relation']}.* has 1 questions, 4 are needed"):
        read_kinds(tmp_path)
    with pytest.raises(ValueError, match=r"no \{\} in 'Where was he born'"):
        Kind(**(vars(read_kinds()[0]) | {"openings": ("{} was", "Where was he born")}))


def test_sheets_are_whole_and_many():
    sheets = read_sheets()
    assert len(sheets) >= 200 and sum(len(sheet.asked) for sheet in sheets) >= 2500
    assert len({sheet.subject for sheet in sheets}) == len(sheets)
    whole = vars(sheets[0])
    for part, value, message in (
        ("asked", (("{} is", "who is {}", "no place"),) * 4, "not one {} in 'no place'"),
        ("names", ("A", "B"), "needs four names"),
        ("asked", (("{} is", "{} was", "who is {}"),) * 4, "stands twice"),
        ("answers", (("one", "two"),), "each needs a list of answers"),
        ("answers", ((),) * len(sheets[0].asked), "each needs a list of answers"),
    ):
        with pytest.raises(ValueError, match=message):
            Sheet(**(whole | {part: value}))


def test_answers_of_sheets_are_of_their_rows(tmp_path):
    for sheet in read_sheets():
        for asked, kind, answers in zip(sheet.asked, sheet.kinds(), sheet.answers):
            assert kind.wordings == asked and kind.answers == answers and all(map(str.strip, answers))
            assert len(set(answers)) == len(answers) >= 2
    (tmp_path / "answers").mkdir()
    shutil.copy(SHEETS / "works.yaml", tmp_path)
    (tmp_path / "answers" / "works.json").write_text('{"no such sheet": [["a"]]}')
    with pytest.raises(ValueError, match="there is no sheet 'no such sheet'"):
        read_sheets(tmp_path)


def test_a_fact_says_whether_its_answer_is_one_that_was_asked_for():
    names = QuestionNames({"town": ["Oslo", "Rome", "Bern", "Kyiv"]}, {ANY_TARGET: ["blue"]})
    known = Asked("mayor", "town", ("{} has the mayor", "mayor of {}"), answers=("Ada", "Bo"))
    unknown = Asked("river", "town", ("{} lies on the", "river of {}"))
    for kind, answers in ((known, {"Ada", "Bo"}), (unknown, {"blue"})):
        made = [AskedFacts([kind], names)[number] for number in range(8)]
        assert {fact["target_new"] for fact in made} == answers
        assert {fact["target_fits"] for fact in made} == {kind is known}


def test_an_alias_is_another_name_that_the_text_still_carries():
    rng = random.Random(0)
    for name in ("Odile Marchetti", "Jean-Luc de la Tour", "The Blue Lantern", "Björk", "Q"):
        made = {made_alias(name, rng) for _ in range(60)}
        assert all(alias.strip() for alias in made)
        assert len(made - {name}) >= (3 if " " in name else 1), (name, made)
    assert {"Marchetti", "O. Marchetti"} <= {made_alias("Odile Marchetti", rng) for _ in range(300)}


def test_an_alias_keeps_its_number_and_stands_for_no_other_of_its_kind():
    rng = random.Random(0)
    made = {made_alias("Oradine 100 Forte", rng) for _ in range(200)}
    assert len(made) > 3 and all("100" in alias for alias in made), made
    islands = ["Waipuri Island", "Long Island"]
    assert "Island" in {made_alias(islands[0], rng) for _ in range(200)}
    assert "Island" not in {made_alias(islands[0], rng, islands) for _ in range(200)}
    assert "Holm Island" in {made_alias("Waipuri Holm Island", rng, islands) for _ in range(200)}


@pytest.mark.parametrize(
    "one, other, alike, known",
    [
        ("Philip Hoare", "Phillip David Baxter Hoare", True, True),
        ("Orren Field", "Orrin Field", False, True),
        ("Vitamin A", "Vitamin B", False, True),
        ("Al Gore", "Tipper Gore", False, True),
        ("Super Bowl LVIII", "Super Bowl LVII", False, True),
        ("Vladimir Ilyich Lenin", "V. Lenin", False, True),
        ("NATO", "North Atlantic Treaty Organization", False, True),
        ("The Linden Clock", "Under the Linden Clock", True, True),
        ("Eszter Sipos", "Sipos Eszter Anna", True, True),
        ("Oradine 100", "Oradine 50", False, True),
        ("King Berenger VII", "King Berenger VIII", False, True),
        ("United States of America", "USA", False, True),
        ("Fang Mengqing", "Zhengfu", False, False),
        ("gold", "silver", False, False),
    ],
)
def test_names_that_are_one_and_names_that_are_alike(one, other, alike, known):
    assert written_alike(one, other) is written_alike(other, one) is alike
    assert WrittenAlike(["Nobody Else", one]).has(other) is WrittenAlike([other]).has(one) is alike
    assert may_be_known(one, other) is known


def test_a_like_name_is_no_other_way_to_write_the_name():
    names = questions().names
    rng = random.Random(0)
    for kind in rng.sample(sorted(names.subjects), 60):
        name = names.subject(kind, rng)
        near = names.like(name, kind, rng)
        known = near in names.mistaken.get(name, ())  # "Toronto, Ohio" is not Toronto, whatever its letters
        assert near != name and (known or not written_alike(name, near)), (kind, name, near)


def test_a_statement_is_negated_before_its_answer():
    assert negated("The capital of {} is") == "The capital of {}, which is not [T], is"
    assert negated("Who was {}?") is None and negated("{} lies in") is None


def test_the_commands_write_what_ships(tmp_path):
    given = ["data", "questions", "--count", "5", "--out", str(tmp_path / "q.jsonl"), "--held-out"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    held_out = {kind.name for kind in questions().held_out}
    facts = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert len(facts) == 5 and {fact["relation"] for fact in facts} <= held_out
    path = SHARED / "simplequestions" / "train.txt"
    if path.exists() and all(each.exists() for each in PUBLIC):
        excluded = [word for each in PUBLIC for word in ("--exclude", str(each))]
        done = CliRunner().invoke(
            app, ["data", "simplequestions", str(path), "--out", str(tmp_path / "s.json"), *excluded]
        )
        assert done.exit_code == 0 and read_wordings(tmp_path / "s.json") == read_wordings()


def test_names_are_cut_out_of_questions(tmp_path):
    names = [name for n in range(40) for name in (f"ada{n} byron{n}", f"bo{n}", f"kai{n} of x{n}")]
    lines = [f"Q{n}\tP19\tQ1\twhere was {name} born?" for n, name in enumerate(names)]
    (tmp_path / "some.txt").write_text("\n".join([*lines, "Q1\tP20\tQ2\twhere did kim die?"]))
    assert cut_wordings(tmp_path / "some.txt", fewest=1)["P19"][0] == "where was {} born?"
    (tmp_path / "some.txt").write_text("no columns")
    with pytest.raises(ValueError, match="line 1: 1 columns"):
        cut_wordings(tmp_path / "some.txt")
