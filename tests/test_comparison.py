"""The comparison's plumbing; the methods themselves run in `make compare`."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.easyedit.comparison import summarise
from larimar_editor.easyedit.jobs import Job
from larimar_editor.evaluation.report import markdown, write_comparison


def record(seconds, rewrite=1.0, **post):
    return {
        "case_id": 0,
        "pre": {"rewrite_acc": 0.25},
        "post": {"rewrite_acc": rewrite} | post,
        "seconds": seconds,
        "peak_memory_mb": 10 * seconds,
        "environment": {},
    }


def job(tmp_path, records):
    job = Job("larimar_editor.easyedit.single", "ROME", "h.yaml", [{}, {}, {}], str(tmp_path))
    job.records.write_text("".join(json.dumps(r) + "\n" for r in records))
    return job


def test_the_median_leaves_the_first_edit_out(tmp_path):
    row = summarise([record(9.0), record(1.0, 0.0, rephrase_acc=0.5), record(3.0), record(2.0, locality_acc=0.75)])
    assert row["seconds_first_edit"] == 9.0 and row["seconds_per_edit"] == np.median([1.0, 3.0, 2.0])
    assert row["rewrite_acc"] == 0.75 and row["rephrase_acc"] == 0.5 and row["locality_acc"] == 0.75
    assert row["peak_memory_mb"] == 90 and row["pre_rewrite_acc"] == 0.25 and row["edits"] == 4


def test_a_torn_last_record_is_not_counted(tmp_path):
    interrupted = job(tmp_path, [record(1.0), record(2.0)])
    with interrupted.records.open("a") as stream:
        stream.write('{"case_id": 2, "pre')
    assert len(interrupted.finished()) == 2
    interrupted.drop_torn_record()
    with interrupted.records.open("a") as stream:
        stream.write(json.dumps(record(3.0)) + "\n")
    assert [r["seconds"] for r in interrupted.finished()] == [1.0, 2.0, 3.0]


def test_the_report_is_written_in_every_format(tmp_path):
    rows = [summarise([record(9.0), record(s)]) | {"method": m} for m, s in (("LARIMAR", 0.1), ("ROME", 30.0))]
    table = write_comparison(rows, tmp_path, {"edits": 2})
    assert "| LARIMAR | 2 | 1.000 | – | – | – | 0.100 | 9.000 | 90.000 |" in table
    saved = json.loads((tmp_path / "comparison.json").read_text())
    assert saved["settings"] == {"edits": 2} and [row["method"] for row in saved["rows"]] == ["LARIMAR", "ROME"]
    assert list(pd.read_csv(tmp_path / "comparison.csv").method) == ["LARIMAR", "ROME"]
    assert (tmp_path / "comparison.png").stat().st_size > 5000
    assert markdown([{"a": None, "b": 1234.5}], {"a": "A", "b": "B"}).endswith("| – | 1234 |\n")


@pytest.mark.parametrize("command", ["compare", "fit", "calibrate", "score", "memit-stats", "models"])
def test_every_command_has_help(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0 and "--" in result.output


def test_calibrate_prints_what_it_found():
    result = CliRunner().invoke(app, ["calibrate", "--limit", "12"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout.strip().splitlines()[-1])
    assert found["detector"] == "external" and found["positives"] == 24 and found["negatives"] == 36
    assert 0 <= found["equal_error_rate"] <= 1


def test_fit_makes_a_checkpoint_from_the_command_line(tmp_path):
    options = ["--sentences", "60", "--code-size", "16", "--slots", "2", "--dtype", "float32", "--out", str(tmp_path / "made")]
    result = CliRunner().invoke(app, ["fit", *options])
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout.strip().splitlines()[-1])
    assert report["latent_size"] == 32 and report["sentences"] == 60 and 0 < report["explained_variance"] < 1
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"config.json", "model.safetensors"}
    for command in ("fit", "sample"):
        result = CliRunner().invoke(app, [command, "--dtype", "int3"])
        assert result.exit_code == 2 and "--dtype" in result.output
