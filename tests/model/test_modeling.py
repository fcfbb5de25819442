"""The memory-conditioned model: exact outside the scope, edited inside, whatever the way it is called."""

import copy
import json
import pickle
import traceback
import warnings
from pathlib import Path

import pytest
import torch
from accelerate import dispatch_model
from conftest import FACTS, SENTENCES, UNRELATED, encode, make_tiny, share_sentence_encoder, tiny_llama
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
)

from larimar_editor import (
    LarimarConfig,
    LarimarForCausalLM,
    LarimarHyperParams,
    UnknownFact,
    announced_prompts,
    apply_larimar_to_model,
)
from larimar_editor.checkpoints import shipped
from larimar_editor.model import checkpoint as checkpoint_module
from larimar_editor.model.adapters import DecoderAdapters
from larimar_editor.model.cache import LarimarCache
from larimar_editor.model.closed_form import fit
from larimar_editor.model.key_values import DecoderStates

PROMPTS = [fact["prompt"] for fact in FACTS]


@torch.no_grad()
def logits(model, tokenizer, texts, side="left", **kwargs):
    return model(**encode(tokenizer, texts, side), **kwargs).logits


# --- out of scope: the decoder's own logits, to the bit


@pytest.mark.parametrize("side", ["left", "right"])
def test_out_of_scope_logits_equal_the_base_models_to_the_bit(larimar, decoder, tokenizer, side):
    larimar.write(FACTS)
    assert torch.equal(
        logits(larimar, tokenizer, UNRELATED, side), logits(decoder, tokenizer, UNRELATED, side)
    )


@pytest.mark.parametrize("mode", ["frozen", "lora"])
def test_rows_out_of_scope_stay_exact_in_a_mixed_batch(tokenizer, mode):
    model = make_tiny(tokenizer, decoder_mode=mode)
    for layer in model.adapters.layers if model.adapters else ():  # adapters that do something
        torch.nn.init.normal_(layer.lora_B["default"].weight)
    batch = [UNRELATED[0], PROMPTS[0], UNRELATED[1], PROMPTS[1]]
    before = logits(model, tokenizer, batch)
    assert torch.equal(before, logits(tiny_llama(len(tokenizer)), tokenizer, batch))
    model.write(FACTS)
    after = logits(model, tokenizer, batch)
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert not torch.allclose(after[[1, 3]], before[[1, 3]])


def test_several_larimars_and_other_adapters_share_a_decoder(tokenizer):
    def filled(model, seed):
        torch.manual_seed(seed)
        for layer in model.adapters.layers:
            torch.nn.init.normal_(layer.lora_B[model.adapters.name].weight)
        model.write(FACTS)
        return model

    plain = logits(tiny_llama(len(tokenizer)), tokenizer, PROMPTS)
    first, alone = (filled(make_tiny(tokenizer, decoder_mode="lora"), 1) for _ in range(2))
    values = first.config.to_dict()
    values.pop("model_type")
    second = share_sentence_encoder(LarimarForCausalLM(LarimarConfig(**values), first.decoder, tokenizer))
    second.projection.load_state_dict(first.projection.state_dict())
    filled(second, 2)
    assert len(first.adapters.layers) == len(second.adapters.layers) and not hasattr(
        first.decoder, "peft_config"
    )
    assert first.decoder.state_dict().keys() == tiny_llama(len(tokenizer)).state_dict().keys(), (
        "the decoder has its own modules"
    )
    assert torch.equal(logits(first, tokenizer, PROMPTS), logits(alone, tokenizer, PROMPTS))
    assert not torch.allclose(
        logits(second, tokenizer, PROMPTS), logits(first, tokenizer, PROMPTS), atol=1e-3
    )
    assert torch.equal(logits(first.decoder, tokenizer, PROMPTS), plain)
    # A decoder whose owner has switched on adapters of his own is found, and left, with them on.
    decoder = tiny_llama(len(tokenizer))
    own = DecoderAdapters(decoder, 2)
    for layer in own.layers:
        torch.nn.init.normal_(layer.lora_B[own.name].weight)
    own.use(True)
    before = logits(decoder, tokenizer, PROMPTS)
    filled(share_sentence_encoder(LarimarForCausalLM(LarimarConfig(**values), decoder, tokenizer)), 3)
    assert torch.equal(logits(decoder, tokenizer, PROMPTS), before) and not torch.allclose(
        before, plain, atol=1e-3
    )


def test_adapters_stay_at_work_until_the_outermost_block_ends(tokenizer):
    model = make_tiny(tokenizer, decoder_mode="lora")
    for layer in model.adapters.layers:
        torch.nn.init.normal_(layer.lora_B[model.adapters.name].weight)
    with torch.no_grad(), model.adapters.at_work():
        adapted = logits(model.decoder, tokenizer, PROMPTS)
        with model.adapters.at_work():
            pass
        assert torch.equal(logits(model.decoder, tokenizer, PROMPTS), adapted)
    assert not torch.allclose(logits(model.decoder, tokenizer, PROMPTS), adapted, atol=1e-3)


def test_bos_is_read_without_the_adapters_whoever_has_put_them_to_work(tokenizer):
    """As in training, where what is learned beside one BOS would be used beside another."""
    model = make_tiny(tokenizer, decoder_mode="lora")
    for layer in model.adapters.layers:
        torch.nn.init.normal_(layer.lora_B[model.adapters.name].weight, std=0.1)
    plain, latents = model.states.bos(), torch.zeros(1, model.config.latent_size)
    with model.adapters.at_work():
        model.prefix(latents)
        assert not torch.allclose(model.states.bos(), plain, atol=1e-3), "the adapters are at work"
    assert torch.equal(model._bos, plain)


def test_a_decoder_with_adapters_can_be_trained_by_its_owner_as_before(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    decoder.get_input_embeddings().requires_grad_(False)
    before = {id(parameter): parameter.requires_grad for parameter in decoder.parameters()}
    adapters = DecoderAdapters(decoder, 2)
    of_adapters = {id(parameter) for parameter in adapters.parameters()}
    after = {id(each): each.requires_grad for each in decoder.parameters() if id(each) not in of_adapters}
    assert after == before and True in before.values()


def test_a_decoder_in_training_is_taken_as_it_will_be_used_and_given_back_where_it_is_not(
    tiny, tokenizer, tmp_path
):
    """With gradient checkpointing it caches no keys and values in that mode."""
    tiny.save_pretrained(tmp_path)
    decoder, other = tiny_llama(len(tokenizer)), tiny_llama(len(tokenizer), num_hidden_layers=3)
    for each in (decoder, other):
        each.gradient_checkpointing_enable()
        each.train()
    model = LarimarForCausalLM.from_pretrained(tmp_path, decoder=decoder, tokenizer=tokenizer)
    assert not decoder.training and model.states.bos().equal(tiny.states.bos())
    with pytest.raises(ValueError, match="another decoder"):
        LarimarForCausalLM.from_pretrained(tmp_path, decoder=other, tokenizer=tokenizer)
    assert all(module.training for module in other.modules())
    options = dict(code_size=24, memory_slots=2, progress=False, detector=None)
    fitted = fit(decoder.train(), tokenizer, SENTENCES, name="tiny", **options)
    assert not decoder.training and fitted.projection.basis.equal(tiny.projection.basis)
    decoder.train()
    with pytest.raises(ValueError, match=r"gradient checkpointing none do: call the decoder's eval\(\)"):
        model.states.bos()


def test_another_vocabulary_is_refused_and_nothing_changed(tokenizer):
    model = make_tiny(tokenizer)
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    assert model.resize_token_embeddings() is model.resize_token_embeddings(len(tokenizer)) is embeddings
    with pytest.raises(NotImplementedError, match="larimar-editor fit"):
        model.resize_token_embeddings(len(tokenizer) + 8)
    assert embeddings.weight.shape == head.weight.shape == (len(tokenizer), model.decoder.config.hidden_size)


def test_a_decoders_own_bos_is_taken_where_its_tokenizer_names_none(tokenizer):
    """EasyEdit gives Qwen's tokenizer an EOS of its own; what a checkpoint was made with must not hang on
    that.
    """
    model, bare = make_tiny(tokenizer), copy.deepcopy(tokenizer)
    bare.bos_token = None
    model.decoder.config.bos_token_id = 7
    assert DecoderStates(model.decoder, bare).bos_token_id == 7
    model.decoder.config.bos_token_id = None
    assert DecoderStates(model.decoder, bare).bos_token_id == bare.eos_token_id
    assert DecoderStates(model.decoder, tokenizer).bos_token_id == tokenizer.bos_token_id


def test_a_decoder_spread_by_a_device_map_is_edited_as_a_whole_one(tokenizer, tmp_path):
    """Two places, as `model_parallel` has two GPUs: one layer's weights are on "meta" until accelerate brings
    them.
    """
    whole = make_tiny(tokenizer)
    decoder = tiny_llama(len(tokenizer))
    names = [name for name, _ in decoder.named_children() if name != "model"] + [
        "model.embed_tokens",
        "model.norm",
        "model.rotary_emb",
    ]
    places = dict.fromkeys(names, "cpu") | {"model.layers.0": "cpu", "model.layers.1": "disk"}
    dispatch_model(decoder, places, main_device="cpu", offload_dir=tmp_path)
    assert {parameter.device.type for parameter in decoder.model.layers.parameters()} == {"cpu", "meta"}
    whole.save_pretrained(tmp_path / "checkpoint", dtype=torch.float32)
    spread = share_sentence_encoder(
        LarimarForCausalLM.from_pretrained(tmp_path / "checkpoint", decoder=decoder, tokenizer=tokenizer)
    )
    for model in (whole, spread):
        model.write(FACTS)
    torch.testing.assert_close(logits(spread, tokenizer, PROMPTS), logits(whole, tokenizer, PROMPTS))
    torch.testing.assert_close(logits(spread, tokenizer, UNRELATED), logits(whole, tokenizer, UNRELATED))
    options = dict(max_new_tokens=4, do_sample=False)
    inputs = encode(tokenizer, PROMPTS)
    assert torch.equal(spread.generate(**inputs, **options), whole.generate(**inputs, **options))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_merged_adapters_say_what_unmerged_ones_say_and_follow_their_weights(tokenizer, family):
    """Scores without gradients, with merged adapters, against PEFT's own layers; the decoder itself is never
    touched.
    """
    small = GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, initializer_range=0.2, bos_token_id=1
    )
    decoder = tiny_llama(len(tokenizer)) if family == "llama" else GPT2LMHeadModel(small).eval()
    plain = logits(decoder, tokenizer, PROMPTS)
    adapters = DecoderAdapters(decoder, 4)
    for step in range(2):
        for layer in adapters.layers:
            torch.nn.init.normal_(layer.lora_B[adapters.name].weight, std=0.1 + step)
        inputs = encode(tokenizer, PROMPTS)
        adapters.use(True)
        with_gradients = decoder(**inputs).logits
        adapters.use(False)
        assert with_gradients.requires_grad
        with torch.no_grad():
            adapters.use(True)
            assert not any(isinstance(module, LoraLayer) for module in decoder.modules()), (
                "merged layers are in use"
            )
            merged = decoder(**inputs).logits
            adapters.use(False)
        torch.testing.assert_close(merged, with_gradients.detach(), atol=2e-4, rtol=1e-4)
        assert not torch.allclose(merged, plain, atol=1e-2)
        assert torch.equal(logits(decoder, tokenizer, PROMPTS), plain)


def test_generation_and_loss_out_of_scope_are_the_base_models(larimar, decoder, tokenizer):
    larimar.write(FACTS)
    inputs = encode(tokenizer, UNRELATED)
    options = dict(max_new_tokens=6, do_sample=False, output_scores=True, return_dict_in_generate=True)
    ours, base = larimar.generate(**inputs, **options), decoder.generate(**inputs, **options)
    assert torch.equal(ours.sequences, base.sequences)
    assert all(torch.equal(a, b) for a, b in zip(ours.scores, base.scores, strict=True))
    labels = inputs["input_ids"]
    with torch.no_grad():
        assert torch.equal(larimar(**inputs, labels=labels).loss, decoder(**inputs, labels=labels).loss)


def test_an_unedited_and_a_reset_model_are_the_base_model(larimar, decoder, tokenizer):
    expected = logits(decoder, tokenizer, PROMPTS)
    assert torch.equal(logits(larimar, tokenizer, PROMPTS), expected)
    larimar.write(FACTS)
    assert not torch.equal(logits(larimar, tokenizer, PROMPTS), expected)
    larimar.reset()
    assert torch.equal(logits(larimar, tokenizer, PROMPTS), expected)


# --- in scope


def test_an_edit_changes_what_the_embedded_model_says_and_forgetting_takes_it_back(
    larimar, decoder, tokenizer
):
    def target_log_probability(model, fact):
        prompt, text = fact["prompt"], f"{fact['prompt']} {fact['target_new']}"
        count = len(tokenizer(text).input_ids) - len(tokenizer(prompt).input_ids)
        inputs = encode(tokenizer, [text])
        with announced_prompts([prompt]):
            scores = logits(model, tokenizer, [text])[0].log_softmax(-1)
        return scores[-count - 1 : -1].gather(1, inputs["input_ids"][0, -count:, None]).mean().item()

    before = [target_log_probability(decoder, fact) for fact in FACTS]
    larimar.write(FACTS)
    after = [target_log_probability(larimar, fact) for fact in FACTS]
    assert all(new > old + 1 for new, old in zip(after, before, strict=True)), (before, after)
    larimar.forget(FACTS[1]["prompt"])
    assert target_log_probability(larimar, FACTS[1]) == before[1], "the base model's again, to the bit"
    assert target_log_probability(larimar, FACTS[0]) == pytest.approx(after[0], abs=1e-4), (
        "what is not forgotten stays"
    )


def test_padding_side_and_company_in_the_batch_do_not_change_a_row(tiny, tokenizer):
    tiny.write(FACTS)
    alone = logits(tiny, tokenizer, [PROMPTS[0]])[0]
    count = alone.shape[0]
    left = logits(tiny, tokenizer, [PROMPTS[0], PROMPTS[2] + " someone whose name is long"], "left")[
        0, -count:
    ]
    right = logits(tiny, tokenizer, [PROMPTS[0], UNRELATED[1] + " a long list of things"], "right")[0, :count]
    torch.testing.assert_close(left, alone, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(right, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("texts", [[PROMPTS[0]], [PROMPTS[0], UNRELATED[0], PROMPTS[1]], UNRELATED])
@pytest.mark.parametrize(
    "options", [{"num_beams": 1}, {"num_beams": 3}, {"num_return_sequences": 2, "do_sample": True}]
)
def test_generation_with_and_without_cache_agree(tiny, tokenizer, texts, options):
    tiny.write(FACTS)
    inputs = encode(tokenizer, texts)
    results = []
    for use_cache in (True, False):
        torch.manual_seed(3)
        results.append(
            tiny.generate(**inputs, max_new_tokens=5, use_cache=use_cache, **({"do_sample": False} | options))
        )
    assert torch.equal(*results)


def test_a_cache_returned_earlier_can_be_continued(tiny, tokenizer):
    tiny.write(FACTS)
    inputs = encode(tokenizer, [PROMPTS[0] + " a", UNRELATED[0]])
    lengths = torch.full((2,), inputs["input_ids"].shape[1] - 1)
    with torch.no_grad():
        whole = tiny(**inputs, prompt_lengths=lengths)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        first = tiny(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], use_cache=True)
        # Both ways to pass the mask that loops in the wild use: all of it, and the new tokens' part.
        again = copy.deepcopy(first.past_key_values)
        full = tiny(input_ids=ids[:, -1:], attention_mask=mask, past_key_values=first.past_key_values)
        part = tiny(input_ids=ids[:, -1:], attention_mask=mask[:, -1:], past_key_values=again)
    torch.testing.assert_close(full.logits[:, -1], whole.logits[:, -1], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(part.logits[0, -1], whole.logits[0, -1], atol=1e-4, rtol=1e-4)
    assert first.past_key_values.get_seq_length() == ids.shape[1], "memory slots are not text"


def test_a_foreign_cache_is_refused_while_facts_are_written(tiny, tokenizer):
    cache = DynamicCache()
    inputs = encode(tokenizer, [PROMPTS[0]])
    with torch.no_grad():
        tiny.decoder(**inputs, past_key_values=cache)
        tiny.write(FACTS)
        with pytest.raises(ValueError, match="not this model's"):
            tiny(input_ids=inputs["input_ids"][:, -1:], past_key_values=cache)


def test_a_loop_with_a_cache_of_its_own_has_its_context(tiny, tokenizer):
    """One that grows in place, as the decoder's own does; or it is told that it cannot be."""
    ids = encode(tokenizer, [PROMPTS[0]])["input_ids"]

    def looped(model):
        cache = DynamicCache()
        model(input_ids=ids[:, :-1], past_key_values=cache)
        return model(input_ids=ids[:, -1:], past_key_values=cache).logits

    with torch.no_grad():
        assert looped(tiny).equal(looped(tiny.decoder))
        tiny.write(FACTS)
        with pytest.raises(ValueError, match="go on with what the call returns"):
            looped(tiny)


def test_a_generation_that_goes_on_from_an_earlier_one_is_asked_anew(tiny, tokenizer):
    tiny.write(FACTS)
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    for first, then in ((UNRELATED[0], PROMPTS[0]), (PROMPTS[0], UNRELATED[0])):
        begun = tiny.generate(**encode(tokenizer, [first]), **options, return_dict_in_generate=True)
        asked = encode(tokenizer, [f"{tokenizer.decode(begun.sequences[0])}. {then}"])
        expected = tiny.generate(**asked, **options)
        assert tiny.generate(**asked, **options, past_key_values=begun.past_key_values).equal(expected)
    short = {key: value[:, -2:] for key, value in asked.items()}
    with pytest.raises(ValueError, match="pass the whole text"):
        tiny.generate(**short, **options, past_key_values=begun.past_key_values)


def test_edits_in_inference_mode_are_as_any_others(tokenizer):
    inside, outside = make_tiny(tokenizer), make_tiny(tokenizer)
    for model, mode in ((inside, True), (outside, False)):
        with torch.inference_mode(mode):
            model.write(FACTS[:1])
        model.write(FACTS[1:2])
        with torch.inference_mode(mode):
            model.forget(PROMPTS[0])
            model.undo()
            model.write(FACTS[2:])
            assert torch.is_inference_mode_enabled() == mode, "it is left while an edit is made"
        model.forget(PROMPTS[1])
    prompts = [[fact.prompt for fact in model.facts()] for model in (inside, outside)]
    assert prompts[0] == prompts[1] and len(prompts[0]) == 2
    assert logits(inside, tokenizer, PROMPTS).equal(logits(outside, tokenizer, PROMPTS))


def test_facts_whose_last_sentence_is_the_same_answer_their_own_prompts(larimar, tokenizer):
    names = {"Ann has a dog. Its name is": "Rex", "Bob has a dog. Its name is": "Fido"}
    larimar.write([{"prompt": prompt, "target_new": name} for prompt, name in names.items()])
    decision = larimar.scope_of(list(names))
    assert decision.in_scope.all() and decision.nearest.tolist() == [0, 1]
    told = larimar.facts_asked_by([*names, "The Danube flows into"])
    assert [fact and fact.target_new for fact in told] == ["Rex", "Fido", None]
    asked = encode(tokenizer, list(names))
    said = larimar.generate(**asked, max_new_tokens=3, do_sample=False)[:, asked["input_ids"].shape[1] :]
    for text, name in zip(tokenizer.batch_decode(said), names.values(), strict=True):
        assert text.strip().startswith(name)


def test_a_read_leaves_what_came_to_the_decoder_meanwhile(tokenizer):
    model = make_tiny(tokenizer, decoder_mode="lora")
    model.write(FACTS)
    theirs = get_peft_model(
        model.decoder, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    )
    before = logits(theirs, tokenizer, PROMPTS)
    logits(model, tokenizer, PROMPTS)
    assert logits(theirs, tokenizer, PROMPTS).equal(before)
    assert any(isinstance(module, LoraLayer) for module in model.decoder.modules())


def test_a_model_that_is_loaded_in_inference_mode_is_read(tokenizer):
    with torch.inference_mode():
        model = make_tiny(tokenizer, decoder_mode="lora")
    model.write(FACTS)
    other = make_tiny(tokenizer, decoder_mode="lora")
    other.write(FACTS)
    with torch.no_grad():
        assert logits(model, tokenizer, PROMPTS).equal(logits(other, tokenizer, PROMPTS))


def test_a_decoder_that_was_loaded_in_inference_mode_gets_its_adapters_outside(tokenizer):
    with torch.inference_mode():
        decoder = tiny_llama(len(tokenizer))
    assert DecoderAdapters(decoder, 2).layers


def test_a_checkpoint_that_is_saved_without_its_facts_says_so(tiny, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tiny.save_pretrained(tmp_path)
    tiny.write(FACTS)
    with pytest.warns(UserWarning, match=r"without the 3 facts .* save_state"):
        tiny.save_pretrained(tmp_path)


def test_a_text_with_its_fact_past_a_table_of_positions_is_refused_with_the_numbers(tokenizer):
    small = GPT2Config(
        vocab_size=len(tokenizer), n_positions=48, n_embd=32, n_layer=2, n_head=4, initializer_range=0.2
    )
    torch.manual_seed(0)
    decoder = GPT2LMHeadModel(small).eval()
    model = share_sentence_encoder(
        fit(decoder, tokenizer, SENTENCES, name="gpt2", code_size=16, memory_slots=2, progress=False)
    )
    model.write(FACTS)
    filler = "A word and another. " * 12
    ids = encode(tokenizer, [filler + PROMPTS[0]])["input_ids"][:, -47:]
    assert model.decoder(ids).logits.isfinite().all()
    with pytest.raises(ValueError, match=r"of 47 tokens needs .* positions .* the decoder has 48"):
        model(ids, reading=model.read([PROMPTS[0]]))


def test_a_fact_that_is_named_twice_is_said_to_be(tiny):
    tiny.write(FACTS)
    with pytest.raises(UnknownFact, match="named twice"):
        tiny.forget(PROMPTS[0], PROMPTS[0])
    assert len(tiny.facts()) == len(FACTS)


# --- the query is the prompt only


def test_the_prompt_boundary_by_announcement_argument_and_labels_agree(tiny, tokenizer):
    tiny.write(FACTS)
    texts = [
        PROMPTS[0] + " Swahili. Water boils at a hundred degrees",
        PROMPTS[1] + " Rome. Soup begins with salt",
    ]
    inputs = encode(tokenizer, texts)
    seen = []
    original = tiny.read
    tiny.read = lambda prompts, *lines: seen.append(list(prompts)) or original(prompts, *lines)
    lengths = []
    for prompt, mask in zip(PROMPTS, inputs["attention_mask"]):
        lengths.append(int((mask == 0).sum()) + len(tokenizer(prompt).input_ids))
    labels = inputs["input_ids"].clone()
    for row, length in enumerate(lengths):
        labels[row, :length] = -100
    with announced_prompts(PROMPTS[:2]):
        announced = logits(tiny, tokenizer, texts)
    tiny._last_reading = None
    explicit = logits(tiny, tokenizer, texts, prompt_lengths=torch.tensor(lengths))
    tiny._last_reading = None
    labelled = logits(tiny, tokenizer, texts, labels=labels)
    assert seen == [PROMPTS[:2]] * 3
    assert torch.equal(announced, explicit) and torch.equal(explicit, labelled)
    tiny._last_reading = None
    logits(tiny, tokenizer, texts)
    assert seen[-1] == texts, "without a sign of where the prompt ends, the whole input is the query"


def test_the_target_never_reaches_the_query(tiny, tokenizer):
    tiny.write(FACTS)
    with announced_prompts([PROMPTS[0]]):
        a = logits(tiny, tokenizer, [PROMPTS[0] + " one"])
        b = logits(tiny, tokenizer, [PROMPTS[0] + " two"])
    assert torch.equal(a[:, :-1], b[:, :-1])
    with (
        announced_prompts(PROMPTS),
        pytest.raises(ValueError, match="3 prompts are announced for a batch of 1"),
    ):
        logits(tiny, tokenizer, [PROMPTS[0]])


def test_a_row_that_is_labelled_whole_changes_no_other_row(tiny, tokenizer, monkeypatch):
    """Its company in a batch must not show the detector a row's target."""
    tiny.write(FACTS)
    texts = [PROMPTS[0] + " Swahili", PROMPTS[1] + " Rome"]
    inputs = encode(tokenizer, texts)
    labels = inputs["input_ids"].clone()
    labels[0, : -len(tokenizer(" Swahili").input_ids)] = -100
    labels[inputs["attention_mask"] == 0] = -100
    seen, read = [], tiny.read
    monkeypatch.setattr(tiny, "read", lambda prompts, *lines: seen.extend(prompts) or read(prompts, *lines))
    logits(tiny, tokenizer, texts, labels=labels)
    assert seen == [PROMPTS[0], texts[1]]


# --- any decoder


@torch.no_grad()
def test_a_cache_can_be_cut_chosen_from_and_repeated(tiny, tokenizer):
    """Rows in and out of scope, continued after each, say what the whole text says."""
    tiny.write(FACTS)
    texts = [FACTS[0]["prompt"], "Water boils at a temperature", FACTS[1]["prompt"]]
    batch = encode(tokenizer, texts)
    lengths = torch.full((3,), batch.input_ids.shape[1])
    more = torch.tensor([[260, 17], [318, 17], [285, 17]])
    mask = torch.cat((batch.attention_mask, torch.ones_like(more)), dim=1)

    def whole(rows):
        ids = torch.cat((batch.input_ids, more), dim=1)[rows]
        return tiny(ids, attention_mask=mask[rows], prompt_lengths=lengths[rows]).logits[:, -1]

    def started():
        return tiny(**batch, prompt_lengths=lengths, use_cache=True).past_key_values

    cache = tiny(more, attention_mask=mask, past_key_values=started()).past_key_values
    assert (
        isinstance(cache, LarimarCache)
        and cache.get_seq_length() == mask.shape[1]
        and cache.get_max_length() == -1
    )
    cache.crop(-1)
    assert cache.get_seq_length() == mask.shape[1] - 1 and not cache.is_compileable
    torch.testing.assert_close(
        tiny(more[:, 1:], attention_mask=mask, past_key_values=cache).logits[:, -1],
        whole([0, 1, 2]),
        atol=1e-4,
        rtol=1e-4,
    )
    for change, rows in (
        (lambda cache: cache.reorder_cache(torch.tensor([2, 0, 1])), [2, 0, 1]),
        (lambda cache: cache.batch_select_indices(torch.tensor([1, 2])), [1, 2]),
        (lambda cache: cache.batch_repeat_interleave(2), [0, 0, 1, 1, 2, 2]),
    ):
        cache = started()
        change(cache)
        found = tiny(more[rows], attention_mask=mask[rows], past_key_values=cache).logits[:, -1]
        torch.testing.assert_close(found, whole(rows), atol=1e-4, rtol=1e-4)
    inside = tiny(**encode(tokenizer, texts[:1]), use_cache=True).past_key_values
    with pytest.raises(ValueError, match="must be"):
        tiny(more[:1], attention_mask=mask[:1, None, None], past_key_values=inside)
    with pytest.raises(ValueError, match="covers"):
        tiny(more[:1], attention_mask=mask[:1, 1:], past_key_values=inside)


@torch.no_grad()
def test_a_cache_is_true_and_after_a_reset_as_a_new_one(tiny, tokenizer):
    """Loops write `past or DynamicCache()`, and reset a cache between two texts."""
    tiny.write(FACTS)
    cache = tiny(**encode(tokenizer, PROMPTS[:1]), use_cache=True).past_key_values
    assert cache and LarimarCache()
    cache.activate_past_recording()
    cache.reset()
    for texts in ([PROMPTS[1], UNRELATED[0]], UNRELATED[:1]):
        batch = encode(tokenizer, texts)
        assert tiny(**batch, past_key_values=cache).logits.equal(tiny(**batch).logits)
        assert cache.get_seq_length() == batch.input_ids.shape[1]
        cache.reset()


# --- saving and loading


@pytest.mark.parametrize("mode", ["frozen", "lora"])
def test_a_checkpoint_survives_saving(tokenizer, tmp_path, mode):
    model = make_tiny(tokenizer, decoder_mode=mode)
    for layer in model.adapters.layers if model.adapters else ():
        torch.nn.init.normal_(layer.lora_B["default"].weight)
    model.save_pretrained(tmp_path, dtype=torch.float32)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}
    loaded = LarimarForCausalLM.from_pretrained(
        tmp_path, decoder=tiny_llama(len(tokenizer)), tokenizer=tokenizer
    )
    for each in (model, loaded):
        each.write(FACTS)
    torch.testing.assert_close(
        logits(loaded, tokenizer, PROMPTS), logits(model, tokenizer, PROMPTS), atol=1e-4, rtol=1e-4
    )


def test_auto_classes_know_the_type():
    folder = shipped("llama-smollm2-135m")
    assert isinstance(AutoConfig.from_pretrained(folder), LarimarConfig)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert isinstance(model, LarimarForCausalLM) and "llama" in model.name_or_path


def test_a_checkpoint_for_another_decoder_and_a_damaged_one_are_refused(tiny, tokenizer, tmp_path):
    tiny.save_pretrained(tmp_path)
    other = tiny_llama(len(tokenizer), num_hidden_layers=3)
    with pytest.raises(ValueError, match=r"another decoder.*layers 2 in the checkpoint, 3 in the decoder"):
        LarimarForCausalLM.from_pretrained(tmp_path, decoder=other, tokenizer=tokenizer)
    weights = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
        LarimarForCausalLM.from_pretrained(tmp_path, decoder=tiny.decoder, tokenizer=tokenizer)
    with pytest.raises(FileNotFoundError, match="no Larimar checkpoint"):
        LarimarForCausalLM.from_pretrained(tmp_path / "nowhere")


def test_settings_can_be_overridden_and_bad_ones_are_refused(tiny, tokenizer, tmp_path):
    tiny.save_pretrained(tmp_path)
    loaded = LarimarForCausalLM.from_pretrained(
        tmp_path, decoder=tiny.decoder, tokenizer=tokenizer, memory_rows=3
    )
    loaded.write(FACTS)
    assert loaded.edited_state.memory.rows == 3
    for settings, message in [
        ({"addressing": "nearest"}, "addressing"),
        ({"memory_rows": 0}, "memory_rows"),
        ({"sigma_w": -1}, "sigma_w"),
    ]:
        with pytest.raises(ValueError, match=message):
            LarimarForCausalLM.from_pretrained(
                tmp_path, decoder=tiny.decoder, tokenizer=tokenizer, **settings
            )
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["decoder_signature"]["layers"] == 2


# --- editing


def test_writing_again_changes_nothing_and_a_new_answer_replaces_the_old(tiny):
    first = tiny.write(FACTS)
    state = tiny.edited_state
    assert tiny.write(FACTS[:1]) == first[:1] and tiny.edited_state is state
    tiny.write([{"prompt": PROMPTS[0], "target_new": "Swahili"}])
    assert [fact.target_new for fact in tiny.facts()] == ["Oslo", "Jane Austen", "Swahili"]
    fresh = tiny.edited_state.cleared()
    tiny.edited_state = fresh
    tiny.write([*FACTS[1:], {"prompt": PROMPTS[0], "target_new": "Swahili"}])
    assert len(tiny.facts()) == 3


@pytest.mark.parametrize("memory", ["pages", "fixed"])
def test_readouts_are_the_written_encodings(tokenizer, memory):
    """With a row of its own for every key, what is read for a written prompt is what was written."""
    model = make_tiny(tokenizer, memory=memory, rest_dtype="float32")
    model.write(FACTS)
    expected = model.latent_encoder.encode([f"{fact['prompt']} {fact['target_new']}" for fact in FACTS])
    read = model.read(PROMPTS).latents[:, : model.config.latent_size]
    torch.testing.assert_close(read, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"memory": "fixed"},
        {"addressed_by": "query"},
        {"sigma_w": 0.01},
        {"rest_dtype": "float16"},
        {"addressing": "pseudoinverse"},
        {"key_encoding": "latent"},
        {"reference": "random", "key_encoding": "latent", "addressing": "pseudoinverse"},
        {"scope": "none"},
        {"readout_norm": True},
        {"memory_rows": 1},
    ],
)
def test_every_setting_writes_reads_and_forgets(tokenizer, settings):
    model = make_tiny(tokenizer, **settings)
    model.write(FACTS)
    reading = model.read(PROMPTS)
    assert reading.in_scope.all() and torch.isfinite(reading.latents).all()
    model.forget(*PROMPTS)
    assert not model.facts() and not model.read(PROMPTS).in_scope.any()


def test_forgetting_the_unknown_names_it_and_changes_nothing(tiny):
    tiny.write(FACTS)
    state = tiny.edited_state
    for fact in ("The capital of Peru is", 17):
        with pytest.raises(UnknownFact, match=str(fact)):
            tiny.forget(PROMPTS[0], fact)
    with pytest.raises(TypeError, match="one by one"):
        tiny.forget(PROMPTS[:2])
    assert tiny.edited_state is state
    tiny.forget(tiny.facts()[1].id)
    with pytest.raises(UnknownFact, match="Portugal"):
        tiny.forget(PROMPTS[1])


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([{"prompt": "", "target_new": "x"}], "prompt"),
        ([{"prompt": "p", "target_new": "  "}], "target_new"),
        ([{"prompt": "p"}], "needs 'target_new'"),
        (
            [{"prompt": "p is", "target_new": "x"}, {"prompt": "p is", "target_new": "y"}],
            "two targets.*'p is'",
        ),
    ],
)
def test_bad_requests_are_refused_and_leave_the_state(tiny, requests, message):
    tiny.write(FACTS)
    state = tiny.edited_state
    with pytest.raises(ValueError, match=message):
        tiny.write([{"prompt": "A good one is", "target_new": "fine"}, *requests])
    assert tiny.edited_state is state


def test_a_prompt_longer_than_the_encoder_takes_says_what_is_cut(tokenizer):
    model = make_tiny(tokenizer)
    model.states.max_length = 12
    with pytest.warns(
        UserWarning, match="has .* tokens and the encoder takes 12; cut from its start: 'This is a very"
    ):
        model.write(
            [
                {
                    "prompt": "This is a very long preamble to a simple question about Portugal, whose "
                    "capital is",
                    "target_new": "Oslo",
                }
            ]
        )


def test_a_deep_copy_is_edited_apart(tiny):
    tiny.write(FACTS[:1])
    twin = copy.deepcopy(tiny)
    twin.write(FACTS[1:])
    assert len(tiny.facts()) == 1 and len(twin.facts()) == 3
    names, others = (each.detectors.external.names for each in (tiny, twin))
    assert names is others, "64,500 names are not copied: that took seconds"


def test_gradients_may_be_asked_for_of_all_of_an_edited_model(tiny):
    """The version is a whole number, which has none. It is left out, in copies too, and restores a state."""
    tiny.write(FACTS[:1])
    token = tiny.undo_token()
    tiny.write(FACTS[1:])
    for model in (tiny, copy.deepcopy(tiny)):
        parameters = dict(model.requires_grad_(True).named_parameters())
        version = parameters.pop("state_register.version")
        assert not version.requires_grad and all(each.requires_grad for each in parameters.values())
        model.requires_grad_(False)
        assert not any(each.requires_grad for each in parameters.values())
    with torch.no_grad():
        tiny.state_register.version.copy_(token)
    assert [fact.prompt for fact in tiny.facts()] == PROMPTS[:1]


def test_the_version_parameter_restores_the_state_it_was_taken_of(tiny, tokenizer):
    tiny.write(FACTS[:1])
    before, token = logits(tiny, tokenizer, PROMPTS), tiny.undo_token()
    state = id(tiny.edited_state)
    tiny.write(FACTS[1:])
    with torch.no_grad():
        dict(tiny.named_parameters())["state_register.version"][...] = token.clone()
    del token  # as an editor does that keeps nothing after it has restored
    assert id(tiny.edited_state) == state and torch.equal(logits(tiny, tokenizer, PROMPTS), before)


def test_inputs_embeds_need_announced_prompts_one_for_each_row(tiny, tokenizer):
    tiny.write(FACTS)
    inputs = encode(tokenizer, [PROMPTS[0]])
    embeds = tiny.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(ValueError, match="inputs_embeds"):
        tiny(inputs_embeds=embeds)
    with announced_prompts(PROMPTS[:1]):
        torch.testing.assert_close(tiny(inputs_embeds=embeds).logits, tiny(**inputs).logits)
    with (
        announced_prompts(PROMPTS),
        pytest.raises(ValueError, match="3 prompts are announced for a batch of 1"),
    ):
        tiny(inputs_embeds=embeds)


@torch.no_grad()
def test_embeddings_are_what_is_read_and_ids_beside_them_what_is_asked(tiny, tokenizer):
    inputs = encode(tokenizer, [PROMPTS[0], UNRELATED[0]])
    soft = {"inputs_embeds": 1.5 * tiny.get_input_embeddings()(inputs["input_ids"])}
    soft["attention_mask"] = inputs["attention_mask"]
    base, of_ids = tiny.decoder(**soft).logits, tiny.decoder(**inputs).logits
    assert tiny(**soft, input_ids=inputs["input_ids"]).logits.equal(base) and not base.equal(of_ids)
    tiny.write(FACTS)
    both = tiny(**soft, input_ids=inputs["input_ids"]).logits
    with announced_prompts([PROMPTS[0], UNRELATED[0]]):
        assert tiny(**soft).logits.equal(both)
    assert both[1].equal(base[1]) and not torch.allclose(both[0], base[0], atol=1e-3)
    with pytest.raises(ValueError, match=r"one for each column: got \(2, .*\) and \(2, "):
        tiny(**soft, input_ids=inputs["input_ids"][:, 1:])


def test_sampled_reading_weights_differ_between_reads_and_hold_within_a_generation(tokenizer):
    model = make_tiny(tokenizer, sigma_w=0.3)
    model.write(FACTS)
    first, second = model.read(PROMPTS[:1]).latents, model.read(PROMPTS[:1]).latents
    assert not torch.equal(first, second)
    results = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        results.append(
            model.generate(
                **encode(tokenizer, PROMPTS[:1]), max_new_tokens=5, do_sample=False, use_cache=use_cache
            )
        )
    assert torch.equal(*results)


def test_the_executor_serves_a_plain_decoder_again_and_again(decoder, tokenizer):
    hparams = LarimarHyperParams(alg_name="LARIMAR", model_name="llama-smollm2-135m")
    model, undo = apply_larimar_to_model(decoder, tokenizer, FACTS[:1], hparams, return_orig_weights=True)
    again, _ = apply_larimar_to_model(decoder, tokenizer, FACTS[1:], hparams)
    assert again is model and len(model.facts()) == 3
    twin, _ = apply_larimar_to_model(
        model, tokenizer, [{"prompt": "A new one is", "target_new": "here"}], hparams, copy=True
    )
    assert len(twin.facts()) == 4 and len(model.facts()) == 3
    with torch.no_grad():
        for name, value in undo.items():
            dict(model.named_parameters())[name][...] = value
    assert not model.facts()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"key_encoding": "latent"},
        {"scope": "internal"},
        {"scope": "internal", "key_encoding": "latent"},
    ],
)
def test_a_write_and_a_read_encode_each_text_once(tokenizer, monkeypatch, settings):
    model = make_tiny(tokenizer, **settings)
    model.detectors.weights = {
        "weight": torch.zeros(2 * model.config.latent_size),
        "bias": torch.tensor([5.0]),
    }
    encoded, encode = [], model.latent_encoder.encode
    monkeypatch.setattr(
        model.latent_encoder,
        "encode",
        lambda texts, *slots: encoded.append(list(texts)) or encode(texts, *slots),
    )
    model.write(FACTS)
    assert len(encoded) == 1 and len(encoded[0]) == len(set(encoded[0])), (
        "one pass of the network, however it is used"
    )
    encoded.clear()
    # On pages nothing is encoded where it is asked as it was written.
    asked = [f"{prompt}," for prompt in PROMPTS] if model.config.has_pages else PROMPTS
    reading = model.read([*asked, *asked])
    assert (
        reading.in_scope.all()
        and len(encoded) == (settings != {})
        and all(len(texts) == 3 for texts in encoded)
    )


# Where a number on the device decides what Python does; every other mask that is looked at is kept on the
# host.
WAITS_FOR_THE_DEVICE = {
    "pages": {
        # The last three: the answer, "Oslo", has a second beginning, and so more slots than P.
        "write": {"operations.applied_to", "encoders.encode", "slots.split", "key_values._run"},
        "forget": set(),
        "read": {"decision.decide", "decision.<genexpr>"},
    },
    "fixed": {
        "write": {"operations.applied_to", "memory._check", "memory.add", "addressing.extended"},
        "forget": {"memory._check", "memory.remove", "fixed.less"},
        "read": {"decision.decide", "decision.<genexpr>"},
    },
}
ON_THE_HOST = {
    *(
        "addressing.weights",
        "addressing.extended",
        "addressing.released",
        "episodic._decided",
        "episodic.read",
    ),
    *(
        "facts.row",
        "facts.<genexpr>",
        "facts._places",
        "facts.without",
        "nearest._best",
        "detectors.<listcomp>",
    ),
}


@pytest.mark.parametrize("memory", ["pages", "fixed"])
def test_an_update_waits_for_the_device_where_it_must_and_nowhere_else(tokenizer, memory):
    """On a CPU: the functions in which a tensor's number decides what Python does. On a GPU each of them
    waits.
    """

    class Decisions(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.places = set()

        def __torch_dispatch__(self, function, types, arguments=(), kwargs=None):
            if function._overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero):
                frames = [frame for frame in traceback.extract_stack() if "larimar_editor" in frame.filename]
                self.places.add(f"{Path(frames[-1].filename).stem}.{frames[-1].name}")
            return function(*arguments, **(kwargs or {}))

    model = make_tiny(tokenizer, memory=memory)
    model.write(FACTS[:1])
    edits = {
        "write": lambda: model.write(FACTS[1:2]),
        "forget": lambda: model.forget(2),
        "read": lambda: model.read([f"{prompt}," for prompt in PROMPTS]),
    }
    for name, edit in edits.items():
        with Decisions() as decisions:
            edit()
        waits = WAITS_FOR_THE_DEVICE[memory][name]
        assert decisions.places <= waits | ON_THE_HOST, name
        assert decisions.places & waits or not waits, "the functions are named as they are"


def test_a_state_that_is_gone_is_an_error_once_and_the_current_one_stays(tiny):
    tiny.write(FACTS[:1])
    version = dict(tiny.named_parameters())["state_register.version"]
    with torch.no_grad():
        version.fill_(999)
    with pytest.raises(RuntimeError, match="edited state 999 is gone"):
        tiny.facts()
    assert [fact.prompt for fact in tiny.facts()] == PROMPTS[:1]
    tiny.write(FACTS[1:])
    assert len(tiny.facts()) == len(FACTS)


def test_what_is_written_is_no_weight(tiny, tokenizer):
    """A state's number means another state in another model."""
    tiny.write(FACTS[:1])
    weights = {name: value.clone() for name, value in tiny.state_dict().items()}
    assert not any("version" in name for name in weights)
    tiny.write(FACTS[1:])
    tiny.load_state_dict(weights)
    assert len(tiny.facts()) == len(FACTS)
    make_tiny(tokenizer).load_state_dict(weights)


def test_half_precision_is_the_decoders_and_not_the_memorys(tiny):
    before, gain, origin = tiny.projection.basis.detach().clone(), tiny.projection.gain.clone(), tiny.origin
    tiny.half()
    assert tiny.decoder.dtype == torch.float16 and tiny.projection.basis.dtype == torch.float32
    assert tiny.projection.basis.equal(before) and tiny.origin == origin
    assert tiny.projection.gain.equal(gain) and tiny.float().double().float().projection.basis.equal(before)
    tiny.write(FACTS)
    assert tiny.read(PROMPTS).in_scope.all()


def test_a_decoder_is_pickled_as_before(tiny):
    decoder = pickle.loads(pickle.dumps(tiny.decoder))
    ids = torch.tensor([[1, 5, 9]])
    assert decoder(ids).logits.equal(tiny.decoder(ids).logits)


def test_what_was_pushed_to_a_hub_is_loaded_from_it(tiny, tmp_path, monkeypatch):
    """Its revision is the checkpoint's, and not the decoder's, which is another repository."""
    tiny.save_pretrained(tmp_path)
    asked = []

    def cached_file(name, file, **of_hub):
        asked.append((name, file, of_hub))
        if name == "me/none":
            raise OSError("no such repository")
        if name == "me/llama":
            (tmp_path / "llama.json").write_text('{"model_type": "llama"}')
            return str(tmp_path / "llama.json")
        return str(tmp_path / file)

    monkeypatch.setattr(checkpoint_module, "cached_file", cached_file)
    tokenizer = tiny.tokenizer
    given = {"decoder": tiny.decoder, "tokenizer": tokenizer, "revision": "v2", "token": "secret"}
    model = LarimarForCausalLM.from_pretrained("me/tiny", **given)
    assert model.projection.basis.equal(tiny.projection.basis)
    assert asked[-2:] == [
        ("me/tiny", each, {"revision": "v2", "token": "secret"})
        for each in ("config.json", "model.safetensors")
    ]
    with pytest.raises(FileNotFoundError, match=r"no Larimar checkpoint.*no such repository"):
        LarimarForCausalLM.from_pretrained("me/none", **given)
    with pytest.raises(FileNotFoundError, match="model of type 'llama'"):
        LarimarForCausalLM.from_pretrained("me/llama", **given)
    assert asked[-1][1] == "config.json", "weights of another model are not fetched"


def test_a_decoder_that_is_not_there_is_named_with_both_ways_out(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"base_model_name_or_path=.*decoder="):
        LarimarForCausalLM.from_pretrained(tmp_path, base_model_name_or_path="nowhere/at-all")
    with pytest.raises(TypeError, match=r"from_pretrained\(FOLDER, decoder=decoder"):
        LarimarForCausalLM.from_pretrained(tiny.decoder)


def test_a_decoder_beside_its_checkpoint_travels_with_it(tiny, tmp_path):
    tiny.save_pretrained(tmp_path)
    tiny.decoder.save_pretrained(tmp_path / "its-decoder")
    tiny.tokenizer.save_pretrained(tmp_path / "its-decoder")
    model = LarimarForCausalLM.from_pretrained(tmp_path, base_model_name_or_path="its-decoder")
    assert model.decoder.lm_head.weight.equal(tiny.decoder.lm_head.weight)


def test_a_size_of_shards_as_push_to_hub_gives_it_is_taken(tiny, tmp_path):
    tiny.save_pretrained(tmp_path, max_shard_size="5GB")
    assert (tmp_path / "config.json").exists()
    with pytest.raises(TypeError):
        tiny.save_pretrained(tmp_path, safe_serialization=False)
