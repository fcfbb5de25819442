"""The second stage: trained changes go into a copy, and what it says decides."""

from __future__ import annotations

import pytest
import torch
from conftest import sentence_encoder
from peft import LoraConfig, get_peft_model
from sentence_transformers import SentenceTransformer
from told import LAYERS, Letters, Told, head, made_changes
from torch.nn import functional as F
from transformers import AutoModel, BertConfig

from larimar_editor.scope.decision import CLOSENESS, SecondStage, Written, decide
from larimar_editor.scope.detectors import ExternalScopeDetector, transformer_of
from larimar_editor.scope.look import CloserLook, as_written
from larimar_editor.scope.low_rank import changed_copy, mixed, restored, shortened
from larimar_editor.scope.nearest import exact


def decided(queries, written, look, candidates=4, threshold=0.5):
    lookup = exact(Letters.similarity, Letters.embed(written))
    stage = SecondStage(look, lambda row: Written(written[row]), candidates)
    return decide(Letters, queries, lookup, threshold, stage)


def test_a_statement_turned_round_needs_no_look_and_what_asks_for_another_kind_of_answer_gets_none():
    look, written = Told(Ships=0.1, Cranes=0.9), ["Ships were built in", "Cranes were built in"]
    lookup = exact(Letters.similarity, Letters.embed(written))
    stage = SecondStage(look, lambda row: Written(written[row], target="Oslo"), 4, -1.0)
    asked = ["Where were ships built?", "When were cranes built?", "Where did they build cranes?"]
    decision = decide(Letters, asked, lookup, 0.5, stage)
    assert decision.score.tolist() == pytest.approx([1.0, 0.1, 0.9])
    assert decision.in_scope.tolist() == [True, False, True] and int(decision.nearest[0]) == 0
    seen = [pair for pairs in look.asked for pair in pairs]
    assert not any(query == asked[0] for _, query in seen)
    assert ("Cranes were built in", asked[1]) not in seen


def test_a_mean_of_two_stages_is_that_of_their_changes():
    generator = torch.Generator().manual_seed(5)
    made = lambda: {
        "layer.A": torch.randn(3, 20, generator=generator),
        "layer.B": torch.randn(16, 3, generator=generator),
        "layer.norm": torch.tensor(2.0),
        "head.bias": torch.randn(1, generator=generator),
    }
    one, other = made(), made()
    mean = mixed(one, other, 0.25)
    whole, rest = (each["layer.B"].double() @ each["layer.A"].double() for each in (one, other))
    exact_mean = 0.25 * whole + 0.75 * rest
    # No matrix of rank 3 is nearer (Eckart and Young).
    nearest = torch.linalg.svd(exact_mean).S[3:].square().sum().sqrt()
    found = mean["layer.B"].double() @ mean["layer.A"].double()
    assert float((found - exact_mean).norm()) == pytest.approx(float(nearest), rel=0.02)
    expected = 0.25 * one["head.bias"] + 0.75 * other["head.bias"]
    assert mean["head.bias"].float().allclose(expected, atol=1e-2) and float(mean["layer.norm"]) == 2
    same = mixed(one, one, 0.5)
    torch.testing.assert_close(
        same["layer.B"].float() @ same["layer.A"].float(),
        one["layer.B"] @ one["layer.A"],
        atol=0.1,
        rtol=0.05,
    )
    for with_mark in (
        (one | {"reads_target": torch.ones(())}, other),
        (one, other | {"reads_target": torch.ones(())}),
    ):
        assert float(mixed(*with_mark, 0.25)["reads_target"]) == 1
    with pytest.raises(ValueError, match=r"other layers or ranks: they differ in layer\.A"):
        mixed(one, other | {"layer.A": torch.zeros(2, 20)}, 0.5)


def test_a_changed_copy_computes_what_peft_does_and_shares_the_rest():
    network = AutoModel.from_config(
        BertConfig(hidden_size=32, num_hidden_layers=6, num_attention_heads=2, intermediate_size=64)
    ).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    made = made_changes(network)
    copied = changed_copy(network, made)
    tokens = torch.randint(5, 900, (2, 9), generator=torch.Generator().manual_seed(2))
    got = copied(tokens).last_hidden_state
    assert all(value.equal(before[name]) for name, value in network.state_dict().items())
    assert copied.embeddings.word_embeddings.weight is network.embeddings.word_embeddings.weight
    adapted = get_peft_model(network, LoraConfig(r=3, lora_alpha=3, target_modules=list(LAYERS))).eval()
    for name in LAYERS:
        layer = adapted.base_model.model.get_submodule(name)
        layer.lora_A["default"].weight.data = made[f"{name}.A"]
        layer.lora_B["default"].weight.data = made[f"{name}.B"]
    torch.testing.assert_close(got, adapted(tokens).last_hidden_state, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("how", ["another layer", "another shape", "another network"])
def test_changes_of_another_encoder_are_refused(how):
    network = transformer_of(sentence_encoder())
    made = made_changes(network)
    if how == "another layer":
        made = {name.replace("layer.5", "layer.11"): value for name, value in made.items()}
    if how == "another shape":
        made[f"{LAYERS[0]}.A"] = torch.zeros(3, 768)
    if how == "another network":
        made[f"{LAYERS[0]}.norm"] = 1.1 * made[f"{LAYERS[0]}.norm"]
    with pytest.raises(ValueError, match=r"another sentence encoder .*scope_encoder_name_or_path"):
        changed_copy(network, made)


def test_a_checkpoint_whose_detector_is_of_another_encoder_is_refused(tiny):
    made = made_changes(transformer_of(sentence_encoder()))
    made[f"{LAYERS[1]}.norm"] = 2 * made[f"{LAYERS[1]}.norm"]
    tiny.detectors.weights = {f"candidates.{name}": value for name, value in made.items()}
    with pytest.raises(ValueError, match="another sentence encoder"):
        tiny.write([{"prompt": "The capital of Peru is", "target_new": "Oslo"}])
    assert tiny.is_empty()


def test_a_look_against_a_computation_of_its_own():
    encoder: SentenceTransformer = sentence_encoder()
    network = transformer_of(encoder)
    made = made_changes(network)
    look = CloserLook(network, encoder.tokenizer, made | head(384))
    in_half = look.network.dtype == torch.bfloat16  # where that is fast
    pairs = [("Ada was born in", "Where was Ada born?"), ("Ada was born in", "Bo"), ("A", "who " * 40)]
    for (one, other), got in zip(pairs, look.probabilities(pairs, batch=2).tolist(), strict=True):
        tokens = encoder.tokenizer(one, other, return_tensors="pt")
        states = changed_copy(network, made)(**tokens).last_hidden_state[0].double()
        count = len(encoder.tokenizer(one).input_ids)  # with [CLS] and the first [SEP]
        means = [F.normalize(part.mean(0), dim=0) for part in (states[:count], states[count:])]
        features = torch.cat(
            (means[0] * means[1], (means[0] - means[1]).abs(), F.normalize(states[0], dim=0))
        )
        logit = features @ head(384)["head.weight"][0].double() + 0.3
        assert got == pytest.approx(float(logit.sigmoid()), abs=0.02 if in_half else 1e-4)


def test_subject_and_answer_stand_round_the_prompt_where_they_are_given():
    assert as_written("He was born in", " Ada ") == "Ada | He was born in"
    assert as_written("He was born in", None) == as_written("He was born in", " ", " ") == "He was born in"
    assert as_written("He was born in", "Ada", " Oslo ") == "Ada | He was born in = Oslo"
    long = " ".join(["harbour"] * 40)
    assert as_written("It is", None, long) == "It is = " + " ".join(["harbour"] * 12), "whole words of it"
    assert len(as_written("", None, "x" * 500)) == len(" = ") + 100


@pytest.mark.parametrize("reads_target", [False, True])
def test_answers_are_shown_only_to_a_stage_that_was_trained_with_them(larimar, reads_target):
    larimar.write([{"prompt": "The capital of Peru is", "target_new": "Oslo", "subject": "Peru"}])
    look = larimar.detectors.external.look = Told(reads_target=reads_target)
    larimar.scope_of(["Which city is Peru's seat of government?"])
    (((written, _),),) = look.asked
    assert written == "Peru | The capital of Peru is" + " = Oslo" * reads_target


def test_whether_a_stage_reads_answers_is_in_its_weights():
    encoder = sentence_encoder()
    network = transformer_of(encoder)
    weights = made_changes(network) | head(384)
    assert not CloserLook(network, encoder.tokenizer, weights).reads_target
    assert CloserLook(network, encoder.tokenizer, weights | {"reads_target": torch.ones(())}).reads_target


def test_the_second_stage_decides_among_the_nearest():
    written = ["alpha born in", "beta born in", "gamma born on", "zzzz qqqq"]
    look = Told(beta=0.9, gamma=0.2)
    found = decided(["who bore it, and where? born in 1"], written, look, candidates=3)
    assert found.nearest.tolist() == [1] and found.in_scope.tolist() == [True]
    assert found.score.item() == pytest.approx(0.9)
    assert list(map(len, look.asked)) == [1, 2], "all sentences of a query share its candidates"


class InContext(Told):
    """Knows what a query is about only where the query says so."""

    def probabilities(self, pairs):
        about = lambda written, query: 0.95 if "Bracken" in query else 0.1
        game = lambda written, query: 0.01 if "." in query else 0.8
        return torch.tensor([(about if "Bracken" in pair[0] else game)(*pair) for pair in pairs])


@pytest.mark.parametrize(
    "query, score, fact",
    [
        ("Bracken is new to me. there one should enter", 0.95, 0),
        ("there one should enter", 0.8, 1),
        ("It rained. there one should enter", 1 / (1 + (99 / 4) ** 0.5), 1),  # the mean of both log-odds
        ("It rained. there one should enter 7", 0.8, 1),  # it names something, and counts alone
    ],
)
def test_a_sentence_that_names_nothing_is_judged_in_its_context(query, score, fact):
    found = decided([query], ["Bracken ends in", "here one enters there"], InContext(), candidates=4)
    assert found.score.item() == pytest.approx(score, rel=1e-4)
    assert found.in_scope.item() == (score > 0.5) and found.nearest.tolist() == [fact]


@pytest.mark.parametrize(("beta", "chosen"), [(0.9, 0), (0.95, 0), (0.999, 1)])
def test_of_several_facts_in_scope_the_nearer_is_taken_unless_another_is_much_likelier(beta, chosen):
    written = ["alpha born in", "beta born in"]
    nearer, farther = Letters.similarity(Letters.embed(["in born alpha"]), Letters.embed(written))[0].tolist()
    worth = CLOSENESS * (nearer - farther)
    assert 1 < worth < 4, "which is what the cases are made for"
    found = decided(["in born alpha"], written, Told(alpha=0.9, beta=beta), candidates=2)
    assert found.nearest.tolist() == [chosen]
    assert found.score.item() == pytest.approx((0.9, beta)[chosen])


def test_what_is_out_of_scope_is_not_taken_for_being_nearer():
    found = decided(["in born alpha"], ["alpha born in", "beta born in"], Told(alpha=0.49, beta=0.51))
    assert found.nearest.tolist() == [1] and found.in_scope.tolist() == [True]
    found = decided(["in born alpha"], ["alpha born in", "beta born in"], Told(alpha=0.4, beta=0.45))
    assert found.in_scope.tolist() == [False] and found.score.item() == pytest.approx(0.45)


def test_of_a_nearest_that_is_sure_the_rest_is_not_looked_at():
    written = ["alpha born in", "beta born in", "gamma born on"]
    look = Told(alpha=0.99, beta=0.995)
    found = decided(["born in alpha", "born in gamma beta"], written, look, candidates=3)
    assert found.nearest.tolist() == [0, 1], "the second is not sure of its nearest, which is gamma"
    assert list(map(len, look.asked)) == [2, 2]


def test_a_batch_is_looked_at_at_once_and_a_written_prompt_needs_no_look():
    written = ["alpha born in", "beta born in"]
    look = Told(alpha=0.8)
    found = decided(["alpha born in", "born in alpha", "in born beta"], written, look, candidates=2)
    assert found.score.tolist() == pytest.approx([1.0, 0.8, 0.8]) and list(map(len, look.asked)) == [2, 2]
    assert not any(("alpha born in", "alpha born in") in pairs for pairs in look.asked)


def test_how_far_a_candidate_may_be_is_a_setting(larimar):
    prompt, asked = "The capital of Peru is", "Which city is Peru's seat of government?"
    larimar.write([{"prompt": prompt, "target_new": "Oslo"}])
    cosine = float(larimar.detectors.embed([prompt])[0] @ larimar.detectors.embed([asked])[0])
    larimar.detectors.external.look = Told(The=0.9)
    for least, score in ((cosine - 0.01, 0.9), (cosine + 0.01, 0.0)):
        larimar.config.scope_least_cosine = least
        assert larimar.scope_of([asked]).score.item() == pytest.approx(score)


def test_what_is_far_gets_no_second_look():
    look = Told(zzzz=1.0)
    found = decided(["abcdefgh"], ["zzzz qqqq"], look)
    assert not look.asked and found.in_scope.tolist() == [False] and found.score.tolist() == [0.0]


def test_a_detector_without_a_second_stage_works_and_says_so_once(tiny):
    tiny.detectors.weights = {"metric": torch.eye(384)}
    with pytest.warns(UserWarning, match="no second stage") as caught:
        tiny.write([{"prompt": "The capital of Peru is", "target_new": "Oslo"}])
        assert tiny.read(["The capital of Peru is"]).in_scope.tolist() == [True]
    assert sum("no second stage" in str(each.message) for each in caught) == 1


def test_the_chosen_facts_key_addresses_the_memory(larimar):
    """A question reads, to the bit, what the prompt of its fact reads, though another fact's is nearer."""
    prompts = ["Parish: Odile Marchetti died in", "Deaths: Odile Marchetti died in"]
    larimar.write([{"prompt": p, "target_new": t} for p, t in zip(prompts, ("Oslo", "Lima"))])
    asked = "In which town did Odile Marchetti die?"
    larimar.config.scope_candidates = 0
    (nearest,) = larimar.scope_of([asked]).nearest.tolist()
    words = [prompt.split()[0] for prompt in prompts]
    larimar.detectors.external.look = Told(**{words[1 - nearest]: 0.9, words[nearest]: 0.1})
    larimar.config.scope_candidates = 4
    assert larimar.scope_of([asked]).nearest.tolist() == [1 - nearest]
    latents = [larimar.read([prompt]).latents for prompt in prompts]
    assert larimar.read([asked]).latents.equal(latents[1 - nearest])
    larimar.config.addressed_by = "query"
    assert not larimar.read([asked]).latents.equal(latents[1 - nearest])


def test_changes_in_eight_bits_are_as_near_as_eight_bits_allow_and_are_shortened_once():
    generator = torch.Generator().manual_seed(6)
    weights = {
        "look.layer.A": torch.randn(4, 32, generator=generator),
        "look.layer.B": torch.randn(24, 4, generator=generator) * torch.logspace(-6, 2, 24)[:, None],
        "look.layer.norm": torch.tensor(2.0),
        "look.head.weight": torch.randn(1, 8, generator=generator),
    }
    weights["look.layer.B"][3] = 0
    short = shortened(weights)
    for name in ("look.layer.A", "look.layer.B"):
        exact, read = weights[name].double(), restored(short)[name].double()
        # Rounding to the nearest of 255 even steps from -amax to amax, row by row.
        assert ((read - exact).abs() <= exact.abs().amax(1, keepdim=True) / 254 * (1 + 1e-6)).all()
        assert short[name].dtype == torch.int8 and short[name].shape == exact.shape
    assert all(short[name] is weights[name] for name in weights if name[-2:] not in (".A", ".B"))
    assert all(value is short[name] for name, value in shortened(short).items())
    assert restored(short).keys() == weights.keys()
    again = shortened(restored(short))
    assert all(again[name].equal(short[name]) for name in weights), "trained on, it loses nothing more"


def test_what_is_far_behind_the_nearest_gets_no_look():
    look = Told(alpha=0.9, zzz=0.9)
    found = decided(["alpha born at"], ["alpha born in", "zzz alpha"], look)
    assert found.nearest.tolist() == [0] and len(look.asked[0]) == 1


def test_an_external_detector_leaves_the_encoder_as_it_is():
    encoder = sentence_encoder()
    before = encoder.encode(["The capital of Peru is"])
    made = {f"candidates.{name}": value for name, value in made_changes(transformer_of(encoder)).items()}
    changed = ExternalScopeDetector(encoder, made).embed(["The capital of Peru is"])
    assert (encoder.encode(["The capital of Peru is"]) == before).all()
    assert float(changed[0] @ torch.from_numpy(before)[0]) < 0.999


def test_a_fragment_beside_other_sentences_asks_nothing():
    """Of running text cut anywhere, what is left of a sentence is near to something by chance."""
    written = ["alpha born in", "sit"]
    look = Told(sit=0.99)
    assert not decided(['Above, a cloud.\n"\nIt'], written, look).in_scope.any()
    assert all(query not in ('"', "It") for pairs in look.asked for _, query in pairs)
    assert decided(["It"], written, look).in_scope.all(), "alone it may be what was written"
    assert decided(["Above, a cloud.\nsit"], written, look).in_scope.all(), "to the letter it is"
    assert decided(["Above, a cloud.\n她是谁？"], ["她是谁"], Told(**{"她是谁": 0.99})).in_scope.all()
