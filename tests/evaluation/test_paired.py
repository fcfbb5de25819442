"""Differences of two rows on the same cases: against enumeration and the t distribution, and in a table's
files.
"""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.evaluation import Column, Evaluation, Statistic
from larimar_editor.evaluation.harness.paired import difference
from larimar_editor.evaluation.harness.records import Condition
from larimar_editor.hparams import find_hparams


def enumerated_p(apart):
    """Every way to exchange the two within cases."""
    size = abs(np.mean(apart)) - 1e-12
    means = [abs(np.mean(np.multiply(signs, apart))) for signs in product((1, -1), repeat=len(apart))]
    return np.mean([mean >= size for mean in means])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
def test_the_test_exchanges_the_two_within_cases(pairs):
    ours, theirs = np.array(pairs, dtype=float).T
    found = difference(ours, theirs)
    assert found.value == pytest.approx(np.mean(ours - theirs)) and found.count == len(pairs)
    assert found.low - 1e-12 <= found.value <= found.high + 1e-12
    assert found.p == pytest.approx(enumerated_p(ours - theirs), abs=1e-9)


def test_many_cases_are_as_the_t_distribution_has_them():
    rng = np.random.default_rng(1)
    theirs = rng.normal(0, 3, 400)
    ours = theirs + rng.normal(0.1, 1, 400)
    found, known = difference(ours, theirs, 100), ttest_rel(ours, theirs)
    interval = known.confidence_interval()
    assert found.p == pytest.approx(known.pvalue, abs=0.02)
    assert found.low == pytest.approx(100 * interval.low, abs=2)
    assert found.high == pytest.approx(100 * interval.high, abs=2)


def test_cases_that_all_differ_alike_leave_open_what_their_number_does():
    none, all_of_them = difference([1.0] * 20, [1.0] * 20), difference([0.0] * 20, [1.0] * 20)
    assert none.value == 0 and none.p == 1 and none.low == -none.high and 0.1 < none.high < 0.2
    assert all_of_them.value == all_of_them.low == -1 and -0.9 < all_of_them.high < -0.8
    assert difference([], []) is None
    counts = difference([2.0] * 20, [1.0] * 20, share=False)
    assert counts.value == counts.low == counts.high == 1, "no shares, of which 1 were the most"


def test_cases_of_one_cluster_are_exchanged_together():
    ours, theirs = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    alone = difference(ours, theirs)
    thrice = [list(np.repeat(values, 3)) for values in (ours, theirs)]
    together = difference(*thrice, clusters=list(np.repeat(range(6), 3)))
    assert (together.value, together.count, together.p) == pytest.approx((alone.value, 6, alone.p))
    assert together.low == pytest.approx(alone.low, abs=0.18) and difference(*thrice).p < alone.p / 5


def test_a_row_beside_another_is_compared_on_the_cases_of_both(tmp_path):
    values = {"ours": {"0": 1, "1": 1, "2": 1, "3": 0}, "theirs": {"0": 0, "1": 1, "2": 0}}
    values["LARIMAR"] = values["ours"]  # itself, through the framework

    def condition(name, beside=None):
        cases = {case: {"right": value} for case, value in values[name].items()}
        settings = {"method": name}
        return Condition(name, cases, lambda chosen: chosen, settings=settings, beside=beside)

    table = Evaluation(
        "compare",
        "A table",
        lambda context: [condition("ours"), condition("LARIMAR", "ours"), condition("theirs", "ours")],
        (
            Column("right", "Right", lambda record: record["right"], 100),
            Statistic("seconds", "Seconds", lambda records: 1.0),
        ),
    )
    context = Context(find_hparams("LARIMAR/smollm2-135m"))
    summary = table.run(context, tmp_path, progress=False)
    (row,) = summary["paired"]
    assert row["name"] == "ours - theirs" and "seconds" not in row, "a statistic has no value of a case"
    assert row["right"]["value"] == pytest.approx(200 / 3) and row["right"]["count"] == 3
    assert "66.7 (" in (tmp_path / "paired.md").read_text()
    assert json.loads((tmp_path / "summary.json").read_text())["paired"] == summary["paired"]
    (tmp_path / "figure.png").touch()
    replace(table, conditions=lambda context: [condition("ours")]).run(context, tmp_path, progress=False)
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"paired.md", "paired.tex", "paired.csv", "figure.png"}, "none of what there is no more"
