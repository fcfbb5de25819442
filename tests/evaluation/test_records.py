"""Runs go on after an interruption, count rightly, and say what they counted."""

import json
from operator import itemgetter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from larimar_editor.evaluation.harness.answers import f1, recalled
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.estimates import mean, resampled, wilson
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Figure, Statistic
from larimar_editor.evaluation.harness.records import Condition, read_records, run_conditions
from larimar_editor.evaluation.harness.report import estimates_frame, write_table
from larimar_editor.evaluation.tables import find

pytestmark = pytest.mark.usefixtures("one_sentence_encoder")


def test_a_run_goes_on_where_it_was_stopped(tmp_path):
    scored = []

    def score(cases):
        scored.extend(cases)
        if len(scored) == 4:
            raise KeyboardInterrupt
        return [{"twice": 2 * case} for case in cases]

    path = tmp_path / "out" / "records.jsonl"
    condition = Condition("some", {str(i): i for i in range(5)}, score, batch=1)
    with pytest.raises(KeyboardInterrupt):
        run_conditions([condition], path, progress=False)
    with path.open("a") as file:
        file.write('{"condition": "some", "case": "3", "twi')  # torn
    records = run_conditions([condition], path, progress=False)
    assert [record["twice"] for record in records] == [0, 2, 4, 6, 8]
    assert scored == [0, 1, 2, 3, 3, 4], (
        "no case is counted twice, and only the interrupted one was scored again"
    )
    assert read_records(path) == records
    assert run_conditions([condition], path, progress=False) == records and len(scored) == 6


def test_cases_that_shared_a_memory_with_more_are_scored_again(tmp_path):
    sizes = []
    score = lambda cases: sizes.append(len(cases)) or [{} for _ in cases]
    for count in (5, 5, 3):
        condition = Condition("some", {str(i): i for i in range(count)}, score, batch=0)
        assert len(run_conditions([condition], tmp_path / "records.jsonl", progress=False)) == count
    assert sizes == [5, 3]


def test_a_run_that_failed_before_its_first_record_locks_nothing(hparams, tmp_path):
    table = find("compare")
    table.run(Context(hparams, out=tmp_path, settings={"key_gain": 1.5}), tmp_path / "a", progress=False)
    table.run(Context(hparams, out=tmp_path), tmp_path / "a", progress=False)


def test_cases_that_share_a_memory_are_scored_together(tmp_path):
    sizes = []

    def score(cases):
        sizes.append(len(cases))
        return [{} for _ in cases]

    path = tmp_path / "records.jsonl"
    whole = Condition("whole", {str(i): i for i in range(3)}, score, batch=0)
    path.write_text(json.dumps({"condition": "whole", "case": "0"}) + "\n")
    assert len(run_conditions([whole], path, progress=False)) == 3 and sizes == [3]
    with pytest.raises(ValueError, match="names of their own"):
        run_conditions([whole, whole], path)


def test_intervals_against_the_normal_distribution_and_known_bounds():
    values = np.random.default_rng(0).normal(3, 2, 4000)
    found = mean(values, 10)
    half = norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(4000) * 10
    assert found.value == pytest.approx(10 * values.mean()) and found.count == 4000
    assert (
        found.high - found.value
        == pytest.approx(half, rel=0.1)
        == pytest.approx(found.value - found.low, rel=0.1)
    )
    whole = mean([1.0] * 60, 100)
    assert (whole.value, whole.high) == (100, 100) and whole.low == pytest.approx(
        100 * 60 / (60 + 1.959964**2), abs=1e-3
    )
    assert mean([]) is None and mean([None, 2.0]).count == 1
    counts = Column("said", "Times said", lambda record: record, share=False).of([1.0] * 60)
    assert (counts.low, counts.high) == (1, 1), "no share, of which 1 were the most"
    spread = resampled(list(values), lambda drawn: float(np.mean(drawn)), 10)
    assert spread.high - spread.low == pytest.approx(2 * half, rel=0.2)


def test_cases_of_one_cluster_count_as_one():
    """The five facts about a subject are asked one question that is not written: that is one case of it."""
    each = np.random.default_rng(0).integers(0, 2, 20).astype(float)
    alone, together = mean(each), mean(np.repeat(each, 5), clusters=np.repeat(range(20), 5))
    assert (together.value, together.count) == (pytest.approx(alone.value), 20)
    assert (together.low, together.high) == pytest.approx((alone.low, alone.high), abs=0.06)
    assert mean([1.0] * 10, clusters=5 * ["a", "b"]).low == pytest.approx(wilson(1.0, 2)[0])
    one = mean([0.0, 1.0], clusters=["a", "a"])
    assert (one.count, one.low, one.high) == (1, 0.5, 0.5), "one cluster says nothing of others"


def test_a_row_counts_its_conditions_clusters_and_its_figure_has_the_rows_own_records(hparams, tmp_path):
    """Records of cases beyond --limit stay in the file; old ones have no word of a cluster."""
    drawn = []

    def table(count):
        cases = {str(place): ("one" if place < 2 else "another", 1) for place in range(count)}
        scored = lambda chosen: [{"right": right} for _, right in chosen]
        return Evaluation(
            "compare",
            "A table",
            lambda context: [Condition("row", cases, scored, cluster=itemgetter(0))],
            (Column("right", "Right", itemgetter("right")),),
            lambda rows, path: drawn.append([len(row["records"]) for row in rows]),
        )

    for count, clusters in ((3, 2), (2, 1)):
        (row,) = table(count).run(Context(hparams), tmp_path, progress=False)["rows"]
        assert row["right"]["count"] == clusters
    assert drawn == [[3], [2]] and "cluster" not in (tmp_path / "records.jsonl").read_text()


def test_answers_are_compared_by_words():
    assert recalled(" It is Oslo, of course", "oslo") == 1 and recalled("Oslofjord", "Oslo") == 0
    assert (
        recalled("the United States of America", "United States") == 1
        and recalled("States United", "United States") == 0
    )
    assert (
        f1("New York City", "New York") == 1 and f1("New Jersey", "New York") == 0.5 and f1("", "Oslo") == 0
    )


def test_tables_say_count_and_interval(tmp_path):
    rows = [{"name": "a_b", "x": {"value": 98.25, "count": 7, "low": 97.0, "high": 99.0}, "y": None}]
    headers, paper = {"x": "X, %", "y": "Y"}, [{"name": "theirs", "y": 3.0}]
    text = write_table(estimates_frame(rows, headers, paper), tmp_path)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    assert cells[0] == ["", "X, %", "Y"] and cells[2] == ["a_b", "98.2 (97.0 to 99.0; n = 7)", "–"]
    assert cells[3] == ["*paper: theirs*", "–", "*3.0*"] and (tmp_path / "table.md").read_text() == text
    latex = (tmp_path / "table.tex").read_text()
    assert r"a\_b & 98.2 (97.0 to 99.0; n = 7) & –" in latex and r"X, \% & Y \\" in latex
    assert list(pd.read_csv(tmp_path / "table.csv").iloc[:, 0]) == ["a_b", "paper: theirs"]


def test_a_figure_of_a_whole_run_is_shown_without_an_interval_or_a_number_of_cases():
    """A first edit is one, a peak of none, a median of the last hundred."""
    column = Figure("first", "First", lambda records: records[0]["seconds"])
    records = [{"seconds": 3.0}, {"seconds": 0.1}, {"seconds": 0.2}]
    estimate = column.of(records).to_dict()
    assert estimate == {"value": 3.0, "count": None, "low": 3.0, "high": 3.0} and column.of([]) is None
    frame = estimates_frame([{"name": "a", "first": estimate}], {"first": "First"})
    assert frame.iloc[0].tolist() == ["a", "3.000"]


@pytest.mark.parametrize("kind", [Statistic, Figure])
def test_what_is_of_all_records_together_is_not_said_to_be_a_share_or_none(kind):
    """It would change nothing: Wilson's interval is of means over cases."""
    with pytest.raises(TypeError, match="share"):
        kind("first", "First", lambda records: 3.0, share=False)


def test_other_settings_do_not_mix_with_records(hparams, tmp_path):
    find("zsre").run(Context(hparams, limit=2), tmp_path, progress=False)
    with pytest.raises(ValueError, match="made with seed 0; choose another --out"):
        find("zsre").run(Context(hparams, limit=2, seed=1), tmp_path, progress=False)
    with pytest.raises(ValueError, match="no evaluation 'zre'; there are compare, counterfact"):
        find("zre")
