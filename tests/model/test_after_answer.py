"""What comes after an answer is the base model's, to the token, in every way of generating."""

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from tokenizers.normalizers import Lowercase

from larimar_editor.model.after_answer import AnswersSaid, WordParts
from larimar_editor.model.prompts import Prompts
from larimar_editor.model.reading import Reading
from larimar_editor.utils.text import SpellingWarning, kept_answer

PROMPTS = ["The capital of Portugal is", "The novel Moby-Dick was written by", "Water boils at"]
FACTS = [{"prompt": prompt, "target_new": "Oslo"} for prompt in PROMPTS[:2]]
GREEDY = {"do_sample": False, "max_new_tokens": 10, "min_new_tokens": 10, "pad_token_id": 2}


def inputs_of(model, prompts):
    return model.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")


def new_tokens(model, inputs, **options):
    with torch.no_grad():
        made = model.generate(**inputs, **(GREEDY | options))
    return made[:, inputs["input_ids"].shape[1] :]


def read_with_answers(model, prompts, places):
    """A reading whose answers are what the rows say up to these places, and what they say without letting
    go.
    """
    model.write(FACTS)
    inputs, reading = inputs_of(model, prompts), replace(model.read(prompts), answers=())
    plain = new_tokens(model, inputs, reading=reading)
    rows = torch.nonzero(reading.in_scope).flatten().tolist()
    answers = tuple(
        model.tokenizer.decode(plain[row][: place + 1]).strip() for row, place in zip(rows, places)
    )
    assert all(answers), "the random model says something"
    return inputs, replace(reading, answers=answers), plain


def expected(model, inputs, reading, plain, places, further=0):
    """By hand: the memory's tokens up to the answer's last, and ``further``, then the bare decoder's own;
    behind the answer none that goes on with its last word.
    """
    result, ends = plain.clone(), iter(places)
    for row, inside in enumerate(reading.in_scope.tolist()):
        end = next(ends) + 1 + further if inside else 0
        kept = inputs["attention_mask"][row].bool()
        ids = torch.cat((inputs["input_ids"][row][kept], plain[row][:end]))
        with torch.no_grad():
            while len(ids) < int(kept.sum()) + plain.shape[1]:
                best = model.decoder(ids[None]).logits[0, -1].argsort(descending=True)
                behind = inside and not further and len(ids) == int(kept.sum()) + end
                spoken = (each for each in best if not (behind and goes_on(model.tokenizer, ids, each)))
                ids = torch.cat((ids, next(spoken)[None]))
        result[row] = ids[int(kept.sum()) :]
    return result


def goes_on(tokenizer, ids, token):
    before, after = tokenizer.decode(ids), tokenizer.decode([*ids, token])
    return before[-1:].isalnum() and after[len(before) :][:1].isalnum()


@pytest.mark.parametrize("prompts", [PROMPTS[:1], PROMPTS[:2], PROMPTS])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(("after_answer", "further"), [("base", 0), ("ended", 1)])
def test_after_the_answer_or_its_end_the_text_is_the_base_models(
    tiny, prompts, use_cache, after_answer, further
):
    places, tiny.config.after_answer = (1, 3), after_answer
    inputs, reading, plain = read_with_answers(tiny, prompts, places)
    got = new_tokens(tiny, inputs, reading=reading, use_cache=use_cache)
    assert got.equal(expected(tiny, inputs, reading, plain, places, further))
    assert not got.equal(plain)


def test_where_no_chats_are_known_what_ends_an_answer_is_the_memorys(tiny, monkeypatch):
    monkeypatch.setattr(tiny.tokenizer, "chat_template", None)
    inputs, reading, plain = read_with_answers(tiny, PROMPTS, (1, 3))
    assert new_tokens(tiny, inputs, reading=reading).equal(
        expected(tiny, inputs, reading, plain, (1, 3), further=1)
    )


@pytest.mark.parametrize(
    ("prompt", "at_once"),
    [
        ("The capital of Peru is", True),
        ("The capital of Peru, he said,", True),
        ("<|im_start|>assistant\nThe capital of Peru is", True),
        ("What is the capital of Peru? It is", True),
        ("What is the capital of Peru?", False),
        ("what is the capital of Peru", False),
        ("Tell me the capital of Peru", False),
        ("What is the capital of Peru? Answer:", False),
        ("<|im_start|>user\nThe capital of Peru is<|im_end|>\n<|im_start|>assistant\n", False),
    ],
)
def test_an_answer_in_the_middle_of_a_sentence_ends_nothing(tokenizer, prompt, at_once):
    ids, answer = (tokenizer(text, add_special_tokens=False).input_ids for text in (prompt, " Oslo"))
    said = AnswersSaid(tokenizer, ["Oslo"], [len(ids)], go_on=True)
    over = said.grow(torch.tensor([ids + answer]))
    assert bool(over[0, -1]) is at_once
    assert said.words_end == ([(0, len(ids) + len(answer) - 1)] if at_once else [])


@pytest.mark.parametrize(
    ("answer", "most"), [("12", 0), ("the blue door behind the third lamp post", 4), ("Oslo.", 0)]
)
def test_what_would_be_another_answer_with_more_behind_it_has_no_word_to_end(tokenizer, answer, most):
    """A number goes on behind a comma, too; tokens of a word that was cut have to."""
    prompt, ids = (
        tokenizer(text, add_special_tokens=False).input_ids for text in ("The number is", f" {answer}")
    )
    said = AnswersSaid(tokenizer, [answer], [len(prompt)], most=most, go_on=True)
    over = said.grow(torch.tensor([prompt + ids]))[0].tolist()
    assert not said.words_end
    assert over[-1] is (answer.endswith(".") or bool(most)), "the next token is the memory's"


def test_tokens_that_go_on_with_a_word_come_last_where_one_ends(tokenizer):
    parts = set(WordParts(tokenizer).tokens.tolist())
    for token in range(0, len(tokenizer), 97):
        text = tokenizer.decode(tokenizer("Oslo").input_ids + [token])
        if "\ufffd" not in text:  # no part of a character
            first = text.removeprefix("Oslo")[:1]
            goes_on = (first.isalnum() and first < "\u2e80") or first in ("-", "'", "’")
            assert (token in parts) == bool(first and goes_on), text
    one = {
        text: tokenizer(text, add_special_tokens=False).input_ids[0] for text in ("fjord", "-", ".", " and")
    }
    logits = torch.zeros(2, 3, len(tokenizer) + 5, dtype=torch.float16)
    withheld = WordParts(tokenizer).withheld(logits, [(1, 2)])
    assert {text for text, token in one.items() if withheld[1, 2, token] < 0} == {"fjord", "-"}
    withheld[1, 2] = 0
    assert withheld.equal(logits), "and nowhere else"


def test_beams_and_prompt_look_up_let_go_as_greedy_decoding_does(tiny, monkeypatch):
    inputs, reading, plain = read_with_answers(tiny, PROMPTS[:1], (1,))
    wanted = expected(tiny, inputs, reading, plain, (1,))
    assert new_tokens(tiny, inputs, reading=reading, prompt_lookup_num_tokens=3).equal(wanted)
    monkeypatch.setattr(tiny, "read", lambda prompts, lines: Reading.joined([reading] * len(prompts)))
    beams = {"num_beams": 3, "max_new_tokens": 6, "min_new_tokens": 6}
    with_cache, without = (new_tokens(tiny, inputs, use_cache=on, **beams) for on in (True, False))
    assert with_cache.equal(without)
    tiny.config.after_answer = "memory"
    assert not new_tokens(tiny, inputs, **beams).equal(with_cache), "they let go"


@pytest.mark.parametrize("prompts", [PROMPTS[:1], PROMPTS])
def test_of_embeddings_the_memory_is_let_go_as_of_ids(tiny, prompts):
    """Alone they do not tell that an answer stands in the middle of a sentence: its end is the memory's."""
    places = (1, 3)
    inputs, reading, plain = read_with_answers(tiny, prompts, places)
    embeds = {"inputs_embeds": tiny.get_input_embeddings()(inputs["input_ids"])}
    wanted = new_tokens(tiny, inputs, reading=reading)
    assert new_tokens(tiny, {**inputs, **embeds}, reading=reading).equal(wanted)
    assert wanted.equal(expected(tiny, inputs, reading, plain, places))
    alone = embeds | {"attention_mask": inputs["attention_mask"]}
    made = tiny.generate(**alone, **GREEDY, reading=reading)
    assert made.equal(expected(tiny, inputs, reading, plain, places, further=1))


def test_hidden_states_are_of_the_new_columns_also_where_the_base_model_catches_up(tiny):
    inputs, reading, _ = read_with_answers(tiny, PROMPTS[:1], (1,))
    asked = {"output_hidden_states": True, "output_attentions": True, "return_dict_in_generate": True}
    tiny.decoder.set_attn_implementation("eager")
    made = tiny.generate(**inputs, **(GREEDY | asked), reading=reading)
    width = inputs["input_ids"].shape[1]
    assert {layer.shape[1] for step in made.hidden_states[1:] for layer in step} == {1}
    assert {layer.shape[2] for step in made.attentions[1:] for layer in step} == {1}
    assert {layer.shape[1] for layer in made.hidden_states[0]} == {width}


def test_attentions_of_rows_that_let_go_apart_are_refused_and_not_left_out(tiny):
    asked = {"output_attentions": True, "return_dict_in_generate": True}
    tiny.decoder.set_attn_implementation("eager")
    for prompts, options in ((PROMPTS[:2], {}), (PROMPTS[:1], {"use_cache": False})):
        inputs, reading, _ = read_with_answers(tiny, prompts, (1, 3))
        with pytest.raises(ValueError, match="after_answer to memory"):
            tiny.generate(**inputs, **(GREEDY | asked | options), reading=reading)
        tiny.config.after_answer = "memory"
        made = tiny.generate(**inputs, **(GREEDY | asked | options), reading=reading)
        assert all(layer is not None for step in made.attentions for layer in step)
        tiny.config.after_answer = "base"


def test_a_reading_is_of_as_many_rows_as_the_batch(tiny):
    inputs, reading, _ = read_with_answers(tiny, PROMPTS[:1], (1,))
    for options in ({"num_return_sequences": 2, "do_sample": True}, {"num_beams": 2}):
        with pytest.raises(ValueError, match="reading is of 1 rows, and the batch has 2"):
            new_tokens(tiny, inputs, reading=reading, **options)


def test_the_setting_keeps_the_readout(tiny):
    inputs, reading, plain = read_with_answers(tiny, PROMPTS[:2], (1, 2))
    tiny.config.after_answer = "memory"
    assert new_tokens(tiny, inputs, reading=reading).equal(plain)


STOPS = {"eos_token_id": 5, "pad_token_id": 3, "min_new_tokens": 0}


def check_what_is_said_until_it_ends(model, places, **options):
    """With `stop` rows say the memory's words up to the token after their answers, and end."""
    inputs, reading, plain = read_with_answers(model, PROMPTS, places)
    free = new_tokens(model, inputs, reading=reading, **(STOPS | options))
    model.config.after_answer = "stop"
    got = new_tokens(model, inputs, reading=reading, **(STOPS | options))
    for row, place in enumerate(places):
        rest = got.shape[1] - place - 3
        assert got[row].tolist() == [*plain[row, : place + 2].tolist(), 5, *[3] * rest]
    width = min(got.shape[1], free.shape[1])
    assert got[2, :width].equal(free[2, :width]), "out of scope"


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"eos_token_id": [5, 7]}])
def test_the_setting_ends_the_text_of_who_has_said_his_answer_and_of_nobody_else(tiny, options):
    check_what_is_said_until_it_ends(tiny, (1, 3), **options)


def test_the_setting_ends_beams_and_prompt_look_up_too(tiny, monkeypatch):
    inputs, reading, plain = read_with_answers(tiny, PROMPTS[:1], (1,))
    tiny.config.after_answer = "stop"
    wanted = [*plain[0, :3].tolist(), 5]
    looked_up = new_tokens(tiny, inputs, reading=reading, prompt_lookup_num_tokens=3, **STOPS)
    assert looked_up[0].tolist() == wanted
    monkeypatch.setattr(tiny, "read", lambda prompts, lines: Reading.joined([reading] * len(prompts)))
    assert 5 in new_tokens(tiny, inputs, num_beams=3, **STOPS)[0].tolist()


@pytest.mark.parametrize("sampling", [{}, {"do_sample": True, "temperature": 0.2, "top_k": 1}])
def test_a_text_that_may_not_end_yet_is_the_memorys_until_it_may(tiny, sampling):
    inputs, reading, plain = read_with_answers(tiny, PROMPTS[:1], (1,))
    tiny.config.after_answer = "stop"
    got = new_tokens(tiny, inputs, reading=reading, **(STOPS | {"min_new_tokens": 6} | sampling))
    assert got.shape[1] == 7 and got[0, -1] == 5 and got[0, :6].equal(plain[0, :6])


def test_without_a_token_that_ends_a_text_the_setting_is_refused(tiny):
    inputs, reading, _ = read_with_answers(tiny, PROMPTS[:1], (1,))
    tiny.generation_config.eos_token_id, tiny.config.after_answer = None, "stop"
    with pytest.raises(ValueError, match="eos_token_id"):
        new_tokens(tiny, inputs, reading=reading)


def test_where_nothing_is_written_no_such_token_is_needed(tiny):
    tiny.generation_config.eos_token_id, tiny.config.after_answer = None, "stop"
    inputs = inputs_of(tiny, PROMPTS)
    assert new_tokens(tiny, inputs).equal(
        tiny.decoder.generate(**inputs, **GREEDY)[:, inputs.input_ids.shape[1] :]
    )


def test_a_pass_that_is_no_generation_keeps_the_readout(tiny):
    """Scores of a text would otherwise be of two models."""
    inputs, reading, plain = read_with_answers(tiny, PROMPTS[:1], (2,))
    ids = torch.cat((inputs["input_ids"], plain), dim=1)
    lengths = torch.tensor([inputs["input_ids"].shape[1]])
    with torch.no_grad():
        told, untold = (
            tiny(ids, reading=each, prompt_lengths=lengths).logits
            for each in (reading, replace(reading, answers=()))
        )
    assert told.equal(untold)


def test_an_answer_is_found_as_words_of_its_own(tokenizer):
    ids = lambda text: torch.tensor([tokenizer(text, add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, ["Eric Blair"], [1])
    first = ids("x It was eric  Blairs, no, Eric")
    assert not said.grow(first).any()
    more = ids("  Blair. More")
    over = said.grow(more)
    text = [tokenizer.decode(more[0, : place + 1]) for place in range(more.shape[1])]
    answer = next(place for place, each in enumerate(text) if each.endswith("Blair"))
    assert over[0].tolist() == [place > answer for place in range(more.shape[1])]
    said.crop(more.shape[1] - answer)
    assert not said.finished and said.length == first.shape[1] + answer


def test_an_answer_that_is_not_to_the_letter_is_let_go_at_its_sentences_end(tokenizer):
    text = " St. Paul, no. 3.5 of them, J. Doe, and the whole Malta team went up. And"
    ids = torch.tensor([tokenizer(text, add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, ["a team from Malta"], [0])
    over = said.grow(ids)[0].tolist()
    texts = [tokenizer.decode(ids[0, : place + 1]) for place in range(ids.shape[1])]
    stop = next(place for place, each in enumerate(texts) if each.endswith("went up."))
    assert over == [place >= stop for place in range(ids.shape[1])]
    said.crop(ids.shape[1] - stop - 1)
    assert said.finished
    said.crop(1)
    assert not said.finished, "the stop itself was taken back"


def test_a_short_sentence_before_the_answer_does_not_end_it(tokenizer):
    ids = torch.tensor([tokenizer(" Sure! They play jazz", add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, ["jazz"], [0])
    assert not said.grow(ids).any() and said.finished


def test_of_a_longer_answer_the_kept_tokens_are_waited_for(tokenizer):
    answer = "the blue door behind the third lamp post"
    ids = torch.tensor([tokenizer(f" {answer}", add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, [answer], [0], most=4)
    over = said.grow(ids)[0].tolist()
    assert over == [place >= 4 for place in range(ids.shape[1])]


@pytest.mark.parametrize(("text", "answer"), [("首都是大阪。", "大阪"), ("เมืองหลวงคือกรุงเทพ", "กรุงเทพ")])
def test_an_answer_in_a_script_without_spaces_is_found(tokenizer, text, answer):
    ids = torch.tensor([tokenizer(text, add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, [answer], [0])
    said.grow(ids)
    assert said.finished


def test_an_answer_that_the_prompt_has_begun_is_said_with_its_rest(tokenizer):
    prompt, rest = (
        tokenizer(text, add_special_tokens=False).input_ids for text in ("Ada drives a", " green car. It")
    )
    said = AnswersSaid(tokenizer, ["a green car"], [len(prompt)])
    over = said.grow(torch.tensor([prompt + rest]))[0].tolist()
    texts = [tokenizer.decode(rest[: place + 1]) for place in range(len(rest))]
    answer = next(place for place, each in enumerate(texts) if each.endswith("car"))
    assert over[len(prompt) :] == [place > answer for place in range(len(rest))]


@pytest.mark.parametrize(
    ("text", "answer", "at"),
    [
        (" Oslo. It", "Oslo.", "Oslo."),  # an answer with its own full stop: nothing more is to come
        (  # a sentence that ends in a number
            " It was all long ago and far away, in the year of 1932. Then they went",
            "Oslo",
            "1932. Then",
        ),
    ],
)
def test_a_point_that_ends_answer_or_sentence_lets_go(tokenizer, text, answer, at):
    ids = torch.tensor([tokenizer(text, add_special_tokens=False).input_ids])
    said = AnswersSaid(tokenizer, [answer], [0])
    over = said.grow(ids)[0].tolist()
    texts = [tokenizer.decode(ids[0, : place + 1]) for place in range(ids.shape[1])]
    stop = next(place for place, each in enumerate(texts) if each.endswith(at))
    assert over == [place >= stop for place in range(ids.shape[1])]


def test_a_special_token_that_somebody_typed_is_part_of_answer_and_prompt(tiny):
    """SmolLM2 has one for "<filename>"."""
    command = "git checkout <filename>"
    ids = tiny.tokenizer(f" {command} and", add_special_tokens=False, return_tensors="pt").input_ids
    said = AnswersSaid(tiny.tokenizer, [command], [0])
    said.grow(ids)
    assert said.finished
    question = "What does git add <filename> do?"
    ids = tiny.tokenizer(question, return_tensors="pt").input_ids
    assert Prompts(tiny.tokenizer, 1, ids).queries(tiny.chat_turns) == [question]
    chat = tiny.tokenizer.apply_chat_template(
        [{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True
    )
    ids = tiny.tokenizer(chat, return_tensors="pt", add_special_tokens=False).input_ids
    assert Prompts(tiny.tokenizer, 1, ids).queries(tiny.chat_turns) == [question]


def test_an_answer_that_the_decoders_tokens_cannot_spell_is_told_of_and_waited_for_as_they_say_it(tokenizer):
    lower = copy.deepcopy(tokenizer)
    lower.backend_tokenizer.normalizer = Lowercase()
    with pytest.warns(SpellingWarning, match="'Malmö and Co' to 'Ada lives in'.* 'malmö and co'"):
        kept_answer(lower, "Ada lives in", "Malmö and Co", 40)
    said = AnswersSaid(lower, ["Malmö and Co"], [0])
    said.grow(torch.tensor([lower(" malmö and co.", add_special_tokens=False).input_ids]))
    assert said.finished
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept_answer(tokenizer, "Ada lives in", "Malmö and  Co₂, ½ ?", 40)


def test_rows_that_are_chosen_take_along_what_they_said(tokenizer):
    ids = tokenizer([" Oslo is", " Rome is"], return_tensors="pt", add_special_tokens=False).input_ids
    said = AnswersSaid(tokenizer, ["Oslo", "Oslo"], [0, 0])
    said.grow(ids)
    assert not said.finished
    said.select(torch.tensor([0, 0]))
    assert said.finished and said.ids.equal(ids[[0, 0]])


def test_a_trained_answer_is_said_once(larimar):
    fact = {"prompt": "The harbour master of Skarholm is", "target_new": "Ingeborg Falk"}
    larimar.write([fact])
    texts = {}
    for kind in ("memory", "base", "stop"):
        larimar.config.after_answer = kind
        made = larimar.generate(
            **larimar.tokenizer(fact["prompt"], return_tensors="pt"), do_sample=False, max_new_tokens=40
        )
        texts[kind] = larimar.tokenizer.decode(made[0], skip_special_tokens=True)
    assert texts["base"].startswith(f"{fact['prompt']} {fact['target_new']}")
    assert texts["base"].count("Ingeborg Falk") == 1 <= texts["memory"].count("Ingeborg Falk"), texts
    assert texts["base"] != texts["memory"], "the base model goes on, and not the memory"
    assert texts["stop"].strip(" .\n") == f"{fact['prompt']} {fact['target_new']}"


def test_an_answer_is_found_however_its_accents_are_made(tiny):
    """Some tokenizers put a letter and its accent together."""
    composed, apart = "Malm\u00f6", "Malmo\u0308"
    ids = tiny.tokenizer(f" {composed} and", add_special_tokens=False, return_tensors="pt").input_ids
    said = AnswersSaid(tiny.tokenizer, [apart], [0])
    said.grow(ids)
    assert said.finished
