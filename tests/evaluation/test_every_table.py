"""Every table runs, writes its files and says what it read: by itself, by command, in two processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import EVERYTHING
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
from larimar_editor.evaluation.harness import real_world
from larimar_editor.evaluation.harness.baselines import NoBaselines
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import DATA
from larimar_editor.evaluation.harness.records import read_records
from larimar_editor.evaluation.tables import NAMES, find, fluency, leakage, lengths, realworld, subjects

pytestmark = pytest.mark.usefixtures("one_sentence_encoder")


@pytest.mark.parametrize("name", NAMES)
def test_every_evaluation_writes_its_files_and_says_what_it_reads(name, hparams, tmp_path, monkeypatch):
    pytest.importorskip("easyeditor", exc_type=ImportError)
    read, describe = set(), Context.describe

    def watched(self, name):
        read.update({name} & {*DATA})
        return object.__getattribute__(self, name)

    def described(self):
        before = {*read}
        told = describe(self)
        read.intersection_update(before)  # it names them all
        return told

    monkeypatch.setattr(Context, "__getattribute__", watched)
    monkeypatch.setattr(Context, "describe", described)
    # A random model's answers do not end.
    monkeypatch.setattr(real_world, "MOST_TOKENS", 8)
    monkeypatch.setattr(fluency, "_OPTIONS", {"max_new_tokens": 12, "min_new_tokens": 12})
    monkeypatch.setattr(leakage, "SAMPLES", 1)
    if not EVERYTHING:
        monkeypatch.setattr(subjects, "EACH", (1, 5))
        monkeypatch.setattr(lengths, "MOST", (1, 16, 128))
    # One table beside EasyEdit's methods; the others take them alike. `make soak` has all of them, each with
    # its own code.
    beside = EasyEditBaselines() if EVERYTHING or name == "compare" else NoBaselines()
    context = Context(hparams, out=tmp_path / "all", limit=3, baseline_cases=2, baselines=beside)
    summary = find(name).run(context, tmp_path, progress=False)
    assert summary == json.loads((tmp_path / "summary.json").read_text())
    assert summary["paper"]["labels"] and summary["settings"]["checkpoint"].startswith("sha256:")
    assert len(summary["rows"]) == len({row["name"] for row in summary["rows"]}) >= 1
    for row in summary["rows"]:
        estimates = [row[column.key] for column in find(name).columns if row[column.key] is not None]
        assert estimates, f"{row['name']} has no number"
        for estimate in estimates:
            assert estimate["count"] is None or estimate["count"] >= 1
            assert estimate["low"] <= estimate["value"] + 1e-9
            assert estimate["value"] <= estimate["high"] + 1e-9 and np.isfinite(estimate["value"])
    for file in ("table.md", "table.tex", "table.csv") + (("figure.png",) if find(name).plot else ()):
        assert (tmp_path / file).stat().st_size > 0
    before = (tmp_path / "records.jsonl").read_text()
    assert find(name).run(context, tmp_path, progress=False)["rows"] == summary["rows"]
    assert (tmp_path / "records.jsonl").read_text() == before, "nothing is scored twice"
    assert all(model.is_empty() for model in context._models.values()), (
        "the next evaluation finds nothing written"
    )
    assert read <= {*find(name).reads}


class Named(NoBaselines):
    """Methods that would be run."""

    def methods(self, context, wanted=None):
        return [name for name in ("LARIMAR", "GRACE") if wanted is None or name in wanted]


# Of which methods a table has rows; those that are not here have none.
_WITH_LARIMAR = ("compare", "counterfact", "knowedit", "portability", "realworld", "fluency")
_WITHOUT = ("subjects", "sequential", "holdout", "batch", "leakage")
BESIDE = {name: {"LARIMAR", "GRACE"} for name in _WITH_LARIMAR} | {name: {"GRACE"} for name in _WITHOUT}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "lifelong"])  # which runs them at once
def test_a_methods_row_says_whose_it_is(name, hparams, tmp_path):
    """Else its records stay when the method is another, and Larimar is told apart from itself."""
    context, named = Context(hparams, out=tmp_path, limit=3, baseline_cases=2, baselines=Named()), set()
    for condition in find(name).conditions(context):
        for method in ("LARIMAR", "GRACE"):
            assert (method in condition.name) == (condition.settings.get("method") == method)
            named |= {method} & {condition.settings.get("method")}
    assert named == BESIDE.get(name, set()), "a table without a row would show nothing"


def test_an_attack_on_a_methods_answer_is_beside_one_on_larimar_as_it_is(hparams, tmp_path):
    """With `after_answer: stop`, which nobody has who does not ask for it, less leaks."""
    context = Context(hparams, out=tmp_path, limit=3, baseline_cases=2, baselines=Named())
    rows = {condition.name: condition for condition in find("leakage").conditions(context)}
    beside = rows[rows["GRACE, single"].beside]
    assert beside.settings["after_answer"] == context.larimar().config.after_answer


def test_a_decoder_without_a_chat_template_is_asked_the_prompt_as_it_is(hparams, tmp_path, monkeypatch):
    context = Context(hparams, out=tmp_path / "all", limit=2)
    context.larimar().tokenizer.chat_template = None
    asked, answered = [], realworld.answers
    monkeypatch.setattr(
        realworld, "answers", lambda model, texts, **how: asked.extend(texts) or answered(model, texts, **how)
    )
    summary = find("realworld").run(context, tmp_path, progress=False)
    assert not summary["left_out"] and len(summary["rows"]) == 3
    edits = context.counterfact_edits
    assert {edit.prompt for edit in edits} <= {*asked} and not any("<|im_start|>" in text for text in asked)


def test_the_command_runs_all_and_collects_their_tables(hparams, tmp_path, monkeypatch):
    monkeypatch.setattr("larimar_editor.cli.evaluate.NAMES", ("zsre", "scope"))
    done = CliRunner().invoke(
        app, ["eval", "all", "--hparams", str(hparams), "--limit", "2", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    tables = (tmp_path / "tables.md").read_text()
    assert all((tmp_path / name / "table.md").read_text() in tables for name in ("zsre", "scope"))
    assert "## zsre: " in tables and find("scope").note in tables and "limit 2" in tables


def test_the_command_runs_one_by_name(hparams, tmp_path):
    given = ["eval", "zsre", "--hparams", str(hparams), "--limit", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "zsre" / "table.md").read_text() in done.output


def test_two_processes_give_what_one_gives(hparams, tmp_path):
    command = ["eval", "zsre", "--hparams", str(hparams), "--limit", "5", "--out"]
    assert CliRunner().invoke(app, [*command, str(tmp_path / "one")]).exit_code == 0
    # As if an earlier run of two had been stopped: what the second had finished is not scored again.
    first = (tmp_path / "one" / "zsre" / "records.jsonl").read_text().splitlines()[0]
    (tmp_path / "two" / "zsre").mkdir(parents=True)
    (tmp_path / "two" / "zsre" / "records.1.jsonl").write_text(first + "\n" + first[:40])
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        "-m",
        "larimar_editor.cli",
    ]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, *command, str(tmp_path / "two")], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one, two = (tmp_path / name / "zsre" for name in ("one", "two"))
    assert sorted(path.name for path in two.iterdir()) == sorted(path.name for path in one.iterdir())
    assert (two / "table.md").read_text() == (one / "table.md").read_text()
    assert done.stdout.count("zsre: ") == 1, "only the first process writes"
    for a, b in zip(read_records(one / "records.jsonl"), read_records(two / "records.jsonl"), strict=True):
        assert (a["condition"], a["case"]) == (b["condition"], b["case"])
        assert a["rewrite"][0]["magnitude"] == pytest.approx(b["rewrite"][0]["magnitude"], abs=1e-5)
