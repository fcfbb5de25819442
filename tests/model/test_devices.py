"""Nothing mixes devices: edits, reads and generation on a GPU that is none (see `pretend_gpu`); on one that
is, see `test_cuda`.
"""

import pytest
import torch
from conftest import FACTS, UNRELATED, make_tiny
from on_devices import SETTINGS, edited_and_asked
from pretend_gpu import GPU, Mixed, OnGpu, moved, pretend_gpu
from safetensors.torch import load_file

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.scope.detectors import sentence_encoder as fresh_sentence_encoder


def eager(model):
    """Attention that is written out: which fused kernel runs is the device's own affair."""
    model.decoder.set_attn_implementation("eager")
    model.detectors.sentence_encoder[0].auto_model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_is_done_on_a_gpu_is_what_is_done_on_the_cpu(tokenizer, tmp_path, settings):
    settings = {"scope_threshold": 0.5} | settings
    expected = edited_and_asked(eager(make_tiny(tokenizer, **settings)), tokenizer, tmp_path / "cpu.db")
    model = eager(make_tiny(tokenizer, **settings))
    model.detectors._sentence_encoder = eager_copy()
    with pretend_gpu() as gpu:
        moved(model)
        moved(model.detectors.sentence_encoder)
        assert model.decoder.device == GPU
        actual = edited_and_asked(model, tokenizer, tmp_path / "gpu.db")
    assert len(gpu.operations) > 40, "the work was done there"
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, msg=lambda text, name=name: f"{name}: {text}")


def test_both_stages_of_the_detector_stay_on_one_device(tokenizer):
    weights = load_file(CHECKPOINTS["smollm2-135m"] / "model.safetensors")
    weights = {
        name.removeprefix("scope."): value for name, value in weights.items() if name.startswith("scope.")
    }
    assert any(name.startswith("look.") for name in weights)
    scores = []
    for on_gpu in (False, True):
        model = eager(make_tiny(tokenizer))
        model.detectors._sentence_encoder = eager_copy()
        model.detectors.weights = weights
        with pretend_gpu():
            if on_gpu:
                moved(model)
                moved(model.detectors.sentence_encoder)
            model.write(FACTS)
            scores.append(model.scope_of(["What is Danielle Darrieux's mother tongue?", *UNRELATED]).score)
            assert isinstance(next(model.detectors.external.look.network.parameters()), OnGpu) == on_gpu
    torch.testing.assert_close(scores[1], scores[0], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    "settings", [{}, {"addressed_by": "query"}, {"memory": "fixed"}, {"chained_reads": 1}]
)
def test_a_sentence_encoder_may_be_on_another_device_than_the_model(tokenizer, tmp_path, settings):
    """One that was handed in is where its owner has it."""
    settings = {"scope_threshold": 0.5} | settings
    expected = edited_and_asked(eager(make_tiny(tokenizer, **settings)), tokenizer, tmp_path / "cpu.db")
    model = make_tiny(tokenizer, **settings)
    model.decoder.set_attn_implementation("eager")
    with pretend_gpu():
        moved(model)
        actual = edited_and_asked(model, tokenizer, tmp_path / "gpu.db")
        assert model.detectors.sentence_encoder.device.type == "cpu"
    for name in ("in_scope", "latents", "ids"):
        torch.testing.assert_close(actual[name], expected[name], atol=1e-4, rtol=1e-4)


def test_an_encoder_that_serves_two_models_stays_where_it_is_when_one_is_moved(tokenizer):
    """The other reads on with it, and its stages with the weights that they share with it."""
    weights = load_file(CHECKPOINTS["smollm2-135m"] / "model.safetensors")
    weights = {
        name.removeprefix("scope."): value for name, value in weights.items() if name.startswith("scope.")
    }
    stays, goes = make_tiny(tokenizer), make_tiny(tokenizer)
    shared, devices = stays.detectors.sentence_encoder, lambda module: {p.device for p in module.parameters()}
    assert goes.detectors.sentence_encoder is shared
    for model in (stays, goes):
        model.detectors.weights = weights
    stays.write(FACTS)
    asked = ["What is Danielle Darrieux's mother tongue?", *UNRELATED]
    before, external = stays.scope_of(asked).score, goes.detectors.external
    goes.detectors.to(torch.device("cpu"))
    assert goes.detectors.external is external, "it is there"
    goes.detectors.to(torch.device("meta"))
    assert devices(shared) == devices(external.look.network) == {torch.device("cpu")}
    assert stays.scope_of(asked).score.equal(before)
    assert devices(goes.detectors.sentence_encoder) == {torch.device("meta")}


def test_the_pretended_gpu_catches_what_a_gpu_would():
    with pretend_gpu():
        there, here = torch.ones(3, device="cuda:0"), torch.ones(3)
        assert torch.equal((there + 1).cpu(), here + 1)
        assert (there * torch.tensor(2.0)).device == GPU, "a single number may be the CPU's"
        for mixed in (
            lambda: there + here,
            lambda: here.add_(there),
            lambda: torch.cat((there, here)),
            lambda: here[there.bool()],
            lambda: torch.where(there > 0, here, 0.0),
        ):
            with pytest.raises(Mixed):
                mixed()
        assert torch.equal(there[here.long() - 1].cpu(), here), "indices may be the CPU's"


def eager_copy():
    """A sentence encoder of its own: the shared one stays on the CPU."""
    encoder = fresh_sentence_encoder()
    encoder[0].auto_model.set_attn_implementation("eager")
    return encoder
