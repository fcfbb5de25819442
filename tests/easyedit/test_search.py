"""The search over a baseline's settings; the methods themselves run in `larimar-editor search-settings`."""

import json

import pytest
import yaml

from larimar_editor.data.edits import load_edits
from larimar_editor.easyedit.baselines import search as searching
from larimar_editor.easyedit.baselines.jobs import digest
from larimar_editor.easyedit.baselines.search import (
    GRIDS,
    Tried,
    grid_of,
    search,
    search_and_write,
    table,
    trial_of,
    values_in,
    with_values,
)
from larimar_editor.hparams import find_hparams

HPARAMS = find_hparams("LARIMAR/smollm2-135m").parents[1]


def tried(values, score):
    return Tried(values, score, score, score, 1.0)


def test_one_setting_after_another_and_each_combination_once():
    seen = []

    def trial(values):
        seen.append(dict(values))
        return tried(
            values, {(1, "a"): 0.2, (2, "a"): 0.5, (3, "a"): 0.5, (2, "b"): 0.4}[tuple(values.values())]
        )

    found = list(search(trial, {"x": 1, "y": "a"}, {"x": [1, 2, 3], "y": ["a", "b"]}))
    assert seen == [{"x": 1, "y": "a"}, {"x": 2, "y": "a"}, {"x": 3, "y": "a"}, {"x": 2, "y": "b"}]
    assert max(found, key=lambda each: each.score).values == {"x": 2, "y": "a"}, "of equals the first"


def test_what_failed_is_never_the_best():
    found = list(
        search(lambda values: tried(values, 0.0) if values["x"] else Tried(values), {"x": 0}, {"x": [1]})
    )
    assert max(found, key=lambda each: each.score).values == {"x": 1}
    assert list(table(found)["x"]) == [1, 0] and table(found)["score"].iloc[1] == -1


@pytest.mark.parametrize("method", sorted(GRIDS))
def test_what_is_searched_stands_in_the_files_that_ship(method):
    file = HPARAMS / method / "smollm2-135m.yaml"
    assert values_in(file, list(GRIDS[method])).keys() == GRIDS[method].keys()
    with pytest.raises(ValueError, match="has no no_such_thing"):
        values_in(file, ["no_such_thing"])


def test_the_file_that_is_written_has_the_best_values_and_says_what_was_tried():
    file = HPARAMS / "FT" / "smollm2-135m.yaml"
    text = file.read_text(encoding="utf-8")
    rows = [
        tried({"lr": 5e-4, "num_steps": 25}, 0.25),
        tried({"lr": 2e-3, "num_steps": 10}, 0.75),
        Tried({"lr": 9.0}),
    ]
    written = with_values(with_values(text, rows[:1], "before"), rows, "`it`.")
    before, after = yaml.safe_load(text), yaml.safe_load(written)
    assert after == before | {"lr": 2e-3, "num_steps": 10}
    assert written.startswith("# Searched by `it`.\n#   lr 0.002, num_steps 10: 0.75 / 0.75 / 0.75\n")
    assert "#   lr 9.0: failed\n" in written and text.splitlines()[-1] in written
    own = [line for line in text.splitlines() if line.startswith("# ") and "Searched by" not in line]
    own = [line for line in own if not line.startswith("#   ")]
    assert own and all(line in written for line in own), "the file's own comments stay"
    assert written.count("Searched by") == 1, "an earlier search's comment gives way"


def test_what_is_searched_is_what_is_given_or_what_matters_of_the_method():
    assert grid_of("FT", {}) == GRIDS["FT"] and grid_of("FT", {"lr": ["5e-4", 1]}) == {"lr": [5e-4, 1]}
    for method, given, message in (
        ("IKE", {"k": [1]}, "IKE edits nothing"),
        ("FT", {"lr": 3}, "--try lr needs a list"),
        ("FT", {"lr": []}, "--try lr needs a list"),
        ("LARIMAR", {}, "what to search of LARIMAR is not known"),
    ):
        with pytest.raises(ValueError, match=message):
            grid_of(method, given)


def test_a_search_writes_what_was_tried_and_the_file_with_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(searching, "trial_of", lambda *given: lambda values: tried(values, values["lr"]))
    file, said = HPARAMS / "FT" / "smollm2-135m.yaml", []
    best = search_and_write("FT", file, [], {"lr": [0.25, 0.75]}, tmp_path, None, "`it`.", said.append)
    assert best == tmp_path / file.name and yaml.safe_load(best.read_text())["lr"] == 0.75
    assert len(said) == 3 == len((tmp_path / "tried.csv").read_text().splitlines()) - 1
    assert "0.75" in (tmp_path / "tried.md").read_text()
    best.unlink()
    monkeypatch.setattr(searching, "trial_of", lambda *given: Tried)
    with pytest.raises(ValueError, match="FT failed with all values"):
        search_and_write("FT", file, [], {"lr": [0.25]}, tmp_path, None, "`it`.", said.append)
    assert not best.exists()


def test_a_trial_is_a_job_of_its_own_and_is_not_run_again(tmp_path, monkeypatch):
    jobs = []

    def run(job, say):
        jobs.append(job)
        if job.overrides["lr"] > 1:
            say("it failed")
            return False
        line = {"post": {"rewrite_acc": 1.0, "rephrase_acc": 0.5, "locality_acc": 0.0}, "seconds": 2.0}
        with job.records.open("a") as stream:
            stream.writelines(json.dumps({"digest": digest(case)} | line) + "\n" for case in job.pending())
        return True

    monkeypatch.setattr(searching, "run", run)
    said = []
    file = HPARAMS / "FT" / "smollm2-135m.yaml"
    trial = trial_of("FT", file, load_edits(limit=3), tmp_path, "cpu", said.append)
    good, bad = trial({"lr": 1e-3}), trial({"lr": 2.0})
    assert (good.score, good.seconds, bad.score, said) == (0.5, 2.0, -1.0, ["it failed"])
    assert jobs[0].out != jobs[1].out and len(jobs[0].cases) == 3
    assert trial({"lr": 1e-3}) == good and jobs[2].out == jobs[0].out
    assert len(jobs[0].records.read_text().splitlines()) == 3, "no edit is made twice"
    assert trial_of("FT", file, load_edits(limit=5), tmp_path, "cpu", print)({"lr": 1e-3}).score == 0.5
    assert len(jobs[0].records.read_text().splitlines()) == 5, "of more edits those that are new"
    assert trial_of("FT", file, load_edits(limit=3), tmp_path, None, print)({"lr": 1e-3}).score == 0.5
    assert jobs[-1].out != jobs[0].out, "another device is another run"
