"""Scope: two detectors, one interface, thresholds from a calibration."""

import numpy as np
import pytest
import torch
from conftest import sentence_encoder
from safetensors.torch import load_file
from sklearn.metrics import roc_curve
from torch.nn import functional as F

from larimar_editor.checkpoints import shipped
from larimar_editor.data.edits import load_edits
from larimar_editor.data.hard_negatives import made_up_facts
from larimar_editor.model.checkpoint import WEIGHTS
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope.calibration import (
    accepting_at_most,
    as_edits,
    calibrate,
    calibrate_internal,
    equal_error,
    scope_pairs,
    train_internal,
)
from larimar_editor.scope.detectors import ExternalScopeDetector, InternalScopeDetector, decide, pair_features
from larimar_editor.scope.learning import train_metric
from larimar_editor.scope.nearest import exact
from larimar_editor.utils.text import sentences

THRESHOLD = LarimarConfig.from_pretrained(shipped("llama-smollm2-135m")).scope_threshold
WRITTEN = ["The capital of Portugal is", "The mother tongue of Danielle Darrieux is"]


@pytest.fixture(scope="module")
def external():
    folder = shipped("llama-smollm2-135m")
    metric = load_file(folder / WEIGHTS).get("scope.metric")
    return ExternalScopeDetector(sentence_encoder(), None if metric is None else metric.float())


def test_a_text_is_split_into_sentences():
    assert sentences("One. Two? Three!\nfour ") == ["One.", "Two?", "Three!", "four"]
    assert sentences("  ") == ["  "]
    assert sentences("He fell. J. R. R. Tolkien saw St. Louis. Dr. No is") == [
        "He fell.",
        "J. R. R. Tolkien saw St. Louis.",
        "Dr. No is",
    ]


def test_the_start_of_an_answer_stays_with_its_question(external):
    both = "What does Ada Lovelace play? They play"
    assert sentences(both) == ["What does Ada Lovelace play?", "They play", both]
    assert sentences("Who was it? Nobody.") == ["Who was it?", "Nobody."]
    written = external.embed([sentences(both)[-1]])
    asked = decide(
        external,
        [both, "Ada Lovelace plays the", "What does Toko Yasuda play? They play"],
        exact(external.similarity, written),
        THRESHOLD,
    )
    assert asked.in_scope.tolist() == [True, True, False]


def test_the_best_sentence_of_a_query_decides(external):
    written = external.embed(WRITTEN)
    alone = decide(external, ["The capital of Portugal is"], exact(external.similarity, written), THRESHOLD)
    query = (
        "Vitamins are often sold in shops, research shows. The weather was bad. The capital of Portugal is"
    )
    among = decide(
        external, [query, "Water boils at a temperature of"], exact(external.similarity, written), THRESHOLD
    )
    assert among.in_scope.tolist() == [True, False]
    assert among.sentence[0] == "The capital of Portugal is"
    assert among.nearest[0] == 0
    torch.testing.assert_close(among.score[0], alone.score[0], atol=1e-5, rtol=0)
    assert float(alone.score[0]) == pytest.approx(1.0, abs=1e-5)


def test_a_sentence_longer_than_the_sentence_encoder_takes_keeps_its_end(external):
    end = "and after all that the capital of Portugal is"
    with pytest.warns(UserWarning) as caught:
        one, other = external.embed(["so " * 400 + end, "well " * 400 + end])
    assert len(caught) == 2 and "the encoder takes 254; cut from its start: 'so" in str(caught[0].message)
    assert float(one @ other) > float(external.embed(["so " * 200])[0] @ other), (
        "the end that they share counts"
    )


def test_nothing_is_in_scope_of_nothing(external):
    decision = decide(
        external, WRITTEN, exact(external.similarity, torch.zeros(0, external.embedding_size)), THRESHOLD
    )
    assert not decision.in_scope.any() and torch.isinf(decision.score).all()


def test_the_shipped_map_and_threshold_tell_rephrasings_from_locality_prompts(external):
    """The project's own edits, which neither was made from; without the map the equal-error rate is 0.074."""
    found = calibrate(external, load_edits())
    assert (found.positives, found.negatives) == (120, 180)
    assert found.equal_error_rate < 0.04 and found.f1 > 0.94
    plain = calibrate(ExternalScopeDetector(sentence_encoder()), load_edits())
    assert found.equal_error_rate < 0.7 * plain.equal_error_rate
    in_scope = lambda query, prompt: decide(
        external, [query], exact(external.similarity, external.embed([prompt])), THRESHOLD
    ).in_scope.item()
    scores = [(in_scope(query, prompt), same) for query, prompt, same in scope_pairs(load_edits())]
    assert sum(found for found, same in scores if not same) <= 0.02 * 180
    assert sum(found for found, same in scores if same) >= 0.85 * 120


def test_equal_error_against_a_brute_force_search():
    generator = np.random.default_rng(0)
    labels = generator.random(400) < 0.4
    scores = generator.normal(size=400) + 1.5 * labels
    threshold, rate = equal_error(scores, labels)
    gaps = [(abs((scores[~labels] >= t).mean() - (scores[labels] < t).mean()), t) for t in scores]
    best = min(gaps)[1]
    expected = ((scores[~labels] >= best).mean() + (scores[labels] < best).mean()) / 2
    assert rate == pytest.approx(expected, abs=5e-3)
    assert (scores[~labels] >= threshold).mean() == pytest.approx(
        (scores[labels] < threshold).mean(), abs=0.01
    )
    assert len(roc_curve(labels, scores)) == 3


def test_the_internal_detector_computes_its_logistic_regression():
    torch.manual_seed(0)
    weight = torch.randn(10)
    detector = InternalScopeDetector(lambda texts: torch.randn(len(texts), 5), 5, weight, 0.3)
    queries, written = detector.embed(["a", "b"]), detector.embed(["c", "d", "e"])
    expected = torch.stack(
        [torch.sigmoid(pair_features(q.expand(3, -1), written) @ weight + 0.3) for q in queries]
    )
    torch.testing.assert_close(detector.similarity(queries, written), expected)
    with pytest.raises(ValueError, match="has 10 weights"):
        InternalScopeDetector(detector.encode, 5, torch.zeros(3), 0.0)


def test_the_internal_detector_learns_scope_and_serves_a_model(larimar):
    edits, known = load_edits(), {}

    def encode(texts):  # each text once: it is the slow part
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, larimar.latent_encoder.encode(new)))
        return torch.stack([known[text] for text in texts])

    held_out, _ = calibrate_internal(encode, larimar.config.latent_size, edits)
    # 40 edits are few for 6,144 features: on wordings it has not seen the detector is better than chance, not
    # good.
    assert held_out.equal_error_rate < 0.5 and held_out.positives == 38
    trained, larimar.detectors.weights = train_internal(encode, larimar.config.latent_size, edits)
    assert calibrate(trained, edits).f1 > 0.9, "on what it was trained on"
    larimar.config.scope, larimar.config.scope_threshold = "internal", 0.5
    edit = edits[2]
    larimar.write([{"prompt": edit.prompt, "target_new": edit.target_new}])
    assert isinstance(larimar.detectors.current, InternalScopeDetector)
    assert larimar.read([edit.prompt, "Water boils at a temperature of"]).in_scope.tolist() == [True, False]


def test_an_internal_detector_without_weights_says_how_to_make_one(larimar):
    larimar.config.scope = "internal"
    with pytest.raises(ValueError, match="calibrate --detector internal"):
        larimar.write([{"prompt": WRITTEN[0], "target_new": "Oslo"}])


def test_calibration_needs_both_kinds_of_pairs(external):
    edits = [edit for edit in load_edits(limit=2)]
    assert len(scope_pairs(edits)) == 2 * 5
    with pytest.raises(ValueError, match="locality"):
        calibrate(
            external,
            [type(e)(e.prompt, e.target_new, e.ground_truth, e.subject, e.rephrase_prompts) for e in edits],
        )


def test_the_threshold_lets_in_no_more_than_was_allowed():
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2])
    labels = np.array([True, True, False, True, False, True, False, False])
    for share, expected in ((0.0, 0), (0.25, 1), (0.4, 1), (0.5, 2)):
        threshold = accepting_at_most(scores, labels, share)
        assert ((scores >= threshold) & ~labels).sum() == expected
        assert all(
            ((scores >= t) & ~labels).mean() * 2 > share
            for t in scores
            if t < threshold and t in scores[~labels]
        )


def test_a_learned_map_brings_wordings_together_and_locality_prompts_apart():
    """On an embedding whose first half is the wording and whose second half is the subject."""
    generator = torch.Generator().manual_seed(0)
    vectors: dict[str, torch.Tensor] = {}

    def embed(texts):
        parts = [word for text in texts for word in text.split()]
        for part in parts:
            vectors.setdefault(part, F.normalize(torch.randn(8, generator=generator), dim=0))
        rows = [torch.cat((1.5 * vectors[text.split()[0]], vectors[text.split()[1]])) for text in texts]
        return F.normalize(torch.stack(rows), dim=1)

    def fact(i):
        wording = lambda n: f"w{(i + n) % 6} s{i}"
        locality = {"locality_prompt": [f"w{i % 6} s{i + 100}"], "near_prompt": [f"w{i % 6} s{i + 1}"]}
        return {"prompt": wording(0), "rephrase_prompt": [wording(1), wording(2)]} | locality

    learned = train_metric(
        embed,
        [fact(i) for i in range(60)],
        steps=300,
        batch_size=32,
        learning_rate=1e-2,
        pull=0.01,
        progress=False,
    )
    new = [fact(i) for i in range(200, 230)]
    mapped = lambda texts: F.normalize(embed(texts) @ learned.T, dim=1)
    for apply, better in ((embed, False), (mapped, True)):
        prompts, same, other = (apply([f[k] if k == "prompt" else f[k][0] for f in new])
                                for k in ("prompt", "rephrase_prompt", "locality_prompt"))  # fmt: skip
        assert bool(((prompts * same).sum(1) > (prompts * other).sum(1)).float().mean() > 0.9) == better
    with pytest.raises(ValueError, match="at least two facts"):
        train_metric(embed, [fact(0)], progress=False)


def test_made_up_facts_have_near_names_and_held_out_relations():
    def embed(texts):  # letters that a text has: similar spelling is similar
        rows = [[float(chr(97 + i) in text.lower()) for i in range(26)] + [1.0] for text in texts]
        return F.normalize(torch.tensor(rows), dim=1)

    facts, unseen = (made_up_facts(60, embed, held_out=held_out, pool=300) for held_out in (False, True))
    assert not {fact["relation"] for fact in facts} & {fact["relation"] for fact in unseen}
    closeness = {kind: 0.0 for kind in ("locality_prompt", "near_prompt")}
    for fact in facts:
        assert not any(fact["subject"].lower() in prompt.lower() for prompt in fact["near_prompt"])
        for kind in closeness:
            closeness[kind] += float(embed([fact["prompt"]]) @ embed(fact[kind][:1]).T)
    assert closeness["near_prompt"] > closeness["locality_prompt"]
    (edit,) = as_edits(facts[:1], "near_prompt")
    assert edit.locality_prompts == tuple(facts[0]["near_prompt"]) and edit.rephrase_prompts


def test_a_learned_map_is_part_of_the_checkpoint(tiny, tmp_path):
    tiny.detectors.weights = {"metric": torch.diag(torch.linspace(0.5, 1.5, 384))}
    tiny.save_pretrained(tmp_path)
    loaded = LarimarForCausalLM.from_pretrained(tmp_path, decoder=tiny.decoder, tokenizer=tiny.tokenizer)
    detector = loaded.detectors.current
    plain = ExternalScopeDetector(sentence_encoder()).embed(["The capital of Portugal is"])
    expected = F.normalize(plain * torch.linspace(0.5, 1.5, 384), dim=1)
    torch.testing.assert_close(detector.embed(["The capital of Portugal is"]), expected, atol=1e-3, rtol=1e-3)
    loaded.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    assert loaded.scope_of(["The capital of Portugal is"]).in_scope.all()
