"""With a journal, an edit that was reported as done is there after any crash, and damage is told from a torn
end.
"""

import copy
import os
import random

import pytest
import torch
from conftest import FACTS
from crashes import killed
from states import ORIGIN, blank, less, same, write, written

from larimar_editor.state import files as statefiles
from larimar_editor.state import journaled_folder as journaled
from larimar_editor.state.files import load_state
from larimar_editor.state.journal import Journal, TornRecordWarning, read_journal
from larimar_editor.state.journaled_folder import JournaledFolder
from larimar_editor.state.operations import Clear, Forget

OPERATIONS = [
    write(0),
    write(1, 2),
    Forget((2,)),
    write(1, text="again"),
    Clear(),
    write(3, 4, 5),
    Forget((6, 7)),
]


def states_of(operations):
    states = [blank()]
    for done in operations:
        states.append(done.applied_to(states[-1]))
    return states


def filled(folder):
    """A folder whose journal has all operations, and where each record ends."""
    held, ends = JournaledFolder(folder, blank(), ORIGIN), []
    for done in OPERATIONS:
        ends.append(held._journal.size)
        held.record(done, done.applied_to(held.state))
    held.close()
    return held._journal or next(folder.glob("journal-*")), [
        *ends,
        next(folder.glob("journal-*")).stat().st_size,
    ]


def test_what_is_replayed_is_what_was_done_to_the_bit(tmp_path):
    path, _ = filled(tmp_path)
    states = states_of(OPERATIONS)
    assert same(load_state(blank(), tmp_path, ORIGIN), states[-1])
    again = JournaledFolder(tmp_path, blank(), ORIGIN)
    assert same(again.state, states[-1]), "opened again it goes on from there"
    again.record(Clear(), again.state.cleared())
    again.close()
    assert len(load_state(blank(), tmp_path, ORIGIN).store) == 0
    assert [done.name for done in read_journal(path)] == [*(done.name for done in OPERATIONS), "clear"]


def test_a_journal_cut_at_any_byte_is_the_state_after_its_whole_records(tmp_path):
    path, ends = filled(tmp_path)
    states, whole = states_of(OPERATIONS), path.read_bytes()
    chance = random.Random(1)
    points = {
        *ends,
        *(end + 1 for end in ends[:-1]),
        *(end - 1 for end in ends[1:]),
        *chance.sample(range(len(whole)), 60),
    }
    for point in sorted(points):
        path.write_bytes(whole[:point])
        count = sum(end <= point for end in ends[1:])
        if point in ends or point < ends[0]:
            assert same(load_state(blank(), tmp_path, ORIGIN), states[count])
        else:
            with pytest.warns(TornRecordWarning, match=f"number {count}, is torn"):
                assert same(load_state(blank(), tmp_path, ORIGIN), states[count])


def test_damage_before_the_last_record_is_an_error_and_changes_nothing(tmp_path):
    path, ends = filled(tmp_path)
    whole, chance = path.read_bytes(), random.Random(2)
    for place in {8, 9, 16, 24, ends[1] + 1, *(chance.randrange(ends[-2]) for _ in range(120))}:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            load_state(blank(), tmp_path, ORIGIN)
        with pytest.raises(ValueError, match="damaged"):
            JournaledFolder(tmp_path, blank(), ORIGIN)
        assert path.read_bytes() == bytes(damaged), "not cut, for whoever wants to mend it"
    cut_out = whole[: ends[1]] + whole[ends[2] :]
    path.write_bytes(cut_out)
    with pytest.raises(ValueError, match="damaged"):
        load_state(blank(), tmp_path, ORIGIN)


def test_edits_killed_at_any_byte_or_step_are_whole_or_not_there(tmp_path):
    """As a service is killed: what was recorded before is there, and the one under way is there or not."""
    states = states_of(OPERATIONS[:4])

    def edit():
        held = JournaledFolder(tmp_path, blank(), ORIGIN)
        for done in OPERATIONS[len(held.state.store.facts()) and 3 :][:1]:
            held.record(done, done.applied_to(held.state))

    held = JournaledFolder(tmp_path, blank(), ORIGIN)
    for done, after in zip(OPERATIONS[:3], states[1:]):
        held.record(done, after)
    path, size = held._journal.path, held._journal.size
    held.close()
    whole = path.read_bytes()
    found = []
    for case in [{"at_byte": size + by} for by in range(0, 700, 11)] + [
        {"at_step": step} for step in range(8)
    ]:
        path.write_bytes(whole)
        died = killed(edit, folder=tmp_path, **case)
        torn = died and size < path.stat().st_size
        if torn:
            with pytest.warns(TornRecordWarning):
                loaded = load_state(blank(), tmp_path, ORIGIN)
        else:
            loaded = load_state(blank(), tmp_path, ORIGIN)
        assert same(loaded, states[3] if died else states[4])
        found.append((died, torn))
    assert {(True, True), (True, False), (False, False)} <= set(found)


def test_an_edit_that_cannot_be_journaled_is_not_made(tiny, tmp_path, monkeypatch):
    tiny.open_journal(tmp_path)
    tiny.write(FACTS[:1])
    before, bytes_before = tiny.edited_state, next(tmp_path.glob("journal-*")).read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        tiny.write(FACTS[1:])
    assert tiny.edited_state is before
    monkeypatch.undo()
    if next(tmp_path.glob("journal-*")).read_bytes() != bytes_before:
        pytest.fail("the rest of a record that failed was not cut off")
    with pytest.raises(OSError, match="could not be written"):
        tiny.forget(1)  # cutting failed to reach the disk: nothing more is put behind it
    tiny.save_state(tmp_path)
    tiny.write(FACTS[1:])
    tiny.close_journal()
    tiny.reset()
    tiny.load_state(tmp_path)
    assert len(tiny.facts()) == 3


def test_a_models_journal_has_every_edit_whichever_way_it_was_made(tiny, tmp_path):
    tiny.open_journal(tmp_path)
    with pytest.raises(RuntimeError, match="a journal is open"):
        tiny.open_journal(tmp_path / "other")
    twin = copy.deepcopy(tiny)
    twin.write(FACTS[2:])  # a copy has no journal

    def on_disk():
        return load_state(tiny.edited_state.cleared(), tmp_path, tiny.origin)

    token = tiny.undo_token()
    for edit in (
        lambda: tiny.write(FACTS),
        lambda: tiny.forget(FACTS[1]["prompt"]),
        tiny.undo,
        tiny.reset,
        tiny.undo,
        lambda: setattr(tiny, "edited_state", less(tiny.edited_state, 1)),
        lambda: tiny.write(FACTS[:1]),
    ):
        edit()
        assert same(on_disk(), tiny.edited_state)
    tiny.state_register.version.data.copy_(token)  # as an editor undoes an edit, past the ledger
    tiny.state_register.version.add_(0)
    tiny.write(FACTS[:1])
    assert same(on_disk(), tiny.edited_state) and len(tiny.facts()) == 1
    with pytest.raises(OSError, match="in use"):
        twin.save_state(tmp_path)
    tiny.close_journal()
    tiny.close_journal()
    with pytest.raises(ValueError, match=r"reset\(\) first"):
        twin.open_journal(tmp_path)
    twin.reset()
    twin.open_journal(tmp_path)
    assert twin.facts() == tiny.facts() and same(twin.edited_state, tiny.edited_state)
    twin.close_journal()


def test_a_long_journal_is_folded_into_a_snapshot(tmp_path, monkeypatch):
    monkeypatch.setattr(journaled, "_LEAST_JOURNAL_BYTES", 3000)
    held, sizes = JournaledFolder(tmp_path, blank(), ORIGIN), []
    for number in range(40):
        done = write(number)
        held.record(done, done.applied_to(held.state))
        sizes.append(held._journal.size)
        assert len(list(tmp_path.iterdir())) == 4, "description, tensors, journal, lock"
    assert max(sizes) < 10_000 and sizes.count(min(sizes)) > 1
    expected = held.state
    held.close()
    assert same(load_state(blank(), tmp_path, ORIGIN), expected)


def test_a_snapshot_that_fails_is_no_loss(tmp_path, monkeypatch):
    """Before it is in force the journal goes on; after, the next edit is a snapshot."""
    monkeypatch.setattr(journaled, "_LEAST_JOURNAL_BYTES", 0)
    held = JournaledFolder(tmp_path, blank(), ORIGIN)

    def fails(*args, **kwargs):
        raise OSError("no room for a snapshot")

    with monkeypatch.context() as patch:
        patch.setattr(statefiles, "save_file", fails)
        held._snapshot_bytes = 0
        with pytest.warns(UserWarning, match="grows on"):
            held.record(write(0), write(0).applied_to(held.state))
    assert same(load_state(blank(), tmp_path, ORIGIN), written(1))
    with monkeypatch.context() as patch:
        patch.setattr(journaled, "Journal", lambda path: Journal(path) if not path.exists() else fails())
        with pytest.raises(OSError, match="no room"):
            held.snapshot(written(2))
    after = write(7).applied_to(written(2))
    held.record(write(7), after)
    held.close()
    assert same(load_state(blank(), tmp_path, ORIGIN), after)


def test_a_record_that_does_not_fit_is_named(tmp_path):
    path, _ = filled(tmp_path)
    journal = Journal(path)
    journal.append(Forget((99,)))
    journal.close()
    with pytest.raises(
        ValueError, match=r"record 7 of .* does not fit the state before it: cannot forget 99"
    ):
        load_state(blank(), tmp_path, ORIGIN)
    (tmp_path / "other.bin").write_bytes(b"something else")
    with pytest.raises(ValueError, match="is no journal"):
        Journal(tmp_path / "other.bin")


def test_undo_goes_back_step_by_step_to_the_bit(tiny):
    states = [tiny.edited_state]
    for edit in (
        lambda: tiny.write(FACTS[:2]),
        lambda: tiny.forget(1),
        lambda: tiny.write(FACTS[2:]),
        tiny.reset,
    ):
        edit()
        states.append(tiny.edited_state)
    for state in reversed(states[:-1]):
        tiny.undo()
        assert tiny.edited_state is state
    with pytest.raises(RuntimeError, match="nothing to undo"):
        tiny.undo()
    tiny.write(FACTS)
    tiny.edited_state = states[1]
    with pytest.raises(RuntimeError, match="nothing to undo"):
        tiny.undo()
    assert tiny.edited_state is states[1]
    for number in range(20):
        tiny.write([{"prompt": f"Number {number} is", "target_new": str(number)}])
    assert len(tiny.history._steps) == 8, "it does not grow without end"
    assert torch.equal(tiny.edited_state.memory.M, tiny.history._steps[-1][1].memory.M)
