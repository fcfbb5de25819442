"""Facts and the edited state: immutable and shared cheaply."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import less, put

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.state.edited import EditedState, diff
from larimar_editor.state.facts import Fact, FactStore


def rows(*numbers):
    return {"value": torch.tensor(numbers, dtype=torch.float32)[:, None]}


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=120))
def test_a_store_behaves_like_a_dictionary_and_its_ancestors_never_change(steps):
    store, expected, history = FactStore(), {}, []
    for write, number in steps:
        prompt = f"p{number}"
        if write and prompt not in expected:
            store = store.extended([Fact(prompt, "t")], rows(number))
            expected = expected | {prompt: number}
        elif not write and prompt in expected:
            store = store.without([store.row(prompt)])
            expected = {k: v for k, v in expected.items() if k != prompt}
        history.append((store, expected))
    for store, expected in history:
        assert {fact.prompt for fact in store.facts()} == expected.keys() and len(store) == len(expected)
        for prompt, number in expected.items():
            assert store.column("value")[store.row(prompt)].item() == number
        assert all(store.row(f"p{n}") is None for n in range(31) if f"p{n}" not in expected)


def test_two_stores_that_extend_one_do_not_see_each_other():
    base = FactStore().extended([Fact("a", "1")], rows(1))
    left, right = base.extended([Fact("b", "2")], rows(2)), base.extended([Fact("c", "3")], rows(3))
    assert [fact.prompt for fact in left.facts()] == ["a", "b"]
    assert [fact.prompt for fact in right.facts()] == ["a", "c"]
    assert left.column("value").flatten().tolist() == [1, 2] and right.column("value").flatten().tolist() == [
        1,
        3,
    ]
    assert base.row("b") is None and base.row("c") is None


def test_ids_are_never_used_twice_and_subjects_fill_templates():
    store = FactStore().extended([Fact("a", "1"), Fact("b", "2")], rows(1, 2)).without([1])
    assert [f.id for f in store.extended([Fact("b", "2")], rows(2)).facts()] == [1, 3]
    fact = Fact.from_request({"prompt": "The capital of {} is", "subject": "Peru", "target_new": "Rome"})
    assert fact.text == "The capital of Peru is Rome"
    assert Fact("ends with space ", "x").text == "ends with space x" and Fact("p", " x").text == "p x"


def state(facts=4, num_rows=6):
    generator = torch.Generator().manual_seed(0)
    blank = EditedState(Memory.empty(num_rows, 5), Reference.from_prompts(num_rows, 7), FactStore())
    new = [Fact(f"prompt {i}", f"target {i}") for i in range(facts)]
    draw = lambda size: torch.randn(facts, size, generator=generator)
    return blank, put(blank, new, draw(5), draw(7), draw(3))


def test_an_encoding_that_is_not_finite_is_refused_with_its_fact():
    _, written = state()
    bad = torch.full((1, 5), float("nan"))
    with pytest.raises(ValueError, match="value of 'New target' is not finite"):
        put(written, [Fact("New", "target")], bad, torch.zeros(1, 7), torch.zeros(1, 3))


def test_more_facts_than_rows_and_then_none():
    _, written = state(facts=15, num_rows=4)
    assert written.memory.rows_written == 15
    left = less(written, *(f"prompt {i}" for i in range(14)))
    assert len(left.store) == 1
    weights = left.store.column("weight")[[left.store.row("prompt 14")]]
    torch.testing.assert_close(
        left.memory.read(weights),
        left.store.column("value")[[left.store.row("prompt 14")]],
        atol=1e-4,
        rtol=1e-4,
    )
    assert not less(left, "prompt 14").memory.M.any()


def test_the_difference_of_two_states_is_what_was_done_between_them():
    _, first = state()
    draw = lambda size: torch.ones(2, size)
    second = put(
        less(first, "prompt 0", 3),
        [Fact("prompt 1 ", "another"), Fact("new", "one")],
        draw(5),
        draw(7),
        draw(3),
        written_at=5.0,
    )
    found = diff(first, second)
    assert [fact.prompt for fact in found.written] == ["new"] and found.written[0].written_at == 5.0
    assert [fact.prompt for fact in found.forgotten] == ["prompt 0", "prompt 2"]
    assert [(a.target_new, b.target_new) for a, b in found.changed] == [("target 1", "another")]
    back = diff(second, first)
    assert back.written == found.forgotten and back.forgotten == found.written
    assert not diff(first, first) and found


def test_a_store_that_could_not_be_extended_is_extended_later(monkeypatch):
    """A failure at any copy leaves nothing behind that a later write trips over."""
    store = FactStore().extended([Fact(f"p{i}", "t") for i in range(16)], rows(*range(16)))
    copy, tries = torch.Tensor.__setitem__, []

    def fails(tensor, *args):
        tries.append(1)
        raise MemoryError("no room")

    monkeypatch.setattr(torch.Tensor, "__setitem__", fails)
    with pytest.raises(MemoryError):
        store.extended([Fact("more", "t")], rows(16))
    monkeypatch.setattr(torch.Tensor, "__setitem__", copy)
    later = store.extended([Fact("more", "t")], rows(17))
    assert tries and later.column("value").flatten().tolist() == [*range(16), 17] and len(store) == 16
