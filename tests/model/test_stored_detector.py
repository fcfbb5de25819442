"""A checkpoint's scope detectors are changed without its decoder, and nothing else of it is."""

import json

import pytest
import torch
from safetensors.torch import load_file

from larimar_editor.model.detector import StoredDetector


def test_another_detector_is_put_in_and_the_rest_stays_to_the_bit(tiny, tmp_path):
    """The decoder that this checkpoint names is nowhere."""
    one, two = tmp_path / "one", tmp_path / "two"
    tiny.save_pretrained(one)
    stored = StoredDetector(one)
    stored.config.scope_threshold = 0.3
    stored.detectors.weights = {"metric": torch.eye(384)}
    stored.save(two)
    before, after = (load_file(folder / "model.safetensors") for folder in (one, two))
    assert after.keys() - before.keys() == {"scope.metric"} and not before.keys() - after.keys()
    assert all(
        after[name].dtype == value.dtype and after[name].equal(value) for name, value in before.items()
    )
    settings = [json.loads((folder / "config.json").read_text()) for folder in (one, two)]
    assert settings[0] | {"scope_threshold": 0.3} == settings[1]


def test_a_damaged_checkpoint_is_refused(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ValueError, match="damaged"):
        StoredDetector(tmp_path)
