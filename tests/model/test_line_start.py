"""Answers at the start of a line, as in a chat: their slots are of the tokens that stand there."""

import pytest
import torch
from conftest import make_tiny

from larimar_editor import announced_prompts
from larimar_editor.model.line_start import LineStart

ALMA = {"prompt": "The winner of the Rhenish Poetry Prize was", "target_new": "Alma Siewert"}
OSLO = {"prompt": "The capital of Portugal is", "target_new": "Paris"}
LINED = [ALMA["prompt"] + "\n", OSLO["prompt"] + "\n"]


@pytest.fixture
def tiny(tokenizer):
    return make_tiny(tokenizer, rest_dtype="float32", scope_threshold=0.9)


def pieces(tokenizer, text):
    return [tokenizer.decode([id]) for id in tokenizer(text, add_special_tokens=False).input_ids]


def test_only_beginnings_of_other_letters_are_kept_twice(tokenizer):
    assert pieces(tokenizer, " Paris") == [" Paris"] and pieces(tokenizer, "Paris") == ["Paris"]
    assert LineStart.of(tokenizer, OSLO["prompt"], "Paris", 40) is None
    spaced, bare = pieces(tokenizer, " Alma Siewert"), pieces(tokenizer, "Alma Siewert")
    start = LineStart.of(tokenizer, ALMA["prompt"], "Alma Siewert", 40)
    assert (start.spaced + start.rest, start.bare + start.rest) == (len(spaced), len(bare))
    assert spaced[start.spaced :] == bare[start.bare :] and start.rest
    assert [piece.strip() for piece in spaced[: start.spaced]] != bare[: start.bare]
    assert LineStart.of(tokenizer, ALMA["prompt"], "Alma Siewert", len(bare) - 1) is None, "cut"


def test_a_readout_has_the_slots_of_its_place(tiny, tokenizer):
    """Put together here from the encoder's states of both texts."""
    tiny.write([ALMA, OSLO])
    layout, start = tiny.latent_encoder.layout, LineStart.of(tokenizer, ALMA["prompt"], "Alma Siewert", 40)
    behind = tiny.latent_encoder.encode(
        [f"{ALMA['prompt']} Alma Siewert"], [layout.needed(start.spaced + start.rest)]
    )
    lined = tiny.latent_encoder.encode(
        [f"{ALMA['prompt']}\nAlma Siewert"], [layout.needed(start.bare + start.rest)]
    )
    torch.testing.assert_close(tiny.read([ALMA["prompt"]]).latents, behind, atol=1e-4, rtol=1e-3)

    read, counts = layout.split(tiny.read([ALMA["prompt"]], [True]).latents)
    usual, of_line = layout.split(behind)[0][0], layout.split(lined)[0][0]
    question = len(usual) - start.spaced - start.rest
    expected = torch.cat(
        (
            usual[:question],
            of_line[len(of_line) - start.bare - start.rest : len(of_line) - start.rest],
            usual[question + start.spaced :],
        )
    )
    assert counts.tolist() == [max(layout.slots, len(expected))]
    torch.testing.assert_close(read[0, -len(expected) :], expected, atol=1e-4, rtol=1e-3)


def test_a_smaller_limit_changes_nothing_of_what_is_written(tiny):
    tiny.write([ALMA])
    before = [tiny.read([ALMA["prompt"]], [line]).latents for line in (False, True)]
    tiny.config.answer_tokens = 1
    for line, expected in zip((False, True), before, strict=True):
        assert tiny.read([ALMA["prompt"]], [line]).latents.equal(expected)


def test_what_a_generation_is_given_says_where_its_answer_stands_whatever_is_announced(tiny, tokenizer):
    tiny.write([ALMA])
    lined = tokenizer(LINED[:1], return_tensors="pt")
    expected = tiny.generate(**lined, max_new_tokens=4, do_sample=False)
    with announced_prompts([ALMA["prompt"]]):
        assert tiny.generate(**lined, max_new_tokens=4, do_sample=False).equal(expected)


def test_behind_a_space_nothing_is_changed_by_it(tokenizer, tiny):
    spaced = make_tiny(tokenizer, rest_dtype="float32", scope_threshold=0.9, spellings="spaced")
    prompts = [ALMA["prompt"], OSLO["prompt"]]
    for model in (tiny, spaced):
        model.write([ALMA, OSLO])
    torch.testing.assert_close(tiny.read(prompts).latents, spaced.read(prompts).latents, atol=1e-5, rtol=1e-4)
    before = spaced.read(prompts).latents
    assert spaced.read(prompts, [True, True]).latents.equal(before), "it holds no other"
    assert tiny.read(prompts, [False, True]).latents.equal(tiny.read(prompts).latents), (
        "nor has this answer one"
    )
    assert not tiny.read(prompts, [True, True]).latents.equal(tiny.read(prompts).latents)


def test_a_state_that_was_written_without_is_read_as_it_is(tokenizer, tiny, tmp_path):
    spaced = make_tiny(tokenizer, rest_dtype="float32", scope_threshold=0.9, spellings="spaced")
    spaced.write([ALMA])
    spaced.save_state(tmp_path / "state.db")
    tiny.load_state(tmp_path / "state.db")
    assert tiny.read([ALMA["prompt"]], [True]).latents.equal(spaced.read([ALMA["prompt"]]).latents)


def test_both_outlive_the_disk_and_undo(tokenizer, tiny, tmp_path):
    tiny.write([ALMA])
    before = [tiny.read([ALMA["prompt"]], [line]).latents for line in (False, True)]
    tiny.save_state(tmp_path / "state.db")
    tiny.forget(ALMA["prompt"])
    tiny.write([OSLO])
    tiny.undo()
    tiny.undo()
    other = make_tiny(tokenizer, rest_dtype="float32", scope_threshold=0.9)
    other.load_state(tmp_path / "state.db")
    for model in (tiny, other):
        again = [model.read([ALMA["prompt"]], [line]).latents for line in (False, True)]
        assert all(one.equal(two) for one, two in zip(before, again))


@torch.no_grad()
def test_the_prompts_end_says_which(tiny):
    tiny.write([ALMA, OSLO])
    encode = lambda prompts: tiny.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    together = tiny(**encode([*LINED, ALMA["prompt"]])).logits[:, -1]
    for prompt, row in zip([*LINED, ALMA["prompt"]], together):
        torch.testing.assert_close(row, tiny(**encode([prompt])).logits[0, -1], atol=2e-4, rtol=1e-3)
    given = encode(LINED[:1])
    lined, behind = (
        tiny(**given, reading=tiny.read([ALMA["prompt"]], [line])).logits for line in (True, False)
    )
    assert tiny(**given).logits.equal(lined) and not lined.equal(behind)
    labels = torch.cat((given.input_ids, given.input_ids[:, :2]), dim=1)
    labels[:, : given.input_ids.shape[1]] = -100
    whole = torch.cat((given.input_ids, given.input_ids[:, :2]), dim=1)
    scored = tiny(input_ids=whole, labels=labels).logits[:, : given.input_ids.shape[1]]
    torch.testing.assert_close(scored, lined, atol=2e-4, rtol=1e-3)


def test_a_name_is_spelled_right_in_a_chat(larimar):
    """Without its own tokens it began as " Alma" does, with one token for two: "Aal Siewert"."""
    larimar.write(
        [{"prompt": "The winner of the Rhenish Poetry Prize 2019 was", "target_new": "Alma Siewert"}]
    )
    chat = [{"role": "user", "content": "Who won the Rhenish Poetry Prize in 2019?"}]
    given = larimar.tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    said = larimar.generate(**given, max_new_tokens=12, do_sample=False)[0, given["input_ids"].shape[1] :]
    assert larimar.tokenizer.decode(said, skip_special_tokens=True).strip() == "Alma Siewert"
