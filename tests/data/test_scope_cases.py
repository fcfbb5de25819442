"""What is asked of a written fact, read from each format as the sort that it is."""

import json
import re

import pytest

from larimar_editor.data.knowedit import KnowEditFacts, read_knowedit
from larimar_editor.data.question_sources import questions
from larimar_editor.data.questions.kinds import kept_apart
from larimar_editor.data.questions.simplequestions import HELD_OUT_PROPERTIES
from larimar_editor.data.relations import wording_of
from larimar_editor.data.scope_cases import (
    OTHER,
    READ,
    SAME,
    TYPED,
    TYPED_TO_CALIBRATE,
    ScopeCase,
    as_read,
    digest_of,
    scope_cases,
)

KNOWEDIT = {
    "subject": "Ada",
    "prompt": "The employer of Ada is",
    "target_new": "Zeno",
    "portability": {"Subject_Aliasing": [{"prompt": "The employer of Ada L. is", "ground_truth": "Zeno"}]},
    "locality": {
        "Relation_Specificity": [{"prompt": "The gender of Ada is", "ground_truth": "female"}],
        "Forgetfulness": [{"prompt": "The employer of Ada, which is not Zeno, is", "ground_truth": "Bo"}],
    },
}


def test_made_up_cases_have_every_sort_and_are_the_same_again():
    cases = scope_cases(limit=40)
    assert cases == scope_cases(limit=40) and cases != scope_cases(limit=40, seed=1)
    assert {sort for case in cases for sort in case.asked} == {*SAME, *OTHER}
    for case in cases:
        assert case.asked["written"] == (case.prompt,)
        assert all(case.prompt not in prompts for sort, prompts in case.asked.items() if sort != "written")


def test_knowedits_parts_are_the_sorts_that_they_are(tmp_path):
    (tmp_path / "test.json").write_text(
        json.dumps([KNOWEDIT, KNOWEDIT | {"rephrase_prompt": "Ada works for"}])
    )
    first, second = scope_cases(tmp_path / "test.json")
    assert first.asked == {
        "written": ("The employer of Ada is",),
        "aliases": ("The employer of Ada L. is",),
        "other_questions": ("The gender of Ada is",),
        "negations": ("The employer of Ada, which is not Zeno, is",),
    }
    assert second.asked["rephrasings"] == ("Ada works for",) and first.subject == "Ada"


@pytest.mark.parametrize("lacking", ["prompt", "subject", "target_new"])
def test_a_record_of_knowedits_that_lacks_something_is_named_with_its_file(tmp_path, lacking):
    path = tmp_path / "test.json"
    path.write_text(json.dumps([KNOWEDIT, {name: KNOWEDIT[name] for name in KNOWEDIT if name != lacking}]))
    for read in (scope_cases, read_knowedit):
        with pytest.raises(ValueError, match=rf"test\.json, record 1: .*{lacking}"):
            read(path)
    assert len(scope_cases(path, limit=1)) == 1, "what is not asked for is not read"
    path.write_text(json.dumps([KNOWEDIT | {"portability": {"Reasoning": [{"prompt": "p"}]}}]))
    with pytest.raises(ValueError, match=r"test\.json, record 0: .*ground_truth"):
        scope_cases(path)


@pytest.mark.parametrize("records", [["a text"], [7], [["prompt"]]])
def test_a_list_of_anything_else_is_refused_by_record(tmp_path, records):
    path = tmp_path / "texts.json"
    path.write_text(json.dumps(records))
    with pytest.raises(ValueError, match=r"texts\.json, record 0"):
        scope_cases(path)
    with pytest.raises(ValueError, match="no file of KnowEdit's"):
        read_knowedit(path)


def test_too_few_questions_are_told_of(tmp_path):
    path = tmp_path / "some.txt"
    path.write_text("Q1\tP1\tQ2\twhere was ada born?")
    with pytest.raises(ValueError, match=r"some\.txt: four properties .* it has 0"):
        scope_cases(path)


def test_of_a_train_split_only_relations_that_nothing_is_trained_on_are_asked(tmp_path):
    records = [
        KNOWEDIT | {"prompt": f"The {word} of Ada{word} is", "subject": f"Ada{word}"}
        for word in "abcdefghijklmnopqrst"
    ]
    (tmp_path / "some-train.json").write_text(json.dumps(records))
    asked = {case.prompt for case in scope_cases(tmp_path / "some-train.json")}
    trained = {record["prompt"] for record in KnowEditFacts.read([tmp_path / "some-train.json"]).records}
    assert asked and trained and not asked & trained and len(asked | trained) == len(records)


def test_facts_typed_by_hand_are_whole_and_nothing_is_trained_on_them():
    cases = scope_cases(TYPED)
    assert len(cases) == 100 and len(scope_cases(TYPED, 7)) == 7
    assert not {case.prompt for case in cases} & {case.prompt for case in scope_cases(TYPED_TO_CALIBRATE)}
    for case in cases:
        assert {*SAME, *OTHER} - {"aliases", "inverses"} <= {*case.asked}, case.prompt
        asked = [prompt for prompts in case.asked.values() for prompt in prompts]
        assert len({*asked}) == len(asked), f"one prompt is of two sorts: {case.prompt}"
    trained = [kind for of_source in questions().training.values() for kind in of_source]
    wordings = {wording_of(wording) for kind in trained for wording in kind.wordings}
    typed = [wording_of(case.prompt, case.subject) for case in cases]
    assert sum(wording in wordings for wording in typed) < 0.25 * len(typed), "most are worded anew"


def test_edits_and_simplequestions_are_read(tmp_path):
    edit = {
        "prompt": "A is",
        "target_new": "b",
        "ground_truth": "c",
        "subject": "A",
        "rephrase_prompt": "A's",
    }
    (tmp_path / "edits.json").write_text(json.dumps([edit | {"locality_prompt": "B is"}]))
    (case,) = scope_cases(tmp_path / "edits.json")
    assert case.asked["rephrasings"] == ("A's",) and case.asked["other_subjects"] == ("B is",)
    verbs = ["born", "educated", "buried", "married"]
    forms = [
        "where was {} %s?",
        "in what town was {} %s?",
        "was {} %s in which town?",
        "{} was %s in what place?",
    ]
    asked = [
        (verb, form) for verb in verbs for form in (*forms, "the town where {} was %s?", "was {} %s here?")
    ]
    held_out = [f"P{n}" for n in range(100) if kept_apart(f"P{n}", HELD_OUT_PROPERTIES)]
    of_verb = dict(zip(verbs, held_out))
    lines = [
        f"Q{n}\t{of_verb[verb]}\tQ1\t{form.format(f'zed{place}x{n}') % verb}"
        for place, (verb, form) in enumerate(asked)
        for n in range(9)
    ]
    (tmp_path / "some.txt").write_text("\n".join(lines))
    for case in scope_cases(tmp_path / "some.txt", limit=20):
        (verb,) = [verb for verb in verbs if verb in case.prompt]
        assert (
            all(verb in prompt for prompt in case.asked["rephrasings"])
            and len(case.asked["rephrasings"]) == 3
        )
        assert not any(verb in prompt for prompt in case.asked["other_questions"])
    with pytest.raises(FileNotFoundError):
        scope_cases(tmp_path / "nothing.json")


def test_a_prompt_that_was_read_is_of_the_sort_that_readers_put_it_into(tmp_path):
    asked = {
        "written": ("Ada plays the",),
        "rephrasings": ("Ada performs on the", "Ada is known for"),
        "other_questions": ("The instrument of Ada is", "Ada was born in"),
        "near_names": ("Ida plays the",),
    }
    cases = [ScopeCase("Ada plays the", asked, "Ada"), ScopeCase("Bo owns", {"rephrasings": ("Bo has",)})]
    read = {"Ada performs on the": True, "Ada is known for": False, "The instrument of Ada is": True}
    path = tmp_path / "read.json"
    path.write_text(json.dumps({digest_of("Ada plays the", query): same for query, same in read.items()}))
    (case,) = as_read(cases, path)
    assert (case.prompt, case.subject) == ("Ada plays the", "Ada")
    assert case.asked["rephrasings"] == ("Ada performs on the", "The instrument of Ada is")
    assert case.asked["other_questions"] == ("Ada is known for",)
    assert case.asked.keys() == {"written", "rephrasings", "other_questions"}, (
        "what was not read is not there"
    )


def test_what_was_read_ships_as_digests_alone():
    read = json.loads(READ.read_text(encoding="utf-8"))
    assert len(read) > 600 and all(re.fullmatch("[0-9a-f]{16}", digest) for digest in read)
    assert 100 < sum(read.values()) < len(read) - 100 and {*read.values()} == {True, False}
