"""Kinds of questions: every kind is whole, no wording is from data that is measured on, and facts are what
they say.
"""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.edits import Edit, load_edits
from larimar_editor.data.questions.facts import AskedFacts, QuestionNames
from larimar_editor.data.questions.kinds import SAME, Kind, read_kinds, without_wordings_of
from larimar_editor.data.questions.simplequestions import cut_wordings, read_wordings
from larimar_editor.data.relations import wording_of, wordings_of

SHARED = Path(__file__).parents[3] / "shared" / "data"
PUBLIC = [SHARED / "counterfact" / "counterfact-first2000.json", SHARED / "zsre" / "zsre-700.json"]


def test_there_are_hundreds_of_kinds_each_in_all_forms():
    kinds, names = read_kinds(), QuestionNames.read()
    assert len(kinds) >= 300 and sum(len(kind.wordings) for kind in kinds) >= 5000
    for kind in kinds:
        assert len(set(kind.wordings)) == len(kind.wordings) >= sum(SAME.values()), kind.relation
        assert len(names.subjects[kind.subject]) >= 40, kind.subject
        assert len(names.targets[kind.target]) >= 20, kind.target
        assert all(wording.rstrip().endswith("?") is False for wording in kind.statements), kind.relation
    share = sum(kind.is_held_out for kind in kinds) / len(kinds)
    assert 0.18 < share < 0.32, "about a quarter is held out"
    subjects = [kind.subject for kind in kinds]
    alone = [kind.relation for kind in kinds if subjects.count(kind.subject) < 2]
    assert not alone, "another question about the same subject is there to be told apart"


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_no_wording_is_from_data_that_is_measured_on(path):
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    left, dropped = without_wordings_of(read_kinds(), load_edits(path))
    assert not dropped and len(left) == len(read_kinds())
    seen = wordings_of(load_edits(path))
    assert not [w for many in read_wordings().values() for w in many if wording_of(w) in seen]


def test_a_wording_of_excluded_edits_is_left_out():
    kind = read_kinds()[0]
    edit = Edit(kind.statements[0].replace("{}", "Ada"), "x", "", "Ada")
    left, dropped = without_wordings_of([kind], [edit])
    assert dropped == [kind.statements[0]] and (not left or kind.statements[0] not in left[0].statements)


def test_facts_are_the_same_for_the_same_seed_and_ask_what_they_say():
    kinds = read_kinds()
    facts, again = AskedFacts(kinds, seed=3), AskedFacts(kinds, seed=3)
    of_name = {kind.name: kind for kind in kinds}
    for number in range(200):
        fact = facts[number]
        assert fact == again[number] and fact != AskedFacts(kinds, seed=4)[number]
        kind, subject = of_name[fact["relation"]], fact["subject"]
        asks = {wording.replace("{}", subject) for wording in kind.wordings}
        assert {fact["prompt"], *fact["rephrase_prompt"]} <= asks and len(fact["rephrase_prompt"]) == 4
        other = (*fact["other_prompt"], *fact["negation_prompt"], *fact["two_hop_prompt"])
        assert not asks & set(other) and all(subject in prompt for prompt in other)
        assert not asks & {*fact["locality_prompt"], *fact["near_prompt"], *fact["inverse_prompt"]} or any(
            name == subject for name in QuestionNames.read().subjects[kind.subject]
        )
        assert all(fact["target_new"] in prompt for prompt in fact["inverse_prompt"])
        assert "{}" not in json.dumps(fact) and "[T]" not in json.dumps(fact)


def test_a_kind_that_lacks_something_is_refused_by_name(tmp_path):
    row = vars(read_kinds()[0]) | {"questions": ("Where?",)}
    rows = [{key: list(value) if isinstance(value, tuple) else value for key, value in row.items()}]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rows))
    with pytest.raises(ValueError, match=f"{row['relation']}.* has 1 questions, 5 are needed"):
        read_kinds(tmp_path)
    with pytest.raises(ValueError, match=r"no \{\} in 'Where was he born'"):
        Kind(**(vars(read_kinds()[0]) | {"openings": ("{} was", "Where was he born")}))


def test_the_commands_write_what_ships(tmp_path):
    given = ["data", "questions", "--count", "5", "--out", str(tmp_path / "q.jsonl"), "--held-out"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    held_out = {kind.name for kind in read_kinds() if kind.is_held_out}
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
