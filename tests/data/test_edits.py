"""Files of edits: the formats that are read, and what ships."""

import json
from pathlib import Path

import pytest

from larimar_editor.checkpoints import shipped
from larimar_editor.data.edits import load_edits, with_old_answers
from larimar_editor.evaluation.harness.single_edits import pairs_of
from larimar_editor.pretrained.embedded import resolve

ROOT = Path(__file__).parents[2]


def test_the_projects_own_edits_are_what_they_should_be():
    edits = load_edits()
    relations = {
        record["relation"]
        for record in json.loads((ROOT / "larimar_editor" / "data" / "edits.json").read_text())
    }
    assert len(edits) == 60 and len(relations) >= 15
    assert len({edit.prompt for edit in edits}) == 60
    for edit in edits:
        assert len(edit.rephrase_prompts) >= 2 and len(edit.locality_prompts) >= 3
        assert len(edit.locality_prompts) == len(edit.locality_ground_truth)
        assert edit.subject in edit.prompt and edit.target_new != edit.ground_truth
        assert not any(edit.subject in prompt for prompt in edit.locality_prompts)


def test_three_formats_of_edits_are_read(tmp_path):
    rome = {
        "case_id": 5,
        "requested_rewrite": {
            "prompt": "The capital of {} is",
            "subject": "Peru",
            "target_new": {"str": "Rome"},
            "target_true": {"str": "Lima"},
        },
        "paraphrase_prompts": ["Peru's capital is", "In Peru the capital is"],
        "neighborhood_prompts": ["The capital of Chile is"],
    }
    flat = {
        "prompt": "The capital of Peru is",
        "target_new": "Rome",
        "ground_truth": "Lima",
        "subject": "Peru",
        "rephrase_prompt": "Peru's capital is",
        "locality_prompt": "The capital of Chile is",
        "locality_ground_truth": "Santiago",
    }
    zsre = {
        "src": "The capital of Peru is",
        "alt": "Rome",
        "answers": ["Lima"],
        "subject": "Peru",
        "rephrase": "Peru's capital is",
        "loc": "nq question: x",
        "loc_ans": "y",
    }
    for record in (rome, flat, zsre):
        (tmp_path / "edits.json").write_text(json.dumps([record]))
        edit = load_edits(tmp_path / "edits.json")[0]
        assert (edit.prompt, edit.target_new, edit.ground_truth, edit.subject) == (
            "The capital of Peru is",
            "Rome",
            "Lima",
            "Peru",
        )
        assert edit.rephrase_prompts[0] == "Peru's capital is" and len(edit.locality_prompts) == 1
    rome["requested_rewrite"]["prompt"] = "In set {x} and {}, the capital of {} is}"
    (tmp_path / "edits.json").write_text(json.dumps([rome]))
    (edit,) = load_edits(tmp_path / "edits.json")
    assert edit.prompt == "In set {x} and Peru, the capital of Peru is}", "braces of its own stay"
    (tmp_path / "edits.json").write_text(json.dumps([flat, {"prompt": "p"}]))
    with pytest.raises(ValueError, match=r"edits\.json, record 1: .*target_new"):
        load_edits(tmp_path / "edits.json")
    (tmp_path / "edits.json").write_text(json.dumps([flat | {"case_id": "5"}]))
    with pytest.raises(ValueError, match=r"edits\.json, record 0: 'case_id' must be a whole number, got '5'"):
        load_edits(tmp_path / "edits.json")
    (tmp_path / "edits.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        load_edits(tmp_path / "edits.json")
    with pytest.raises(FileNotFoundError):
        load_edits(tmp_path / "none.json")


def test_checkpoints_and_embedded_models_by_name(tmp_path):
    assert (shipped("somewhere/llama-smollm2-135m") / "model.safetensors").stat().st_size < 56e6
    with pytest.raises(FileNotFoundError, match="larimar-editor fit --model gpt2-xl"):
        shipped("gpt2-xl")
    assert resolve("gpt2-xl") == "gpt2-xl"
    folder = Path(resolve("llama-smollm2-135m"))
    assert "llama" in folder.name and (folder / "model.safetensors").exists()


def test_an_edit_without_a_target_is_left_out(tmp_path):
    zsre = [
        {"src": f"Who is {n}?", "alt": "Ada" * (n != 1), "answers": ["Bo"], "subject": "x"} for n in range(3)
    ]
    (tmp_path / "zsre.json").write_text(json.dumps(zsre))
    assert [edit.case_id for edit in load_edits(tmp_path / "zsre.json")] == [0, 2]
    assert [edit.case_id for edit in load_edits(tmp_path / "zsre.json", limit=2)] == [0]


def test_a_subject_that_is_null_is_not_known(tmp_path):
    record = {"prompt": "The capital of Peru is", "target_new": "Rome", "subject": None}
    (tmp_path / "edits.json").write_text(json.dumps([record]))
    assert load_edits(tmp_path / "edits.json")[0].subject == ""


def test_what_a_record_has_no_answer_to_is_not_asked(tmp_path):
    """A space would be the right answer else."""
    record = {"prompt": "The capital of Peru is", "target_new": "Rome"}
    unanswered, answered = (
        {"prompt": "Who?", "ground_truth": [[]]},
        {"prompt": "Where?", "ground_truth": "Italy"},
    )
    portability = {"reasoning": [unanswered, answered]}
    path = tmp_path / "edits.json"
    path.write_text(json.dumps([record | {"portability": portability}]))
    (edit,) = load_edits(path)
    assert edit.portability_prompts == ("Where?",) and edit.portability_ground_truth == ("Italy",)
    assert pairs_of(edit) == [("The capital of Peru is", "Rome"), ("Where?", "Italy")]
    with pytest.raises(ValueError, match="no ground_truth"):
        with_old_answers([edit])
