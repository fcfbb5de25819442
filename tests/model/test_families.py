"""Decoders of every kind: how they mark positions, windows that slide, and an edit in each."""

import pytest
import torch
from conftest import FACTS, SENTENCES, UNRELATED, encode, share_sentence_encoder, tiny_llama
from transformers import (
    Cohere2Config,
    Cohere2ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GlmConfig,
    GlmForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

from larimar_editor.evaluation.harness.scores import score_pairs
from larimar_editor.evaluation.tables.longcontext import scores_after_a_context
from larimar_editor.model.closed_form import fit
from larimar_editor.model.key_values import DecoderStates, StateShape

PROMPT = FACTS[0]["prompt"]
SLIDING = ["gemma2", "gemma3", "cohere2", "mistral-window"]
ROTARY = [
    "llama",
    "llama3-rope",
    "yarn",
    "qwen2",
    "qwen3",
    "mistral",
    "phi3",
    "olmo2",
    "smollm3",
    "glm",
    "gptneox",
    "gptj",
    *SLIDING,
]
FAMILIES = [*ROTARY, "gpt2"]
WINDOW = 6


def family(name, vocab_size):
    """A tiny random decoder of a family."""
    torch.manual_seed(0)
    small = dict(vocab_size=vocab_size, bos_token_id=1, eos_token_id=2, pad_token_id=2, initializer_range=0.2)
    like = dict(small, hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4)
    grouped = dict(like, num_key_value_heads=2, head_dim=8)
    window = dict(grouped, sliding_window=WINDOW)
    rope = dict(rope_theta=10000.0, factor=8.0, original_max_position_embeddings=64)
    llama3 = dict(rope, rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0)
    turns = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    return {
        "llama": lambda: tiny_llama(vocab_size),
        "llama3-rope": lambda: tiny_llama(vocab_size, rope_parameters=llama3),
        "yarn": lambda: tiny_llama(vocab_size, rope_parameters=dict(rope, rope_type="yarn")),
        "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**like, num_key_value_heads=2)),
        "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**grouped)),
        "mistral": lambda: MistralForCausalLM(MistralConfig(**grouped, sliding_window=None)),
        "mistral-window": lambda: MistralForCausalLM(MistralConfig(**window)),
        "phi3": lambda: Phi3ForCausalLM(Phi3Config(**like, num_key_value_heads=2)),
        "olmo2": lambda: Olmo2ForCausalLM(Olmo2Config(**like, num_key_value_heads=2)),
        # The padding token's embedding is nothing.
        "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**window | {"pad_token_id": 0})),
        # One key/value head, and a rotary embedding for each type of layer.
        "gemma3": lambda: Gemma3ForCausalLM(
            Gemma3TextConfig(**window | {"num_key_value_heads": 1}, layer_types=turns)
        ),
        "cohere2": lambda: Cohere2ForCausalLM(
            Cohere2Config(**window, layer_types=turns)
        ),  # neighbours; not in all
        "smollm3": lambda: SmolLM3ForCausalLM(SmolLM3Config(**like, no_rope_layers=[1, 1, 0, 1])),
        "glm": lambda: GlmForCausalLM(GlmConfig(**grouped)),
        "gptneox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(**like)),
        "gptj": lambda: GPTJForCausalLM(GPTJConfig(**small, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**small, n_embd=32, n_layer=2, n_head=4)),
    }[name]().eval()


def fitted(name, tokenizer):
    decoder = family(name, len(tokenizer))
    settings = dict(code_size=16, memory_slots=2, progress=False, memory_rows=4, detector=None)
    return share_sentence_encoder(fit(decoder, tokenizer, SENTENCES, name=name, **settings))


@torch.no_grad()
def logits(model, tokenizer, texts, side="left", **kwargs):
    return model(**encode(tokenizer, texts, side), **kwargs).logits


@pytest.mark.parametrize("name", ["llama", "gemma3", "mistral-window"])
def test_a_context_that_is_shared_scores_as_if_it_were_not(name, tokenizer):
    """Also where it is longer than the window of layers that slide."""
    decoder = family(name, len(tokenizer))
    context = "Oslo is a city. Water is wet. A clever fox found a green boat.\n"
    pairs = [
        (context + prompt, target)
        for prompt, target in (("The capital is", "Oslo"), ("Water boils when it is", "very hot"))
    ]
    whole = score_pairs(tokenizer, pairs, lambda ids, mask, counts: decoder(ids, attention_mask=mask).logits)
    for one, other in zip(scores_after_a_context(decoder, tokenizer, pairs), whole):
        assert one.predicted == other.predicted
        assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_states_placed_where_they_were_read_give_the_decoders_own_next_token(name, tokenizer):
    """Reading states and putting them back must be lossless: the decoder itself is the reference."""
    decoder = family(name, len(tokenizer))
    states = DecoderStates(decoder, tokenizer)
    text = "A clever fox found"
    ids = [states.bos_token_id, *tokenizer(text, add_special_tokens=False).input_ids]
    count = len(ids) - 1
    with torch.no_grad():
        expected = decoder(torch.tensor([ids + [500]])).logits[:, -1]
        rows = torch.cat((states.bos()[None, None], states.last_tokens([text], count)), dim=1)
        cache = states.cache(rows, torch.arange(count + 1)[None], torch.float32)
        actual = decoder(
            torch.tensor([[500]]), past_key_values=cache, position_ids=torch.tensor([[count + 1]])
        ).logits[:, -1]
    torch.testing.assert_close(actual, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ROTARY)
def test_a_key_can_be_moved_to_another_position(name, tokenizer):
    """A lone token's keys depend on its position alone, in every layer, so that the decoder tells what is
    right.
    """
    decoder = family(name, len(tokenizer))
    codes = DecoderStates(decoder, tokenizer).positions

    def keys(position):
        given = dict(input_ids=torch.tensor([[11]]), position_ids=torch.tensor([[position]]))
        with torch.no_grad():
            return [layer.keys for layer in decoder(**given, use_cache=True).past_key_values.layers]

    near, far = torch.tensor([[3]]), torch.tensor([[17]])
    moved = [code.apply(code.remove(each, near), far) for code, each in zip(codes, keys(3), strict=True)]
    torch.testing.assert_close(moved, keys(17), atol=1e-4, rtol=1e-4)
    assert not torch.allclose(keys(3)[0], keys(17)[0], atol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_fit_write_generate_and_exactness_on_every_family(name, tokenizer):
    model = fitted(name, tokenizer)
    batch = [PROMPT, UNRELATED[0]]
    before = logits(model.decoder, tokenizer, batch)
    model.write(FACTS)
    after = logits(model, tokenizer, batch)
    assert torch.equal(after[1], before[1]) and not torch.allclose(after[0], before[0])
    assert model.generate(**encode(tokenizer, batch), max_new_tokens=3, do_sample=False).shape[0] == 2


@pytest.mark.parametrize("name", SLIDING)
def test_states_are_those_of_the_text_however_small_the_window(name, tokenizer):
    """A window limits what a token sees, not which tokens' states are read: those of a text far longer than
    the window are the ones that the decoder computes without a cache.
    """
    decoder = family(name, len(tokenizer))
    states = DecoderStates(decoder, tokenizer)
    text = " ".join(SENTENCES[:4])
    ids = [states.bos_token_id, *tokenizer(text, add_special_tokens=False).input_ids]
    count = 2 * WINDOW
    assert len(ids) > 4 * WINDOW
    read = states.last_tokens([text, "A clever fox"], count)[0]
    grown = [
        states.last_tokens([tokenizer.decode(ids[1:end])], 1)[0, 0]
        for end in range(len(ids) - count + 1, len(ids) + 1)
    ]
    torch.testing.assert_close(read, torch.stack(grown), atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("name", SLIDING)
def test_a_memory_before_a_text_longer_than_the_window(name, tokenizer):
    """With and without a cache the same words come, in scope and out of it; and out of it the decoder's."""
    model = fitted(name, tokenizer)
    long = f"{SENTENCES[0]} {SENTENCES[1]} {PROMPT}"
    model.write(FACTS)
    batch = encode(tokenizer, [long, f"{SENTENCES[2]} {SENTENCES[3]} {UNRELATED[0]}"])
    options = dict(max_new_tokens=WINDOW + 4, min_new_tokens=WINDOW + 4, do_sample=False)
    cached = model.generate(**batch, **options)
    assert torch.equal(cached, model.generate(**batch, **options, use_cache=False))
    assert torch.equal(cached[1], model.decoder.generate(**batch, **options)[1])
    alone = {key: value[:1] for key, value in batch.items()}
    looked_up = model.generate(**alone, **options, prompt_lookup_num_tokens=3)
    assert torch.equal(looked_up, model.generate(**alone, **options))
    if name != "mistral-window":  # where no layer sees past the window, nor does one see the memory
        with torch.no_grad():
            assert not torch.allclose(model(**batch).logits[0, -1], model.decoder(**batch).logits[0, -1])


@pytest.mark.parametrize("name", SLIDING)
@torch.no_grad()
def test_from_a_cache_past_the_window_tokens_are_dropped_once_it_records(name, tokenizer):
    """Assisted generation asks that of a cache which an earlier call has filled."""
    model = fitted(name, tokenizer)
    model.write(FACTS)
    texts = [f"{SENTENCES[0]} {SENTENCES[1]} {PROMPT}", f"{SENTENCES[2]} {SENTENCES[3]} {UNRELATED[0]}"]
    more = torch.tensor([[260, 17], [318, 17]])
    for rows in ([0, 1], [0], [1]):
        batch = encode(tokenizer, [texts[row] for row in rows])
        reading = model.read([[PROMPT, UNRELATED[0]][row] for row in rows])
        assert reading.in_scope.tolist() == [row == 0 for row in rows]
        mask = torch.cat((batch.attention_mask, torch.ones_like(more[rows])), dim=1)
        cache = model(**batch, reading=reading, use_cache=True).past_key_values
        cache.activate_past_recording()
        together = model(more[rows], attention_mask=mask, past_key_values=cache).logits[:, -1]
        cache.crop(-1)
        again = model(more[rows, 1:], attention_mask=mask, past_key_values=cache).logits[:, -1]
        torch.testing.assert_close(again, together, atol=1e-4, rtol=1e-4)


def test_prompt_look_up_goes_on_from_a_cache_past_the_window(tokenizer):
    """Where nothing is written a cache of an earlier generation is used. All layers slide here: where some
    do not, transformers itself reads the cached text twice.
    """
    model = fitted("mistral-window", tokenizer)
    options = dict(max_new_tokens=WINDOW, min_new_tokens=WINDOW, do_sample=False)
    begun = model.generate(
        **encode(tokenizer, [" ".join(SENTENCES[:2])]), **options, return_dict_in_generate=True
    )
    ids = torch.cat((begun.sequences, encode(tokenizer, [UNRELATED[0]]).input_ids), dim=1)
    looked_up = model.generate(
        ids, **options, past_key_values=begun.past_key_values, prompt_lookup_num_tokens=3
    )
    assert looked_up.equal(model.decoder.generate(ids, **options))


def test_a_decoder_whose_positions_are_of_no_known_kind_is_refused_by_layer_and_type(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    attention = decoder.model.layers[1].self_attn
    attention.k_proj.register_forward_hook(lambda module, given, keys: keys.roll(attention.calls, dims=-1))
    attention.calls = 0

    def turns(module, given, keyed):
        attention.calls += 1

    decoder.model.register_forward_hook(turns)
    with pytest.raises(ValueError, match="layer 1 of a decoder of type 'llama'"):
        DecoderStates(decoder, tokenizer)


def test_a_model_of_pictures_and_text_is_refused_with_what_to_give_instead(tokenizer):
    decoder = family("gemma3", len(tokenizer))
    decoder.config.vision_config = {}
    with pytest.raises(ValueError, match="pictures as well: give its text model"):
        StateShape.of(decoder)
