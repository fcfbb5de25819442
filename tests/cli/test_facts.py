"""The facts in a file, as a person lists, writes, forgets, takes back, moves them."""

import json
import sys
from pathlib import Path

import pytest
from conftest import FACTS, make_tiny
from typer.testing import CliRunner

from larimar_editor.cli import app, main
from larimar_editor.cli import facts as facts_command
from larimar_editor.model import loading
from larimar_editor.state.lines import facts_in_folder, facts_in_lines

OLD = Path(__file__).parents[1] / "state" / "data"
CHAT = "<|im_start|>user\nWhere is house 9?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def call(tokenizer, monkeypatch):
    """Runs a command of `facts` with a tiny model; its lines of JSON."""
    monkeypatch.setattr(loading, "load_larimar", lambda *args: (make_tiny(tokenizer), "tiny"))

    def run(*arguments):
        done = CliRunner().invoke(app, ["facts", *map(str, arguments)])
        if done.exception:
            raise done.exception
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return run


def test_facts_are_written_found_forgotten_and_brought_back(call, tmp_path):
    file = tmp_path / "edits.db"
    for fact in FACTS:
        (written,) = call("write", file, fact["prompt"], fact["target_new"], "--subject", "somebody")
        assert written["target_new"] == fact["target_new"] and written["subject"] == "somebody"
    assert [fact["prompt"] for fact in call("list", file)] == [fact["prompt"] for fact in FACTS]
    word = FACTS[1]["target_new"].split()[0].upper()
    assert [fact["id"] for fact in call("search", file, word)] == [2]
    assert call("forget", file, FACTS[0]["prompt"], "3") == [{"forgotten": [1, 3], "facts": 1}]
    assert call("undo", file) == [{"undoable": 3, "facts": 3}]
    assert call("undo", file, "--steps", 2) == [{"undoable": 1, "facts": 1}]
    with pytest.raises(ValueError, match="has 1 operations to undo, not 5"):
        call("undo", file, "--steps", 5)
    with pytest.raises(ValueError, match="cannot forget 'nothing'"):
        call("forget", file, "nothing")
    (report,) = call("compact", file)
    assert report["facts"] == 1 and report["bytes"] > 0


def test_an_export_is_imported_in_blocks_and_taken_up_where_it_was_stopped(call, tmp_path):
    lines = tmp_path / "facts.jsonl"
    facts = [{"prompt": f"The number of house {i} is", "target_new": str(i)} for i in range(30)]
    lines.write_text("\n\n".join(json.dumps(fact) for fact in facts))
    file, other = tmp_path / "edits.db", tmp_path / "other.db"
    (tmp_path / "half.jsonl").write_text("\n".join(json.dumps(fact) for fact in facts[:11]))
    assert call("import", file, tmp_path / "half.jsonl", "--block", 4) == [{"read": 11, "written": 11}]
    assert call("import", file, lines, "--block", 8) == [{"read": 30, "written": 19}]
    assert call("export", file, "--out", tmp_path / "out.jsonl")[-1]["facts"] == 30
    call("import", other, tmp_path / "out.jsonl")
    keep = lambda fact: {key: fact[key] for key in ("prompt", "target_new")}
    assert [keep(fact) for fact in call("export", other)] == facts


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "a"}', "needs 'target_new'"),
        ('{"prompt": "a", "target_new": 3}', "'target_new' must be a text"),
        ('{"prompt": "a", "target_new": " "}', "'target_new' must be a text"),
        ('["a", "b"]', "an object with 'prompt'"),
        ('{"prompt": "a", ', "line 3: Expecting"),
        ('{"prompt": "a", "target_new": "b", "subject": 4}', "'subject' must be a text"),
        ('{"prompt": "a", "target_new": "b", "subject": false}', "'subject' must be a text"),
        ("\xff".encode("latin-1"), "line 3: "),
    ],
)
def test_a_line_that_is_no_fact_is_named_and_nothing_is_written(call, tmp_path, line, message):
    lines, good = tmp_path / "facts.jsonl", json.dumps(FACTS[0]).encode()
    lines.write_bytes(good + b"\n\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n" + good)
    with pytest.raises(ValueError, match=r"facts\.jsonl, line 3: ") as error:
        call("import", tmp_path / "edits.db", lines)
    assert message in str(error.value) and not (tmp_path / "edits.db").exists()


def test_a_record_of_a_list_that_is_no_fact_is_named_with_its_file(call, tmp_path):
    """By its place in the file, of which a record without a target is no fact, but a record."""
    good, source = {"prompt": "a", "target_new": "b"}, tmp_path / "edits.json"
    source.write_text(json.dumps([good, good | {"target_new": ""}, good | {"subject": 3}]))
    with pytest.raises(ValueError, match=r"edits\.json, record 2: 'subject' must be a text"):
        call("import", tmp_path / "edits.db", source)
    assert not (tmp_path / "edits.db").exists()


@pytest.mark.parametrize("prompt", ["", CHAT])
def test_a_fact_that_cannot_be_written_makes_no_file(call, tmp_path, prompt):
    with pytest.raises(ValueError, match=r"'prompt' must be a text|is a chat in the decoder's template"):
        call("write", tmp_path / "new" / "edits.db", prompt, "Rome")
    assert not (tmp_path / "new").exists()


def test_more_facts_than_sqlite_counts_are_no_limit(call, tmp_path):
    call("write", tmp_path / "edits.db", FACTS[0]["prompt"], FACTS[0]["target_new"])
    words = FACTS[0]["prompt"]
    assert len(call("search", tmp_path / "edits.db", words, "--limit", 2**63 - 1)) == 1
    with pytest.raises(SystemExit):
        call("search", tmp_path / "edits.db", words, "--limit", 2**63)


def test_of_several_lines_with_one_prompt_the_last_holds(tmp_path):
    lines = tmp_path / "facts.jsonl"
    lines.write_text("".join(json.dumps({"prompt": "p", "target_new": t}) + "\n" for t in "abc"))
    assert [fact.target_new for fact in facts_in_lines(lines)] == ["c"]


def test_folders_of_older_versions_are_imported(call, tmp_path):
    """Of the first format; of the third with a journal, as it was written before there were files."""
    first = facts_in_folder(OLD / "state_format_1")
    assert [fact.prompt for fact in first] == ["prompt 0", "prompt 2", "prompt 3"]
    journaled = facts_in_folder(OLD / "state_format_3")
    assert [(fact.prompt, fact.target_new) for fact in journaled] == [
        ("The capital of Portugal is", "Oslo"),
        ("The capital of Peru is", "Rome"),
    ]
    assert call("import", tmp_path / "edits.db", OLD / "state_format_3") == [{"read": 2, "written": 2}]
    with pytest.raises(FileNotFoundError, match=r"state\.json is missing"):
        facts_in_folder(tmp_path)
    (tmp_path / "state.json").write_text('{"facts": [{"prompt": 3}]}')
    with pytest.raises(ValueError, match="is damaged"):
        facts_in_folder(tmp_path)


def test_what_is_wrong_is_one_line(tmp_path, monkeypatch, capsys):
    for arguments in (["list", str(tmp_path / "no.db")], ["list", str(tmp_path)]):
        monkeypatch.setattr(sys, "argv", ["larimar-editor", "facts", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        assert done.value.code == 2
        message = capsys.readouterr().err
        assert message.startswith("larimar-editor: ") and message.count("\n") == 1


def test_a_chat_among_many_lines_is_refused_before_any_is_written(call, tmp_path):
    facts = [{"prompt": f"The number of house {i} is", "target_new": str(i)} for i in range(9)]
    lines, file = tmp_path / "facts.jsonl", tmp_path / "edits.db"
    lines.write_text("\n".join(json.dumps(each) for each in [*facts, {"prompt": CHAT, "target_new": "Rome"}]))
    with pytest.raises(ValueError, match="is a chat in the decoder's template"):
        call("import", file, lines, "--block", 4)
    assert not file.exists()


def test_an_export_replaces_no_state_and_no_whole_file_by_half_of_one(call, tmp_path, monkeypatch):
    file, out = tmp_path / "edits.db", tmp_path / "out.jsonl"
    call("write", file, FACTS[0]["prompt"], FACTS[0]["target_new"])
    with pytest.raises(SystemExit):
        call("export", file, "--out", file)
    assert len(call("list", file)) == 1
    call("export", file, "--out", out)
    whole = out.read_text()
    call("write", file, FACTS[1]["prompt"], FACTS[1]["target_new"])
    monkeypatch.setattr(facts_command, "_line", lambda fact: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("export", file, "--out", out)
    assert out.read_text() == whole and {path.name for path in tmp_path.glob("*out*")} == {"out.jsonl"}
