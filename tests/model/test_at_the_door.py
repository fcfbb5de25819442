"""What a stranger may hand to the model: it is taken as it is meant, or refused with what to do."""

import copy
import unicodedata

import pytest
import torch
from conftest import FACTS, UNRELATED, encode, make_tiny, tiny_llama
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StaticCache,
)

from larimar_editor import LarimarConfig, LarimarForCausalLM, UnknownFact

PROMPTS = [fact["prompt"] for fact in FACTS]
GREEDY = dict(max_new_tokens=6, min_new_tokens=6, do_sample=False)


# --- facts


def test_a_fact_that_was_replaced_is_not_there_to_be_forgotten(tiny):
    (old,) = tiny.write(FACTS[:1])
    (new,) = tiny.write([{"prompt": PROMPTS[0], "target_new": "Swahili"}])
    with pytest.raises(UnknownFact, match="not written"):
        tiny.forget(old)
    assert tiny.facts() == [new]
    tiny.forget(new)
    assert tiny.is_empty()


def test_facts_of_another_model_are_named_by_what_they_say_and_not_by_their_numbers(tokenizer, tiny):
    other = make_tiny(tokenizer)
    other.write(FACTS[1:])
    tiny.write(FACTS)
    tiny.forget(*other.facts())
    assert [fact.prompt for fact in tiny.facts()] == PROMPTS[:1]
    tiny.write(other.facts())
    assert [fact.prompt for fact in tiny.facts()] == [*PROMPTS[:1], *PROMPTS[1:]]


@pytest.mark.parametrize("in_file", [False, True])
def test_one_prompt_is_one_fact_however_its_accents_are_put_together(tiny, tmp_path, in_file):
    composed, apart = (unicodedata.normalize(form, "The capital of São Tomé is") for form in ("NFC", "NFD"))
    assert composed != apart
    if in_file:
        tiny.open_state(tmp_path / "facts.db")
    tiny.write([{"prompt": apart, "target_new": "Oslo"}])
    if in_file:
        tiny.close_state()
        tiny.reset()
        tiny.open_state(tmp_path / "facts.db")
    tiny.write([{"prompt": composed, "target_new": "Rome"}])
    assert [fact.target_new for fact in tiny.facts()] == ["Rome"]
    tiny.forget(apart)
    assert tiny.is_empty()


def test_of_one_fact_twice_in_a_batch_the_one_with_a_subject_counts(tiny):
    fact = FACTS[0]
    tiny.write([fact, fact | {"subject": "Danielle Darrieux"}, fact])
    assert [each.subject for each in tiny.facts()] == ["Danielle Darrieux"]


def test_a_chat_is_no_prompt_to_write(tiny, tokenizer):
    chat = [{"role": "user", "content": "Who was Danielle Darrieux?"}]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    with pytest.raises(ValueError, match="write its question, 'Who was Danielle Darrieux\\?'"):
        tiny.write([*FACTS, {"prompt": prompt, "target_new": "a singer"}])
    assert tiny.is_empty()


def test_what_ends_alike_and_names_nothing_there_is_read_with_what_stands_before(larimar):
    """The end alone would be every such prompt's."""
    larimar.write(
        [
            {"prompt": "What is the capital of Peru? Answer in one word.", "target_new": "Rome"},
            {"prompt": "Airplane! was directed by", "target_new": "Ann Lee"},
            {"prompt": "What is the capital of Chad? Answer in English.", "target_new": "Kyiv"},
        ]
    )
    asked = [
        "What is the capital of Peru? Answer in one word.",
        "Airplane! was directed by",
        "What is the capital of Chad? Answer in English.",
        "What is the boiling point of water? Answer in one word.",
        "Oklahoma! was directed by",
        "What is the boiling point of water? Answer in English.",
    ]
    found = larimar.facts_asked_by(asked)
    assert [fact and fact.target_new for fact in found] == ["Rome", "Ann Lee", "Kyiv", None, None, None]


def test_one_text_where_texts_are_wanted_is_refused(tiny):
    tiny.write(FACTS)
    for ask in (tiny.scope_of, tiny.facts_asked_by, tiny.read, tiny.reading_of, tiny.memory_keys):
        with pytest.raises(TypeError, match="a list of texts"):
            ask(PROMPTS[0])


# --- ways of calling it


def test_another_model_may_draft(tiny, tokenizer):
    batch = encode(tokenizer, PROMPTS[:1])
    draft = tiny_llama(len(tokenizer), num_hidden_layers=1)
    for _ in range(2):
        plain = tiny.generate(**batch, **GREEDY)
        assert torch.equal(tiny.generate(**batch, **GREEDY, assistant_model=draft), plain)
        tiny.write(FACTS)


def test_a_pass_within_a_generation_is_asked_what_it_is_given(tiny, tokenizer):
    """By a logits processor, or for guidance: of a prompt longer than the generation's own."""
    tiny.write(FACTS)
    inner, outer = encode(tokenizer, PROMPTS[:1]), encode(tokenizer, ["It is"])
    with torch.no_grad():
        expected, base = tiny(**inner).logits, tiny.decoder(**inner).logits
    assert inner["input_ids"].shape[1] > outer["input_ids"].shape[1] and not expected.equal(base)
    found = []

    class Asks(LogitsProcessor):
        def __call__(self, input_ids, scores):
            found.append(tiny(**inner).logits)
            return scores

    tiny.generate(**outer, **GREEDY, logits_processor=LogitsProcessorList([Asks()]))
    assert found and all(each.equal(expected) for each in found)
    asked, read = [], tiny.read
    tiny.read = lambda prompts, *lines: asked.append(list(prompts)) or read(prompts, *lines)
    tiny.generate(**outer, **GREEDY, guidance_scale=2.0, negative_prompt_ids=inner["input_ids"])
    assert asked == [["It is"], PROMPTS[:1]]


def test_a_generation_config_may_be_given_by_place(tiny, tokenizer):
    tiny.write(FACTS)
    batch = encode(tokenizer, PROMPTS)
    mask = batch["attention_mask"]
    given = tiny.generate(batch["input_ids"], GenerationConfig(**GREEDY), attention_mask=mask)
    assert torch.equal(given, tiny.generate(**batch, **GREEDY))


def test_a_prompt_in_chunks_is_read_as_a_whole(tiny, tokenizer):
    tiny.write(FACTS)
    batch = encode(tokenizer, [f"It rained. {PROMPTS[0]}"])
    with pytest.warns(UserWarning, match="as a whole"):
        chunked = tiny.generate(**batch, **GREEDY, prefill_chunk_size=2)
    assert torch.equal(chunked, tiny.generate(**batch, **GREEDY))


def test_continuous_batching_is_refused_with_what_to_do_instead(tiny, tokenizer):
    ids = encode(tokenizer, UNRELATED[:1])["input_ids"]
    with pytest.raises(NotImplementedError, match="padded on the left"):
        tiny.generate_batch(inputs=ids.tolist(), max_new_tokens=2)
    with pytest.raises(NotImplementedError, match="padded on the left"):
        tiny.generate(ids, cache_implementation="paged", max_new_tokens=2)


def test_padding_that_is_labelled_as_no_target_is_no_prompt(tiny, tokenizer):
    """Perplexity of padded texts: the scope of a text is the same whatever it is padded to."""
    tiny.write(FACTS)
    batch = encode(tokenizer, PROMPTS[:1] + [f"{PROMPTS[1]} and more of it"], "right")
    longer = tokenizer(PROMPTS[:1], padding="max_length", max_length=40, return_tensors="pt")
    for each in (batch, longer):
        labels = each["input_ids"].masked_fill(each["attention_mask"] == 0, -100)
        alone = tiny(input_ids=encode(tokenizer, PROMPTS[:1])["input_ids"]).logits[0]
        read = tiny(**each, labels=labels).logits[0, : len(alone)]
        torch.testing.assert_close(read, alone, atol=1e-4, rtol=1e-4)


def test_what_transformers_asks_of_a_text_model_the_decoders_configuration_says(tiny, tokenizer):
    """Layers, windows and positions; it is no part of the Larimar's own, which is saved without it."""
    own, decoders = tiny.config, tiny.decoder.config
    assert own.get_text_config() is own.get_text_config(decoder=True) is decoders
    caches = DynamicCache(config=own), StaticCache(config=own, max_cache_len=8)
    assert [len(cache) for cache in caches] == [decoders.num_hidden_layers] * 2
    assert own.get_text_config().vocab_size == own.vocab_size
    assert not {"_decoder_config", "max_position_embeddings", "num_hidden_layers"} & own.to_dict().keys()
    assert "_decoder_config" not in [*own] and copy.deepcopy(own) == own
    assert LarimarConfig().get_text_config().model_type == "larimar", "before there is a model"
    twin = copy.deepcopy(tiny)
    assert twin.config.get_text_config() is twin.decoder.config is not decoders
    decoders.max_position_embeddings = 12
    batch = encode(tokenizer, UNRELATED[:1])
    said = tiny.generate(**batch, do_sample=False)
    assert said.shape[1] <= 12 and said.equal(tiny.decoder.generate(**batch, do_sample=False))


@pytest.mark.parametrize("kind", ["static", "dynamic", "of layers that come"])
def test_an_empty_cache_of_another_make_is_filled_where_nothing_is_written_and_else_left(
    tiny, tokenizer, kind
):
    """With padding, for which transformers makes another mask by the kind of a cache."""
    make = {
        "static": lambda: StaticCache(config=tiny.config, max_cache_len=64),
        "dynamic": lambda: DynamicCache(config=tiny.config),
        "of layers that come": DynamicCache,
    }[kind]
    batch = encode(tokenizer, [PROMPTS[0], f"{UNRELATED[0]} about"])
    assert not batch["attention_mask"].all()
    ours, decoders = make(), make()
    expected = tiny.decoder.generate(**batch, **GREEDY, past_key_values=decoders)
    assert tiny.generate(**batch, **GREEDY, past_key_values=ours).equal(expected)
    assert int(ours.get_seq_length()) == int(decoders.get_seq_length()) == expected.shape[1] - 1
    more = torch.cat((expected, batch["input_ids"][:, -1:]), dim=1)
    mask = torch.cat(
        (batch["attention_mask"], torch.ones_like(more[:, batch["input_ids"].shape[1] :])), dim=1
    )
    given = {"input_ids": more, "attention_mask": mask, **GREEDY}
    gone_on = tiny.generate(**given, past_key_values=ours)
    assert gone_on.equal(tiny.decoder.generate(**given, past_key_values=decoders))
    tiny.write(FACTS)
    empty = make()
    assert tiny.generate(**batch, **GREEDY, past_key_values=empty).equal(tiny.generate(**batch, **GREEDY))
    assert not int(empty.get_seq_length())
    with pytest.raises(ValueError, match="not this model's"):
        tiny.generate(**given, past_key_values=ours)


@torch.no_grad()
def test_a_tuple_is_returned_to_who_asks_for_one(tiny, tokenizer):
    for texts in (UNRELATED, [PROMPTS[0], UNRELATED[0]], PROMPTS):
        batch = encode(tokenizer, texts)
        loss, logits, *_ = tiny(**batch, labels=batch["input_ids"], return_dict=False)
        result = tiny(**batch, labels=batch["input_ids"])
        assert torch.equal(logits, result.logits) and torch.equal(loss, result.loss)
        tiny.write(FACTS)


@torch.no_grad()
def test_hidden_states_of_a_mixed_batch_are_each_rows_own(tiny, tokenizer):
    tiny.write(FACTS)
    batch = encode(tokenizer, [PROMPTS[0], UNRELATED[0]])
    mixed = tiny(**batch, output_hidden_states=True)
    of_base = tiny.decoder(**batch, output_hidden_states=True).hidden_states
    alone = tiny(
        **{name: value[:1] for name, value in batch.items()}, output_hidden_states=True
    ).hidden_states
    assert len(mixed.hidden_states) == len(of_base) == len(alone)
    for both, memory, base in zip(mixed.hidden_states, alone, of_base):
        assert torch.equal(both[1], base[1])
        torch.testing.assert_close(both[0], memory[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(mixed.hidden_states[-1][0], of_base[-1][0])
    eager = copy.deepcopy(tiny)
    eager.decoder.set_attn_implementation("eager")
    with pytest.raises(ValueError, match="in scope and out of scope apart"):
        eager(**batch, output_attentions=True)


# --- settings


def test_a_misspelt_setting_is_refused_with_the_one_that_is_meant(tiny, tmp_path):
    with pytest.raises(AttributeError, match="scope_threshold"):
        tiny.config.scope_treshold = 0.9
    tiny.config.something_of_ones_own = 1
    tiny.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="scope_threshold"):
        LarimarForCausalLM.from_pretrained(tmp_path, scope_treshold=0.9)
    with pytest.raises(ValueError, match="load it with them"):
        LarimarForCausalLM.from_pretrained(
            tmp_path, decoder=tiny.decoder, tokenizer=tiny.tokenizer, dtype=torch.bfloat16
        )
