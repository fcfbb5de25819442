"""A saved state is the state, to the bit, or an error; a crash leaves the old one or the new one."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from conftest import FACTS, make_tiny
from crashes import killed
from safetensors.torch import load_file, save_file
from states import ORIGIN, blank, same, write, written

from larimar_editor.state import files as statefiles
from larimar_editor.state.files import FORMAT_VERSION, _sha256, load_state, save_state
from larimar_editor.state.journaled_folder import JournaledFolder
from larimar_editor.state.operations import Forget

FORMAT_1 = Path(__file__).parent / "data" / "state_format_1"


def described(folder: Path) -> dict:
    return json.loads((folder / "state.json").read_text())


def test_a_saved_state_loads_back_bit_identical(tmp_path):
    state = Forget((2,)).applied_to(written())
    save_state(state, tmp_path, ORIGIN)
    loaded = load_state(blank(), tmp_path, ORIGIN)
    assert same(loaded, state)
    further = write(1, 9)  # and goes on as the state does
    assert same(further.applied_to(loaded), further.applied_to(state))
    save_state(blank(), tmp_path, ORIGIN)
    assert same(load_state(blank(), tmp_path, ORIGIN), blank())
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".safetensors", ""}, (
        "only the lock file beside the state"
    )


@pytest.mark.parametrize("journal", [False, True])
def test_a_save_killed_at_any_byte_or_step_leaves_the_old_state_or_the_new(tmp_path, journal):
    old, new = written(3), written(5, text="long " * 2000)  # state.json is then the longer of the two files

    def save():
        if journal:
            JournaledFolder(tmp_path, blank(), ORIGIN).snapshot(new)
        else:
            save_state(new, tmp_path, ORIGIN)

    save_state(new, tmp_path / "measured", ORIGIN)
    sizes = sorted(path.stat().st_size for path in (tmp_path / "measured").iterdir())
    shutil.rmtree(tmp_path / "measured")
    points = [
        0,
        1,
        7,
        8,
        9,
        *range(50, sizes[-1], sizes[-1] // 40),
        *(size + by for size in sizes for by in (-1, 0)),
    ]
    cases = [{"at_byte": point} for point in sorted(set(points) - {-1})]
    cases += [{"at_step": step} for step in range(30 + 40 * journal)]
    deaths, found = [], []
    for case in cases:
        save_state(old, tmp_path, ORIGIN)
        deaths.append(killed(save, folder=tmp_path, **case))
        loaded = load_state(blank(), tmp_path, ORIGIN)
        found.append("old" if same(loaded, old) else "new" if same(loaded, new) else case)
    assert set(found) == {"old", "new"}, "never a mixture"
    assert sum(deaths) > 40 and {"old", "new"} == {one for one, death in zip(found, deaths) if death}, (
        "killed before and after"
    )
    assert all(one == "new" for one, death in zip(found, deaths) if not death)
    save_state(old, tmp_path, ORIGIN)
    assert len(list(tmp_path.glob("*.safetensors"))) == 1 and not list(tmp_path.glob("journal-*")), (
        "nothing is left lying"
    )


def test_a_state_of_the_first_format_loads():
    loaded = load_state(blank(), FORMAT_1, ORIGIN)
    assert described(FORMAT_1)["format_version"] == 1 < FORMAT_VERSION
    assert [(fact.id, fact.prompt, fact.target_new) for fact in loaded.store.facts()] == [
        (number + 1, f"prompt {number}", f"target {number}") for number in (0, 2, 3)
    ]
    tensors = load_file(next(FORMAT_1.glob("*.safetensors")))
    assert torch.equal(loaded.memory.M, tensors["memory.M"]) and loaded.store.next_id == 5
    solution = torch.linalg.lstsq(
        tensors["store.weight"].double(), tensors["store.value"].double(), driver="gelsd"
    ).solution
    torch.testing.assert_close(loaded.memory.M, solution, atol=1e-6, rtol=0)


def test_a_state_of_before_there_were_subjects_loads(tmp_path):
    save_state(written(), tmp_path, ORIGIN)
    before = described(tmp_path)
    values = before | {"format_version": 2}
    values["facts"] = [{k: v for k, v in fact.items() if k != "subject"} for fact in before["facts"]]
    values["sha256"] = _sha256({name: value for name, value in values.items() if name != "sha256"})
    (tmp_path / "state.json").write_text(json.dumps(values))
    loaded = load_state(blank(), tmp_path, ORIGIN)
    assert same(loaded, written()) and all(fact.subject is None for fact in loaded.store.facts())


def test_subjects_are_saved_and_one_may_be_added_to_a_written_fact(tiny, tmp_path):
    request = {"prompt": "The capital of Peru is", "target_new": "Oslo"}
    tiny.write([request])
    (fact,) = tiny.write([request | {"subject": "Peru"}])
    assert fact.subject == "Peru" and len(tiny.facts()) == 1
    assert tiny.write([request]) == [fact], "the same without a subject changes nothing"
    tiny.save_state(tmp_path)
    tiny.reset()
    tiny.load_state(tmp_path)
    assert tiny.facts() == [fact]
    with pytest.raises(ValueError, match="'subject' must be a text"):
        tiny.write([request | {"subject": 3.5}])


def test_a_newer_format_is_refused_with_its_number(tmp_path):
    save_state(written(), tmp_path, ORIGIN)
    (tmp_path / "state.json").write_text(json.dumps(described(tmp_path) | {"format_version": 99}))
    with pytest.raises(
        ValueError, match=f"format 99; this version of larimar_editor reads up to {FORMAT_VERSION}"
    ):
        load_state(blank(), tmp_path, ORIGIN)


def test_every_damaged_byte_is_noticed(tmp_path):
    """A flipped bit or a missing end, anywhere in either file, is an error that names the folder."""
    save_state(written(), tmp_path, ORIGIN)
    chance = random.Random(0)
    for path in sorted(tmp_path.glob("state*")):
        whole = path.read_bytes()
        for place in {0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(150))}:
            flipped = bytearray(whole)
            flipped[place] ^= 1 << chance.randrange(8)
            for damaged in (bytes(flipped), whole[:place]):
                path.write_bytes(damaged)
                try:
                    loaded = load_state(blank(), tmp_path, ORIGIN)
                except ValueError as error:
                    assert str(tmp_path) in str(error)
                else:
                    assert same(loaded, written()), "white space may be lost, nothing else"
        path.write_bytes(whole)
    assert same(load_state(blank(), tmp_path, ORIGIN), written())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tensors": "../state-00000000000000000000000000000001.safetensors"}, "names a file"),
        ({"tensors": "/etc/passwd"}, "names a file"),
        ({"journal": "../../journal.bin"}, "names a file"),
        ({"journal": "journal-00000000000000000000000000000001.bin"}, "is missing"),
        ({"next_id": 2}, "ids must rise"),
        ({"next_id": True}, "next_id"),
        ({"memory": {"rows_written": 3, "updates": 0}}, "3 pairs are written for 4"),
        ({"facts": []}, "4 pairs are written for 0"),
        ({"facts": [{"prompt": "a"}]}, "a fact has prompt, target_new"),
        (
            {"facts": [{"prompt": "a", "target_new": 3, "id": 1, "written_at": 0.0}]},
            "target_new of a fact cannot be 3",
        ),
        ({"facts": 7}, "damaged"),
        ({"origin": ORIGIN | {"alpha": "0.1"}}, "alpha: '0.1' there, '0.001' here"),
    ],
)
def test_a_description_that_says_something_else_is_refused(tmp_path, change, message):
    """With the right sum, as someone writes it who means to."""
    save_state(written(), tmp_path, ORIGIN)
    description = described(tmp_path) | change
    description.pop("sha256")
    (tmp_path / "state.json").write_text(json.dumps(description | {"sha256": _sha256(description)}))
    with pytest.raises(ValueError, match=message):
        load_state(blank(), tmp_path, ORIGIN)


def test_foreign_sizes_and_numbers_that_are_none_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"state\.json"):
        load_state(blank(), tmp_path, ORIGIN)
    save_state(written(), tmp_path, ORIGIN)
    with pytest.raises(ValueError, match=r"memory\.M"):
        load_state(blank(rows=9), tmp_path, ORIGIN)
    shutil.copytree(FORMAT_1, tmp_path / "first")
    path = next((tmp_path / "first").glob("*.safetensors"))
    tensors = load_file(path)
    tensors["memory.inverse"][2, 2] = float("nan")
    save_file(tensors, path)
    with pytest.raises(ValueError, match=r"memory\.inverse has a number that is not finite"):
        load_state(blank(), tmp_path / "first", ORIGIN)
    del tensors["memory.inverse"]
    save_file(tensors, path)
    with pytest.raises(ValueError, match=r"memory\.inverse"):
        load_state(blank(), tmp_path / "first", ORIGIN)


def test_a_state_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    save_state(written(3), tmp_path, ORIGIN)
    load, saved = statefiles.load_file, []

    def overtaken(path):
        if not saved:
            saved.append(save_state(written(4), tmp_path, ORIGIN))
        return load(path)

    monkeypatch.setattr(statefiles, "load_file", overtaken)
    assert same(load_state(blank(), tmp_path, ORIGIN), written(4)) and saved


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_old_state_and_no_rest(tmp_path, monkeypatch, failing):
    save_state(written(3), tmp_path, ORIGIN)
    files = {path.name for path in tmp_path.iterdir()}

    def dies(*args):
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, failing, dies)
    with pytest.raises(OSError, match="disk"):
        save_state(written(4), tmp_path, ORIGIN)
    monkeypatch.undo()
    assert same(load_state(blank(), tmp_path, ORIGIN), written(3))
    assert {path.name for path in tmp_path.iterdir()} - {"state.tmp"} == files


def test_a_model_saves_and_loads_its_state_and_no_other_models(tiny, tokenizer, tmp_path):
    tiny.write(FACTS)
    before = tiny.read([FACTS[0]["prompt"]]).latents
    tiny.save_state(tmp_path)
    tiny.reset()
    tiny.load_state(tmp_path)
    assert torch.equal(tiny.read([FACTS[0]["prompt"]]).latents, before)
    make_tiny(tokenizer, scope_threshold=0.9).load_state(tmp_path)  # what is written does not depend on it
    with pytest.raises(ValueError, match=r"addressing_alpha: '0.001' there, '0.01' here"):
        make_tiny(tokenizer, addressing_alpha=0.01).load_state(tmp_path)
    with torch.no_grad():
        tiny.analysis.scale[0] += 1e-3
    with pytest.raises(ValueError, match="checkpoint_sha256"):
        tiny.load_state(tmp_path)
