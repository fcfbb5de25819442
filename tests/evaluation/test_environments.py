"""A table says of each row on which machine it was made, also where a run went on on another one."""

import json

import pytest

from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness import environments
from larimar_editor.evaluation.harness.baselines import (
    NoBaselines,
    retained_edit_conditions,
    single_edit_conditions,
)
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.evaluation.harness.report import made_on
from larimar_editor.evaluation.tables import find
from larimar_editor.hparams import find_hparams


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Where a machine of that name made the rows of these conditions."""

    def run(machine, *conditions):
        monkeypatch.setattr(environments, "environment", lambda device: {"hardware": machine, "threads": 2})
        columns = (Column("right", "Right", lambda record: record["right"]),)
        table = Evaluation("compare", "A table", lambda context: conditions, columns)
        summary = table.run(Context(find_hparams("LARIMAR/smollm2-135m")), tmp_path, progress=False)
        return {each["hardware"]: each["rows"] for each in summary["environments"]}

    return run


def condition(name, count=2, batch=16, stopped=False, said=(), **settings):
    def score(cases):
        if stopped:
            raise KeyboardInterrupt
        return [{"right": 1, **dict(said)} for _ in cases]

    return Condition(name, {str(case): case for case in range(count)}, score, batch, settings)


def test_a_row_that_is_new_says_nothing_of_those_that_are_there(run, tmp_path):
    assert run("A", condition("old")) == {"A": ["old"]}
    assert run("B", condition("old"), condition("new")) == {"A": ["old"], "B": ["new"]}
    assert run("C", condition("old"), condition("new")) == {"A": ["old"], "B": ["new"]}, "nothing is measured"
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert made_on(summary) == "old on A, 2 threads; new on B, 2 threads"


def test_a_row_is_of_all_machines_that_its_cases_are_of(run):
    run("A", condition("alone"), condition("together", batch=0))
    assert run("B", condition("alone", 3), condition("together", 3, batch=0)) == {
        "A": ["alone"],
        "B": ["alone", "together"],
    }, "of cases that share a memory none is kept"


def test_a_run_that_was_stopped_has_said_where_it_was(run):
    with pytest.raises(KeyboardInterrupt):
        run("A", condition("first"), condition("second", stopped=True))
    assert run("B", condition("first"), condition("second")) == {"A": ["first"], "B": ["second"]}


def test_a_machine_that_was_stopped_before_it_made_a_record_made_none(run):
    run("A", condition("row"))
    with pytest.raises(KeyboardInterrupt):
        run("B", condition("row", 3, stopped=True))
    assert run("C", condition("row", 3)) == {"A": ["row"], "C": ["row"]}


def test_rows_from_before_keep_what_their_summary_said_of_all(run, tmp_path):
    run("A", condition("old"))
    path = tmp_path / "summary.json"
    before = json.loads(path.read_text())
    del before["environments"]
    before["settings"] |= {"hardware": "X", "threads": 1, "torch": "2", "transformers": "5"}
    path.write_text(json.dumps(before))
    (tmp_path / "environments.json").unlink()
    assert made_on(before) == "X, 1 threads, torch 2, transformers 5"
    assert run("B", condition("old")) == {"X": ["old"]}
    more = [condition("new"), condition("FT", method="FT")]
    assert run("B", condition("old"), *more) == {"X": ["old"], "B": ["new"]}


def test_a_stopped_run_keeps_what_only_a_summary_said(run, tmp_path):
    run("A", condition("old"))
    (tmp_path / "environments.json").unlink()
    with pytest.raises(KeyboardInterrupt):
        run("B", condition("old"), condition("new", stopped=True))
    assert not (tmp_path / "summary.json").exists(), "it would say what is being made anew"
    assert run("B", condition("old"), condition("new")) == {"A": ["old"], "B": ["new"]}


def test_the_one_machine_of_an_older_summary_is_not_said_of_methods(run, tmp_path):
    """They ran on a GPU, and the page said that it was the CPU of Larimar's rows."""
    rows = [condition("ours"), condition("FT", method="FT")]
    run("A", *rows)
    before = json.loads((tmp_path / "summary.json").read_text())
    del before["environments"]
    before["settings"] |= {"hardware": "X"}
    assert made_on(before) == "ours on X"
    (tmp_path / "summary.json").write_text(json.dumps(before))
    (tmp_path / "environments.json").unlink()
    assert run("B", *rows) == {"X": ["ours"]}


def test_a_page_says_which_easyedit_made_a_row():
    made = [{"rows": ["ROME"], "hardware": "X", "easyedit": "main branch"}]
    assert made_on({"rows": [{"name": "ROME"}], "environments": made}) == "X, EasyEdit's main branch"


def test_a_record_of_another_process_says_itself_where_it_was_made(run):
    told = {"environment": {"hardware": "a GPU", "easyedit": "main branch"}}
    rows = [condition("ours"), condition("ROME", said=told, method="ROME"), condition("FT", method="FT")]
    assert run("A", *rows) == {"A": ["ours"], "a GPU": ["ROME"]}


def test_the_one_machine_that_is_known_is_not_said_of_rows_of_other_processes(run, tmp_path):
    """FT's records are from before they said where they were made, which may have been on a GPU."""
    run("A", condition("ours"), condition("FT", method="FT"))
    assert made_on(json.loads((tmp_path / "summary.json").read_text())) == "ours on A, 2 threads"
    run("A", condition("ours"))
    assert made_on(json.loads((tmp_path / "summary.json").read_text())) == "A, 2 threads"


TOLD = {"environment": {"hardware": "a GPU"}}


class Elsewhere(NoBaselines):
    """A method that another machine has run."""

    def methods(self, context, wanted=None):
        return ["FT"]

    def single_edits(self, context, method, edits):
        return [{"single": {"right": 1}, **TOLD} for _ in edits]

    def trials(self, context, method, trials):
        answers = lambda stage: {"scores": [{"accuracy": 1, "same": 1} for _ in stage.scored]}
        said = lambda stage: {
            "answers": ["Oslo is a city in the north" for _ in stage.generated],
            "seconds": [],
        }
        return [[{**answers(stage), **said(stage), **TOLD} for stage in trial.stages] for trial in trials]


@pytest.mark.parametrize("kind", ["alone", "one after the other", "in one block"])
def test_every_record_of_a_methods_says_where_it_was_made(kind):
    """Else a table has rows of which no one knows the machine."""
    edits, context = load_edits(limit=2), Context(find_hparams("LARIMAR/smollm2-135m"), baselines=Elsewhere())
    if kind == "alone":
        (made,) = single_edit_conditions(context, edits, lambda record: record["single"])
    else:
        (made,) = retained_edit_conditions(context, edits, ["FT"], None, together=kind == "in one block")
    records = made.score(edits)
    assert len(records) == 2 and all(TOLD.items() <= record.items() for record in records)


@pytest.mark.usefixtures("one_sentence_encoder")
@pytest.mark.parametrize(
    "name",
    ["knowedit", "portability", "realworld", "fluency", "subjects", "holdout", "leakage"],
)
def test_the_records_of_tables_that_try_methods_themselves_say_it_too(name, hparams, tmp_path):
    context = Context(hparams, out=tmp_path, limit=3, baseline_cases=2, baselines=Elsewhere())
    rows = [each for each in find(name).conditions(context) if each.settings.get("method") == "FT"]
    assert rows
    for row in rows:
        for record in row.score(list(row.cases.values())):
            assert TOLD.items() <= record.items()
