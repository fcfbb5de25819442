"""The closed form and the encoders behind one interface."""

import pytest
import torch
from conftest import SENTENCES, make_tiny, tiny_llama
from sklearn.decomposition import PCA

from larimar_editor.data.texts import read_sentences
from larimar_editor.model.checkpoint import checkpoint_folder, external_detector_of
from larimar_editor.model.closed_form import fit, principal_components, refit
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.encoders import TEXTS_PER_PASS, KeyValueProjection, TransformerEncoder
from larimar_editor.model.larimar import LarimarForCausalLM


def test_principal_components_agree_with_scikit_learn():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 3, generator=generator) @ torch.randn(3, 24, generator=generator) * 3
    rows = rows + 0.05 * torch.randn(400, 24, generator=generator) + 7
    mean, scale, basis, kept = principal_components(rows.clone(), weights=[1.0] * 4, count=3)
    scaled = (rows - rows.mean(0)) / scale
    torch.testing.assert_close(mean, rows.mean(0), atol=1e-4, rtol=1e-4)
    assert all(len(set(group.tolist())) == 1 for group in scale.view(4, 6)), (
        "one scale per layer's keys or values"
    )
    torch.testing.assert_close(scaled.view(400, 4, 6).square().mean((0, 2)), torch.ones(4), atol=1e-4, rtol=0)
    reference = PCA(3).fit(scaled.numpy())
    overlap = torch.linalg.svdvals(torch.tensor(reference.components_) @ basis)
    torch.testing.assert_close(overlap, torch.ones(3, dtype=overlap.dtype), atol=1e-3, rtol=0)
    assert kept == pytest.approx(reference.explained_variance_ratio_.sum(), abs=1e-3)


def test_what_counts_for_more_is_kept_better():
    rows = torch.randn(600, 24, generator=torch.Generator().manual_seed(0))
    unexplained = []
    for weights in ([1.0] * 4, [3.0, 1.0, 1.0, 1.0]):
        mean, scale, basis, _ = principal_components(rows.clone(), weights, count=8)
        kept = ((rows - mean) / scale) @ basis @ basis.T * scale + mean
        unexplained.append((rows - kept).view(600, 4, 6).square().mean((0, 2)))
    assert unexplained[1][0] < 0.2 * unexplained[0][0] and unexplained[1][1] > unexplained[0][1]


def test_what_is_fitted_has_the_shipped_detector_unless_it_is_not_wanted(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    settings = {"name": "t", "code_size": 8, "memory_slots": 1, "progress": False}
    weights, shipped = external_detector_of(checkpoint_folder("smollm2-135m"))
    model = fit(decoder, tokenizer, SENTENCES, **settings)
    assert model.detectors.weights.keys() == weights.keys()
    assert model.config.scope_threshold == shipped["scope_threshold"]
    assert fit(decoder, tokenizer, SENTENCES, **settings, scope_threshold=0.3).config.scope_threshold == 0.3
    assert not fit(decoder, tokenizer, SENTENCES, **settings, detector=None).detectors.weights
    of_another = {"scope_encoder_name_or_path": "sentence-transformers/another"}
    assert not fit(decoder, tokenizer, SENTENCES, **settings, **of_another).detectors.weights


def test_an_encoder_made_anew_keeps_what_was_trained(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    settings = {"name": "t", "memory_slots": 2, "progress": False, "tied_projection": False}
    model = fit(decoder, tokenizer, SENTENCES, code_size=64, first_layer=1.0, **settings)  # nothing is lost
    generator = torch.Generator().manual_seed(1)
    basis = model.projection.basis.data
    basis += 0.1 * torch.randn(basis.shape, generator=generator)
    text = SENTENCES[:3]
    codes, said = model.latent_encoder.encode(text), model.projection(model.latent_encoder.encode(text))
    refit(model, SENTENCES[::-1], progress=False)
    anew = model.latent_encoder.encode(text)
    assert not torch.allclose(anew, codes, atol=0.1), "the codes are others"
    torch.testing.assert_close(model.projection(anew), said, atol=2e-2, rtol=2e-2)
    assert model.config.latent_norm == pytest.approx(
        float(model.latent_encoder.encode(SENTENCES[::-1][:64]).norm(dim=1).mean()), rel=1e-4
    )


def test_an_encoder_that_something_hangs_on_is_not_made_anew(tiny):
    with pytest.raises(ValueError, match="trained checkpoint"):
        refit(tiny, SENTENCES, progress=False)
    untied = make_tiny(tiny.tokenizer, tied_projection=False)
    untied.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    before = untied.analysis.basis.clone()
    with pytest.raises(ValueError, match="forget them first"):
        refit(untied, SENTENCES, progress=False)
    assert torch.equal(untied.analysis.basis, before)


def test_an_internal_detector_does_not_outlive_the_codes_that_it_is_of(tokenizer):
    model = make_tiny(tokenizer, tied_projection=False, scope="internal")
    model.detectors.weights = {name: torch.zeros(1) for name in ("weight", "bias", "metric")}
    with pytest.raises(ValueError, match="scope: internal"):
        refit(model, SENTENCES, progress=False)
    assert len(model.detectors.weights) == 3
    model.config.scope = "none"
    refit(model, SENTENCES, progress=False)
    assert model.detectors.weights.keys() == {"metric"}


def test_the_projection_undoes_the_codes_on_its_span():
    projection = KeyValueProjection((2, 2, 1, 4), 16, 3)
    projection.basis.data = torch.linalg.qr(torch.randn(16, 16))[0]
    projection.scale.data.uniform_(0.5, 2.0)
    projection.mean.data.normal_()
    states = torch.randn(5, 3, 2, 2, 1, 4)
    assert projection.codes(states).shape == (5, 3, 16)
    latents = projection.codes(states).flatten(1)
    torch.testing.assert_close(projection(latents), states, atol=1e-4, rtol=1e-4)


def test_gains_stretch_keys_and_values_apart_from_the_mean():
    plain = KeyValueProjection((2, 2, 1, 4), 16, 3)
    plain.basis.data.normal_()
    plain.mean.data.normal_()
    stretched = KeyValueProjection((2, 2, 1, 4), 16, 3, key_gain=1.5, value_gain=0.5)
    stretched.load_state_dict(plain.state_dict())
    z = torch.randn(5, 48)
    mean = plain.mean.view(2, 2, 1, 4)
    expected = plain(z) - mean
    expected[:, :, :, 0] *= 1.5
    expected[:, :, :, 1] *= 0.5
    torch.testing.assert_close(stretched(z), expected + mean)


def test_encoding_does_not_depend_on_the_batch(tiny):
    texts = [
        "A clever fox found a green boat",
        "The old sailor lost",
        "Every student repaired the bridge on an unknown island",
    ]
    together = tiny.latent_encoder.encode(texts)
    alone = torch.cat([tiny.latent_encoder.encode([text]) for text in texts])
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    with pytest.raises(ValueError, match="nothing to encode"):
        tiny.latent_encoder.encode([""])


def test_no_pass_is_of_more_than_a_number_of_texts(tiny, monkeypatch):
    texts, seen = [f"House {number} is green" for number in range(3 * TEXTS_PER_PASS // 2)], []
    passes = tiny.decoder.model.forward
    counted = lambda input_ids, **more: seen.append(len(input_ids)) or passes(input_ids=input_ids, **more)
    monkeypatch.setattr(tiny.decoder.model, "forward", counted)
    assert len(tiny.latent_encoder.encode(texts)) == len(texts)
    assert len(seen) == 2 and max(seen) == TEXTS_PER_PASS


def test_fit_is_reproducible_and_refuses_too_little_text(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    models = [
        fit(decoder, tokenizer, SENTENCES, name="t", code_size=8, memory_slots=1, progress=False)
        for _ in range(2)
    ]
    assert torch.equal(models[0].projection.basis, models[1].projection.basis)
    assert models[0].config.latent_norm > 0 and 0 < models[0].config.explained_variance <= 1
    with pytest.raises(ValueError, match="too few"):
        fit(decoder, tokenizer, SENTENCES[:3], name="t", code_size=32, memory_slots=1, progress=False)


def test_sentences_are_read_in_a_reproducible_order(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("short\n" + "".join(f"This is sentence number {i}.\n" for i in range(20)) * 2)
    first = read_sentences(path, limit=5, seed=1)
    assert len(first) == 5 and first == read_sentences(path, limit=5, seed=1) != read_sentences(
        path, limit=5, seed=2
    )
    assert len(read_sentences(path)) == 20, "each once, short ones left out"
    path.write_text("no\n")
    with pytest.raises(ValueError, match="one sentence per line"):
        read_sentences(path)


def test_a_transformer_encoder_stands_behind_the_same_interface(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    config = LarimarConfig(
        encoder_type="transformer",
        encoder_name_or_path="all-MiniLM-L6-v2",
        encoder_max_length=16,
        latent_size=20,
        memory_slots=2,
        memory_rows=4,
        rest_dtype="float32",
    )
    model = LarimarForCausalLM(config, decoder, tokenizer)
    torch.nn.init.normal_(model.projection.basis)
    assert isinstance(model.latent_encoder, TransformerEncoder)
    model.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    expected = model.latent_encoder.encode(["The capital of Portugal is Oslo"])
    assert expected.shape == (1, 20)
    torch.testing.assert_close(
        model.read(["The capital of Portugal is"]).latents, expected, atol=1e-4, rtol=1e-4
    )
    many = [f"House {number} is green" for number in range(TEXTS_PER_PASS + 1)]
    torch.testing.assert_close(
        model.latent_encoder.encode(many)[-1:],
        model.latent_encoder.encode(many[-1:]),
        atol=1e-4,
        rtol=1e-4,
    )
    with pytest.warns(UserWarning, match="cut from its start"):
        model.latent_encoder.encode(["word " * 40])
    with pytest.raises(ValueError, match="encoder_name_or_path"):
        LarimarForCausalLM(LarimarConfig(encoder_type="transformer"), decoder, tokenizer)
