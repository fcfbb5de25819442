"""Pages: no ceiling, exact forgetting, and the paper's memory where it has room."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import KEY, LATENT, blank, blank_fixed, draw, less, put, write, written

from larimar_editor.memory.rest import Rest
from larimar_editor.memory.slots import SlotLayout
from larimar_editor.state.fact import Fact

SLOTS = SlotLayout(2, 70)


def latents(counts, seed=0):
    """Of so many slots each, numbers of very unlike sizes."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randn(len(counts), max(counts), SLOTS.code_size, generator=generator)
    codes = codes * torch.logspace(3, -2, SLOTS.code_size)
    for row, count in enumerate(counts):
        codes[row, : len(codes[row]) - count] = 0
    return SLOTS.joined(codes, torch.tensor(counts))


@pytest.mark.parametrize(("dtype", "bound"), [("int8", 1 / 254), ("float16", 1e-3), ("float32", 0)])
def test_a_latent_at_rest_is_itself_within_its_precision(dtype, bound):
    Z, rest = latents([2, 5, 3]), Rest(SLOTS, dtype)
    kept = rest.packed(Z)
    assert [len(each) // rest.slot_bytes for each in kept] == [2, 5, 3], "each as long as its answer"
    back = rest.unpacked(kept)
    codes, counts = SLOTS.split(back)
    assert counts.tolist() == [2, 5, 3], "a mark of 1 is not lost beside numbers of a thousand"
    error, size = (codes - SLOTS.split(Z)[0]).abs(), SLOTS.split(Z)[0].abs()
    runs = [slice(0, 64), slice(64, 70)]
    for run in runs:
        limit = size[..., run].amax(dim=2, keepdim=True) if dtype == "int8" else size[..., run]
        assert bool((error[..., run] <= limit * bound * 1.0001 + 1e-7 * (dtype == "float16")).all())
    assert rest.packed(Z[1:2]) == kept[1:2], "of each alone"


def test_bytes_that_are_no_latent_are_refused():
    rest = Rest(SLOTS, "int8")
    (kept,) = rest.packed(latents([2]))
    for data in (kept[:-1], kept[: rest.slot_bytes], b""):
        with pytest.raises(ValueError, match="are no latent of int8"):
            rest.unpacked([data])
    with pytest.raises(ValueError, match="float16 cannot hold"):
        Rest(SLOTS, "float16").packed(1e6 * latents([2]))
    assert rest.unpacked([]).shape == (0, SLOTS.core)


def test_a_page_reads_what_the_papers_memory_reads_while_that_has_room():
    """The closed form that pages leave out: one-hot weights, and so rows that are the encodings."""
    paged, papers = blank(16, "float32"), blank_fixed(16)
    for operation in (write(0, 1, 2), write(3), write(4, 5)):
        paged, papers = operation.applied_to(paged), operation.applied_to(papers)
    paged, papers = less(paged, "prompt 1 "), less(papers, "prompt 1 ")
    keys = draw(KEY, 0, 2, 3, 4, 5)
    rows = [paged.store.row(f"prompt {number} ") for number in (0, 2, 3, 4, 5)]
    torch.testing.assert_close(paged.read(rows, None), papers.read(None, keys), atol=1e-5, rtol=1e-5)
    near = keys + 0.01 * draw(KEY, 10, 11, 12, 13, 14)
    torch.testing.assert_close(paged.read(rows, near), papers.read(None, near), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(paged.read(None, near), paged.read(rows, near), atol=0, rtol=0)


def test_nothing_is_lost_past_k_where_the_papers_memory_loses_all():
    paged, papers = written(40, blank(4)), written(40, blank_fixed(4))
    Z, keys = draw(LATENT, *range(40)), draw(KEY, *range(40))
    read = paged.read([paged.store.row(number + 1) for number in range(40)], None)
    assert float((read - Z).norm() / Z.norm()) < 0.01
    assert float((papers.read(None, keys) - Z).norm() / Z.norm()) > 0.5


def test_equal_keys_have_a_row_each():
    key, Z = draw(KEY, 1).expand(2, KEY), draw(LATENT, 1, 2)
    state = put(blank(dtype="float32"), [Fact("The capital", "a"), Fact("the capital", "b")], Z, key, key)
    assert torch.equal(state.read([0, 1], None), Z)


steps = st.lists(
    st.tuples(
        st.sampled_from(["write", "rewrite", "forget", "clear"]),
        st.lists(st.integers(0, 11), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(steps=steps, rows=st.integers(1, 4))
def test_after_any_edits_the_state_is_one_that_only_ever_held_what_is_left(steps, rows):
    """To the bit, however memory is read; pages fall in two, are emptied and filled again."""
    state, left = blank(rows), {}
    for number, (kind, names) in enumerate(steps):
        names = list(dict.fromkeys(names))
        if kind == "clear":
            state, left = state.cleared(), {}
        elif kind == "forget":
            names = [name for name in names if name in left]
            state = less(state, *(f"prompt {name}" for name in names))
            left = {name: made for name, made in left.items() if name not in names}
        else:
            made = {name: (name, 50 + number if kind == "rewrite" else name) for name in names}
            state = put(state, *_encoded(made.values()))
            left = {name: was for name, was in left.items() if name not in made} | made
    expected = blank(rows)
    for each in left.values():
        expected = put(expected, *_encoded([each]))
    assert [fact.prompt for fact in state.store.facts()] == [fact.prompt for fact in expected.store.facts()]
    assert state.store.values(state.store.alive_rows()) == expected.store.values(expected.store.alive_rows())
    for name in left:
        read = [_reads(each, each.store.row(f"prompt {name}"), draw(KEY, name)) for each in (state, expected)]
        assert all(map(torch.equal, *read))


def _encoded(made):
    names, values = zip(*made)
    keys = draw(KEY, *names)
    return [Fact(f"prompt {name}", "t") for name in names], draw(LATENT, *values), keys, keys


def _reads(state, row, key):
    """By fact, by its key, by a key near it, and with noise on the weights."""
    near = key + 0.3 * draw(KEY, 99)
    torch.manual_seed(0)
    return [
        state.read([row], None),
        state.read([row], key),
        state.read([row], near),
        state.read([row], None, 0.1),
    ]


def test_a_page_holds_at_most_k_and_every_fact_is_on_one():
    state = written(100, blank(8))
    pages = {tuple(state.memory.page(state.store, row)) for row in range(100)}
    assert max(map(len, pages)) <= 8 and sorted(row for page in pages for row in page) == list(range(100))
    left = less(state, *range(1, 96))
    assert left.memory.page(left.store, 97) == [95, 96, 97, 98, 99], "few facts are on one page again"
