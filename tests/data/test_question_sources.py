"""What the scope detector is trained on: everything that ships, and nothing of what is held out."""

import json

import pytest
import torch
from torch.nn import functional as F

from larimar_editor.data.knowedit import HELD_OUT_RELATIONS, KnowEditFacts
from larimar_editor.data.question_sources import facts_of_subjects, questions, records
from larimar_editor.data.questions.by_hand import by_hand_that_ship
from larimar_editor.data.questions.kinds import common_names, falls_in
from larimar_editor.data.questions.sheets import read_sheets

RECORD = {
    "subject": "Ada Byron",
    "prompt": "The employer of Ada Byron is",
    "target_new": "Zeno",
    "portability": {
        "Subject_Aliasing": [{"prompt": "The employer of A. Byron is", "ground_truth": "Zeno"}],
        "Reasoning": [{"prompt": "The home of the employer of Ada Byron is", "ground_truth": "Elea"}],
    },
    "locality": {
        "Relation_Specificity": [
            {
                "prompt": "The sex of Ada Byron is",
                "ground_truth": [["female", "woman"], ["Lovelace", "Lady Ada"]],
            }
        ],
        "Forgetfulness": [
            {"prompt": "The employer of Ada Byron, which is not Zeno, is", "ground_truth": "Bo"}
        ],
    },
}


def letters(texts):
    rows = [[float(text.lower().count(chr(97 + i))) for i in range(26)] + [0.01] for text in texts]
    return F.normalize(torch.tensor(rows), dim=1)


def test_nothing_that_is_measured_with_is_trained_on():
    asked = questions()
    names = {part: {kind.name for kind in getattr(asked, part)} for part in ("calibration", "held_out")}
    trained = {kind.name for kinds in asked.training.values() for kind in kinds}
    of_subjects = {row.name for rows in asked.of_subjects.values() for row in rows}
    parts = [trained, names["calibration"], names["held_out"], of_subjects]
    assert all(parts) and sum(map(len, parts)) == len(set.union(*parts))
    assert len(trained) > 2000 and len(asked.of_subjects) >= 10


def test_what_everybody_asks_is_trained_on_and_only_that_is_listed():
    asked = questions()
    trained = {kind.name for kinds in asked.training.values() for kind in kinds}
    for name in ("company: company headquarters", "anything: P106", "factbox: film: The composer of {} is"):
        assert name in trained
    apart = {row.name for rows in (asked.calibration, *asked.of_subjects.values()) for row in rows}
    assert not common_names() & apart
    sheets = {sheet.subject for sheet in read_sheets()}
    rows = {row.name for sheet in read_sheets() for row in sheet.kinds()}
    relations = {name for name in common_names() if ": " not in name and "{}" in name}
    properties = {name.removeprefix("anything: ") for name in trained}
    known = trained | properties | sheets | rows | relations
    assert common_names() and common_names() <= known, "a name that is misspelt keeps nothing in"
    assert all(falls_in(name, HELD_OUT_RELATIONS) for name in relations), "these are trained on anyway"


def test_what_asks_nearly_the_same_as_something_held_out_is_left_out():
    asked = questions()
    rest, dropped = asked.unlike(letters, 0.93)
    left = {kind.name for kinds in rest.training.values() for kind in kinds}
    assert dropped and not left & {name for name, _ in dropped}
    assert sum(map(len, rest.training.values())) + len(dropped) == sum(map(len, asked.training.values()))
    of_subjects = [row for rows in asked.of_subjects.values() for row in rows]
    parts = {
        part: {kind.name: kind for kind in kinds}
        for part, kinds in (("measured", asked.held_out), ("set", asked.calibration), ("told", of_subjects))
    }
    assert {part for part, names in parts.items() for _, other in dropped if other in names} == {*parts}
    held_out = parts["measured"] | parts["set"] | parts["told"]
    kinds = {kind.name: kind for every in asked.training.values() for kind in every}
    for name, other in dropped[:20]:
        one, two = (
            letters([w.replace("{}", "X") for w in each.wordings]) for each in (kinds[name], held_out[other])
        )
        assert float((one @ two.T).amax(dim=1).mean()) >= 0.93


def test_records_name_their_source_and_are_the_same_again():
    made = list(records(questions().facts(), 60))
    assert (
        made == list(records(questions().facts(), 60)) != list(records(questions().facts(seed=1), 60, seed=1))
    )
    assert {record["source"] for record in made} == {
        "kinds",
        "sheets",
        "simplequestions",
        "relations",
        "by hand",
    }
    # Who types has more to ask than a rule.
    most = {"by hand": max(len(each.record["other_prompt"]) for each in by_hand_that_ship())}
    assert all(1 <= len(record["other_prompt"]) <= most.get(record["source"], 5) for record in made)


def test_knowedits_own_names_and_parts_are_used(tmp_path):
    words = [word for word in "abcdefghijkl" if not falls_in(f"The {word} of {{}} is", 3)]
    every = [
        json.loads(json.dumps(RECORD).replace("employer", word).replace("Ada", f"Ada{i}"))
        for i, word in enumerate(words)
    ]
    (tmp_path / "wiki-train.json").write_text(json.dumps(every))
    facts = KnowEditFacts.read([tmp_path / "wiki-train.json"])
    assert facts.names.aliases["Ada0 Byron"] == ["A. Byron"]
    assert "female" not in facts.names.aliases, "no letter says that a woman is meant"
    known = []
    for number in range(30):
        fact = facts[number]
        known += [
            prompt == fact["prompt"].replace(fact["subject"], "A. Byron") for prompt in fact["alias_prompt"]
        ]
        assert fact["negation_prompt"] and fact["two_hop_prompt"]
        assert not {fact["prompt"], *fact["alias_prompt"]} & {*fact["other_prompt"], *fact["locality_prompt"]}
    assert 0.5 < sum(known) / len(known) < 1, "the name that is known, and now and then one made by rule"
    left_out = facts.templates[0]
    others = KnowEditFacts.read([tmp_path / "wiki-train.json"], without=lambda wording: wording == left_out)
    assert [*others.templates] == [each for each in facts.templates if each != left_out]
    (tmp_path / "other.json").write_text(json.dumps([{"prompt": "A is", "locality": {}}]))
    with pytest.raises(ValueError, match="no file of KnowEdit's"):
        KnowEditFacts.read([tmp_path / "other.json"])


def test_facts_of_subjects_grow_and_leave_a_question_unwritten():
    asked = questions()
    few, many = (facts_of_subjects(asked, 12, each) for each in (2, 5))
    assert len(few) == 24 and len(many) == 60
    assert {edit.prompt for edit in few} <= {edit.prompt for edit in many}
    for edit in many:
        (other,) = edit.locality_prompts
        written = {p for e in many if e.subject == edit.subject for p in (e.prompt, *e.rephrase_prompts)}
        assert other not in written and edit.subject in other and len(edit.rephrase_prompts) >= 2
    with pytest.raises(ValueError, match="too few for 40"):
        facts_of_subjects(asked, 1, 40)
