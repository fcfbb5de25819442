"""A life of many facts: one stream, kept in a file, that goes on where it was stopped."""

from itertools import islice

import pytest
from conftest import make_tiny

from larimar_editor.evaluation.harness.context import Context
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
    assert edits == list(islice(lifelong.stream_of(context), 1500)), "the same whenever it is asked for"
    made = edits[400:]
    asked = {edit.prompt for edit in made} | {prompt for edit in made for prompt in edit.rephrase_prompts}
    assert not asked & {prompt for e in made for prompt in (*e.locality_prompts, *e.portability_prompts)}, (
        "what is to stay as before is no fact of the stream's"
    )
    assert sum(bool(e.rephrase_prompts and e.locality_prompts and e.portability_prompts) for e in made) > 900


def test_a_life_goes_on_where_it_was_stopped(context, tmp_path, monkeypatch):
    monkeypatch.setattr(lifelong, "COUNTS", (20, 40))
    monkeypatch.setattr(lifelong, "_TIMED", 10)
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
    monkeypatch.setattr(model, "write", lambda requests: written.extend(requests) or write(requests))
    summary = lifelong.EVALUATION.run(context, tmp_path / "lifelong", progress=False)
    assert len(written) == 40, "no fact is written twice"
    assert [row["settings"]["facts"] for row in summary["rows"]] == [20, 40]
    for row in summary["rows"]:
        assert row["bytes"]["value"] > 0 and row["seconds"]["value"] > 0
        assert row["written"]["count"] == row["settings"]["facts"] and 0 <= row["written"]["value"] <= 1
    assert (tmp_path / "lifelong" / "figure.png").stat().st_size > 5000
