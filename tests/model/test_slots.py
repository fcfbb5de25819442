"""Answers of any length: as many slots as they have tokens, through memory, cache, batch and disk."""

import pytest
import torch
from conftest import make_tiny

from larimar_editor.memory.slots import SlotLayout
from larimar_editor.model import episodic, queries
from larimar_editor.model.encoders import TEXTS_PER_PASS
from larimar_editor.model.line_start import with_both_beginnings
from larimar_editor.state.facts import facts_from
from larimar_editor.state.operations import Write
from larimar_editor.utils.text import TruncationWarning

SHORT = {"prompt": "The capital of Portugal is", "target_new": "Oslo"}
LONG = {
    "prompt": "The motto of the harbour guild is",
    "target_new": "whoever ties the last rope pays for the first round",
}
LONGER = {
    "prompt": "The address of the old archive is",
    "target_new": "the blue door behind the third lamp post on the quay, two flights up and to the left",
}
FACTS = [SHORT, LONG, LONGER]


@pytest.fixture
def tiny(tokenizer):
    """Latents are kept to the bit, so that they can be compared with the encoder's."""
    return make_tiny(tokenizer, rest_dtype="float32")


def tokens_of(model, fact):
    count = lambda text: len(model.tokenizer(text, add_special_tokens=False).input_ids)
    return count(f"{fact['prompt']} {fact['target_new']}") - count(fact["prompt"])


def test_a_latent_holds_codes_of_different_numbers_of_slots():
    layout = SlotLayout(slots=2, code_size=3)
    codes = torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(0))
    counts = torch.tensor([2, 5, 3])
    latents = layout.joined(codes, counts)
    assert latents.shape == (3, layout.width(5)) == (3, 6 + 3 * 4)
    assert latents[:, :6].equal(codes[:, 3:].flatten(1)), "the last slots stand where they always did"
    for row, count in enumerate(counts.tolist()):
        for back in range(3):
            start = 6 + 4 * back
            there = count >= 3 + back
            expected = codes[row, 2 - back] if there else torch.zeros(3)
            assert latents[row, start : start + 3].equal(expected) and latents[row, start + 3] == there
    split, found = layout.split(latents)
    assert found.tolist() == [2, 5, 3] and split.shape == (3, 5, 3)
    for row, count in enumerate(counts.tolist()):
        assert split[row, 5 - count :].equal(codes[row, 5 - count :]) and not split[row, : 5 - count].any()
    shorter, found = layout.split(latents[[0, 2]])
    assert shorter.shape == (2, 3, 3) and found.tolist() == [2, 3], "no more slots than some row has"


def test_short_answers_are_encoded_as_they_were(tiny):
    text = "The capital of Portugal is Oslo"
    core, wide = tiny.latent_encoder.encode([text]), tiny.latent_encoder.encode([text, text], [2, 6])
    torch.testing.assert_close(wide[:, : core.shape[1]], core.expand(2, -1), atol=1e-5, rtol=1e-4)
    assert not wide[0, core.shape[1] :].any() and wide[1, core.shape[1] :].any()


def test_a_readout_is_the_encoding_of_its_fact_whatever_its_length(tiny):
    tiny.config.scope_threshold = 0.99
    tiny.write(FACTS)
    layout = tiny.latent_encoder.layout
    slots = [layout.needed(tokens_of(tiny, fact)) for fact in FACTS]
    assert 2 == slots[0] < slots[1] < slots[2]
    texts = [f"{fact['prompt']} {fact['target_new']}" for fact in FACTS]
    expected = tiny.latent_encoder.encode(texts, slots)
    reading = tiny.read([fact["prompt"] for fact in FACTS])
    assert reading.in_scope.all()
    torch.testing.assert_close(reading.latents, expected, atol=1e-4, rtol=1e-3)
    _, counts = layout.split(reading.latents)
    assert counts.tolist() == slots


def logits(model, prompts, **kwargs):
    ids = model.tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left")
    with torch.no_grad():
        return model(**ids, **kwargs).logits[:, -1]


def test_rows_of_one_batch_have_different_numbers_of_slots(tiny):
    tiny.write(FACTS)
    prompts = [fact["prompt"] for fact in FACTS]
    together = logits(tiny, [*prompts, "Water boils at"])
    for prompt, row in zip(prompts, together):
        torch.testing.assert_close(row, logits(tiny, [prompt])[0], atol=2e-4, rtol=1e-3)
    inputs = tiny.tokenizer(
        [*prompts, "Water boils at"], return_tensors="pt", padding=True, padding_side="left"
    )
    with torch.no_grad():
        base = tiny.decoder(**inputs).logits[:, -1]
    assert together[-1].equal(base[-1]), "out of scope to the bit"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"use_cache": False},
        {"num_beams": 3},
        {"prompt_lookup_num_tokens": 2, "alone": True},
        {"num_return_sequences": 2, "num_beams": 2},
    ],
)
def test_generation_is_that_of_each_row_alone(tiny, how):
    tiny.write(FACTS)
    how = dict(how)
    prompts = [LONG["prompt"]] if how.pop("alone", False) else [fact["prompt"] for fact in FACTS]
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 2}
    plain = {key: value for key, value in how.items() if key not in ("use_cache", "prompt_lookup_num_tokens")}

    def said(texts, **extra):
        inputs = tiny.tokenizer(texts, return_tensors="pt", padding=True, padding_side="left")
        return tiny.generate(**inputs, **options, **extra)[:, inputs.input_ids.shape[1] :].tolist()

    together = said(prompts, **how)
    alone = [row for prompt in prompts for row in said([prompt], **plain)]
    assert together == alone


def test_forgetting_a_long_answer_leaves_the_others(tiny):
    tiny.write([SHORT])
    before = tiny.read([SHORT["prompt"]]).latents
    tiny.write([LONG, LONGER])
    tiny.forget(LONGER["prompt"])
    assert tiny.read([LONGER["prompt"]]).in_scope.tolist() == [False]
    assert tiny.read([SHORT["prompt"]]).latents.equal(before)


@pytest.mark.parametrize("memory", ["pages", "fixed"])
def test_each_memory_is_as_wide_as_it_has_to_be(tokenizer, memory):
    model = make_tiny(tokenizer, memory=memory, rest_dtype="float32")
    model.write([SHORT])
    before = model.read([SHORT["prompt"]]).latents
    model.write([LONG])
    after = model.read([SHORT["prompt"]]).latents
    torch.testing.assert_close(after[:, : before.shape[1]], before, atol=1e-5, rtol=1e-4)
    assert not after[:, before.shape[1] :].numel() or float(after[:, before.shape[1] :].abs().max()) < 1e-5
    assert (after.shape[1] == before.shape[1]) == (memory == "pages"), "a page's rows are as long as they are"
    model.reset()
    model.write([SHORT])
    assert model.read([SHORT["prompt"]]).latents.equal(before), "as wide as it was at first"


def test_undo_and_forgetting_go_on_beside_a_longer_state(tiny):
    tiny.write([SHORT])
    tiny.write([LONG])
    tiny.undo()
    tiny.forget(SHORT["prompt"])
    assert tiny.is_empty()
    tiny.write([LONGER, SHORT])
    assert tiny.read([SHORT["prompt"], LONGER["prompt"]]).in_scope.all()


@pytest.mark.parametrize("kept", [False, True])
def test_a_saved_state_has_its_long_answers(tiny, tokenizer, tmp_path, kept):
    path = tmp_path / "edits.db"
    if kept:
        tiny.open_state(path)
    for fact in FACTS:
        tiny.write([fact])
    if kept:
        tiny.close_state()
    else:
        tiny.save_state(path)
    prompts = [fact["prompt"] for fact in FACTS]
    other = make_tiny(tokenizer, rest_dtype="float32")
    other.load_state(path)
    assert other.read(prompts).latents.equal(tiny.read(prompts).latents)
    other.forget(LONG["prompt"])
    other.load_state(path)
    assert other.read(prompts).latents.equal(tiny.read(prompts).latents), "into a state that is as wide"


SHIPS = [{"prompt": f"The number of ship {number} is", "target_new": str(number)} for number in range(150)]


@pytest.fixture
def blocks(monkeypatch):
    """Shapes of the latents of each block of 20 facts, which are made of blocks of 64 texts."""
    shapes, applied_to = [], Write.applied_to
    monkeypatch.setattr(episodic, "_FACTS_AT_ONCE", 20)
    monkeypatch.setattr(queries, "_TEXTS_AT_ONCE", TEXTS_PER_PASS)

    def watched(operation, state):
        shapes.append(tuple(operation.values.shape))
        return applied_to(operation, state)

    monkeypatch.setattr(Write, "applied_to", watched)
    return shapes


@pytest.mark.parametrize("spellings", ["both", "spaced"])
def test_a_long_answer_widens_its_own_block_and_changes_no_bit_of_any(tokenizer, blocks, tmp_path, spellings):
    """All latents of a large write as wide as that of its longest answer would not fit into memory."""
    model = make_tiny(tokenizer, spellings=spellings)
    facts = [*SHIPS[:70], LONGER, SHORT, *SHIPS[70:]]
    model.open_state(tmp_path / "edits.db")
    written = model.write(facts)
    assert [fact.prompt for fact in written] == [fact["prompt"] for fact in facts]
    assert [fact.id for fact in model.facts()] == [*range(1, len(facts) + 1)] == [fact.id for fact in written]
    assert len({fact.written_at for fact in written}) == 1 and model.history.file.undoable() == 1
    heights, widths = zip(*blocks)
    assert heights == (*[20] * 7, 12) and sorted(widths)[-2] < max(widths) == widths[3]

    # The same from all latents at once, put together here.
    read, layout = model.to_encode(facts_from(facts)), model.latent_encoder.layout
    values = dict(zip(read.slots, model.latent_encoder.encode([*read.slots], [*read.slots.values()])))
    lines = [values[start.text] for start in read.starts if start is not None]
    latents = torch.stack([values[text] for text in read.texts])
    assert bool(lines) == (spellings == "both")
    if lines:
        latents = with_both_beginnings(layout, latents, read.starts, torch.stack(lines))
    store = model.edited_state.store
    assert store.values(store.alive_rows()) == model.edited_state.memory.rest.packed(latents)
    model.undo()
    assert model.is_empty()
    model.close_state()


def test_one_fixed_update_is_of_all_facts(tokenizer, blocks):
    """It is made anew from the operations in a file, each of which is one update."""
    make_tiny(tokenizer, memory="fixed", memory_rows=64).write(SHIPS[:50])
    assert [height for height, _ in blocks] == [50]


def test_what_is_not_finite_in_a_later_block_leaves_nothing_of_those_before_it(tiny, blocks, monkeypatch):
    encode = tiny.latent_encoder.encode

    def spoilt(texts, slots=None):
        return encode(texts, slots) * torch.tensor(
            [[torch.nan if "ship 45" in text else 1.0] for text in texts]
        )

    tiny.write([SHORT])
    state = tiny.edited_state
    monkeypatch.setattr(tiny.latent_encoder, "encode", spoilt)
    with pytest.raises(ValueError, match="'The number of ship 45 is 45' is not finite"):
        tiny.write(SHIPS[:60])
    assert tiny.edited_state is state and tiny.facts() == state.store.facts()
    tiny.write(SHIPS[:40])
    assert len(tiny.facts()) == 41 and len({fact.id for fact in tiny.facts()}) == 41


def test_an_answer_past_the_limit_is_cut_at_its_end_and_says_so(tiny):
    tiny.config.answer_tokens = 6
    with pytest.warns(TruncationWarning, match="harbour guild.* 6 are kept .*first round"):
        tiny.write([LONG])
    layout = tiny.latent_encoder.layout
    ids = tiny.tokenizer(f"{LONG['prompt']} {LONG['target_new']}", add_special_tokens=False).input_ids
    kept = tiny.tokenizer.decode(ids[: len(ids) - tokens_of(tiny, LONG) + 6])
    expected = tiny.latent_encoder.encode([kept], [layout.needed(6)])
    torch.testing.assert_close(tiny.read([LONG["prompt"]]).latents, expected, atol=1e-4, rtol=1e-3)


def test_without_answer_tokens_every_latent_has_the_same_slots(tiny):
    tiny.config.answer_tokens = 0
    tiny.write(FACTS)
    read = tiny.read([fact["prompt"] for fact in FACTS])
    assert read.latents.shape[1] == tiny.config.latent_size


def test_an_answer_of_many_words_is_said_whole(larimar):
    """With the shipped checkpoint, beside the same with P slots whatever the answer."""
    right = {}
    for most in (200, 0):
        larimar.config.answer_tokens = most
        larimar.reset()
        larimar.write([LONG, LONGER])
        for fact in (LONG, LONGER):
            ids = larimar.tokenizer(f"{fact['prompt']} {fact['target_new']}", return_tensors="pt")
            count = tokens_of(larimar, fact)
            with torch.no_grad():
                length = torch.tensor([ids.input_ids.shape[1] - count])
                predicted = larimar(**ids, prompt_lengths=length).logits[0, -count - 1 : -1].argmax(-1)
            share = (predicted == ids.input_ids[0, -count:]).float().mean().item()
            right.setdefault(most, []).append(share)
    assert min(right[200]) > 0.8 and max(right[0]) < 0.7, right
