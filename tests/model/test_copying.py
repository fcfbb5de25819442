"""An answer that has begun goes on as the readout spells it."""

import random

import pytest
import torch
from conftest import FACTS, SENTENCES, UNRELATED, encode, sentence_encoder, tiny_llama

from larimar_editor import announced_prompts
from larimar_editor.model.closed_form import fit
from larimar_editor.model.copying import Copying, SlotTokens, SpelledAnswer, mixed
from larimar_editor.model.line_start import ids_at_line_start
from larimar_editor.model.prompts import Prompts
from larimar_editor.model.reading import AnswerIds
from larimar_editor.utils.text import answer_ids

LONG = {
    "prompt": "The password of the server in the cellar is",
    "target_new": "Quibbleford-771 onchocerciasis",
}


@pytest.fixture
def tiny(tokenizer):
    """Of codes that keep all of a token's states, whatever the token."""
    rng = random.Random(0)
    words = [tokenizer.decode([rng.randrange(1000, 40000) for _ in range(8)]) for _ in range(80)]
    return fit(
        tiny_llama(len(tokenizer)),
        tokenizer,
        [*SENTENCES, *words],
        name="tiny",
        code_size=64,
        memory_slots=2,
        progress=False,
        sentence_encoder=sentence_encoder(),
        detector=None,
        rest_dtype="float32",
        scope_threshold=0.9,
        copying=0.9,
        copying_first=0.9,
    )


def said(model, texts, **options):
    inputs = encode(model.tokenizer, texts)
    with torch.no_grad():
        ids = model.generate(**inputs, do_sample=False, max_new_tokens=24, pad_token_id=2, **options)
    return [model.tokenizer.decode(row[inputs.input_ids.shape[1] :]) for row in ids]


def test_codes_say_which_tokens_they_are_of(tiny, tokenizer):
    texts = ["My neighbour repaired the bridge", "onchocerciasis of Quibbleford"]
    reader = SlotTokens(tiny.states, tiny.analysis)
    layout = tiny.latent_encoder.layout
    for text in texts:
        ids = tokenizer(text).input_ids
        codes, counts = layout.split(tiny.latent_encoder.encode([text], [len(ids)]))
        assert counts.tolist() == [len(ids)] and reader.of(codes[0]) == ids
    assert reader.of(torch.zeros(1, layout.code_size)) == [None], "the mean is no token's"


def test_the_mixture_is_a_pointer_generators():
    torch.manual_seed(0)
    logits = 3 * torch.randn(2, 4, 50)
    places = [(0, 1, 7, 0.9), (1, 3, 49, 0.25)]
    got = mixed(logits, places).double().softmax(2)
    expected = logits.double().softmax(2)
    for row, column, token, share in places:
        expected[row, column] *= 1 - share
        expected[row, column, token] += share
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-4)
    assert mixed(logits, []) is logits


def test_an_answer_goes_on_where_its_first_tokens_were_said_last():
    own = (5, 6, 5, 6, 7)
    answer = SpelledAnswer(((4, *own[1:]), own))
    said = [[], [9], [5], [4, 6], [5, 6, 5, 6], [5, 6, 5, 6, 7]]
    assert [answer.begun(each)[0] for each in said] == [0, 0, 1, 2, 4, 5]
    assert answer.begun([])[1][0] == 4 and answer.begun([9, 5, 6, 5, 6])[1] == (7,)
    unclear = SpelledAnswer(((5, None, 7),))
    assert unclear.begun([5])[1] == (None, 7) and unclear.begun([5, 6])[1] == (7,)
    ids = torch.tensor([[1, 2, 9, 5, 6, 8, 5, 6, 5, 6, 7, 5], [1, 2, 3, 4, 6, 5, 6, 7, 1, 2, 3, 4]])
    expected = [
        *[(0, 1, 4, 0.5), (0, 3, 6, 0.9), (0, 4, 5, 0.9), (0, 6, 6, 0.9), (0, 7, 5, 0.9), (0, 8, 6, 0.9)],
        *[(0, 9, 7, 0.9), (1, 2, 4, 0.5), (1, 3, 6, 0.9), (1, 4, 5, 0.9), (1, 5, 6, 0.9), (1, 6, 7, 0.9)],
    ]
    assert Copying([answer, answer], [2, 3], 0.9, 0.5).grow(ids) == expected, "until the answer is whole"
    begun = Copying([answer], [2], 0.9, 0.5).grow(torch.tensor([[9, 5, 6, 5]]))
    assert begun == [(0, 1, 6, 0.9), (0, 2, 5, 0.9), (0, 3, 6, 0.9)], "the prompt has its first token"
    by_one = Copying([answer, answer], [2, 3], 0.9, 0.5)
    got = [
        (row, start, token, share)
        for start in range(ids.shape[1])
        for row, column, token, share in by_one.grow(ids[:, start : start + 1])
        if column == 0
    ]
    assert sorted(got) == expected


def test_an_answer_in_the_prompt_is_not_the_one_that_is_asked_for():
    answer = SpelledAnswer(((5, 6),))
    shares = Copying([answer], [2], 0.9, 0.5).grow(torch.tensor([[5, 6, 5]]))
    assert shares == [(0, 1, 5, 0.5), (0, 2, 6, 0.9)], "it ends with the answer, and asks"
    unknown = Copying([answer], [0], 0.9, 0.5).grow(torch.tensor([[5, 6, 9, 5, 6]]))
    assert unknown == [(0, 0, 6, 0.9), (0, 3, 6, 0.9)], "where the prompt ends is not known"


def test_rows_are_chosen_and_columns_dropped():
    first, second = SpelledAnswer(((5, 6),)), SpelledAnswer(((7, 8),))
    copying = Copying([first, None, second], [1, 1, 1], 0.9, 0)
    copying.grow(torch.tensor([[1, 5], [1, 1], [1, 7]]))
    copying.select(torch.tensor([2, 0, 0]))
    assert copying.grow(torch.tensor([[8], [6], [5]])) == [(2, 0, 6, 0.9)]
    copying.crop(1)
    assert copying.grow(torch.tensor([[7], [5], [6]])) == [(0, 0, 8, 0.9), (1, 0, 6, 0.9)]


def test_an_untrained_decoder_says_what_was_written(tiny):
    """It is random: without the pointer it says nothing that was written, with it every token, in a batch
    with prompts out of scope, by beams and at the start of a line."""
    tiny.write([*FACTS, LONG])
    prompts, answers = [LONG["prompt"], FACTS[0]["prompt"], UNRELATED[0]], [LONG["target_new"], "English"]
    got = said(tiny, prompts)
    assert [text.strip().startswith(answer) for text, answer in zip(got, answers)] == [True, True]
    with_base = encode(tiny.tokenizer, prompts)
    base = tiny.decoder.generate(**with_base, do_sample=False, max_new_tokens=24, pad_token_id=2)
    assert got[2] == tiny.tokenizer.decode(base[2, with_base.input_ids.shape[1] :])
    assert said(tiny, prompts[:1], num_beams=3)[0].strip().startswith(answers[0])
    assert said(tiny, [f"{LONG['prompt']}\n"])[0].startswith(answers[0])
    assert said(tiny, [f"{FACTS[0]['prompt']}\n"])[0].startswith("English")
    assert said(tiny, prompts[:1], use_cache=False) == said(tiny, prompts[:1])
    assert said(tiny, prompts[:1], prompt_lookup_num_tokens=3) == said(tiny, prompts[:1])
    embeds = tiny.get_input_embeddings()(encode(tiny.tokenizer, prompts[:1]).input_ids)
    assert said(tiny, prompts[:1], inputs_embeds=embeds) == said(tiny, prompts[:1])
    tiny.config.copying = tiny.config.copying_first = 0.0
    assert not said(tiny, prompts)[0].strip().startswith(answers[0])


def test_a_target_behind_its_prompt_is_likely_wherever_the_prompt_is_known_from(tiny, tokenizer):
    tiny.write([LONG])
    target = f"{LONG['prompt']} {LONG['target_new']}"
    asked = len(tokenizer(LONG["prompt"]).input_ids)
    rows = encode(tokenizer, [target, "A short one"], side="right")
    ids = rows.input_ids[0]
    wanted = rows.attention_mask[0].bool() & (torch.arange(len(ids)) >= asked)
    lengths = torch.tensor([asked, 3])
    labels = torch.where(torch.arange(len(ids)) < lengths[:, None], -100, rows.input_ids)
    with torch.no_grad():
        by_length = tiny(**rows, prompt_lengths=lengths).logits
        by_labels = tiny(**rows, labels=labels).logits
        with announced_prompts([f"{LONG['prompt']} ", "A short one "]):
            announced = tiny(**rows).logits
            alone = tiny(**rows, logits_to_keep=3).logits
            chosen = tiny(**rows, logits_to_keep=torch.tensor([asked, asked + 2])).logits
    for logits in (by_length, by_labels, announced):
        shares = logits[0].softmax(1)[torch.arange(len(ids) - 1), ids[1:]][wanted[1:]]
        assert float(shares.min()) > 0.8999
    torch.testing.assert_close(alone[0], announced[0, -3:])
    torch.testing.assert_close(chosen[0], announced[0, [asked, asked + 2]])
    base = tiny.decoder(**rows).logits
    assert torch.equal(by_length[1][:3], base[1][:3]), "out of scope, to the bit"


def test_where_the_answer_begins(tokenizer):
    rows = encode(tokenizer, ["one two three four", "one two"], side="left")
    given = tokenizer, 2, rows.input_ids, rows.attention_mask
    assert Prompts(*given, torch.tensor([2, 4])).answer_starts() == [2, 4]
    assert Prompts(*given).answer_starts() == [4, 4]
    behind = torch.tensor([[-100, -100, 5, -100], [-100, -100, -100, 5]])
    assert Prompts(*given, labels=behind).answer_starts() == [2, 3], (
        "what is not trained on stands behind it, too"
    )
    with announced_prompts(["one two ", "something else"]):
        assert Prompts(*given).answer_starts() == [2, 0]


def test_an_answer_is_spelled_as_it_opens_where_it_is_asked(tokenizer):
    for target in ("Paris", "1984", "Москва", "Łódź"):
        in_slots = tuple(answer_ids(tokenizer, "It is", target))
        as_asked = tuple(ids_at_line_start(tokenizer, "It is", target))
        assert in_slots != as_asked and tokenizer.decode(as_asked) == target
        answer = SpelledAnswer.of(in_slots, AnswerIds(in_slots, as_asked))
        assert answer.forms == (as_asked, in_slots)


def test_what_is_not_the_answers_is_not_copied():
    ids = AnswerIds((5, 6, 7, 8), (5, 6, 7, 8))
    assert SpelledAnswer.of([5, 6, 7, 8], ids).forms == ((5, 6, 7, 8),)
    assert SpelledAnswer.of([1, 2, 5, 6], ids).forms == ((5, 6),), "cut, behind two tokens of the prompt"
    assert SpelledAnswer.of([5, None, 7, 8], ids).forms == ((5, None, 7, 8),)
    assert SpelledAnswer.of([1, 2, 3, 4], ids) is None, "another fact's"
    assert SpelledAnswer.of([], AnswerIds((), ())) is None
