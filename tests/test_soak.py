"""What only many edits show: drift, leaks, and the one byte in a thousand. `make soak` runs these."""

import gc
import statistics
import time

import psutil
import pytest
import torch
from conftest import FACTS, make_tiny
from crashes import killed
from states import ORIGIN, blank, less, put, same, written

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.memory.rest import Rest
from larimar_editor.memory.slots import SlotLayout
from larimar_editor.state.edited import EditedState
from larimar_editor.state.fact import Fact
from larimar_editor.state.facts import FactStore
from larimar_editor.state.fixed import Fixed
from larimar_editor.state.paged import Pages
from larimar_editor.state.saved import load_state, save_state

pytestmark = pytest.mark.soak

UPDATES = 100_000


def relative_error(found, weights, values):
    exact = torch.linalg.lstsq(weights.double(), values.double(), driver="gelsd").solution
    return float((found.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize(("accumulate", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_drift_after_100_000_writes_and_forgets_stays_below_the_stated_bound(accumulate, bound):
    """Encodings in float32, 96 to 128 facts in 32 rows: the error is of M, relative to its largest number.

    Looked at after every 10,000th update.
    """
    generator = torch.Generator().manual_seed(2)
    rows, columns, most = 32, 16, 128
    memory = Memory.empty(rows, columns, accumulate_dtype=accumulate)
    weights, values, errors = [], [], []
    for number in range(UPDATES):
        if len(weights) >= most or (len(weights) > 96 and torch.rand((), generator=generator) < 0.5):
            place = int(torch.randint(len(weights), (), generator=generator))
            memory = memory.forget(values.pop(place)[None], weights.pop(place)[None])
        else:
            weights.append(torch.randn(rows, generator=generator))
            values.append(torch.randn(columns, generator=generator))
            memory = memory.write(values[-1][None], weights[-1][None])
        if number % 10_000 == 9_999:
            errors.append(relative_error(memory.M, torch.stack(weights), torch.stack(values)))
    print(f"\n{accumulate}: relative errors {[f'{error:.1e}' for error in errors]}")
    assert memory.M.dtype == accumulate and max(errors) < bound


@pytest.mark.parametrize("kind", ["pages", "fixed"])
def test_an_edited_state_after_100_000_edits_is_the_solution_of_what_is_written(kind):
    """Facts come and go; with a fixed memory more of them than rows, with keys in clusters and weights spread
    over rows.
    """
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    rest = Rest(SlotLayout(1, 16), "float32")
    reference = Reference.from_prompts(24, 24, alpha=0.5)
    fixed, pages = Fixed(Memory.empty(24, 16), reference, rest), Pages(24, 1e-3, rest, torch.device("cpu"))
    state = EditedState(fixed if kind == "fixed" else pages, FactStore())
    centres, errors, early = draw(12, 24), [], state
    for number in range(UPDATES):
        name = int(torch.randint(64, (), generator=generator))
        prompt = f"prompt {name}"
        if state.store.row(prompt) is not None and torch.rand((), generator=generator) < 0.5:
            state = less(state, prompt)
        else:
            key = centres[name % 12] + 0.3 * torch.randn(24, generator=torch.Generator().manual_seed(name))
            state = put(state, [Fact(prompt, f"target {number}")], draw(1, 16), key[None], key[None])
        if number % 10_000 == 9_999:
            early = state if not errors else early
            errors.append(error_of_readouts(state))
    print(f"\nlargest error of a readout: {[f'{error:.1e}' for error in errors]}, {len(state.store)} facts")
    ratio = cost_of_an_edit(state) / cost_of_an_edit(early)
    ratio = statistics.median([ratio, *(cost_of_an_edit(state) / cost_of_an_edit(early) for _ in range(8))])
    print(f"an edit after 100,000 takes {ratio:.2f} times one after 10,000")
    assert max(errors) < 1e-6 and state.store.length < 1000, "the dead are dropped"
    assert ratio < 1.3, "nothing of the cost grows"


def error_of_readouts(state):
    """Largest error of what is read of the written facts, by LAPACK's solution."""
    rows = state.store.alive_rows()
    values = state.memory.rest.unpacked(state.store.values(rows))
    if isinstance(state.memory, Pages):
        return float((state.read(rows, None) - values).abs().max())
    weights = state.store.column("weight")[rows].double()
    wanted = weights @ solution(weights, values)
    return float((weights @ state.memory.memory.M - wanted).abs().max())


def cost_of_an_edit(state):
    """Seconds of a write and a forget, a median; in turn with another state's, as a machine's speed
    changes.
    """
    spent = []
    for number in range(40):
        key = torch.randn(1, 24, generator=torch.Generator().manual_seed(number))
        began = time.perf_counter()
        state = less(
            put(state, [Fact(f"timed {number}", "target")], key[:, :16], key, key), f"timed {number}"
        )
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def solution(weights, values):
    return torch.linalg.lstsq(weights.double(), values.double(), rcond=1e-6, driver="gelsd").solution


def test_10_000_edits_of_a_model_with_a_file_take_no_more_memory(tokenizer, tmp_path):
    model, process, path = make_tiny(tokenizer, memory_rows=64), psutil.Process(), tmp_path / "edits.db"
    model.open_state(path)
    sizes, objects = [], []
    for number in range(10_000):
        # Few words: the tokenizers remember up to 10,000 each, which is a growth that ends, but only after
        # these edits.
        if number >= 50:
            model.forget(f"The number of house {(number - 50) % 300} is")
        model.write([{"prompt": f"The number of house {number % 300} is", "target_new": str(number % 200)}])
        if number % 1000 == 999:
            gc.collect()
            sizes.append(process.memory_info().rss / 2**20)
            objects.append(len(gc.get_objects()))
    print(f"\nMiB: {[round(size) for size in sizes]}; objects: {objects}")
    assert max(sizes[2:]) < sizes[1] + 10 and objects[-1] < 1.02 * objects[1], "flat after the first 2,000"
    assert len(model.facts()) == 50
    before = model.edited_state
    model.close_state()
    model.load_state(path)
    assert same(model.edited_state, before)
    model.write(FACTS)


def test_a_save_killed_at_bytes_all_over_the_file(tmp_path):
    path, old, new, outcomes = tmp_path / "edits.db", written(1), written(2), set()
    save_state(old, path, ORIGIN)
    content = path.read_bytes()
    for point in range(0, 2 * len(content), 97):
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(content)
        died = killed(lambda: save_state(new, path, ORIGIN), at_byte=point)
        loaded = load_state(blank(), path, ORIGIN)
        assert same(loaded, old) or same(loaded, new)
        outcomes.add((died, same(loaded, new)))
    assert {(True, False), (False, True)} <= outcomes
