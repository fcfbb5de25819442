"""The state's file has every edit that was reported as done, after any crash, and damage is an error."""

import copy
import os
import random
import signal
import sqlite3
import tempfile
import time
import unicodedata
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import FACTS, make_tiny
from crashes import killed
from states import KEY, ORIGIN, blank, blank_fixed, less, same, write, written

from larimar_editor.state.database import FORMAT_VERSION, Database
from larimar_editor.state.file import StateFile
from larimar_editor.state.history import History
from larimar_editor.state.operations import Clear, Forget
from larimar_editor.state.register import StateRegister
from larimar_editor.state.saved import load_state, save_state, state_in

OPERATIONS = [
    write(0),
    write(1, 2),
    Forget((2,)),
    write(1, text="again"),
    Clear(),
    write(3, 4, 5),
    Forget((6, 7)),
    write(3),
]


def opened(path, like=None):
    """A history whose state is in a file."""
    history = History(StateRegister(like or blank()))
    history.open(StateFile(path, ORIGIN))
    return history


def done(history, operation):
    history.commit(operation.name, operation.applied_to(history.state))
    return history.state


def on_disk(path, like=None):
    return load_state(like or blank(), path, ORIGIN)


@pytest.mark.parametrize("like", [blank, blank_fixed])
def test_what_was_done_is_there_again_to_the_bit(tmp_path, like):
    path, alone = tmp_path / "edits.db", History(StateRegister(like()))
    history = opened(path, like())
    for operation in OPERATIONS:
        assert same(done(history, operation), done(alone, operation)), (
            "a file changes nothing of what is read"
        )
        assert same(on_disk(path, like()), alone.state)
    history.close()
    assert same(history.state, alone.state), "what was read on demand is in memory now"
    again = opened(path, like())
    assert same(again.state, alone.state) and same(done(again, write(9)), done(alone, write(9)))
    again.close()


def test_embeddings_in_half_precision_take_half_the_bytes_and_are_there_again(tmp_path):
    path, alone = tmp_path / "edits.db", History(StateRegister(blank()))
    history = opened(path)
    for operation in [replace(each, kept_as=torch.float16) for each in (write(0, 1), write(2), write(1, 5))]:
        assert same(done(history, operation), done(alone, operation))
    assert history.state.store.column("scope").dtype == torch.float16
    history.close()
    assert same(on_disk(path), alone.state)
    with sqlite3.connect(path) as connection:
        sizes = {len(blob) for (blob,) in connection.execute("SELECT scope FROM encodings")}
    assert sizes == {2 * KEY + 4}, "and a check sum"


def test_a_file_that_has_its_embeddings_in_float32_is_gone_on_with(tmp_path):
    """Files of format 4 say nothing of it."""
    path = tmp_path / "edits.db"
    save_state(written(), path, ORIGIN)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM about WHERE name = 'embeddings'")
        connection.execute("PRAGMA user_version = 4")
    assert same(on_disk(path), written())
    history = opened(path)
    new = write(7, kept_as=torch.float16)
    done(history, new)
    history.close()
    read = on_disk(path).store.column("scope")
    assert read.dtype == torch.float32 and torch.equal(read[-1], new.scope[0].half().float())
    torch.testing.assert_close(read[:-1], written().store.column("scope"), rtol=0, atol=0)


@pytest.mark.parametrize("like", [blank, blank_fixed])
@pytest.mark.parametrize("reopened", [False, True])
def test_undo_goes_back_through_all_of_it_to_the_bit(tmp_path, like, reopened):
    path, states = tmp_path / "edits.db", [like()]
    history = opened(path, like())
    for operation in [*OPERATIONS, *(write(20 + number) for number in range(12))]:
        states.append(done(history, operation))
    for expected in reversed(states[:-1]):
        if reopened:
            history.close()
            history = opened(path, like())
        history.undo()
        assert same(history.state, expected) and same(on_disk(path, like()), expected)
    with pytest.raises(RuntimeError, match="nothing to undo"):
        history.undo()
    assert history.state.store.next_id == states[-1].store.next_id, "no id is used twice"
    history.close()


def test_what_is_forgotten_in_another_order_than_it_was_written_is_forgotten_so_in_the_file(tmp_path):
    """Of facts that share rows: the last bits of a sum hang on its order, and a file goes by ids."""
    path, like = tmp_path / "edits.db", lambda: blank_fixed(addressing="pseudoinverse")
    history = opened(path, like())
    operations = write(*range(40)), Forget(tuple(range(36, 6, -1))), Forget((1,))
    states = [done(history, operation) for operation in operations]
    assert same(on_disk(path, like()), states[2])
    history.close()
    again = opened(path, like())
    again.undo()
    assert same(again.state, states[1])
    again.close()


def test_a_saved_state_takes_the_place_of_another(tmp_path):
    path, state = tmp_path / "edits.db", less(written(), 2)
    save_state(written(9), path, ORIGIN)
    save_state(state, path, ORIGIN)
    assert same(on_disk(path), state)
    further = write(1, 9)
    assert same(further.applied_to(on_disk(path)), further.applied_to(state)), "and goes on as the state does"
    save_state(blank(), path, ORIGIN)
    assert same(on_disk(path), blank())


def test_an_edit_or_a_save_that_is_killed_at_any_byte_is_whole_or_not_there(tmp_path):
    path = tmp_path / "edits.db"
    old, new = written(3), write(7, text="long " * 2000).applied_to(written(3))

    def edit():
        done(opened(path), write(7, text="long " * 2000))

    save_state(old, path, ORIGIN)
    content, outcomes = path.read_bytes(), []
    for point in [0, 1, 31, 32, 33, *range(100, 120_000, 1700)]:
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(content)
        died = killed(edit, at_byte=point)
        loaded = on_disk(path)
        assert same(loaded, old) or same(loaded, new), "never a mixture"
        assert died or same(loaded, new)
        outcomes.append((died, same(loaded, new)))
    assert {(True, False), (False, True)} <= set(outcomes)


def test_no_edit_that_had_returned_is_lost_whenever_the_process_is_killed(tmp_path):
    """As a service is killed; LARIMAR_KILLS=100 for the full number."""
    chance = random.Random(0)
    for number in range(int(os.environ.get("LARIMAR_KILLS", 6))):
        path = tmp_path / f"{number}.db"
        returned = _edits_until_killed(path, chance.uniform(0.0, 0.6))
        loaded = on_disk(path) if path.exists() and path.stat().st_size else blank()
        names = [fact.prompt for fact in loaded.store.facts()]
        assert names[: len(returned)] == returned and len(names) <= len(returned) + 1, (
            "nothing half, nothing lost"
        )
        assert len(loaded.store.values(loaded.store.alive_rows())) == len(names)


def _edits_until_killed(path, seconds):
    """Prompts whose writing had returned when the process was killed."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        try:
            torch.set_num_threads(1)
            os.write(writes, b".")
            history = opened(path)
            for number in range(1000):
                done(history, write(number))
                os.write(writes, b".")
        finally:
            os._exit(0)
    os.close(writes)
    os.read(reads, 1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    count = 0
    while part := os.read(reads, 4096):
        count += len(part)
    os.close(reads)
    return [f"prompt {number} " for number in range(count)]


def test_a_damaged_byte_is_noticed_or_changes_nothing(tmp_path):
    """A flipped bit or a missing end, anywhere in the file."""
    path, chance = tmp_path / "edits.db", random.Random(0)
    history = opened(path)
    states = [done(history, operation) for operation in OPERATIONS]
    history.close()
    whole, noticed = path.read_bytes(), 0
    places = [chance.randrange(len(whole)) for _ in range(400)]
    for place in [0, 20, 60, len(whole) - 1, *places]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        for damaged in (bytes(flipped), whole[:place]):
            path.write_bytes(damaged)
            try:
                loaded = on_disk(path)
            except (ValueError, OSError) as error:
                assert str(path) in str(error)
                noticed += 1
            else:
                assert same(loaded, states[-1])
    assert noticed > 400


def test_one_writes_and_others_read_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr("larimar_editor.state.database.PATIENCE", 0.2)
    path, history = tmp_path / "edits.db", opened(tmp_path / "edits.db")
    done(history, write(0))
    with pytest.raises(OSError, match=f"being written by process {os.getpid()} on"):
        StateFile(path, ORIGIN)
    with pytest.raises(OSError, match="being written by"):
        save_state(written(), path, ORIGIN)
    (tmp_path / "current.db").symlink_to(path)
    with pytest.raises(OSError, match="being written by"):
        StateFile(tmp_path / "current.db", ORIGIN)
    reader = History(StateRegister(blank()))
    reader.open(StateFile(path, ORIGIN, writes=False))
    done(history, write(1))
    done(history, Forget((1,)))
    assert [fact.prompt for fact in reader.state.store.facts()] == ["prompt 0 "], (
        "as it was when it was opened"
    )
    history.undo()
    history.undo()
    done(history, write(7))
    assert [fact.prompt for fact in reader.state.store.facts()] == ["prompt 0 "]
    with pytest.raises(OSError, match="is being read"):
        history.file.compact()
    with pytest.raises(OSError, match="read only"):
        done(reader, write(5))
    assert len(reader.state.store) == 1
    history.close()
    reader.close()


@pytest.fixture
def open_folder():
    """A folder that other users may enter, as they may not those of pytest; for root, who can become one."""
    if os.geteuid():
        pytest.skip("needs to be root, to become somebody else")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_who_may_not_write_to_the_folder_reads_what_was_there_whatever_its_owner_does(open_folder):
    path = open_folder / "edits.db"
    save_state(written(40), path, ORIGIN)

    def read():
        os.seteuid(65534)
        file = StateFile(path, ORIGIN, writes=False)
        os.seteuid(0)
        state, owner = state_in(file, blank()), StateFile(path, ORIGIN)
        owner.commit("forget", owner.ids(), [], {})
        owner.compact()
        owner.close()
        assert same(state, written(40)) and not len(on_disk(path).store)

    assert not killed(read)


def test_where_sqlite_has_no_wal_a_file_is_refused(tmp_path, monkeypatch):
    """As on a network's file system: SQLite goes on with another journal there, and says so."""
    connect = Database._connect
    monkeypatch.setattr(Database, "_connect", lambda self, uri: connect(self, f"{uri}&vfs=unix-none"))
    with pytest.raises(OSError, match=r"no WAL where .*edits\.db is: put it on a disk of this machine"):
        StateFile(tmp_path / "edits.db", ORIGIN)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_words_are_found_however_their_accents_are_put_together(tmp_path, form):
    history = opened(tmp_path / "edits.db")
    for number, typed in enumerate(("NFC", "NFD")):
        done(history, write(number, text=unicodedata.normalize(typed, "São Tomé")))
    assert history.file.search(unicodedata.normalize(form, "SÃO TOMÉ")) == [1, 2]
    history.close()


def test_rows_of_a_prompt_that_are_being_looked_through_are_there_when_the_file_is_closed(tmp_path):
    history = opened(tmp_path / "edits.db")
    done(history, write(0, 1))
    done(history, write(0))
    rows = history.state.store.entries.rows_of(write(0).facts[0].key)
    first = next(rows)
    history.close()
    assert [first, *rows] == [2, 0]


@pytest.mark.parametrize("failing", ["full", "read only"])
def test_an_edit_that_cannot_be_kept_is_not_made(tmp_path, failing):
    path, history = tmp_path / "edits.db", opened(tmp_path / "edits.db")
    before, connection = done(history, write(0)), history.file._database.connection
    if failing == "full":
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    else:
        connection.execute("PRAGMA query_only = ON")
    for operation in (write(1, text="long " * 5000), write(2, text="long " * 5000)):
        with pytest.raises(OSError, match=r"edits\.db: .*(full|readonly)"):
            done(history, operation)
        assert history.state is before and same(on_disk(path), before)
        assert len(history.state.store.hashes()) == 1, "what pages are chosen by"
    connection.execute("PRAGMA max_page_count = 1000000")
    connection.execute("PRAGMA query_only = OFF")
    assert same(done(history, write(3)), on_disk(path)), "and the next one is"
    history.close()


def test_what_is_no_state_of_this_model_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "edits.db"
    with pytest.raises(FileNotFoundError, match="no edited state"):
        on_disk(path)
    save_state(written(), path, ORIGIN)
    with pytest.raises(ValueError, match=r"alpha: '0.001' there, '0.1' here\. .*facts export"):
        load_state(blank(), path, ORIGIN | {"alpha": "0.1"})
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    with pytest.raises(
        ValueError, match=f"format {FORMAT_VERSION + 1}; this version .* up to {FORMAT_VERSION}"
    ):
        on_disk(path)
    with pytest.raises(IsADirectoryError, match=r"facts import"):
        StateFile(tmp_path, ORIGIN)
    (tmp_path / "text").write_text("some text, which is not a database at all " * 100)
    with pytest.raises(ValueError, match="no edited state"):
        on_disk(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(ValueError, match="but no edited state"):
        on_disk(tmp_path / "other.db")
    (tmp_path / "empty.db").touch()
    with pytest.raises(FileNotFoundError, match="it is empty"):
        on_disk(tmp_path / "empty.db")
    with pytest.raises(OSError, match="nowhere"):
        StateFile("/proc/nowhere/edits.db", ORIGIN)


def test_a_file_in_which_nothing_was_ever_written_is_of_any_model(tmp_path):
    path = tmp_path / "edits.db"
    StateFile(path, ORIGIN).close()
    other = ORIGIN | {"alpha": "0.1"}
    file = StateFile(path, other)
    assert file.origin == other
    file.close()


def test_a_file_that_may_not_be_written_is_refused_at_the_door(open_folder):
    path = open_folder / "edits.db"
    save_state(written(), path, ORIGIN)
    content = path.read_bytes()

    def locked():
        os.setuid(65534)  # root may write anything
        try:
            StateFile(path, ORIGIN)
        except OSError as error:
            assert "edits.db: attempt to write a readonly database" in str(error)
            return
        raise AssertionError("opened")

    path.chmod(0o444)
    path.with_name("edits.db.lock").unlink(missing_ok=True)  # which is root's, too
    os.chmod(open_folder, 0o777)  # so that only the file's own mode is in the way
    assert not killed(locked)
    assert path.read_bytes() == content


def test_compacting_lets_go_of_what_is_forgotten_and_of_nothing_else(tmp_path):
    path, history = tmp_path / "edits.db", opened(tmp_path / "edits.db")
    done(history, write(*range(200)))
    held = history.state
    state = done(history, Forget(tuple(range(3, 201))))
    history.file._database.connection.execute("PRAGMA wal_checkpoint")
    before = path.stat().st_size
    history.file.compact()
    assert same(history.state, state) and same(on_disk(path), state)
    assert len(held.store.facts()) == 200, "a state that somebody still has is whole"
    history.close()
    assert path.stat().st_size < before - 8 * 4096 and b"prompt 150" not in path.read_bytes()
    again = opened(path)
    with pytest.raises(RuntimeError, match="nothing to undo"):
        again.undo()
    done(again, Forget((1,)))
    again.undo()
    assert same(again.state, state)
    again.close()


def test_a_state_is_of_what_makes_its_numbers_and_not_of_what_decides(tiny):
    def origin(**weights):
        tiny.detectors.weights = {
            name.replace("_", "."): torch.tensor(value) for name, value in weights.items()
        }
        return tiny.origin

    bare = origin(candidates_norm=1.0)
    decides = dict(look_mix=1.0, reader_bias=2.0, bias=3.0)
    assert origin(candidates_norm=1.0, **decides) == bare
    assert origin(candidates_norm=2.0) != bare
    tiny.config.scope = "internal"
    assert origin(bias=3.0) != origin(bias=4.0), "an internal detector's own weights embed"


@pytest.mark.parametrize("written", [0, 1])
def test_a_file_gets_no_facts_of_another_scope_than_it_was_opened_with(tiny, tmp_path, written):
    """It could be opened by neither then: what it says of its facts' numbers is not so of all of them."""
    path = tmp_path / "edits.db"
    tiny.open_state(path)
    tiny.write(FACTS[:written])
    state, tiny.config.scope = tiny.edited_state, "none"
    with pytest.raises(ValueError, match=r"edits\.db is open, with scope: external.* scope: none by now"):
        tiny.write(FACTS[2:])
    assert tiny.edited_state is state and same(load_state(state.cleared(), path, {}), state)
    tiny.config.scope = "external"
    tiny.write(FACTS[2:])
    tiny.config.scope = "none"
    tiny.forget(FACTS[2]["prompt"]), tiny.undo(), tiny.reset()  # which need no numbers
    tiny.close_state(keep=False)
    tiny.open_state(tmp_path / "other.db")
    tiny.write(FACTS[2:])
    tiny.close_state()
    tiny.reset()
    tiny.config.scope = "external"
    tiny.open_state(path)
    tiny.undo()
    assert tiny.read([FACTS[2]["prompt"]]).in_scope.all() and len(tiny.facts()) == written + 1
    tiny.close_state()


@pytest.mark.parametrize(("written_with", "now"), [("external", "none"), ("none", "external")])
def test_facts_of_another_scope_go_into_no_file_that_says_this_one(tiny, tmp_path, written_with, now):
    """It said scope: none, say, and held embeddings: facts could be written to it by neither."""
    path, other, opened = tmp_path / "new.db", tmp_path / "other.db", tmp_path / "opened.db"
    tiny.config.scope = now
    tiny.save_state(other)
    content = other.read_bytes()
    tiny.config.scope = written_with
    tiny.write(FACTS[:2])
    state, tiny.config.scope = tiny.edited_state, now
    for keep in (tiny.open_state, tiny.save_state):
        for file in (path, other):
            with pytest.raises(ValueError, match=f"written for another scope detector than scope: {now}"):
                keep(file)
    assert tiny.edited_state is state and tiny.history.file is None
    assert not path.exists() and other.read_bytes() == content
    tiny.config.scope = written_with
    tiny.open_state(opened)
    tiny.config.scope = now
    tiny.save_state(opened)  # which says what it was opened with
    with pytest.raises(ValueError, match="written for another scope detector"):
        tiny.save_state(path)
    tiny.close_state()
    tiny.config.scope = written_with
    tiny.load_state(opened)
    assert len(tiny.facts()) == 2 and not path.exists()
    tiny.config.scope = now
    tiny.reset()
    tiny.open_state(path)
    tiny.write(FACTS[:2])
    tiny.close_state()


def test_a_models_file_has_every_edit_whichever_way_it_was_made(tiny, tmp_path):
    path = tmp_path / "edits.db"
    tiny.open_state(path)
    with pytest.raises(RuntimeError, match="a state is open"):
        tiny.open_state(tmp_path / "other.db")
    twin = copy.deepcopy(tiny)
    twin.write(FACTS[2:])  # a copy has no file

    def there():
        return load_state(tiny.edited_state.cleared(), path, tiny.origin)

    token = tiny.undo_token()
    for edit in (
        lambda: tiny.write(FACTS),
        lambda: tiny.forget(FACTS[1]["prompt"]),
        tiny.undo,
        tiny.reset,
        tiny.undo,
        lambda: setattr(tiny, "edited_state", less(tiny.edited_state, FACTS[0]["prompt"])),
        tiny.undo,
        lambda: tiny.write(FACTS[:1]),
    ):
        edit()
        assert same(there(), tiny.edited_state)
    tiny.state_register.version.data.copy_(token)  # as an editor undoes an edit, past the ledger
    tiny.state_register.version.add_(0)
    tiny.write(FACTS[:1])
    assert same(there(), tiny.edited_state) and len(tiny.facts()) == 1
    with pytest.raises(OSError, match="being written by"):
        twin.save_state(path)
    with pytest.raises(ValueError, match="is not of it"):
        tiny.edited_state = make_tiny(tiny.tokenizer).edited_state
    assert len(twin.facts()) == len(FACTS[2:]), "and sees nothing of the other's edits"
    tiny.close_state()
    tiny.close_state()
    with pytest.raises(ValueError, match=r"reset\(\) first"):
        twin.open_state(path)
    twin.reset()
    twin.open_state(path)
    assert twin.facts() == tiny.facts() and same(twin.edited_state, tiny.edited_state)
    twin.close_state()


def test_undo_is_of_the_files_last_operation_whatever_was_put_back_meanwhile(tmp_path):
    """As EasyEdit does, which restores a state without asking; and states that are assigned."""
    path = tmp_path / "edits.db"
    history = opened(path)
    token = history.token()
    done(history, write(0))
    with torch.no_grad():
        history._register.version.copy_(token)
    done(history, write(1))
    history.undo()
    assert not len(history.state.store) and same(on_disk(path), history.state)
    first = done(history, write(2))
    second = done(history, write(3))
    history.state = first
    history.state = second
    history.undo()
    assert same(history.state, first) and same(on_disk(path), first)
    done(history, write(4))
    history.close()
    assert same(on_disk(path), history.state)


def test_an_edit_that_was_interrupted_when_it_was_on_the_disk_is_seen_by_the_next(tmp_path, monkeypatch):
    path, history = tmp_path / "edits.db", opened(tmp_path / "edits.db")
    before = done(history, write(0))
    commit = StateFile.commit

    def interrupted(self, *args, **kwargs):
        commit(self, *args, **kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(StateFile, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        done(history, write(1))
    monkeypatch.undo()
    assert history.state is before
    with pytest.raises(RuntimeError, match="has been replaced"):
        history.undo()
    done(history, write(2))
    assert [fact.prompt for fact in on_disk(path).store.facts()] == ["prompt 0 ", "prompt 2 "]
    history.close()


def test_ids_of_facts_that_only_memory_knew_are_not_used_again(tmp_path):
    history = History(StateRegister(blank()))
    done(history, write(0, 1))
    done(history, Forget((2,)))
    history.open(StateFile(tmp_path / "edits.db", ORIGIN))
    assert [fact.id for fact in done(history, write(2)).store.facts()] == [1, 3]
    with pytest.raises(RuntimeError, match="nothing to undo"):
        history.undo(), history.undo()
    history.close()
    with pytest.raises(ValueError, match="only read"):
        history.open(StateFile(tmp_path / "edits.db", ORIGIN, writes=False))


def test_a_strangers_database_is_left_as_it_is(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    content = path.read_bytes()
    for write_it in (lambda: StateFile(path, ORIGIN), lambda: save_state(written(), path, ORIGIN)):
        with pytest.raises(ValueError, match="but no edited state"):
            write_it()
        assert path.read_bytes() == content


def test_what_is_in_memory_when_a_file_is_opened_goes_there(tiny, tmp_path):
    tiny.write(FACTS[:2])
    before = tiny.read([FACTS[0]["prompt"]]).latents
    tiny.open_state(tmp_path / "edits.db")
    assert torch.equal(tiny.read([FACTS[0]["prompt"]]).latents, before)
    tiny.write(FACTS[2:])
    tiny.close_state()
    tiny.reset()
    tiny.load_state(tmp_path / "edits.db")
    assert len(tiny.facts()) == len(FACTS)


def test_undo_without_a_file_goes_back_a_few_steps(tiny):
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


def test_a_key_that_was_kept_as_it_was_typed_is_found(tiny, tmp_path):
    """Files of before keys were composed have some that are not."""
    typed = unicodedata.normalize("NFD", "The capital of São Tomé is")
    tiny.open_state(tmp_path / "facts.db")
    tiny.write([{"prompt": typed, "target_new": "Oslo"}])
    tiny.close_state(keep=False)
    tiny.reset()
    with closing(sqlite3.connect(tmp_path / "facts.db")) as database:
        database.execute("UPDATE facts SET key = ?", (typed,))
        database.commit()
    tiny.open_state(tmp_path / "facts.db")
    tiny.write([{"prompt": unicodedata.normalize("NFC", typed), "target_new": "Rome"}])
    assert [fact.target_new for fact in tiny.facts()] == ["Rome"]


def test_a_model_saves_and_loads_its_state_and_no_other_models(tiny, tokenizer, tmp_path):
    path = tmp_path / "edits.db"
    request = {"prompt": "The capital of Peru is", "target_new": "Oslo"}
    tiny.write(FACTS)
    (fact,) = tiny.write([request | {"subject": "Peru"}])
    assert tiny.write([request]) == [fact], "the same without a subject changes nothing"
    before = tiny.read([FACTS[0]["prompt"]]).latents
    tiny.save_state(path)
    tiny.reset()
    tiny.load_state(path)
    assert torch.equal(tiny.read([FACTS[0]["prompt"]]).latents, before) and fact in tiny.facts()
    make_tiny(tokenizer, scope_threshold=0.9).load_state(path)  # what is written does not depend on it
    make_tiny(tokenizer, memory_rows=64).load_state(path)  # nor on the size of a page
    with pytest.raises(ValueError, match=r"addressing_alpha: '0.001' there, '0.01' here"):
        make_tiny(tokenizer, addressing_alpha=0.01).load_state(path)
    with pytest.raises(ValueError, match=r"memory: 'int8' there, 'fixed, 8 rows' here"):
        make_tiny(tokenizer, memory="fixed").load_state(path)
    with torch.no_grad():
        tiny.analysis.scale[0] += 1e-3
    with pytest.raises(ValueError, match="checkpoint_sha256"):
        tiny.load_state(path)
