"""The nearest written prompt: the same answer from every row compared and from an index, whatever was
forgotten or undone.
"""

import sys

import numpy as np
import pytest
import torch
from conftest import FACTS, UNRELATED
from torch.nn import functional as F

from larimar_editor.model import episodic as episodic_module
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.scope.nearest import GraphIndex, cosines, exact, indexed


def cosine(queries, written):
    """Of unit vectors: what the external detector compares by."""
    return queries @ written.T


def unit(*shape, seed=0):
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss", reason="FAISS is not installed")


def first(lookup, queries):
    score, row = lookup(queries, 1)
    return score[:, 0], row[:, 0]


def test_the_few_nearest_come_best_first_and_what_lacks_is_marked(faiss):
    rows, queries = unit(300, 24), unit(20, 24, seed=1)
    alive = torch.rand(300, generator=torch.Generator().manual_seed(2)) < 0.5
    products = rows.double().numpy() @ queries.double().numpy().T
    products[~alive.numpy()] = -np.inf
    wanted = np.argsort(-products, axis=0)[:5].T
    index = GraphIndex(24)
    compare = exact(cosine, rows, alive)
    for lookup in (compare, indexed(index, compare, rows, alive)):
        score, row = lookup(queries, 5)
        known = (row >= 0).numpy()
        assert (row.numpy()[known] == wanted[known]).mean() > 0.99 and known[:, 0].all()
        assert bool((score[:, :-1] >= score[:, 1:]).all())
    few = torch.zeros(300, dtype=torch.bool)
    few[[3, 9]] = True
    score, row = exact(cosine, rows, few)(queries, 4)
    assert {*row[:, :2].flatten().tolist()} == {3, 9} and bool((row[:, 2:] == -1).all())
    assert bool(torch.isinf(score[:, 2:]).all())


def test_every_living_row_is_compared():
    rows, queries = unit(200, 24), unit(30, 24, seed=1)
    alive = torch.rand(200, generator=torch.Generator().manual_seed(2)) < 0.5
    score, row = first(exact(cosine, rows, alive), queries)
    products = rows.double().numpy() @ queries.double().numpy().T
    products[~alive.numpy()] = -np.inf
    assert row.tolist() == products.argmax(axis=0).tolist()
    np.testing.assert_allclose(score.numpy(), products.max(axis=0), rtol=1e-5)
    for nothing in (exact(cosine, rows[:0]), exact(cosine, rows, torch.zeros(200, dtype=torch.bool))):
        score, row = first(nothing, queries)
        assert torch.isinf(score).all() and (row == -1).all()


@pytest.mark.parametrize("queries", [1, 3, 4, 40])
def test_rows_in_half_precision_are_ranked_as_in_float64(queries):
    """A shortlist in half precision, whose steps are coarse, loses none of the nearest; also where many are
    nearly as near, and where most are dead.
    """
    middle = unit(1, 32)
    rows = F.normalize(torch.cat((middle + 0.05 * unit(1500, 32, seed=1), unit(3000, 32, seed=2))), dim=1)
    rows, alive = rows.half(), torch.rand(4500, generator=torch.Generator().manual_seed(3)) < 0.7
    asked = F.normalize(middle + 0.3 * unit(queries, 32, seed=4), dim=1)
    for living in (alive, torch.arange(4500) % 700 == 0, torch.zeros(4500, dtype=torch.bool)):
        score, row = cosines(rows, living)(asked, 8)
        products = asked.double().numpy() @ rows.double().numpy().T
        products[:, ~living.numpy()] = -np.inf
        wanted = np.sort(products, axis=1)[:, ::-1][:, :8]
        np.testing.assert_allclose(score.numpy(), wanted, atol=1e-6)
        assert ((row >= 0).numpy() == np.isfinite(wanted)).all()
        chosen = np.take_along_axis(products, row.numpy(), axis=1)
        np.testing.assert_allclose(chosen[wanted > -2], wanted[wanted > -2], atol=1e-6)


def test_an_index_finds_what_comparing_finds(faiss):
    rows = unit(4000, 48)
    noise = 0.5 * unit(300, 48, seed=4)
    queries = F.normalize(rows[::13][:300] + noise, dim=1)
    alive = torch.ones(4000, dtype=torch.bool)
    alive[::26] = False  # half of the queries' own rows
    index = GraphIndex(48)
    index.extend(rows[:1000])
    score, row = first(
        indexed(index, exact(cosine, rows, alive), rows, alive), queries
    )  # the rest is added on the way
    wanted_score, wanted = first(exact(cosine, rows, alive), queries)
    assert len(index) == 4000 and float((row == wanted).float().mean()) >= 0.99
    same = row == wanted
    torch.testing.assert_close(score[same], wanted_score[same], atol=1e-5, rtol=0)


def test_rows_of_a_later_state_and_dead_ones_are_passed_over(faiss):
    rows = unit(500, 16)
    index = GraphIndex(16)
    index.extend(rows)
    before = torch.ones(100, dtype=torch.bool)  # an earlier state has the first 100 rows
    compare = exact(cosine, rows[:100], before)
    wanted, found = (
        first(lookup, rows)[1] for lookup in (compare, indexed(index, compare, rows[:100], before))
    )
    assert found.equal(wanted)
    last = torch.zeros(500, dtype=torch.bool)
    last[7] = True
    assert (first(indexed(index, exact(cosine, rows, last), rows, last), rows[:50])[1] == 7).all()


def test_candidates_are_as_many_whatever_was_forgotten_nearby(faiss):
    """The second stage is shown several, of which the nearest may not be the one."""
    near = torch.nn.functional.normalize(torch.eye(16)[:1] + 0.01 * unit(15, 16), dim=1)
    rows = torch.cat((near, unit(500, 16)))
    alive = torch.ones(len(rows), dtype=torch.bool)
    alive[1:15] = False
    index = GraphIndex(16)
    index.extend(rows)
    compare = exact(cosine, rows, alive)
    found, wanted = indexed(index, compare, rows, alive)(near[:1], 8), compare(near[:1], 8)
    assert found[1].tolist() == wanted[1].tolist() and (found[1] >= 0).all()


def test_a_model_with_an_index_decides_as_without(faiss, tiny, monkeypatch):
    monkeypatch.setattr(episodic_module, "INDEX_FROM", 1)
    prompts = [fact["prompt"] for fact in FACTS] + ["Portugal's capital is the city of", *UNRELATED]

    def compared():
        found = {}
        for kind in ("exact", "faiss"):
            tiny.config.scope_index = kind
            found[kind] = tiny.scope_of(prompts)
        torch.testing.assert_close(found["faiss"].score, found["exact"].score, atol=1e-5, rtol=0)
        assert found["faiss"].nearest.tolist() == found["exact"].nearest.tolist()
        return found["faiss"].in_scope.tolist()

    tiny.write(FACTS)
    assert compared()[:3] == [True, True, True]
    full = tiny.edited_state
    tiny.forget(FACTS[1]["prompt"])
    assert compared()[:3] == [True, False, True]
    tiny.write([{"prompt": "The tallest tower of Lisbon is", "target_new": "new"}])
    compared()
    tiny.edited_state = full
    assert compared()[:3] == [True, True, True]
    tiny.reset()
    assert compared() == [False] * len(prompts)


def test_without_faiss_the_message_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ModuleNotFoundError, match="pip install faiss-cpu"):
        GraphIndex(8)
    with pytest.raises(ValueError, match="scope_index must be one of exact, faiss"):
        LarimarConfig(scope_index="annoy")
