"""Tables and figures: every one runs, says what it counted, goes on after an interruption, and counts
rightly.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from conftest import EVERYTHING, make_tiny, share_sentence_encoder
from scipy.stats import norm
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.edits import load_edits
from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
from larimar_editor.easyedit.finding import find_easyedit
from larimar_editor.evaluation.harness import context as context_module
from larimar_editor.evaluation.harness import real_world
from larimar_editor.evaluation.harness.answers import answers, f1, recalled
from larimar_editor.evaluation.harness.baselines import NoBaselines, single_edit_conditions
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.estimates import mean, resampled
from larimar_editor.evaluation.harness.evaluation import Figure
from larimar_editor.evaluation.harness.lifetimes import Lifetime, texts_of
from larimar_editor.evaluation.harness.records import Condition, LeftOut, read_records, run_conditions
from larimar_editor.evaluation.harness.report import estimates_frame, write_table
from larimar_editor.evaluation.harness.trials import Stage, Trial, records_of, stage_of
from larimar_editor.evaluation.tables import NAMES, find, fluency, leakage, prompted, realworld
from larimar_editor.evaluation.tables.counterfact import with_rephrasings
from larimar_editor.evaluation.tables.longcontext import (
    FACTS,
    read_facts,
    read_recursively,
)
from larimar_editor.evaluation.tables.rephrase import facts_in_wordings
from larimar_editor.evaluation.tables.stream import Player, steps_of, written_after

_MODULES = {
    "rewrite_module_tmp": "model.layers.{}.mlp.down_proj.weight",
    "layer_module_tmp": "model.layers.{}",
    "mlp_module_tmp": "model.layers.{}.mlp",
    "attn_module_tmp": "model.layers.{}.self_attn",
    "ln_f_module": "model.norm",
    "lm_head_module": "lm_head",
}
_COMMON = {"device": "cpu", "batch_size": 1, "max_length": 40, "model_parallel": False}
TINY_METHODS = {
    "FT": _COMMON
    | _MODULES
    | {
        "layers": [1],
        "num_steps": 100,
        "lr": 1e-2,
        "weight_decay": 0,
        "kl_factor": 0,
        "norm_constraint": False,
    }
    | {"objective_optimization": "target_new"},
    "GRACE": _COMMON
    | {
        "inner_params": ["model.layers[1].mlp.down_proj.weight"],
        "edit_lr": 1.0,
        "n_iter": 50,
        "eps": 1.0,
        "dist_fn": "euc",
    }
    | {
        "val_init": "cold",
        "val_train": "sgd",
        "val_reg": None,
        "reg": "early_stop",
        "replacement": "replace_last",
    }
    | {"eps_expand": "coverage", "num_pert": 8, "dropout": 0.0},
    "ULTRAEDIT": _COMMON
    | {
        "inner_params": ["model.layers.1.mlp.down_proj"],
        "tokenizer_name": "tiny-llama",
        "model_class": "AutoModelForCausalLM",
        "tokenizer_class": "AutoTokenizer",
        "lr": 1e-2,
        "token": "mask",
        "batch_size_once": 1,
        "editor_batch_size": 64,
    }
    | {"dropout": 0.0, "no_grad_layers": None, "silent": False, "half": False, "results_dir": "results"},
    "LoRA": _COMMON
    | {
        "lora_type": "lora",
        "layers": [],
        "num_steps": 60,
        "lr": 1e-2,
        "weight_decay": 0,
        "kl_factor": 0,
        "rank": 8,
        "lora_alpha": 32,
        "lora_dropout": 0.1,
        "norm_constraint": False,
        "target_modules": ["q_proj", "v_proj", "down_proj"],
    },
}


@pytest.fixture(scope="module")
def hparams(tokenizer, tmp_path_factory):
    """A tiny decoder, its closed form and a hyperparameter file on disk."""
    folder = tmp_path_factory.mktemp("tiny")
    model = make_tiny(tokenizer)
    model.decoder.save_pretrained(folder / "tiny-llama")
    tokenizer.save_pretrained(folder / "tiny-llama")
    model.save_pretrained(folder / "closed", dtype=torch.float32)
    values = {
        "alg_name": "LARIMAR",
        "model_name": str(folder / "tiny-llama"),
        "larimar_checkpoint": str(folder / "closed"),
    }
    (folder / "LARIMAR").mkdir()
    (folder / "LARIMAR" / "tiny.yaml").write_text(yaml.safe_dump(values))
    return folder / "LARIMAR" / "tiny.yaml"


@pytest.fixture(autouse=True)
def one_sentence_encoder(monkeypatch):
    load = context_module.load_larimar
    monkeypatch.setattr(
        context_module, "load_larimar", lambda *given: (share_sentence_encoder(load(*given)[0]), "")
    )


# --- plumbing


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
    spread = resampled(list(values), lambda drawn: float(np.mean(drawn)), 10)
    assert spread.high - spread.low == pytest.approx(2 * half, rel=0.2)


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


def test_a_figure_of_a_whole_run_is_shown_without_an_interval():
    column = Figure("first", "First", lambda records: records[0]["seconds"])
    records = [{"seconds": 3.0}, {"seconds": 0.1}, {"seconds": 0.2}]
    estimate = column.of(records).to_dict()
    assert estimate == {"value": 3.0, "count": 3, "low": 3.0, "high": 3.0} and column.of([]) is None
    frame = estimates_frame([{"name": "a", "first": estimate}], {"first": "First"})
    assert frame.iloc[0].tolist() == ["a", "3.000 (n = 3)"]


def test_other_settings_do_not_mix_with_records(hparams, tmp_path):
    find("zsre").run(Context(hparams, limit=2), tmp_path, progress=False)
    with pytest.raises(ValueError, match="made with seed 0; choose another --out"):
        find("zsre").run(Context(hparams, limit=2, seed=1), tmp_path, progress=False)
    with pytest.raises(ValueError, match="no evaluation 'zre'; there are compare, counterfact"):
        find("zre")


# --- every evaluation


@pytest.mark.parametrize("name", NAMES)
def test_every_evaluation_writes_its_files_and_says_what_it_reads(name, hparams, tmp_path, monkeypatch):
    pytest.importorskip("easyeditor", exc_type=ImportError)
    read = set()
    for source, of in {
        "counterfact_edits": "counterfact",
        "zsre_edits": "zsre",
        "plain_text": "text",
    }.items():
        found = Context.__dict__[source]
        getter = found.fget if isinstance(found, property) else found.func
        watched = property(lambda self, of=of, getter=getter: read.add(of) or getter(self))
        monkeypatch.setattr(Context, source, watched)
    # A random model's answers do not end.
    monkeypatch.setattr(real_world, "MOST_TOKENS", 8)
    monkeypatch.setattr(fluency, "_OPTIONS", {"max_new_tokens": 12, "min_new_tokens": 12})
    monkeypatch.setattr(leakage, "SAMPLES", 1)
    # One table of single edits and one of many beside EasyEdit's methods; the others take them alike.
    # `make soak` has all of them, each with its own code.
    beside = EasyEditBaselines() if EVERYTHING or name in ("compare", "portability") else NoBaselines()
    context = Context(hparams, out=tmp_path / "all", limit=3, baseline_cases=2, baselines=beside)
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
    for file in ("table.md", "table.tex", "table.csv") + (("figure.png",) if find(name).plot else ()):
        assert (tmp_path / file).stat().st_size > 0
    before = (tmp_path / "records.jsonl").read_text()
    assert find(name).run(context, tmp_path, progress=False)["rows"] == summary["rows"]
    assert (tmp_path / "records.jsonl").read_text() == before, "nothing is scored twice"
    assert all(model.is_empty() for model in context._models.values()), (
        "the next evaluation finds nothing written"
    )
    assert read <= {*find(name).reads}


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


def test_the_base_models_row_is_the_base_model(hparams, tmp_path):
    pytest.importorskip("easyeditor", exc_type=ImportError)
    summary = find("counterfact").run(
        Context(hparams, out=tmp_path / "all", limit=6, baselines=EasyEditBaselines()),
        tmp_path,
        progress=False,
    )
    records = read_records(tmp_path / "records.jsonl")
    for record in records:
        if record["condition"] == "base model":
            for asked in (*record["rewrite"], *record["rephrase"]):
                assert not asked["in_scope"] and asked["success"] == asked["base_success"]
            assert all(each["same"] == 1 for each in record["locality"])
    base, larimar, *more = summary["rows"]
    assert base["same"]["value"] == 100 and larimar["edit_M"]["value"] > base["edit_M"]["value"]
    assert [row["name"] for row in more[:2]] == ["Larimar + 1 rephrasing", "Larimar + 2 rephrasings"]
    (through_easyedit,) = more[2:]
    assert through_easyedit["name"] == "LARIMAR"
    for column in find("counterfact").columns:
        value = through_easyedit[column.key]["value"]
        assert value == pytest.approx(larimar[column.key]["value"], abs=1e-3), column.key
    own = [record["rewrite"][0]["success"] for record in records if record["condition"] == "Larimar"]
    assert larimar["edit_S"]["value"] == pytest.approx(100 * sum(own) / 6)


def test_further_wordings_leave_out_the_one_that_is_asked():
    edit = load_edits(limit=1)[0]
    written = [request["prompt"] for request in with_rephrasings(2)(edit)]
    assert (
        len(written) == 3
        and edit.rephrase_prompts[0] not in written
        and written[1] == edit.rephrase_prompts[1]
    )


def test_a_stream_forgets_only_what_it_holds_and_says_what_is_held(tiny):
    edits = load_edits(limit=8)
    steps = steps_of(edits, 60, seed=1)
    held = set()
    for number, (what, edit) in enumerate(steps, 1):
        assert (edit.prompt in held) == (what == "forget")
        held ^= {edit.prompt}
        now, gone = written_after(steps[:number])
        assert {each.prompt for each in now} == held and not {each.prompt for each in gone} & held
    assert steps == steps_of(edits, 60, seed=1) and sum(what == "forget" for what, _ in steps) >= 15
    before, player = tiny.edited_state, Player(steps)
    player.ask(tiny, 20, edits[:1])
    player.ask(tiny, 33, edits[:1])
    assert tiny.edited_state is before
    assert {fact.prompt for fact in player.state.store.facts()} == {
        edit.prompt for edit in written_after(steps[:33])[0]
    }


def test_the_prompt_that_asks_to_forget_is_the_papers():
    edits = [
        replace(edit, prompt=f"Q{i} is", target_new=f"A{i}") for i, edit in enumerate(load_edits(limit=4))
    ]
    assert prompted.prompt_of(edits, frozenset({1, 2}), [2, 0], 3) == (
        "Facts:\nQ0 is A0\n[UNKNOWN] Q1 is A1\n[UNKNOWN] Q2 is A2\nQ3 is A3\n\n"
        "Input: Q2 is\nOutput: UNKNOWN\nInput: Q0 is\nOutput: A0\nInput: Q3 is\nOutput:"
    )


def test_forgetting_by_prompt_is_asked_with_and_without_marks(tiny, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        prompted, "answers", lambda _, prompts, batch: asked.append(prompts) or ["x"] * len(prompts)
    )
    monkeypatch.setattr(Context, "larimar", lambda self, **settings: tiny)
    context = Context(None, out=tmp_path)
    (condition,) = prompted.prompted_conditions(context, load_edits(limit=8), trials=1)
    (record,) = condition.score(list(condition.cases.values()))
    assert record == {"before": 0, "forgotten": 0, "retained_before": 0, "retained": 0}, "nobody said x"
    assert [{"[UNKNOWN]" in each for each in prompts} for prompts in asked] == [
        {False},
        {True},
        {False},
        {True},
    ]
    assert not prompted.prompted_conditions(context, load_edits(limit=2), trials=1), "too few"


def test_facts_of_a_text_file(tmp_path):
    (tmp_path / "facts.txt").write_text("The capital of Oz is\tEmerald City\n\nIts ruler is\tOzma\n")
    assert read_facts(tmp_path / "facts.txt")[1] == {"prompt": "Its ruler is", "target_new": "Ozma"}
    (tmp_path / "facts.txt").write_text("no tab")
    with pytest.raises(ValueError, match="line 1: no tab"):
        read_facts(tmp_path / "facts.txt")


def test_easyedits_methods_hold_many_edits_and_give_the_model_back(hparams, tmp_path):
    """FT's edits accumulate, score as EasyEdit's own editor scores them, and are undone; GRACE's code book,
    UltraEdit's weights and LoRA's adapters too.
    """
    pytest.importorskip("easyeditor", exc_type=ImportError)
    methods = tmp_path / "hparams"
    shutil.copytree(hparams.parent, methods / "LARIMAR")
    name = yaml.safe_load(hparams.read_text())["model_name"]
    for method, values in TINY_METHODS.items():
        (methods / method).mkdir()
        (methods / method / "tiny.yaml").write_text(
            yaml.safe_dump({"alg_name": method, "model_name": name} | values)
        )
    context = Context(methods / "LARIMAR" / "tiny.yaml", out=tmp_path / "out", baselines=EasyEditBaselines())
    edits = load_edits(limit=3)[
        ::-1
    ]  # the first one's target is one token: FT teaches all tokens at one place
    one, all_three = stage_of(edits[:1]), stage_of(edits)
    for method in context.baselines.methods(context, list(TINY_METHODS)):
        if method == "LoRA" and find_easyedit().release_2023:  # which fails with today's PEFT
            continue
        alone, together, again = context.baselines.trials(
            context, method, [Trial([one]), Trial([all_three]), Trial([Stage(scored=one.scored), one])]
        )
        unedited, edited = again
        assert len(together[0]["seconds"]) == 3 and len(records_of(together[0], edits)) == 3
        assert all(score["same"] == 1 for score in unedited["scores"]), "the model is the base model again"
        assert edited["scores"] == alone[0]["scores"] and edited["answers"] == alone[0]["answers"]
        if method != "ULTRAEDIT":  # one step, of which the tiny decoder learns little
            assert alone[0]["scores"][0]["accuracy"] == 1 > unedited["scores"][0]["accuracy"]
        texts = texts_of(context.plain_text, 2)
        life = context.baselines.lifetime(context, method, Lifetime(edits, (2,), texts=texts))
        assert [each["facts"] for each in life["reached"]] == [2, 3] and life["ended"] == "all"
        assert [record["written"] for record in life["reached"][-1]["records"]] == [
            record["rewrite"] for record in records_of(together[0], edits)
        ]
        short = context.baselines.lifetime(context, method, Lifetime(edits, (2,), 1e-9, texts))
        assert [each["facts"] for each in short["reached"]] == [1] and short["ended"] == "time"
        assert short["reached"][0]["records"][0]["written"] == alone[0]["scores"][0]["accuracy"]
        # In another sitting, of another method, it has its row, and is not run.
        later = replace(context, baselines=EasyEditBaselines(only=["MEMIT"]))
        assert method in later.baselines.methods(later, list(TINY_METHODS))
        assert later.baselines.trials(later, method, [Trial([one])]) == [alone]
        with pytest.raises(LeftOut):
            later.baselines.trials(later, method, [Trial([stage_of(edits[1:])])])
        assert short["reached"][0]["perplexity"] > 0
        assert (short["reached"][0]["perplexity"] == 1) == (method == "GRACE"), "of weights that were changed"
        single = single_edit_conditions(context, edits[:1], lambda record: record["post"])
        (post,) = next(each for each in single if each.name == method).score(edits[:1])
        assert post["rewrite_acc"] == pytest.approx(alone[0]["scores"][0]["accuracy"])


def test_recursive_reads_find_the_fact_among_many_memories():
    generator = torch.Generator().manual_seed(0)
    keys, values = torch.randn(70, 16, generator=generator), torch.randn(70, 24, generator=generator)
    found = read_recursively(keys, values, keys[::7], chunk=8)  # 9 memories, then 2, then 1
    torch.testing.assert_close(found, values[::7], atol=1e-3, rtol=1e-3)
    near = keys[::7] + 0.05 * torch.randn(10, 16, generator=generator)
    torch.testing.assert_close(
        read_recursively(keys, values, near, chunk=8), values[::7], atol=1e-3, rtol=1e-3
    )
    assert json.loads(FACTS.read_text()) == [
        {
            key: fact[key]
            for key in ("case_id", "relation", "subject", "prompt", "target_new", "rephrase_prompt")
        }
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
