"""Tables and figures: every one runs, says what it counted, goes on after an interruption, and counts rightly."""

import json

import numpy as np
import pytest
import torch
import yaml
from conftest import make_tiny, share_sentence_encoder
from scipy.stats import norm
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data import load_edits
from larimar_editor.evaluation import context as context_module
from larimar_editor.evaluation.answers import answers, f1, recalled
from larimar_editor.evaluation.context import Context
from larimar_editor.evaluation.counterfact import with_rephrasings
from larimar_editor.evaluation.estimates import mean, resampled
from larimar_editor.evaluation.evaluation import NAMES, find
from larimar_editor.evaluation.longcontext import FACTS, read_recursively
from larimar_editor.evaluation.records import Condition, read_records, run_conditions
from larimar_editor.evaluation.rephrase import facts_in_wordings
from larimar_editor.evaluation.report import latex_table, markdown_table


@pytest.fixture(scope="module")
def hparams(tokenizer, tmp_path_factory):
    """A tiny decoder, its closed form and a hyperparameter file on disk."""
    folder = tmp_path_factory.mktemp("tiny")
    model = make_tiny(tokenizer)
    model.decoder.save_pretrained(folder / "tiny-llama")
    tokenizer.save_pretrained(folder / "tiny-llama")
    model.save_pretrained(folder / "closed", dtype=torch.float32)
    values = {"alg_name": "LARIMAR", "model_name": str(folder / "tiny-llama"), "larimar_checkpoint": str(folder / "closed")}
    (folder / "LARIMAR").mkdir()
    (folder / "LARIMAR" / "tiny.yaml").write_text(yaml.safe_dump(values))
    return folder / "LARIMAR" / "tiny.yaml"


@pytest.fixture(autouse=True)
def one_sentence_encoder(monkeypatch):
    load = context_module.load_larimar
    monkeypatch.setattr(context_module, "load_larimar", lambda *given: (share_sentence_encoder(load(*given)[0]), ""))


# --- plumbing ---------------------------------------------------------------------------------------------------------


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
    assert scored == [0, 1, 2, 3, 3, 4], "no case is counted twice, and only the interrupted one was scored again"
    assert read_records(path) == records
    assert run_conditions([condition], path, progress=False) == records and len(scored) == 6


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
    assert found.high - found.value == pytest.approx(half, rel=0.1) == pytest.approx(found.value - found.low, rel=0.1)
    whole = mean([1.0] * 60, 100)
    assert (whole.value, whole.high) == (100, 100) and whole.low == pytest.approx(100 * 60 / (60 + 1.959964**2), abs=1e-3)
    assert mean([]) is None and mean([None, 2.0]).count == 1
    spread = resampled(list(values), lambda drawn: float(np.mean(drawn)), 10)
    assert spread.high - spread.low == pytest.approx(2 * half, rel=0.2)


def test_answers_are_compared_by_words():
    assert recalled(" It is Oslo, of course", "oslo") == 1 and recalled("Oslofjord", "Oslo") == 0
    assert recalled("the United States of America", "United States") == 1 and recalled("States United", "United States") == 0
    assert f1("New York City", "New York") == 1 and f1("New Jersey", "New York") == 0.5 and f1("", "Oslo") == 0


def test_tables_say_count_and_interval():
    rows = [{"name": "a_b", "x": {"value": 98.25, "count": 7, "low": 97.0, "high": 99.0}, "y": None}]
    headers, paper = {"x": "X, %", "y": "Y"}, [{"name": "theirs", "y": 3.0}]
    table = markdown_table(rows, headers, paper)
    assert "| a_b | 98.2 (97.0 to 99.0; n = 7) | – |" in table and "| *paper: theirs* | – | *3.0* |" in table
    latex = latex_table(rows, headers, paper)
    assert r"a\_b & 98.2 {\scriptsize [97.0, 99.0], 7} & --" in latex and r"X, \% & Y \\" in latex


def test_other_settings_do_not_mix_with_records(hparams, tmp_path):
    find("zsre").run(Context(hparams, limit=2), tmp_path, progress=False)
    with pytest.raises(ValueError, match="made with seed 0; choose another --out"):
        find("zsre").run(Context(hparams, limit=2, seed=1), tmp_path, progress=False)
    with pytest.raises(ValueError, match="no evaluation 'zre'; there are timing, counterfact"):
        find("zre")


# --- every evaluation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_evaluation_writes_its_files(name, hparams, tmp_path):
    if name == "timing":
        pytest.importorskip("easyeditor", exc_type=ImportError)
    context = Context(hparams, out=tmp_path / "all", limit=3, baseline_cases=2)
    summary = find(name).run(context, tmp_path, progress=False)
    assert summary == json.loads((tmp_path / "summary.json").read_text())
    assert summary["paper"]["labels"] and summary["settings"]["checkpoint"].startswith("sha256:")
    assert len(summary["rows"]) == len({row["name"] for row in summary["rows"]}) >= 1
    for row in summary["rows"]:
        estimates = [row[column.key] for column in find(name).columns if row[column.key] is not None]
        assert estimates, f"{row['name']} has no number"
        for estimate in estimates:
            assert estimate["count"] >= 1 and estimate["low"] <= estimate["value"] + 1e-9
            assert estimate["value"] <= estimate["high"] + 1e-9 and np.isfinite(estimate["value"])
    for file in ("table.md", "table.tex") + (("figure.png",) if find(name).plot else ()):
        assert (tmp_path / file).stat().st_size > 0
    before = (tmp_path / "records.jsonl").read_text()
    assert find(name).run(context, tmp_path, progress=False)["rows"] == summary["rows"]
    assert (tmp_path / "records.jsonl").read_text() == before, "nothing is scored twice"


def test_the_command_runs_one_by_name(hparams, tmp_path):
    given = ["eval", "zsre", "--hparams", str(hparams), "--limit", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "zsre" / "table.md").read_text() in done.output


def test_the_base_models_row_is_the_base_model(hparams, tmp_path):
    summary = find("counterfact").run(Context(hparams, out=tmp_path / "all", limit=6), tmp_path, progress=False)
    records = read_records(tmp_path / "records.jsonl")
    for record in records:
        if record["condition"] == "base model":
            for asked in (*record["rewrite"], *record["rephrase"]):
                assert not asked["in_scope"] and asked["success"] == asked["base_success"]
            assert all(each["same"] == 1 for each in record["neighbourhood"])
    base, larimar, *more = summary["rows"]
    assert base["same"]["value"] == 100 and larimar["edit_M"]["value"] > base["edit_M"]["value"]
    assert [row["name"] for row in more[:2]] == ["Larimar + 1 rephrasing", "Larimar + 2 rephrasings"]
    for row in more[2:]:  # through EasyEdit's editor, where there is one
        assert row["name"] == "LARIMAR"
        for column in find("counterfact").columns:
            assert row[column.key]["value"] == pytest.approx(larimar[column.key]["value"], abs=1e-3), column.key
    own = [record["rewrite"][0]["success"] for record in records if record["condition"] == "Larimar"]
    assert larimar["edit_S"]["value"] == pytest.approx(100 * sum(own) / 6)


def test_further_wordings_leave_out_the_one_that_is_asked():
    edit = load_edits(limit=1)[0]
    written = [request["prompt"] for request in with_rephrasings(2)(edit)]
    assert len(written) == 3 and edit.rephrase_prompts[0] not in written and written[1] == edit.rephrase_prompts[1]


def test_recursive_reads_find_the_fact_among_many_memories():
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(70, 16, generator=generator), torch.randn(70, 24, generator=generator)
    found = read_recursively(keys, values, keys[::7], chunk=8)  # 9 memories, then 2, then 1
    torch.testing.assert_close(found, values[::7], atol=1e-3, rtol=1e-3)
    near = keys[::7] + 0.05 * torch.randn(10, 16, generator=generator)
    torch.testing.assert_close(read_recursively(keys, values, near, chunk=8), values[::7], atol=1e-3, rtol=1e-3)
    assert json.loads(FACTS.read_text()) == [
        {key: fact[key] for key in ("case_id", "relation", "subject", "prompt", "target_new", "rephrase_prompt")}
        for fact in facts_in_wordings(256, 2024, 0.0)
    ], "the file is what its README says"


def test_a_generated_answer_is_what_generate_says(tiny, tokenizer):
    prompts = ["The capital of Portugal is", "Water boils when it is"]
    tiny.write([{"prompt": prompts[0], "target_new": "Oslo"}])
    alone = []
    for prompt in prompts:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        made = tiny.generate(ids, max_new_tokens=5, do_sample=False, pad_token_id=tokenizer.pad_token_id)
        alone.append(tokenizer.decode(made[0, ids.shape[1] :], skip_special_tokens=True))
    assert answers(tiny, prompts, max_new_tokens=5) == alone
