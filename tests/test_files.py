"""Files that are written whole, or not at all."""

import os
import subprocess
import sys
import threading

import pytest

from larimar_editor.utils.files import load_mapping, written_whole
from larimar_editor.utils.json_files import list_in, numbered_records, write_records


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o600)
    with pytest.raises(ZeroDivisionError), written_whole(path) as file:
        file.write("half of the ne")
        raise ZeroDivisionError
    assert path.read_text() == "old" and [each.name for each in tmp_path.iterdir()] == ["out.txt"]
    with written_whole(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o600
    (tmp_path / "link.txt").symlink_to(path)
    with written_whole(tmp_path / "link.txt") as file:
        file.write("newer")
    assert (tmp_path / "link.txt").is_symlink() and path.read_text() == "newer"


def test_a_new_file_is_on_the_disk_before_it_takes_the_place_and_its_name_then(tmp_path, monkeypatch):
    path, done = tmp_path / "out.txt", []
    path.write_text("old")

    def fsync(descriptor):
        there = os.fstat(descriptor)
        done.append(
            (there.st_ino, path.read_text(), os.path.samestat(there, tmp_path.stat()) or there.st_size)
        )

    monkeypatch.setattr(os, "fsync", fsync)
    with written_whole(path) as file:
        file.write("newer")
    assert done == [(path.stat().st_ino, "old", 5), (tmp_path.stat().st_ino, "newer", True)]


@pytest.mark.skipif(os.name == "nt", reason="no pipes with names")
def test_a_pipe_is_written_as_it_is(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    with written_whole(pipe) as file:
        file.write("through")
    reader.join(timeout=30)
    assert read == ["through"]
    code = (
        "from pathlib import Path; from larimar_editor.utils.files import written_whole\n"
        "with written_whole(Path('/dev/stdout')) as file: file.write('said')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "said", done.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": ', "line 2: .* this is not JSON"),
        ("\xff", "line 2: .* this is not JSON"),
        ('["a"]', "line 2: a fact is wanted"),
        ('{"target_new": "b"}', "line 2 has no `prompt`: .'target_new'."),
    ],
)
def test_a_line_that_is_no_record_is_named_with_its_file(tmp_path, line, message):
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match=rf"facts\.jsonl, {message}"):
        list(numbered_records(path, needs=["prompt"], wanted="a fact"))


def test_records_come_back_and_empty_lines_do_not(tmp_path):
    records = [{"prompt": "Łódź is", "n": 1}, {"prompt": "b", "n": 2}]
    path = tmp_path / "new" / "facts.jsonl"
    assert write_records(path, iter(records)) == 2
    path.write_text(path.read_text(encoding="utf-8").replace("\n", "\n\n"), encoding="utf-8")
    assert [*numbered_records(path)] == [(1, records[0]), (3, records[1])]


def test_a_file_that_holds_no_list_is_named(tmp_path):
    path = tmp_path / "edits.json"
    for text, message in (("{", "is not JSON"), ("{}", "must hold a list")):
        path.write_text(text)
        with pytest.raises(ValueError, match=rf"edits\.json {message}"):
            list_in(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "is not YAML: .*"),
        (b"a: \xff", "is not YAML: .*"),
        (b"a: 2026-02-31", "is not YAML: .*"),
        (b"- a", "must hold keys and values"),
        (b"", "must hold keys and values"),
    ],
    ids=["torn", "no text", "no such date", "a list", "empty"],
)
def test_a_yaml_file_that_holds_no_keys_is_named(tmp_path, content, message):
    """Whoever reads it: settings, plans, hyperparameters. An error of the YAML library names no file."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)mine\.yaml {message}"):
        load_mapping(path)
