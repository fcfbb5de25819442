"""Scope: two detectors, one interface, thresholds from a calibration."""

import numpy as np
import pytest
import torch
from conftest import EVERYTHING, FACTS, SENTENCES, UNRELATED, sentence_encoder
from safetensors.torch import load_file
from torch.nn import functional as F

from larimar_editor.checkpoints import shipped
from larimar_editor.data.edits import OWN_EDITS, load_edits
from larimar_editor.data.scope_cases import ScopeCase, scope_cases
from larimar_editor.model.checkpoint import WEIGHTS
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.scope import detectors
from larimar_editor.scope.calibration import (
    Judge,
    accepting_at_most,
    calibrate,
    calibrate_internal,
    calibrate_sets,
    calibrated,
    equal_error,
    scored,
    train_internal,
)
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.detectors import ExternalScopeDetector, InternalScopeDetector, pair_features
from larimar_editor.scope.nearest import exact
from larimar_editor.utils.sentences import sentences
from larimar_editor.utils.text import TruncationWarning, plain_letters, read_alike

THRESHOLD = LarimarConfig.from_pretrained(shipped("llama-smollm2-135m")).scope_threshold
WRITTEN = ["The capital of Portugal is", "The mother tongue of Danielle Darrieux is"]


@pytest.fixture(scope="module")
def weights():
    stored = load_file(shipped("llama-smollm2-135m") / WEIGHTS)
    return {name.removeprefix("scope."): value for name, value in stored.items() if name.startswith("scope.")}


@pytest.fixture(scope="module")
def external(weights):
    """The first two of its stages."""
    return ExternalScopeDetector(sentence_encoder(), weights)


def decided(external, queries, written):
    lookup = exact(external.similarity, external.embed(written))
    stage = SecondStage(external.look, lambda row: Written(written[row]), 4)
    return decide(external, queries, lookup, THRESHOLD, stage)


def test_a_text_is_split_into_sentences():
    assert sentences("One. Two? Three!\nfour ") == ["One.", "Two?", "Three!", "four"]
    assert sentences("  ") == ["  "]
    for one in (
        "Schenck v. United States was decided in",
        "The Texas Dept. of Energy is led by",
        "Max. speed of the Orrery is",
        "Art. 12 of the Lease Act allows",
        "The M.Sc. thesis of Ada Lund is on",
    ):
        assert sentences(one) == [one]
    assert sentences("I got plan B. What is the capital of Peru?") == [
        "I got plan B.",
        "What is the capital of Peru?",
    ]
    for two in (
        "My dog is Max. Who is yours?",
        "It costs 2.50. is the shop open?",
        "I opened main.py. is the server up?",
        "I like Henry V. Who wrote it?",
        "my dog is Max. is he yours?",
        "Give me a sec. 2 questions: who is Bo?",
        "She leads the dept. Is it large?",
    ):
        assert len(sentences(two)) == 2, two
    for one in ("She moved to Washington D.C. where she worked for", "Ada wakes at 6 a.m. when she works at"):
        assert len(sentences(one)) == 1, one
    assert len(sentences("She left the U.S. Where is she?")) == 2
    assert sentences("He fell. J. R. R. Tolkien saw St. Louis. Dr. No is") == [
        "He fell.",
        "J. R. R. Tolkien saw St. Louis.",
        "Dr. No is",
    ]
    for whole in (
        "Who painted Figure in Peeling No. 5?",
        "All of his works (Vol. 1) is followed by",
        "Drei Klavierstücke, Op. 946 is by",
        "Apple Inc. is based in",
        '"Dr. No" is a film by',
        "At 5 p.m. they met in",
        "Airplane! was directed by",
        "Panic! at the Disco comes from",
        "Who Wants to Be a Millionaire? is hosted by",
        "Of what series is It's a Trap! a part of?",
        "Warner Bros. Pictures was founded in",
        "Martin Luther King Jr. Day is celebrated in",
        "What is Dachser Group SE & Co. KG?",
        "The match on Jan. 5 was won by",
        "Portland, Ore. is in",
        "which game mode is prof. otto?",
        "who founded apple inc. in 1976",
        "Tracey Takes On... premieres on",
        "e.g. Paris is",
        "Dr. Who was created by",
    ):
        assert sentences(whole) == [whole]
    for whole in ('"Dr. No?" he asked and', "他说：“好。”然后"):
        assert sentences(whole) == [whole]
    for two in (
        'He said "I am tired." The capital of Portugal is',
        "(I was there.) What is the capital?",
        "我住在里斯本。葡萄牙的首都是",
        "ما اسمك؟ ما عاصمة البرتغال؟",
        "यह एक शहर है। राजधानी क्या है?",
        "He works for Apple Inc. What is the capital of France?",
        "It was grade a. The capital of France is",
        "Who is it? no. The capital of France is",
        "He has two cats. 5 dogs live in",
        "hi! what is the capital of peru",
        "who was it? tell me.",
        "He works for Apple Inc. In France the capital is",
        "What a match! Lena was born in",
        "hey! whats the capital of peru",
        "love the show! but I never caught the names: who are",
        "no trams!! tram line 6",
        "salut! où est née Marie Curie",
        "Do you know Marie Curie? was she french?",
        "He works at Apple Inc.  The capital of Peru is",
        "i live on main st. what is the capital of peru",
        "I ate a fig. I was born in",
        "Well... what is the capital of peru",
    ):
        assert len(sentences(two)) > 1, two


def test_what_is_too_long_for_the_encoder_is_cut_from_its_start_in_any_script(external):
    """A Korean syllable is several of the encoder's letters."""
    end = "포르투갈의 수도는 어디입니까"
    with pytest.warns(TruncationWarning):
        long = external.embed(["가나다라마바사 " * 22 + end])
    with pytest.warns(TruncationWarning):
        longer = external.embed(["하하하 " + "가나다라마바사 " * 22 + end])
    torch.testing.assert_close(long, longer, rtol=0, atol=0)


def test_the_start_of_an_answer_stays_with_its_question(external):
    both = "What does Ada Lovelace play? They play"
    assert sentences(both) == ["What does Ada Lovelace play?", both]
    assert sentences("Who was it? Nobody.") == ["Who was it?", "Nobody."]
    assert sentences("Name its capital.\nAnswer:")[-1] == "Name its capital. Answer:"
    queries = [both, "Ada Lovelace plays the", "What does Toko Yasuda play? They play"]
    asked = decided(external, queries, [sentences(both)[-1]])
    assert asked.in_scope.tolist() == [True, True, False]


def test_the_best_sentence_of_a_query_decides(external):
    alone = decided(external, ["The state of Portugal has its capital in"], WRITTEN)
    query = (
        "Vitamins are often sold in shops, research shows. The weather was bad. "
        "The state of Portugal has its capital in"
    )
    among = decided(external, [query, "Water boils at a temperature of"], WRITTEN)
    assert among.in_scope.tolist() == [True, False]
    assert among.sentence[0] == "The state of Portugal has its capital in"
    assert among.nearest[0] == 0
    torch.testing.assert_close(among.score[0], alone.score[0], atol=1e-4, rtol=0)
    assert decided(external, ["The capital of Portugal is"], WRITTEN).score.tolist() == [1.0]


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


def test_the_shipped_detector_tells_rephrasings_from_locality_prompts(external, weights):
    """The project's own edits, which it was not made from; the encoder as it is has an equal-error rate of
    0.074.
    """
    cases = scope_cases(OWN_EDITS)[:: 1 if EVERYTHING else 2]
    larger = detectors.sentence_encoder("all-mpnet-base-v2")
    whole = Judge(ExternalScopeDetector(sentence_encoder(), weights, lambda: larger))
    scores = scored(whole, cases)
    found = calibrated(scores, None, None)
    counts = (60, 120, 180) if EVERYTHING else (30, 60, 90)
    assert found.prompts == dict(zip(("written", "rephrasings", "other_subjects"), counts, strict=True))
    plain = calibrate(Judge(ExternalScopeDetector(sentence_encoder())), cases, None, None)
    assert found.equal_error_rate < 0.6 * plain.equal_error_rate and found.f1 > plain.f1
    for judged in (scores, scored(Judge(external), cases)):
        share = lambda sort, judged=judged: np.mean(np.array(judged[sort]) >= THRESHOLD)
        assert share("written") == 1 and share("rephrasings") >= 0.85 and share("other_subjects") <= 0.05


def test_other_questions_about_the_subject_are_out_where_the_encoder_takes_them_in(external):
    """What tells questions from subjects, on kinds of questions that nothing was trained on."""
    cases = scope_cases(limit=36 if EVERYTHING else 20)
    rates = {}
    for name, judge in (
        ("trained", Judge(external)),
        ("plain", Judge(ExternalScopeDetector(sentence_encoder()))),
    ):
        found = calibrate(judge, cases, None, None)
        rates[name] = found.equal_error_rate
        assert set(found.accepted) == {sort for case in cases for sort in case.asked}
    assert rates["trained"] < 0.7 * rates["plain"]


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


@pytest.mark.skipif(not EVERYTHING, reason="encodes hundreds of texts: `make soak`")
def test_the_internal_detector_learns_scope_and_serves_a_model(larimar):
    cases, known = scope_cases(OWN_EDITS), {}

    def encode(texts):  # each text once: it is the slow part
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, larimar.latent_encoder.encode(new)))
        return torch.stack([known[text] for text in texts])

    held_out, _ = calibrate_internal(encode, larimar.config.latent_size, cases)
    # 40 edits are few for 6,144 features: on wordings it has not seen the detector is better than chance, not
    # good.
    assert held_out.equal_error_rate < 0.5 and held_out.prompts["rephrasings"] == 38
    trained, larimar.detectors.weights = train_internal(encode, larimar.config.latent_size, cases)
    assert calibrate(Judge(trained), cases, None, None).f1 > 0.9, "on what it was trained on"
    larimar.config.scope, larimar.config.scope_threshold = "internal", 0.5
    edit = load_edits()[2]
    larimar.write([{"prompt": edit.prompt, "target_new": edit.target_new}])
    assert isinstance(larimar.detectors.current, InternalScopeDetector)
    assert larimar.read([edit.prompt, edit.locality_prompts[0]]).in_scope.tolist() == [True, False]
    # Of text that it has not seen, as a detector of 60 edits, it may take one for a fact and no more.
    assert int(larimar.read(SENTENCES[:20]).in_scope.sum()) <= 1


def test_an_internal_detector_without_weights_says_how_to_make_one(larimar):
    larimar.config.scope = "internal"
    with pytest.raises(ValueError, match="calibrate --detector internal"):
        larimar.write([{"prompt": WRITTEN[0], "target_new": "Oslo"}])


def test_calibration_needs_both_kinds_of_prompts(external):
    case = ScopeCase("A is", {"written": ("A is",), "rephrasings": ("A's",)})
    with pytest.raises(ValueError, match="prompts that do not"):
        calibrate(Judge(external), [case])


def test_the_threshold_lets_in_no_more_than_was_allowed():
    positives, negatives = np.array([0.9, 0.8, 0.6, 0.4]), np.array([0.7, 0.5, 0.3, 0.2])
    for share, expected in ((0.0, 0), (0.25, 1), (0.4, 1), (0.5, 2)):
        threshold = accepting_at_most(negatives, positives, share)
        assert (negatives >= threshold).sum() == expected
        assert all((negatives >= t).mean() > share for t in negatives if t < threshold)


def test_both_stated_rates_are_kept():
    class Told:
        look, embedding_size = None, 1

        def embed(self, texts):
            return torch.tensor([[float(text.split()[-1])] for text in texts])

        def similarity(self, queries, written):
            return queries.expand(-1, len(written))

    asked = {
        "rephrasings": [f"q {i / 100}" for i in range(40, 100)],
        "other_questions": [f"q {i / 100}" for i in range(50)],
        "other_subjects": [f"q {i / 100}" for i in range(20, 70)],
    }
    case = ScopeCase("w 1", {"written": ("w 1",)} | {sort: tuple(texts) for sort, texts in asked.items()})
    found = {
        rates: calibrate(Judge(Told()), [case], *rates, progress=False).accepted
        for rates in ((0.5, 0.5), (0.1, 0.8), (0.1, None), (None, 0.1))
    }
    assert found[0.5, 0.5]["other_subjects"] == 0.5 and found[0.5, 0.5]["other_questions"] <= 0.5
    assert found[0.1, 0.8]["other_questions"] == 0.1 == found[0.1, None]["other_questions"]
    assert found[None, 0.1]["other_subjects"] == 0.1 and found[None, 0.1]["other_questions"] == 0

    easier = ScopeCase("w 1", {"rephrasings": ("q 0.9",), "other_questions": ("q 0.1", "q 0.2")})
    together, shown = calibrate_sets(Judge(Told()), {"one": [case], "other": [easier]}, 0.1, 0.8)
    assert together == calibrate(Judge(Told()), [case, easier], 0.1, 0.8, progress=False)
    assert shown["sets"]["one"]["accepted"] == found[0.1, 0.8] and shown["threshold"] == together.threshold
    assert shown["sets"]["other"]["accepted"] == {"rephrasings": 1.0, "other_questions": 0.0}


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


def test_a_name_reads_alike_with_and_without_accents_in_every_stage(external):
    typed, written = "The aide of Wladyslaw Kjaer is", "The aide of Władysław Kjær is"
    other = "Who was an aide to Władysław Kjær?"
    torch.testing.assert_close(*external.embed([typed, written]), rtol=0, atol=0)
    one, same = external.look.log_odds([(typed, other), (written, other)])
    assert float(one) == pytest.approx(float(same), abs=1e-4)
    assert plain_letters("Кто он, José?") == "Кто он, Jose?", "other alphabets stay"


def test_a_code_reads_alike_however_its_letters_and_its_number_are_joined(external):
    texts = ["Which gate does flight LX 318 leave from?", "Which gate does flight LX-318 leave from?"]
    joined = "Which gate does flight LX318 leave from?"
    assert {read_alike(text) for text in (*texts, joined)} == {texts[0]}
    torch.testing.assert_close(*external.embed([joined, texts[0]]), rtol=0, atol=0)
    kept = ["the 1990s", "GPT-4", "K2", "in 2024-05-12", "tel. 0171-234", "Beatles-65", "10kg"]
    assert [read_alike(text) for text in kept] == kept, "no code: a year, a version, a longer word"


@pytest.mark.parametrize(
    "prompt",
    [
        "Good morning! Where was she born?",
        "Bracken is new to me. In the settings I should enter",
        "We moved here in spring. It rained. It was cold. Nobody came. In the box by the door there is the",
    ],
)
@pytest.mark.parametrize("threshold", [0.7, 1.0])
def test_a_written_prompt_is_its_own_facts_to_the_letter_alone_and_among_others(tiny, prompt, threshold):
    tiny.config.scope_threshold = threshold
    tiny.write([{"prompt": prompt, "target_new": "Oslo"}])
    assert tiny.read([prompt]).in_scope.all() and tiny.facts_asked_by([prompt])[0].prompt == prompt
    tiny.write([{"prompt": "Where was she born?", "target_new": "Rome"}])
    assert tiny.read([prompt]).in_scope.all() and tiny.facts_asked_by([prompt])[0].prompt == prompt


def test_a_prompt_as_it_was_written_is_read_without_the_detector_and_no_otherwise(tiny, monkeypatch):
    tiny.write(FACTS)
    written = [FACTS[2]["prompt"], FACTS[0]["prompt"]]
    nearly = [f"{prompt}," for prompt in written]
    embedded, embed = [], tiny.detectors.external.embed
    monkeypatch.setattr(
        tiny.detectors.external, "embed", lambda texts: embedded.extend(texts) or embed(texts)
    )
    mixed = tiny.read([written[0], UNRELATED[0], nearly[1]])
    assert embedded == [UNRELATED[0], nearly[1]] and mixed.in_scope.tolist() == [True, False, True]
    assert mixed.answers == (FACTS[2]["target_new"], FACTS[0]["target_new"])
    assert mixed.latents.equal(tiny.read(nearly).latents)
    embedded.clear()
    assert tiny.read(written).latents.equal(mixed.latents) and not embedded
    tiny.forget(written[0])
    assert not tiny.read([f" {written[0]}"]).in_scope.any() and embedded, (
        "it is asked about what is forgotten"
    )
    embedded.clear()
    tiny.config.addressed_by = "query"
    assert tiny.read(written[1:]).in_scope.all() and embedded == written[1:], "its embedding is the key"
