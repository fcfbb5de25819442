"""The benchmark runs, says what it counted, and costs do not grow where they should not. Ratios only, never
seconds.
"""

import json

import numpy as np
import pytest
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

from larimar_editor.bench import PARTS, edits, growth, reads, run
from larimar_editor.bench.clock import summary, timed
from larimar_editor.cli import app

SMALL = run.Sizes(edits=24, reads=40, blocks=(1, 32), rows=(16, 64), facts=(10, 60), prompts=(200, 2000))


def test_every_part_is_measured_and_the_model_left_alone(tiny, tmp_path):
    tiny.write([{"prompt": "The capital of Portugal is", "target_new": "Oslo"}])
    before = tiny.edited_state
    log, subject = [], run.Subject()
    vars(subject).update(model=tiny, bare=tiny.decoder)
    report = run.run(subject, PARTS[:-1], SMALL, log.append)
    assert tiny.edited_state is before and log == [f"{part} ..." for part in PARTS[:-1]]
    text = run.write(report, tmp_path)
    assert json.loads((tmp_path / "bench.json").read_text()) == json.loads(json.dumps(report))
    assert (tmp_path / "table.md").read_text() == text and (tmp_path / "figure.png").stat().st_size > 5000
    shares = report["edits"]["shares"]
    assert sum(shares.values()) == pytest.approx(1) and min(shares.values()) > 0
    assert report["edits"]["single_against_encoder"] > 0
    assert report["generation"]["tokens"] == 48 * 8 and report["environment"]["dtype"] == "float32"
    assert [row["prompts"] for row in report["lookups"]] == [200, 2000]
    assert report["lookups"][0]["recall"] >= 0.99
    names = [row["name"] for row in report["targets"]]
    assert len(names) == 12 and all(name in text for name in names)


def test_an_edit_runs_the_encoder_passes_that_it_is_measured_against(tiny):
    fact = edits.requests(1)[0]
    with FlopCounterMode(display=False) as passes:
        edits._encode(tiny, fact)
    with FlopCounterMode(display=False) as edit:
        tiny.write([fact])
    assert 0 < passes.get_total_flops() <= edit.get_total_flops() < 1.1 * passes.get_total_flops()


def test_costs_that_must_not_grow(tiny):
    rows = growth.with_facts((10, 20_000), rows=16, latent_size=32, key_size=16)
    assert rows[1]["against_the_first"] < 4, "the store is extended, not copied"
    assert rows[0]["bytes_per_fact"] == rows[1]["bytes_per_fact"] == (64 + 4) + 2 * 16, (
        "a latent and an embedding"
    )
    blocks = edits.in_blocks(tiny, edits.requests(128), (1, 64))
    assert blocks[1]["times_faster"] > 2, "a block shares the encoders' passes"


def test_a_large_block_is_timed_three_times(tiny, monkeypatch):
    timed_sizes = []
    monkeypatch.setattr(edits, "seconds_of", lambda calls: timed_sizes.append(len(calls[0].args[0])) or [1.0])
    edits.in_blocks(tiny, edits.requests(64), (1, 64))
    assert timed_sizes.count(64) == 3


def test_a_prompt_out_of_scope_is_timed_beside_a_fact(tiny, monkeypatch):
    """Of an empty memory nothing is asked."""
    fact, other = edits.requests(2)
    held = []

    def noted(generator, inputs, options):
        held.append([each.prompt for each in tiny.edited_state.store.facts()])
        return [1.0]

    monkeypatch.setattr(reads, "_gaps", noted)
    reads.generation(tiny, tiny.decoder, (fact, other), repeats=1)
    assert [prompt for (prompt,) in held] == [other["prompt"]] * 2 + [fact["prompt"]] * 2


def test_targets_are_judged_by_their_figures():
    report = {
        "lookups": [{"faiss": {"median": 0.004}, "recall": 0.98}],
        "edits": {"single_against_encoder": 1.1},
    }
    judged = [target.of(report) for target in run._targets(run.Sizes(1, 1, (1,), (1,), (1,), (100_000,)))]
    assert [row["met"] for row in judged if row] == [True, True, False]
    assert judged[1] is None, "what was not measured is not judged"


def test_seconds_are_summarised_without_the_first():
    found = summary([9.0, 1.0, 2.0, 6.0])
    assert found == {
        "first": 9.0,
        "median": 2.0,
        "p99": pytest.approx(np.percentile([1, 2, 6], 99)),
        "count": 4,
    }


def test_a_timed_method_is_itself_again():
    class Thing:
        def double(self, x):
            return 2 * x

    thing, spent = Thing(), []
    method = Thing.double
    with timed(thing, "double", spent), timed(Thing, "double", spent):
        assert thing.double(4) == 8
    assert len(spent) >= 1 and "double" not in vars(thing) and Thing.double is method


def test_an_unknown_part_is_refused_at_the_door():
    done = CliRunner().invoke(app, ["bench", "--parts", "edits,sleeping"])
    assert done.exit_code == 2 and "sleeping" in done.output
    done = CliRunner().invoke(app, ["bench", "--parts", "training"])
    assert done.exit_code == 2 and "--training" in done.output
