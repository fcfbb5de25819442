"""Facts and the edited state: immutable and shared cheaply."""

import pytest
import states
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from states import KEY, LATENT, blank, blank_fixed, draw, less, put, written

from larimar_editor.state.edited import diff
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore, changed_rows


def extended(store, facts, *numbers):
    """With a column and latents of these numbers."""
    column = torch.tensor(numbers, dtype=torch.float32)[:, None]
    return store.extended(facts, [bytes([number]) for number in numbers], {"scope": column})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=120))
def test_a_store_behaves_like_a_dictionary_and_its_ancestors_never_change(steps):
    store, expected, history = FactStore(), {}, []
    for write, number in steps:
        prompt = f"p{number}"
        if write and prompt not in expected:
            store = extended(store, [Fact(prompt, "t")], number)
            expected = expected | {prompt: number}
        elif not write and prompt in expected:
            store = store.without([store.row(prompt)])
            expected = {k: v for k, v in expected.items() if k != prompt}
        history.append((store, expected))
    for store, expected in history:
        assert {fact.prompt for fact in store.facts()} == expected.keys() and len(store) == len(expected)
        for prompt, number in expected.items():
            row = store.row(prompt)
            assert store.column("scope")[row].item() == number and store.values([row]) == [bytes([number])]
        assert all(store.row(f"p{n}") is None for n in range(31) if f"p{n}" not in expected)


def test_two_stores_that_extend_one_do_not_see_each_other():
    base = extended(FactStore(), [Fact("a", "1")], 1)
    left, right = extended(base, [Fact("b", "2")], 2), extended(base, [Fact("c", "3")], 3)
    assert [fact.prompt for fact in left.facts()] == ["a", "b"]
    assert [fact.prompt for fact in right.facts()] == ["a", "c"]
    for store, expected in ((left, [1, 2]), (right, [1, 3])):
        assert store.column("scope")[store.alive_rows()].flatten().tolist() == expected
    assert base.row("b") is None and base.row("c") is None and left.row("c") is None
    assert len({fact.id for store in (left, right) for fact in store.facts()}) == 3, "no id is of two facts"


def test_ids_are_never_used_twice_and_subjects_fill_templates():
    store = extended(FactStore(), [Fact("a", "1"), Fact("b", "2")], 1, 2).without([1])
    assert [f.id for f in extended(store, [Fact("b", "2")], 2).facts()] == [1, 3]
    fact = Fact.from_request({"prompt": "The capital of {} is", "subject": "Peru", "target_new": "Rome"})
    assert fact.text == "The capital of Peru is Rome"
    assert Fact("ends with space ", "x").text == "ends with space x" and Fact("p", " x").text == "p x"


@pytest.mark.parametrize("name", [True, False])
def test_a_truth_value_is_no_id(name):
    """`forget(True)`, a slip, would forget fact 1."""
    store = extended(FactStore(), [Fact("a", "1")], 1)
    with pytest.raises(TypeError, match=f"by its id, got {name}"):
        store.rows([name])
    assert store.row(1) == 0


def test_the_dead_are_dropped_once_they_are_the_majority():
    store = FactStore()
    for number in range(1000):
        store = extended(store, [Fact(f"p{number}", "t")], number % 250)
        store = store.without([store.row(f"p{number - 20}")]) if number >= 20 else store
    assert len(store) == 20 and store.length < 150


@pytest.mark.parametrize("like", [blank, blank_fixed])
def test_an_encoding_that_is_not_finite_is_refused_with_its_fact(like):
    state = written(like=like())
    bad = torch.full((1, LATENT), float("nan"))
    with pytest.raises(ValueError, match="value of 'New target' is not finite"):
        put(state, [Fact("New", "target")], bad, torch.zeros(1, KEY), torch.zeros(1, KEY))


def test_more_facts_than_rows_and_then_none_in_a_fixed_memory():
    state = written(15, blank_fixed(4))
    assert state.memory.memory.rows_written == 15
    left = less(state, *(f"prompt {i} " for i in range(14)))
    assert len(left.store) == 1
    torch.testing.assert_close(left.read(None, draw(KEY, 14)), draw(LATENT, 14), atol=1e-4, rtol=1e-4)
    assert not less(left, "prompt 14 ").memory.memory.M.any()


def test_the_difference_of_two_states_is_what_was_done_between_them():
    first, keys = written(), torch.ones(2, KEY)
    second = put(
        less(first, "prompt 0", 3),
        [Fact("prompt 1 ", "another"), Fact("new", "one")],
        torch.ones(2, LATENT),
        keys,
        keys,
        written_at=5.0,
    )
    found = diff(first, second)
    assert [fact.prompt for fact in found.written] == ["new"] and found.written[0].written_at == 5.0
    assert [fact.prompt for fact in found.forgotten] == ["prompt 0 ", "prompt 2 "]
    assert [(a.target_new, b.target_new) for a, b in found.changed] == [("target 1", "another")]
    back = diff(second, first)
    assert back.written == found.forgotten and back.forgotten == found.written
    assert not diff(first, first) and found


def test_what_changed_is_the_same_whether_rows_are_shared_or_not():
    first = written(8)
    second = states.write(20).applied_to(less(first, 2, 5))
    shared = changed_rows(first.store, second.store)
    apart = changed_rows(first.store.compacted(), second.store.compacted())
    names = lambda store, rows: [fact.prompt for fact in store.entries.facts(rows)]
    assert (
        names(first.store, shared[0])
        == names(first.store.compacted(), apart[0])
        == ["prompt 1 ", "prompt 4 "]
    )
    assert names(second.store, shared[1]) == names(second.store.compacted(), apart[1]) == ["prompt 20 "]


def test_a_store_that_could_not_be_extended_is_extended_later(monkeypatch):
    """A failure at any copy leaves nothing behind that a later write trips over."""
    store = extended(FactStore(), [Fact(f"p{i}", "t") for i in range(16)], *range(16))
    copy, tries = torch.Tensor.__setitem__, []

    def fails(tensor, *args):
        tries.append(1)
        raise MemoryError("no room")

    monkeypatch.setattr(torch.Tensor, "__setitem__", fails)
    with pytest.raises(MemoryError):
        extended(store, [Fact("more", "t")], 16)
    monkeypatch.setattr(torch.Tensor, "__setitem__", copy)
    later = extended(store, [Fact("more", "t")], 17)
    assert tries and later.column("scope").flatten().tolist() == [*range(16), 17] and len(store) == 16


@pytest.mark.parametrize(
    "prompt, turned",
    [
        ("The capital of Oleva is", "Brin is the capital of"),
        ("Oleva's first capital was", "Brin was the first capital of"),
        ("What is the capital of Oleva?", "Brin is the capital of"),
        ("Which town was Oleva’s capital?", "Brin was the capital of"),
        ("Oleva lies in", None),
        ("The capital of Oleva was founded in", None),
        ("The capital of old Oleva is", None),
    ],
)
def test_a_fact_is_turned_round_where_its_form_says_how(prompt, turned):
    fact = Fact(prompt, "Brin.", subject="Oleva").turned_round()
    assert (fact and fact.prompt) == turned
    if fact:
        assert (fact.target_new, fact.subject) == ("Oleva", "Brin")
        back = fact.turned_round()
        assert back is None, "it asks for the one that has the role, not for the role"
    assert Fact(prompt, "Brin").turned_round() is None, "of what it is about nothing is known"
