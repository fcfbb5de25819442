"""A life of many facts: one stream, kept in a file, that goes on where it was stopped; and methods beside it
that edit for as long as the time goes.
"""

import math
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest
from conftest import make_tiny

from larimar_editor.data.edits import load_edits
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.lifetimes import (
    drawn,
    perplexity_ratio,
    questions_of,
    records_of,
    texts_of,
)
from larimar_editor.evaluation.harness.records import LeftOut
from larimar_editor.evaluation.harness.report import note
from larimar_editor.evaluation.harness.scores import TargetScore
from larimar_editor.evaluation.tables import lifelong
from larimar_editor.hparams import find_hparams


@pytest.fixture
def context(tokenizer, tmp_path):
    context = Context(find_hparams("LARIMAR/smollm2-135m"), out=tmp_path, limit=70, baseline_cases=0)
    context._models["{}"] = make_tiny(tokenizer)
    return context


def test_no_question_comes_twice_and_the_public_ones_come_first(context):
    edits = list(islice(lifelong.stream_of(context), 1500))
    assert len({edit.prompt.strip() for edit in edits}) == 1500
    assert [edit.prompt for edit in edits[:60]] == [edit.prompt for edit in context.counterfact_edits]
    assert not any(edit.portability_prompts for edit in edits[:60]), (
        "what follows from an edit is not to stay"
    )
    assert edits == list(islice(lifelong.stream_of(context), 1500)), "the same whenever it is asked for"
    made = edits[400:]
    asked = {edit.prompt for edit in made} | {prompt for edit in made for prompt in edit.rephrase_prompts}
    assert not asked & {prompt for e in made for prompt in (*e.locality_prompts, *e.portability_prompts)}, (
        "what is to stay as before is no fact of the stream's"
    )
    assert sum(bool(e.rephrase_prompts and e.locality_prompts and e.portability_prompts) for e in made) > 900


def test_a_life_goes_on_where_it_was_stopped(context, tmp_path, monkeypatch):
    monkeypatch.setattr(lifelong, "COUNTS", (20, 40))
    monkeypatch.setattr(lifelong, "TIMED", 10)
    monkeypatch.setattr(lifelong, "_BLOCK", 4)
    model, written = context.larimar(), []
    write = model.write

    def dies(requests):
        if len(written) == 28:  # in the middle of the blocks
            raise KeyboardInterrupt
        written.extend(requests)
        return write(requests)

    monkeypatch.setattr(model, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        lifelong.EVALUATION.run(context, tmp_path / "lifelong", progress=False)
    assert model.is_empty(), "the model is as it was"
    with pytest.raises(ValueError, match=r"records made with .*seed"):  # other facts; none was asked yet
        lifelong.EVALUATION.run(replace(context, seed=1), tmp_path / "lifelong", progress=False)
    monkeypatch.setattr(model, "write", lambda requests: written.extend(requests) or write(requests))
    summary = lifelong.EVALUATION.run(context, tmp_path / "lifelong", progress=False)
    assert len(written) == 40, "no fact is written twice"
    assert [row["settings"]["facts"] for row in summary["rows"]] == [20, 40]
    for row in summary["rows"]:
        assert row["bytes"]["value"] > 0 and row["seconds"]["value"] > 0 and row["perplexity"]["value"] > 0
        assert row["written"]["count"] == row["settings"]["facts"] and 0 <= row["written"]["value"] <= 1
    assert (tmp_path / "lifelong" / "figure.png").stat().st_size > 5000


class OfLife:
    """Baselines that came to so many facts."""

    def __init__(self, *reached, ended="time"):
        self.reached, self.ended, self.given = reached, ended, []

    def made_with(self, context, method):
        return method

    def methods(self, context, wanted=None):
        return ["GRACE"]

    def lifetime(self, context, method, lifetime):
        self.given.append(lifetime)
        if not self.reached:
            raise LeftOut("GRACE is left out: no such file")
        made = [
            {
                "facts": facts,
                "seconds": 2.0,
                "perplexity": 1.5,
                "places": places,
                "records": [{"written": 0.25, "neighbour": 1.0}] * len(places),
            }
            for facts in self.reached
            for places in (drawn(facts, lifetime.seed),)
        ]
        return {"reached": made, "ended": self.ended, "environment": {"hardware": "a GPU"}}


def test_methods_are_asked_beside_larimar_where_they_come_to_as_many_facts(context, tmp_path, monkeypatch):
    monkeypatch.setattr(lifelong, "COUNTS", (10, 20))
    methods = OfLife(10, 13)
    beside = replace(context, baselines=methods, minutes=2.0, limit=20)
    beside._models = context._models
    summary = lifelong.EVALUATION.run(beside, tmp_path / "beside", progress=False)
    (given,) = methods.given
    assert len(given.edits) == 20 and given.minutes == 2.0 and list(given.counts) == [10, 20]
    names = ["Larimar, 10 facts", "Larimar, 20 facts", "GRACE, 10 facts", "GRACE, 13 facts"]
    assert [row["name"] for row in summary["rows"]] == names
    *_, last = summary["rows"]
    assert last["settings"]["ended"] == "time" and last["written"]["value"] == 0.25
    assert last["written"]["count"] == 13 and last["perplexity"]["value"] == 1.5
    (apart,) = summary["paired"]
    ours = next(row for row in summary["rows"] if row["name"] == "Larimar, 10 facts")
    assert apart["name"] == "Larimar, 10 facts - GRACE, 10 facts"
    assert apart["written"]["value"] == pytest.approx(ours["written"]["value"] - 0.25)
    here, there = summary["environments"]
    assert here["rows"] == names[:2] and there == {"rows": names[2:], "hardware": "a GPU"}
    assert note(summary).endswith("whose seconds do not compare.")


@pytest.mark.parametrize("reached, ended, why", [((), "", "no such file"), (None, "KeyError: x", "KeyError")])
def test_a_method_that_makes_no_edit_is_left_out_with_the_reason(
    context, tmp_path, monkeypatch, reached, ended, why
):
    monkeypatch.setattr(lifelong, "COUNTS", (5,))
    methods = OfLife(*(reached or ()), ended=ended)
    if reached is None:
        monkeypatch.setattr(methods, "lifetime", lambda *given: {"reached": [], "ended": ended})
    beside = replace(context, baselines=methods, limit=5, baseline_cases=3)
    beside._models = context._models
    summary = lifelong.EVALUATION.run(beside, tmp_path / "left-out", progress=False)
    assert why in summary["left_out"]["GRACE"] and len(summary["rows"]) == 1


def test_only_the_first_of_several_processes_lets_methods_edit(context, monkeypatch):
    methods = OfLife(10)
    beside = replace(context, baselines=methods, limit=10)
    monkeypatch.setattr(lifelong, "processes", lambda: SimpleNamespace(is_main_process=False))
    assert [condition.name for condition in lifelong.EVALUATION.conditions(beside)] == ["Larimar, 10 facts"]
    assert not methods.given


def test_what_is_to_stay_is_measured_against_the_base_model():
    edit = replace(load_edits(limit=1)[0], locality_prompts=("Rain is",), locality_ground_truth=("wet",))
    asked = questions_of([edit])
    assert {question.kind for question in asked} == {"written", "reworded", "other", "neighbour"}
    edited = [TargetScore(-1.0, 0.5, (3, 4)) for _ in asked]
    base = {question.pair: TargetScore(-2.0, 0.0, (3, 5)) for question in asked}
    base[("Rain is", "wet")] = edited[0]
    assert records_of(asked, edited, base) == [
        {"written": 0.5, "reworded": 0.5, "other": 0.5, "neighbour": 1.0}
    ]


def test_perplexity_is_of_all_tokens_together():
    edited = [TargetScore(-1.0, 0, (1,)), TargetScore(-2.0, 0, (1, 2, 3))]
    base = [TargetScore(-0.5, 0, (1,)), TargetScore(-1.0, 0, (1, 2, 3))]
    assert perplexity_ratio(edited, base) == pytest.approx(math.exp((1 + 6) / 4) / math.exp((0.5 + 3) / 4))
    words = [str(number) for number in range(5000)]
    texts = texts_of(" ".join(words), 4)
    assert len(texts) == 4 and all(len(start.split()) == len(end.split()) == 60 for start, end in texts)
    assert len({start for start, _ in texts}) == 4 and texts_of("too short") == [("too", "short")]
