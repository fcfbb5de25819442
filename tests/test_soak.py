"""What only many edits show: drift, leaks, and the one byte in a thousand. `make soak` runs these."""

import gc
import statistics
import time

import psutil
import pytest
import torch
from conftest import FACTS, make_tiny
from crashes import killed
from states import ORIGIN, blank, less, put, same, write, written

from larimar_editor.memory.addressing import Reference
from larimar_editor.memory.memory import Memory
from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import Fact, FactStore
from larimar_editor.state.files import load_state, save_state
from larimar_editor.state.journaled_folder import JournaledFolder

pytestmark = [
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore::larimar_editor.state.journal.TornRecordWarning"),
]

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


def test_an_edited_state_after_100_000_edits_is_the_solution_of_what_is_written():
    """Facts come and go, more of them than rows, with keys in clusters and weights spread over rows."""
    generator = torch.Generator().manual_seed(3)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    state = EditedState(Memory.empty(24, 16), Reference.from_prompts(24, 24, alpha=0.5), FactStore())
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
            weights, values = (
                state.store.column(column)[state.store.alive] for column in ("weight", "value")
            )
            early = state if not errors else early
            errors.append(
                float(
                    (weights.double() @ state.memory.M - weights.double() @ solution(weights, values))
                    .abs()
                    .max()
                )
            )
    print(f"\nlargest error of a readout: {[f'{error:.1e}' for error in errors]}, {len(state.store)} facts")
    ratio = cost_of_an_edit(state) / cost_of_an_edit(early)
    ratio = statistics.median([ratio, *(cost_of_an_edit(state) / cost_of_an_edit(early) for _ in range(8))])
    print(f"an edit after 100,000 takes {ratio:.2f} times one after 10,000")
    assert max(errors) < 1e-6 and state.store.length < 1000, "the dead are dropped"
    assert ratio < 1.3, "nothing of the cost grows"


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


def test_10_000_edits_of_a_model_with_a_journal_take_no_more_memory(tokenizer, tmp_path):
    model, process = make_tiny(tokenizer, memory_rows=64), psutil.Process()
    model.open_journal(tmp_path)
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
    assert len(model.facts()) == 50 and sum(path.stat().st_size for path in tmp_path.iterdir()) < 64 * 2**20
    before = model.edited_state
    model.close_journal()
    model.load_state(tmp_path)
    assert same(model.edited_state, before)
    model.write(FACTS)


def test_a_save_and_a_journal_killed_at_every_byte(tmp_path):
    old, new = written(1), written(2)
    save_state(new, tmp_path, ORIGIN)
    largest = max(path.stat().st_size for path in tmp_path.iterdir())
    outcomes = set()
    for point in range(largest + 1):
        save_state(old, tmp_path, ORIGIN)
        died = killed(lambda: save_state(new, tmp_path, ORIGIN), at_byte=point, folder=tmp_path)
        loaded = load_state(blank(), tmp_path, ORIGIN)
        assert same(loaded, old if died else new)
        outcomes.add(died)
    save_state(old, tmp_path, ORIGIN)
    held = JournaledFolder(tmp_path, blank(), ORIGIN)
    path, size = held._journal.path, held._journal.size
    held.close()
    whole, done = path.read_bytes(), write(5)

    def edit():
        held = JournaledFolder(tmp_path, blank(), ORIGIN)
        held.record(done, done.applied_to(held.state))

    for point in range(size, size + 1000):
        path.write_bytes(whole)
        died = killed(edit, at_byte=point, folder=tmp_path)
        assert same(load_state(blank(), tmp_path, ORIGIN), old if died else done.applied_to(old))
        outcomes.add((died, "journal"))
    assert outcomes == {True, False, (True, "journal"), (False, "journal")}
