"""KnowEdit's measures: what is asked of a record, and what the table makes of the scores."""

import json
from statistics import fmean

import pytest
from conftest import make_tiny

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.tables import knowedit
from larimar_editor.hparams import find_hparams

RECORD = {
    "subject": "Ada Lovelace",
    "prompt": "The name of the employer of Ada Lovelace is",
    "target_new": "Royal Mail",
    "ground_truth": [["Babbage"]],
    "rephrase_prompt": "Who employs Ada Lovelace?",
    "portability": {
        "Subject_Aliasing": [
            {"prompt": "The name of the employer of A. Lovelace is", "ground_truth": "Royal Mail"},
            {
                "prompt": "The name of the employer of Countess Ada is",
                "ground_truth": [["Royal Mail", "mail"]],
            },
        ],
        "Reasoning": [{"prompt": "The employer of Ada Lovelace sits in", "ground_truth": [["London"]]}],
        "Logical_Generalization": [{"prompt": "Ada Lovelace works for", "ground_truth": [[]]}],
    },
    "locality": {
        "Relation_Specificity": [
            {"prompt": "Water boils at a temperature of", "ground_truth": "100 degrees"}
        ],
        "Forgetfulness": [
            {"prompt": "The employer of Ada Lovelace, which is not Royal Mail, is", "ground_truth": "Babbage"}
        ],
    },
}


@pytest.fixture
def context(tokenizer, tmp_path):
    path = tmp_path / "wiki-test.json"
    path.write_text(json.dumps([RECORD, RECORD | {"target_new": " "}]))
    context = Context(find_hparams("LARIMAR/smollm2-135m"), out=tmp_path, baseline_cases=0, asked=(path,))
    context._models["{}"] = make_tiny(tokenizer)
    return context


def test_every_sort_of_question_is_asked_with_the_first_name_of_its_answer(context):
    (case,) = knowedit.cases_of(context.asked[0]).values()  # a record without a target is none
    assert case.edit.ground_truth == "Babbage"
    assert list(case.asked) == [
        "rewrite",
        "rephrase",
        "aliasing",
        "reasoning",
        "specificity",
        "forgetfulness",
    ]
    assert case.asked["reasoning"] == [("The employer of Ada Lovelace sits in", "London")]
    assert [answer for _, answer in case.asked["aliasing"]] == ["Royal Mail", "Royal Mail"]


def test_portability_is_of_answers_and_locality_of_what_was_said_before(context):
    (case,) = knowedit.cases_of(context.asked[0]).values()
    right, same = [1.0, 0.5, 1.0, 0.0, 0.25, 0.1, 0.2], [0, 0, 0, 0, 0, 0.75, 1.0]
    record = case.record(list(zip(right, same)), "one two one two")
    expected = dict(rewrite=1, rephrase=0.5, aliasing=0.5, reasoning=0.25, specificity=0.75, forgetfulness=1)
    assert {key: record[key] for key in expected} == pytest.approx(expected)
    columns = {column.key: column for column in knowedit.EVALUATION.columns}
    assert columns["portability"].value(record) == fmean([0.5, 0.25])
    assert columns["locality"].value(record) == fmean([0.75, 1.0])
    assert columns["generalisation"].value(record) is None, "of what a record does not ask nothing is said"


def test_the_base_model_keeps_everything_and_an_edit_is_alone_in_memory(context, tmp_path):
    model = context.larimar()
    model.write([{"prompt": "Water boils at a temperature of", "target_new": "secret"}])
    summary = knowedit.EVALUATION.run(context, tmp_path / "knowedit", progress=False)
    rows = {row["name"]: row for row in summary["rows"]}
    base, own = (rows[f"{tmp_path.name}/wiki-test: {name}"] for name in ("base model", "Larimar"))
    assert base["specificity"]["value"] == base["forgetfulness"]["value"] == 100
    assert own["specificity"]["value"] == 100, "another fact in memory has no part in it"
    assert own["forgetfulness"]["value"] < 100, "what the edit was written for is changed"
    assert len(model.edited_state.store) == 1
    assert "*98.57*" in (tmp_path / "knowedit" / "table.md").read_text(), "published rows, in italics"
