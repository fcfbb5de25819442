"""Hyperparameter files that people write: what is wrong in them is named."""

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from larimar_editor import LarimarHyperParams
from larimar_editor.cli import app

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "hparams" / "LARIMAR").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_file_loads_and_documents_every_key(path):
    hparams = LarimarHyperParams.from_hparams(str(path.with_suffix("")))
    assert hparams.alg_name == "LARIMAR" and hparams == LarimarHyperParams.from_hparams(str(path))
    text = path.read_text()
    assert text == hparams.to_yaml(text.split("\n")[0].removeprefix("# ")), (
        "`larimar-editor data hparams FILE` writes it anew"
    )
    uncommented = yaml.safe_load("\n".join(re.sub(r"^# (\w+: )", r"\1", line) for line in text.splitlines()))
    assert uncommented.keys() == hparams.to_dict().keys()
    assert LarimarHyperParams(**uncommented).model_name == hparams.model_name, "what is shown may be set"


def test_a_file_of_a_checkpoint_that_is_made_here_shows_the_detectors_own_thresholds():
    """`fit` copies the shipped detector with them: who takes out a # should change nothing."""
    ships = json.loads((ROOT / "larimar_editor" / "checkpoints" / "smollm2-135m" / "config.json").read_text())
    shown = yaml.safe_load(re.sub(r"^# (\w+: )", r"\1", FILES[0].read_text(), flags=re.MULTILINE))
    assert shown["model_name"] != "llama-smollm2-135m" and len(FILES) > 5
    for name in ("scope_threshold", "scope_cosine", "scope_least_cosine", "scope_sure"):
        assert shown[name] == ships[name]


def test_the_documentation_of_settings_is_what_is_declared():
    done = CliRunner().invoke(app, ["data", "settings"])
    assert done.stdout == (ROOT / "docs" / "settings.md").read_text(), (
        "`larimar-editor data settings > docs/settings.md`"
    )


@pytest.mark.parametrize(
    "name", ["LARIMAR/smollm2-135m", "hparams/LARIMAR/smollm2-135m", "LARIMAR/smollm2-135m.yaml"]
)
def test_a_file_that_ships_is_found_from_any_folder(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert LarimarHyperParams.from_hparams(name).model_name == "llama-smollm2-135m"
    (tmp_path / "LARIMAR").mkdir()
    (tmp_path / "LARIMAR" / "smollm2-135m.yaml").write_text("alg_name: LARIMAR\nmodel_name: mine\n")
    assert LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m").model_name == "mine", (
        "one's own comes first"
    )


def test_a_path_as_in_easyedits_examples_is_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = LarimarHyperParams.from_hparams("../hparams/LARIMAR/smollm2-135m.yaml")
    assert found == LarimarHyperParams.from_hparams("LARIMAR/smollm2-135m")


def test_json_is_read_as_easyedit_reads_it(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps({"alg_name": "LARIMAR", "model_name": "m", "seed": 3}))
    assert LarimarHyperParams.from_hparams(str(tmp_path / "mine.json")).seed == 3


def test_that_nothing_is_saved_is_said():
    with pytest.warns(UserWarning, match="save_state"):
        LarimarHyperParams(alg_name="LARIMAR", model_name="m", save_path="out")


def test_easyedits_own_keys_are_accepted():
    given = {
        "evaluation_type": "LLM-judge",
        "api_key": "k",
        "seed": 3,
        "use_chat_template": True,
        "results_dir": "r",
    }
    with pytest.raises(ValueError, match="quantization_bit is of EasyEdit's QLoRA alone"):
        LarimarHyperParams(alg_name="LARIMAR", model_name="m", quantization_bit=4)
    hparams = LarimarHyperParams(alg_name="LARIMAR", model_name="m", **given)
    assert {name: getattr(hparams, name) for name in given} == given and not hparams.config_overrides()


def test_the_models_that_were_promised_have_a_file():
    assert {path.stem for path in FILES} == {
        "smollm2-135m",
        "gpt2-large",
        "gpt2-xl",
        "gpt-j-6b",
        "llama3-8b",
        "qwen2.5-7b",
        "qwen3-8b",
        "llama3.2-1b",
        "gemma3-270m",
    }
    for method in ("ROME", "MEMIT", "GRACE", "FT"):
        assert (
            yaml.safe_load((ROOT / "hparams" / method / "smollm2-135m.yaml").read_text())["alg_name"]
            == method
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory_row": 3}, "unknown key 'memory_row'; did you mean 'memory_rows'"),
        ({"colour": 3}, "unknown key 'colour'; known keys: .*alg_name"),
        ({"model_name": None}, "the key 'model_name' is missing"),
        ({"alg_name": "ROME"}, "alg_name must be LARIMAR"),
        ({"memory_rows": 0}, "memory_rows must be a whole number of at least 1"),
        ({"addressing": "nearest"}, "addressing must be one of gaussian, pseudoinverse"),
        ({"sigma_w": -0.5}, "sigma_w must be a number of at least 0"),
        ({"sigma_w": "often"}, "sigma_w must be a number"),
        ({"device": "gpu"}, "device must be cpu or the index of a CUDA device, got 'gpu'"),
        ({"device": -1}, "device must be a whole number of at least 0"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path, change, message):
    values = {"alg_name": "LARIMAR", "model_name": "llama-smollm2-135m"} | change
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value is not None}))
    with pytest.raises(ValueError, match=message) as caught:
        LarimarHyperParams.from_hparams(str(path))
    assert "mine.yaml" in str(caught.value)


def test_a_device_that_is_given_as_text_is_the_index_that_easyedit_means():
    named = [LarimarHyperParams("LARIMAR", "m", device=name).device for name in ("0", 1, "cpu", "cuda:1")]
    assert named == [0, 1, "cpu", "cuda:1"]


def test_missing_and_malformed_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.yaml"):
        LarimarHyperParams.from_hparams(str(tmp_path / "nowhere"))
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(ValueError, match="not YAML"):
        LarimarHyperParams.from_hparams(str(tmp_path / "bad"))
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(ValueError, match="keys and values"):
        LarimarHyperParams.from_hparams(str(tmp_path / "list"))


def test_scientific_notation_that_yaml_reads_as_text_becomes_a_number(tmp_path):
    (tmp_path / "h.yaml").write_text("alg_name: LARIMAR\nmodel_name: m\naddressing_alpha: 1e-3\n")
    assert LarimarHyperParams.from_hparams(str(tmp_path / "h")).addressing_alpha == 1e-3
    (tmp_path / "h.json").write_text(json.dumps({"alg_name": "LARIMAR", "model_name": "m"}))
    assert LarimarHyperParams.from_json(str(tmp_path / "h.json")).model_name == "m"


def test_files_are_written_anew_as_yaml_and_others_left_alone(tmp_path):
    """A JSON file once became YAML under its old name, which nothing reads."""
    mine, other = tmp_path / "mine.yaml", tmp_path / "mine.json"
    mine.write_text("# My own\nalg_name: LARIMAR\nmodel_name: m\nseed: 3\n")
    other.write_text('{"alg_name": "LARIMAR", "model_name": "m"}')
    before = mine.read_text(), other.read_text()
    refused = CliRunner().invoke(app, ["data", "hparams", str(mine), str(other)])
    assert refused.exit_code == 2 and (mine.read_text(), other.read_text()) == before
    assert CliRunner().invoke(app, ["data", "hparams", str(mine)]).exit_code == 0
    assert mine.read_text().startswith("# My own\n\n# EasyEdit's keys.")
    assert LarimarHyperParams.from_hparams(mine).seed == 3
