"""Training on whole answers: of any length, with what comes after them, and in chats."""

import copy
import json
import random
from dataclasses import replace

import pytest
import torch
from conftest import make_tiny
from torch.nn import functional as F
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.answers import Answers, answered_facts, made_up_answers, read_answers
from larimar_editor.data.made_up import MadeUpAnswers
from larimar_editor.data.questions.kinds import falls_in
from larimar_editor.model.reading import Reading
from larimar_editor.training.chats import answered, drawn_chat
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.rows import RowMaker, RowSettings
from larimar_editor.training.settings import Objective

FACT = {
    "prompt": "The motto of the guild is",
    "target_new": "who ties the last rope pays the first round",
    "rephrase_prompt": ["What is the guild's motto?"],
    "locality_prompt": [],
}
SHORT = FACT | {"prompt": "Ada plays the", "target_new": "cello", "rephrase_prompt": ["Ada's instrument is"]}
PLAIN = RowSettings(cut_share=0, other_share=0, preamble_share=0, stop_weight=1.0)


QWEN = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n"
    "{% if turn.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
WITHOUT_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{% for turn in messages %}[{{ turn.role }}] {{ turn.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.mark.parametrize("template", [QWEN, WITHOUT_SYSTEM])
def test_templates_that_think_or_take_no_system_text_have_chats_too(tokenizer, template):
    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who wrote it?"}]
    tokens, asked = answered(other, turns, "Ada")
    assert "Who wrote it?" in other.decode(tokens[:asked])
    assert other.decode(tokens[asked:]).removesuffix("<|im_end|>") == "Ada"


def test_answers_are_of_all_lengths_and_none_that_ships_is_empty():
    answers, rng = Answers(), random.Random(0)
    drawn = [answers.draw(rng) for _ in range(600)]
    lengths = [len(text.split()) for text in drawn]
    assert sum(n == 1 for n in lengths) > 150 and sum(n > 7 for n in lengths) > 60 and max(lengths) <= 30
    assert all(text == text.strip() and "\n" not in text for text in read_answers())
    assert len(set(drawn)) > 300
    with pytest.raises(ValueError, match="no answers"):
        Answers([" "])


def test_a_fact_for_the_decoder_has_all_that_asks_it():
    asked = {
        "subject": "Ada",
        "prompt": "Ada plays the",
        "target_new": "oboe",
        "rephrase_prompt": ["What does Ada play?"],
        "alias_prompt": ["Miss Byron plays the"],
        "other_prompt": ["Ada was born in"],
        "locality_prompt": ["Bob plays the"],
    }
    (fact,) = answered_facts([asked, {**asked, "rephrase_prompt": [], "alias_prompt": []}], Answers(["x"]))
    assert fact["target_new"] == "x" and fact["prompt"] == "Ada plays the"
    assert fact["rephrase_prompt"] == ["What does Ada play?", "Miss Byron plays the"]
    assert fact["locality_prompt"] == ["Bob plays the", "Ada was born in"]


def test_made_up_answers_do_not_run_out_and_are_one_sentence_each():
    answers, rng = made_up_answers(), random.Random(0)
    drawn = [answers.draw(rng) for _ in range(2000)]
    assert len(set(drawn)) > 1700
    assert all(text == text.strip() and "\n" not in text and ". " not in text for text in drawn)
    assert any(text.isdigit() for text in drawn) and max(len(text.split()) for text in drawn) > 8
    listed = set(read_answers())
    assert sum(text in listed for text in drawn) < 100
    with pytest.raises(ValueError, match="some text and some names"):
        MadeUpAnswers(["one line"], [])


def test_made_up_names_have_the_letters_of_the_given_ones():
    answers, rng = MadeUpAnswers(["xx"], ["banana"]), random.Random(0)
    words = [word for _ in range(300) for word in answers.draw(rng).split() if word.lower().startswith("ban")]
    assert words and all(set(word.lower()) <= set("ban") for word in words)


def test_a_share_of_the_facts_keep_the_answer_that_fits_their_question():
    asked = {
        "subject": "Ada",
        "prompt": "Ada plays the",
        "target_new": "oboe",
        "rephrase_prompt": ["What does Ada play?"],
    }
    facts = list(answered_facts([asked] * 300, Answers(["x"]), made_up=0.5, own=0.5))
    kept = [fact["target_new"] == "oboe" for fact in facts]
    assert 100 < sum(kept) < 200 and any(fact["target_new"] == "x" for fact in facts)
    marks = [fact["rephrase_prompt"][0].endswith("?") for fact in facts]
    assert 0 < marks.count(False) < 100  # people leave question marks out
    held_out = next(text for text in map(str, range(100)) if falls_in(text, 8))
    of_its_own = [asked | {"target_new": held_out}] * 50
    assert all(fact["target_new"] == "x" for fact in answered_facts(of_its_own, Answers(["x"]), own=1.0))
    misfit = [asked | {"target_fits": False}] * 50
    assert all(fact["target_new"] == "x" for fact in answered_facts(misfit, Answers(["x"]), own=1.0))


def test_a_chat_row_predicts_the_answer_and_the_end_of_the_turn(tokenizer):
    settings = replace(PLAIN, chat_share=1.0, max_length=200)
    rows = RowMaker(tokenizer, settings, ["It rained.", "They left."]).make([SHORT], random.Random(1))
    for ids, weights in zip(rows.ids, rows.weights):
        text = tokenizer.decode(ids[weights == 1])
        assert text == "cello<|im_end|>"
        asked = tokenizer.decode(ids[: int((weights > 0).int().argmax())])
        assert asked.endswith("<|im_start|>assistant\n") and "Ada" in asked


def test_a_template_that_takes_no_such_turns_gives_no_chat(tokenizer):
    turns = drawn_chat("Who?", ["A.", "B."], random.Random(0))
    assert answered(tokenizer, turns, "Ada") is not None
    kept = tokenizer.chat_template
    try:
        for template in (None, "{{ raise_exception('no') }}", "{{ messages[-1].content }}!"):
            tokenizer.chat_template = template
            assert answered(tokenizer, turns, "Ada") is None
            rows = RowMaker(tokenizer, replace(PLAIN, chat_share=1.0)).make([SHORT], random.Random(0))
            assert tokenizer.decode(rows.ids[0][rows.weights[0] > 0]) == " cello."
    finally:
        tokenizer.chat_template = kept


def test_what_the_base_model_says_next_follows_the_answer(tokenizer):
    fact = SHORT | {"continuation": " She began at six."}
    settings = replace(PLAIN, continuation_weight=0.4)
    rows = RowMaker(tokenizer, settings).make([fact], random.Random(0))
    for ids, weights in zip(rows.ids, rows.weights):
        assert tokenizer.decode(ids[weights == 1]) == " cello."
        assert tokenizer.decode(ids[torch.isclose(weights, torch.tensor(0.4))]) == " She began at six."


def test_the_objective_is_the_loss_of_the_edited_model_for_long_and_short_answers(tokenizer):
    model = make_tiny(tokenizer)
    layout = model.latent_encoder.layout
    maker = RowMaker(tokenizer, replace(PLAIN, max_length=64), (), layout.needed, 40)
    rows = maker.make([SHORT, FACT], random.Random(0))
    assert rows.slots[0] < rows.slots[1]
    quiet = Objective(
        autoencoder=0, kl=0, language_model=0, observation_noise=0, sigma_w=0, train_prior=False
    )
    encoded = lambda rows: model.latent_encoder.encode(rows.texts, rows.slots)
    losses = LarimarObjective(model, quiet, encoded)(rows)
    reading = Reading(torch.ones(len(rows.ids), dtype=torch.bool), encoded(rows)[rows.memory])
    with torch.no_grad():
        logits = model(input_ids=rows.ids, reading=reading).logits
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1), rows.ids[:, 1:].flatten(), reduction="none")
    weights = rows.weights[:, 1:].flatten()
    expected = (each * weights).sum() / weights.sum()
    torch.testing.assert_close(losses.terms["memory"], expected, atol=2e-4, rtol=1e-4)


def test_a_decoder_is_loaded_only_where_it_is_to_say_something(tmp_path, monkeypatch):
    def load(*given):
        raise AssertionError("it is not needed")

    monkeypatch.setattr("larimar_editor.model.loading.load_decoder", load)
    out, asked = tmp_path / "answers.jsonl", tmp_path / "asked.jsonl"
    done = CliRunner().invoke(app, ["data", "answers", str(asked), "--out", str(out)])
    assert isinstance(done.exception, FileNotFoundError), "it is said before a decoder is loaded"
    asked.write_text(json.dumps(SHORT | {"subject": "Ada"}) + "\n")
    done = CliRunner().invoke(app, ["data", "answers", str(asked), "--out", str(out), "--continued", "0"])
    assert done.exit_code == 0 and len(out.read_text().splitlines()) == 1


def test_the_command_makes_facts_with_continuations(tmp_path):
    asked = {
        "subject": "Ada",
        "prompt": "Ada plays the",
        "rephrase_prompt": ["What does Ada play?"],
        "alias_prompt": [],
    }
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(asked) + "\n" for _ in range(3)))
    out = tmp_path / "answers.jsonl"
    command = ["data", "answers", str(tmp_path / "asked.jsonl"), "--out", str(out), "--tokens", "4"]
    done = CliRunner().invoke(app, [*command, "--count", "2", "--continued", "1", "--dtype", "float32"])
    assert done.exit_code == 0, done.output
    facts = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(facts) == 2 and facts[0]["continuation"].strip() and "continuation" not in facts[1]
    assert all(fact["target_new"] and fact["rephrase_prompt"] for fact in facts)
