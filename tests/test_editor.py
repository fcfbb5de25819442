"""What an editing framework calls: settings that take effect or are refused, never silently neither."""

import copy
import io
import pickle

import pytest
import torch
from conftest import FACTS, make_tiny, sentence_encoder, tiny_llama

import larimar_editor
from larimar_editor import LarimarForCausalLM, LarimarHyperParams, LarimarRewriteExecutor


@pytest.fixture(scope="module")
def checkpoint(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    make_tiny(tokenizer).save_pretrained(folder)
    return folder


@pytest.fixture
def edit(checkpoint, tokenizer, monkeypatch):
    """Edits a model, with some settings."""
    monkeypatch.setattr(
        "larimar_editor.model.scoping.SentenceTransformer", lambda *_, **__: sentence_encoder()
    )

    def edit(model, fact=FACTS[0], **settings):
        given = {
            "alg_name": "LARIMAR",
            "model_name": "tiny",
            "larimar_checkpoint": str(checkpoint),
        } | settings
        return LarimarRewriteExecutor().apply_to_model(model, tokenizer, [fact], LarimarHyperParams(**given))[
            0
        ]

    return edit


def test_the_same_settings_edit_the_same_model_again(edit, tokenizer):
    decoder = tiny_llama(len(tokenizer))
    first = edit(decoder, memory_rows=6)
    assert edit(decoder, FACTS[1], memory_rows=6) is first is edit(first, FACTS[2], memory_rows=6)
    assert len(first.facts()) == 3 and first.config.memory_rows == 6


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"memory_rows": 3}, "memory_rows: 8 in place of 3"),
        ({"memory_rows": 3}, {}, "memory_rows: 3 in place of None"),
        ({}, {"scope_threshold": 0.1}, "scope_threshold: 0.7 in place of 0.1"),
        ({}, {"larimar_checkpoint": "another"}, "in place of 'another'"),
    ],
)
def test_other_settings_are_refused_while_facts_are_written_and_taken_when_none_are(
    edit, tokenizer, first, second, message
):
    decoder = tiny_llama(len(tokenizer))
    model = edit(decoder, **first)
    for target in (decoder, model):
        with pytest.raises(ValueError, match=message):
            edit(target, FACTS[1], **second)
    assert [fact.prompt for fact in model.facts()] == [FACTS[0]["prompt"]]
    model.reset()
    with pytest.raises(ValueError, match=message):
        edit(model, **second)
    if "larimar_checkpoint" not in second:
        again = edit(decoder, **second)
        assert again is not model and len(again.facts()) == 1 and not model.facts()
        assert again.config.memory_rows == second.get("memory_rows", 8)


def by_torch(decoder):
    torch.save(decoder, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [lambda decoder: pickle.loads(pickle.dumps(decoder)), by_torch])
def test_an_edited_decoder_is_pickled_as_one_that_was_not_edited(edit, tokenizer, again):
    """As by torch.save, joblib and mp.spawn; what is written stays with its Larimar, which has files."""
    decoder = tiny_llama(len(tokenizer))
    model = edit(decoder)
    other, executor = again(decoder), LarimarRewriteExecutor()
    assert all(value.equal(other.state_dict()[name]) for name, value in decoder.state_dict().items())
    assert executor.has_model(decoder) and not executor.has_model(other)
    assert len(edit(other, FACTS[1]).facts()) == len(model.facts()) == 1 and edit(decoder) is model


def test_the_copy_of_an_edited_decoder_has_a_copy_of_its_larimar(edit, tokenizer):
    decoder = tiny_llama(len(tokenizer))
    model, twin = edit(decoder), copy.deepcopy(decoder)
    of_twin = edit(twin, FACTS[1])
    assert of_twin.decoder is twin and len(of_twin.facts()) == 2 and len(model.facts()) == 1


def test_what_acts_at_once_can_be_changed_and_nothing_else(edit, tokenizer):
    model = edit(tiny_llama(len(tokenizer)))
    prompt, model.config.scope_threshold = FACTS[0]["prompt"], 0.99
    assert model.scope_of([prompt]).in_scope.all()
    model.config.scope_threshold = 1.5
    assert not model.scope_of([prompt]).in_scope.any() and not model.read([prompt]).in_scope.any()
    ids = tokenizer(prompt, return_tensors="pt").input_ids
    outside, model.config.scope_threshold = model(ids).logits, 0.5
    inside = model(ids).logits
    model.config.scope_threshold = 1.5
    assert not torch.equal(inside, outside) and torch.equal(model(ids).logits, outside), "the same call again"
    model.config.scope = "none"
    assert model.read(["Water boils"]).in_scope.all()
    with pytest.raises(ValueError, match="scope: none"):
        model.scope_of([prompt])
    model.detectors.weights = {
        "weight": torch.zeros(2 * model.config.latent_size),
        "bias": torch.tensor([5.0]),
    }
    model.config.scope = "internal"
    for use in (lambda: model.read([prompt]), lambda: model.write(FACTS[1:2])):
        with pytest.raises(ValueError, match="written for another scope detector"):
            use()
    for name, value in (("memory_rows", 3), ("key_gain", 3.0), ("addressing", "pseudoinverse")):
        with pytest.raises(AttributeError, match=f"{name} is fixed"):
            setattr(model.config, name, value)
    with pytest.raises(ValueError, match="scope must be one of"):
        model.config.scope = "somewhere"
    assert model.config.memory_rows == 8 and model.config.scope == "internal"


def test_no_prompt_is_no_decision(edit, tokenizer):
    model = edit(tiny_llama(len(tokenizer)))
    decision = model.scope_of([])
    assert decision.in_scope.shape == decision.score.shape == (0,) and decision.sentence == []
    assert model.read([]).in_scope.shape == (0,)


def test_a_detector_can_be_handed_in(edit, tokenizer):
    """Anything with the interface decides: here, whether the first letters are alike."""

    class FirstLetter:
        embedding_size, look = 26, None

        def embed(self, texts):
            return torch.eye(26)[[ord(text.strip().lower()[0]) - ord("a") for text in texts]]

        def similarity(self, queries, written):
            return queries @ written.T

    class Given:
        weights: dict = {}  # noqa: RUF012
        external = current = FirstLetter()
        embed = current.embed

        def to(self, device):
            pass

    model = make_tiny(tokenizer)
    model.detectors = Given()
    model.write(FACTS[:1])
    assert model.scope_of(["Tell me", "Say so"]).in_scope.tolist() == [True, False]
    assert model.read(["Tell me", "Say so"]).in_scope.tolist() == [True, False]


def test_weights_are_saved_as_they_are_and_whole_or_not_at_all(tiny, tmp_path, monkeypatch):
    tiny.save_pretrained(tmp_path / "made")
    first = (tmp_path / "made" / "model.safetensors").read_bytes()
    loaded = LarimarForCausalLM.from_pretrained(
        tmp_path / "made", decoder=tiny.decoder, tokenizer=tiny.tokenizer
    )
    torch.testing.assert_close(loaded.projection.basis, tiny.projection.basis, atol=0, rtol=0)
    assert loaded.projection.basis.dtype == torch.float32
    tiny.save_pretrained(tmp_path / "half", dtype=torch.float16)
    assert (tmp_path / "half" / "model.safetensors").stat().st_size < 0.6 * len(first)
    with pytest.raises(TypeError, match="variant"):
        tiny.save_pretrained(tmp_path / "made", variant="fp16")
    tiny.projection.basis.data += 1

    def full(*args, **kwargs):
        raise OSError("no space left on device")

    monkeypatch.setattr("larimar_editor.model.checkpoint.save_file", full)
    with pytest.raises(OSError, match="no space"):
        tiny.save_pretrained(tmp_path / "made")
    assert (tmp_path / "made" / "model.safetensors").read_bytes() == first
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"config.json", "model.safetensors"}
    tiny.save_pretrained(tmp_path / "nowhere", is_main_process=False)
    assert not (tmp_path / "nowhere").exists()


def test_a_bad_request_under_other_settings_leaves_the_decoder_its_larimar(edit, tokenizer):
    decoder = tiny_llama(len(tokenizer))
    model = edit(decoder)
    model.reset()
    with pytest.raises(ValueError, match="target_new"):
        edit(decoder, {"prompt": "A is", "target_new": ""}, memory_rows=3)
    assert edit(decoder, FACTS[0]) is model


def test_a_setting_that_is_none_is_refused(edit, checkpoint, tokenizer):
    known = {"decoder": tiny_llama(len(tokenizer)), "tokenizer": tokenizer}
    with pytest.raises(ValueError, match="no setting is called scope_treshold"):
        LarimarForCausalLM.from_pretrained(checkpoint, scope_treshold=0.9, **known)


def test_rooms_are_attributes_of_the_package_as_they_were():
    assert larimar_editor.checkpoints.shipped("llama-smollm2-135m").name == "smollm2-135m"
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = larimar_editor.nowhere


def test_a_checkpoint_that_ships_is_found_by_its_name(decoder, tokenizer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = LarimarForCausalLM.from_pretrained("smollm2-135m", decoder=decoder, tokenizer=tokenizer)
    assert model.config.base_model_name_or_path == "llama-smollm2-135m"
    with pytest.raises(FileNotFoundError, match="There ships smollm2-135m"):
        LarimarForCausalLM.from_pretrained("smollm3", decoder=decoder, tokenizer=tokenizer)
