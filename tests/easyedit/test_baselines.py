"""The plumbing of the comparison; the methods themselves run in `make compare`."""

import gc
import importlib
import json
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from known_records import Given, record
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.data.edits import load_edits
from larimar_editor.easyedit.baselines import conditions, jobs
from larimar_editor.easyedit.baselines.conditions import EasyEditBaselines
from larimar_editor.easyedit.baselines.in_context import telling
from larimar_editor.easyedit.baselines.jobs import HPARAMS_CLASSES, Job, digest
from larimar_editor.easyedit.baselines.leftovers import forget_earlier_edits, returning_weights
from larimar_editor.easyedit.finding import EasyEditSource, find_easyedit
from larimar_editor.editor import apply_larimar_to_model
from larimar_editor.evaluation.harness.baselines import LARIMAR, METHODS
from larimar_editor.evaluation.harness.context import Context
from larimar_editor.evaluation.harness.lifetimes import Lifetime
from larimar_editor.evaluation.harness.real_world import in_chat
from larimar_editor.evaluation.harness.records import LeftOut
from larimar_editor.evaluation.harness.trials import Trial, request, stage_of
from larimar_editor.evaluation.tables import find
from larimar_editor.hparams import LarimarHyperParams, find_hparams
from larimar_editor.state.history import UNDO_STEPS

HPARAMS = find_hparams("LARIMAR/smollm2-135m")
STATISTICS = "larimar_editor.easyedit.baselines.statistics"
RECORDS = {
    "LARIMAR": [
        record(0.9),
        record(0.1, rewrite_acc=0.0, rephrase_acc=0.5),
        record(0.3),
        record(0.2, locality_acc=0.75),
    ],
    "ROME": [record(9.0), record(30.0), record(31.0), record(29.0)],
}


def job(tmp_path, cases, runner="single"):
    file = tmp_path / "h.yaml"
    file.write_text("alg_name: ROME\n")
    given = Job.in_folder(tmp_path, f"larimar_editor.easyedit.baselines.{runner}", "ROME", file, cases)
    given.records.parent.mkdir(exist_ok=True)
    return given


def write(given, case, seconds):
    with given.records.open("a") as stream:
        stream.write(json.dumps({"digest": digest(case)} | record(seconds)) + "\n")


def test_a_torn_last_record_is_not_counted(tmp_path):
    first, second, third = cases = [{"prompt": text} for text in "abc"]
    interrupted = job(tmp_path, cases)
    write(interrupted, first, 1.0)
    write(interrupted, second, 2.0)
    with interrupted.records.open("a") as stream:
        stream.write('{"case_id": 2, "pre')
    assert len(interrupted.results()) == 2 and interrupted.pending() == [third]
    interrupted.drop_torn_record()
    write(interrupted, third, 3.0)
    assert [each["seconds"] for each in interrupted.results()] == [1.0, 2.0, 3.0]


def test_whoever_waits_for_a_job_counts_each_record_once_and_no_torn_one(tmp_path):
    running = job(tmp_path, [{"prompt": text} for text in "abc"])
    assert jobs.lines_added(running.records)() == 0, "there is no file yet"
    write(running, running.cases[0], 1.0)
    with running.records.open("a") as stream:
        stream.write('{"case_id": 1, "pr')
    added = jobs.lines_added(running.records)
    assert added() == 0
    running.drop_torn_record()
    write(running, running.cases[1], 2.0)
    assert added() == 1 and added() == 0
    write(running, running.cases[2], 3.0)
    write(running, running.cases[0], 3.0)
    assert added() == 2


def test_a_case_is_run_once_whichever_table_asks_for_it(tmp_path):
    first, second, third = ({"prompt": text} for text in "abc")
    write(job(tmp_path, [first, second]), second, 2.0)
    other = job(tmp_path, [third, second, second])
    assert other.pending() == [third] and [each["seconds"] for each in other.results()] == [2.0, 2.0]


@pytest.mark.parametrize("subject", ["", "Berlin"])
def test_an_edit_whose_subject_is_not_in_its_prompt_does_not_reach_a_method_that_looks_for_it(
    tmp_path, subject
):
    """It ended the job, and with it the row, with an error that named nothing."""
    edit = replace(load_edits(limit=1)[0], subject=subject)
    for case in (asdict(edit), Trial([stage_of([edit])]).to_dict(), Lifetime([edit]).to_dict()):
        said = []
        assert not jobs.run(job(tmp_path, [case]), said.append)
        assert edit.prompt in said[0] and f"{subject!r}, in it" in said[0]
    single = pytest.importorskip("larimar_editor.easyedit.baselines.single", exc_type=ImportError)
    assert "subject" not in single._arguments(edit, release_2023=False), "other methods need none"
    assert single._arguments(load_edits(limit=1)[0], release_2023=False)["subject"]


def test_records_of_other_settings_are_not_taken(tmp_path):
    case = {"prompt": "a"}
    write(job(tmp_path, [case]), case, 1.0)
    assert job(tmp_path, [case]).results()
    file = tmp_path / "h.yaml"
    runner = "larimar_editor.easyedit.baselines.single"
    assert not Job.in_folder(tmp_path, runner, "ROME", file, [case], overrides={"v_lr": 0.1}).results()
    file.write_text("alg_name: ROME  # as for the 3B model\n")
    assert Job.in_folder(tmp_path, runner, "ROME", file, [case]).results(), "a comment changes nothing"
    file.write_text("alg_name: ROME\nv_lr: 0.1\n")
    assert not Job.in_folder(tmp_path, runner, "ROME", file, [case]).results()


def test_records_from_before_a_method_was_mended_are_not_taken_and_no_others_are_lost(tmp_path, monkeypatch):
    case = {"prompt": "a"}
    monkeypatch.setattr(jobs, "REVISIONS", {})
    before = job(tmp_path, [case])
    write(before, case, 1.0)
    monkeypatch.setattr(jobs, "REVISIONS", {"MEMIT": 2})
    assert job(tmp_path, [case]).out == before.out
    many = job(tmp_path, [case], "many")
    monkeypatch.setattr(jobs, "REVISIONS", {"ROME": 2})
    assert not job(tmp_path, [case]).results()
    assert job(tmp_path, [case], "many").out != many.out, "of all runners, whichever is mended"
    monkeypatch.setattr(jobs, "REVISIONS", {"ROME": 3})
    assert not job(tmp_path, [case]).results()


def test_records_of_an_easyedit_with_other_code_are_not_taken(tmp_path):
    """Two clones of its main branch have one version."""
    case, code = {"prompt": "a"}, find_easyedit().code
    given = job(tmp_path, [case])
    for noted, taken in (({}, True), ({"easyedit_code": code}, True), ({"easyedit_code": "other"}, False)):
        given.records.write_text(json.dumps({"digest": digest(case), "environment": noted}) + "\n")
        assert bool(given.results()) == taken
    clones = [tmp_path / name for name in ("one", "other")]
    for clone in clones:
        (clone / "models").mkdir(parents=True)
        (clone / "models" / "rome.py").write_text(f"# {clone.name}")
    assert len({EasyEditSource(clone, "installed", False).code for clone in clones}) == 2


def test_key_statistics_of_another_text_are_not_taken_for_those_of_the_text_that_is_given(
    tmp_path, monkeypatch
):
    """They were loaded, and the command said that all was well."""
    pytest.importorskip("datasets")
    compute_key_statistics = importlib.import_module(STATISTICS).compute_key_statistics
    module = ModuleType("easyeditor.models.rome.layer_stats")
    module.load_dataset = None

    def tally(stat, data, cache):
        if data is not None:
            cache.write_text("".join(data["text"]))

    def layer_stats(model, tok, name, folder, dataset, **options):
        cache = Path(folder) / "tiny" / f"{name}.npz"
        module.tally(None, None if cache.exists() else module.load_dataset(dataset)["train"], cache=cache)

    module.tally, module.layer_stats = tally, layer_stats
    monkeypatch.setitem(sys.modules, module.__name__, module)
    hparams = SimpleNamespace(layers=[3, 5], rewrite_module_tmp="layer.{}.down", stats_dir=tmp_path / "stats")
    vars(hparams).update(mom2_dataset="wikipedia", mom2_n_samples=1, mom2_dtype="float32")
    one, other = tmp_path / "one.txt", tmp_path / "other.txt"
    one.write_text("One.\n")
    other.write_text("Other.\n")
    assert compute_key_statistics(None, None, hparams, one) == [3, 5]
    assert compute_key_statistics(None, None, hparams, one) == []
    assert compute_key_statistics(None, None, hparams) == [], "a job takes what is there"
    hparams.layers = [5]
    with pytest.raises(ValueError, match=r"layer\.5\.down\.npz is there, and of another text than .*other"):
        compute_key_statistics(None, None, hparams, other)
    assert (tmp_path / "stats" / "tiny" / "layer.5.down.npz").read_text() == "One."
    assert module.tally is tally


def test_ultraedit_returns_the_weights_that_it_changed():
    """It returns none itself, and EasyEdit then undoes no single edit."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    before = model[1].weight.detach().clone()

    def edit(model, tok, requests, hparams, **options):
        with torch.no_grad():
            model[1].weight += 1
        return model, {}

    hparams = SimpleNamespace(inner_params=["1"])
    edited, originals = returning_weights(edit)(model, None, [], hparams, copy=False)
    assert edited is model and not torch.equal(model[1].weight, before)
    assert originals.keys() == {"1.weight"} and torch.equal(originals["1.weight"], before)


def test_ultraedit_goes_on_with_what_it_has_learned_of_earlier_edits():
    """EasyEdit begins it anew with every call; the next single edit still stands on none."""

    class Executor:
        is_init = False

        def apply(self, model, tok, requests, hparams, **options):
            return model, self.is_init

    executor, model = Executor(), torch.nn.Linear(2, 2)
    apply = returning_weights(executor.apply)
    apply(model, None, [], SimpleNamespace(inner_params=[]))
    assert executor.is_init is True
    methods = importlib.import_module("easyeditor.util.alg_dict").ALG_DICT
    if "ULTRAEDIT" not in methods:
        pytest.skip("this EasyEdit has no UltraEdit")
    its = methods["ULTRAEDIT"].__self__
    its.is_init = True
    forget_earlier_edits("ULTRAEDIT")
    assert its.is_init is False


def test_larimar_has_its_state_back_after_more_edits_than_are_remembered(tiny):
    """Of what EasyEdit takes for its weights, a copy keeps no state: the next trial failed."""
    many = pytest.importorskip("larimar_editor.easyedit.baselines.many", exc_type=ImportError)
    editor = SimpleNamespace(
        model=tiny,
        tok=tiny.tokenizer,
        hparams=LarimarHyperParams(alg_name="LARIMAR", model_name="tiny"),
        apply_algo=apply_larimar_to_model,
    )
    for _ in range(2):
        with many.kept_edits(editor, release_2023=False) as held:
            for edit in load_edits(limit=UNDO_STEPS + 1):
                held.edit([request(edit)])
            assert len(tiny.facts()) == UNDO_STEPS + 1
        gc.collect()
        assert tiny.facts() == []


def test_what_decides_by_the_tokens_of_a_pass_generates_without_a_cache():
    """With one a pass is the last token alone, and GRACE's and WISE's edits acted by that."""
    many = pytest.importorskip("larimar_editor.easyedit.baselines.many", exc_type=ImportError)
    for name, options in (
        ("GRACE", {"batch": 1, "use_cache": False}),
        ("WISE", {"batch": 1, "use_cache": False}),
        ("PeftModel", {"batch": 1}),
    ):
        model = type(name, (torch.nn.Module,), {})()
        assert many._generation(model, {}) == options
        realworld = {"max_new_tokens": 3, "use_cache": False}
        assert many._generation(model, realworld) == {"batch": 1} | realworld


class Told(torch.nn.Module):
    """Says nothing but remembers what it was shown."""

    def forward(self, input_ids):
        self.shown = input_ids
        return SimpleNamespace(logits=torch.arange(input_ids.shape[1])[None, :, None].float())

    def generate(self, input_ids, attention_mask):
        self.shown = input_ids
        assert attention_mask.shape == input_ids.shape
        return torch.cat([input_ids, input_ids[:, :2]], 1)


def test_ike_tells_its_fact_before_a_prompt_and_in_a_chat_in_the_users_turn(tokenizer, monkeypatch):
    def examples_of(model, tok, request, hparams, train_ds):
        return [f"New Fact: {each}\nPrompt: {each}\n\n" for each in train_ds]

    edit = telling(examples_of, ["Water is wet"])
    request = {"prompt": "The capital is", "target_new": "Oslo"}
    model, undo = edit(Told(), tokenizer, [request], None)
    told = "New Fact: Water is wet\nPrompt: Water is wet\n\nNew Fact: The capital is Oslo\nPrompt: "
    ids = tokenizer("What is the capital?", return_tensors="pt").input_ids
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    assert tokenizer.decode(model.model.shown[0]) == f"{told}What is the capital?"
    count, whole = ids.shape[1], model.model.shown.shape[1]
    assert logits[0, :, 0].tolist() == list(range(whole - count, whole)), "of the prompt's own tokens"
    made = model.generate(ids, torch.ones_like(ids))
    assert torch.equal(made[:, :count], ids) and torch.equal(made[:, count:], model.model.shown[:, :2])
    template = "{% for turn in messages %}[{{ turn.role }}] {{ turn.content }}\n{% endfor %}"
    monkeypatch.setattr(tokenizer, "chat_template", template)
    chatting, _ = telling(examples_of, [])(Told(), tokenizer, [request], None)
    chatting.generate(ids := tokenizer("[user] What?\n", return_tensors="pt").input_ids, torch.ones_like(ids))
    assert tokenizer.decode(chatting.model.shown[0]) == (
        "[user] New Fact: The capital is Oslo\nPrompt: What?\n"
    )
    with pytest.raises(ValueError, match="one fact at a time"):
        edit(Told(), tokenizer, [request], None)
    undo()
    edit(Told(), tokenizer, [request], None)


# As SmolLM2's: a chat that brings no system text gets one.
_OWN_SYSTEM = (
    "{% for turn in messages %}"
    "{% if loop.first and turn.role != 'system' %}<|im_start|>system\nI am SmolLM.<|im_end|>\n{% endif %}"
    "<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_what_ike_tells_stands_in_no_systems_turn(tokenizer, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", _OWN_SYSTEM)
    request = {"prompt": "The capital is", "target_new": "Oslo"}
    model, _ = telling(lambda *given, **more: [], [])(Told(), tokenizer, [request], None)
    chat = partial(tokenizer.apply_chat_template, tokenize=False, add_generation_prompt=True)
    asked = {"role": "user", "content": "What?"}
    for prompt in (in_chat(tokenizer, "What?"), chat([asked])):
        ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt").input_ids
        model.generate(ids, torch.ones_like(ids))
        told = prompt.replace("What?", "New Fact: The capital is Oslo\nPrompt: What?")
        assert tokenizer.decode(model.model.shown[0]) == told


def test_the_comparison_is_the_records_means_and_the_median_without_the_first_edit(tmp_path):
    context = Context(HPARAMS, out=tmp_path, limit=4, baseline_cases=4, baselines=Given(RECORDS))
    larimar, rome = find("compare").run(context, tmp_path, progress=False)["rows"]
    assert larimar["seconds"]["value"] == np.median([0.1, 0.3, 0.2]) and larimar["first"]["value"] == 0.9
    assert larimar["rewrite_acc"]["value"] == 0.75 and larimar["rephrase_acc"]["value"] == 0.5
    assert larimar["locality_acc"]["count"] == 1 and larimar["portability_acc"] is None
    assert rome["memory"]["value"] == 310 and rome["seconds"]["value"] == 30.0
    table = pd.read_csv(tmp_path / "table.csv")
    assert list(table.iloc[:2, 0]) == ["LARIMAR", "ROME"] and "0.750" in table.iloc[0, 1]
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_edits_that_were_not_timed_have_no_part_in_the_seconds(tmp_path):
    records = RECORDS | {
        "ROME": [record(None), record(9.0), record(30.0), record(31.0)],
        "MEMIT": [record(None)] * 4,
    }
    context = Context(HPARAMS, out=tmp_path, limit=4, baseline_cases=4, baselines=Given(records))
    _, rome, memit = find("compare").run(context, tmp_path, progress=False)["rows"]
    assert rome["seconds"]["value"] == 30.5 and rome["rewrite_acc"]["count"] == 4
    assert memit["seconds"] is None and memit["rewrite_acc"]["count"] == 4


@pytest.mark.parametrize(("timed", "seconds"), [(True, 2.0), (False, None)])
def test_a_life_beside_other_runs_has_no_seconds(tmp_path, monkeypatch, timed, seconds):
    lifetimes = pytest.importorskip("larimar_editor.easyedit.baselines.lifetimes", exc_type=ImportError)
    life = {"reached": [{"facts": 3, "seconds": 2.0}], "ended": "all"}
    lived = []
    monkeypatch.setattr(lifetimes, "open_editor", lambda job: None)
    monkeypatch.setattr(lifetimes, "run_lifetime", lambda editor, lifetime, release_2023: life)
    monkeypatch.setattr(lifetimes, "work", lambda job, editor, score: lived.extend(map(score, job.cases)))
    lifetimes.run_job(replace(job(tmp_path, [Lifetime(()).to_dict()]), timed=timed))
    assert [reached["seconds"] for each in lived for reached in each["reached"]] == [seconds]


def test_of_several_devices_the_one_counts_that_has_the_cases(tmp_path, monkeypatch):
    context = Context(HPARAMS, out=tmp_path)
    edits, ran = load_edits(limit=2), []
    monkeypatch.setattr(conditions, "run", lambda job, say: ran.append(job.device) or True)
    beside = EasyEditBaselines(devices=("7", "cpu"), timed=False)
    assert beside.single_edits(context, "ROME", edits) == [] and ran == ["cpu"], "there is no GPU 7 here"
    (there, here) = beside._jobs(context, "single", "ROME", [asdict(edit) for edit in edits])
    assert not there.timed and there.out != here.out and len(beside.made_with(context, "ROME").split()) == 2
    there.records.parent.mkdir(parents=True)
    for case in there.cases:
        write(there, case, 1.0)
    assert len(beside.single_edits(context, "ROME", edits)) == 2 and ran == ["cpu", "7"]
    with pytest.raises(LeftOut, match="no CUDA device 7 here"):
        EasyEditBaselines(devices=("7",)).single_edits(context, "MEMIT", edits)


def test_methods_are_named_in_any_letters_and_one_that_there_is_not_is_refused():
    """It would have no row, and nobody would be told."""
    assert EasyEditBaselines(["LARIMAR", "memit", "UltraEdit", "lora"]).only == [
        "LARIMAR",
        "MEMIT",
        "ULTRAEDIT",
        "LoRA",
    ]
    assert EasyEditBaselines(list(HPARAMS_CLASSES)).only == list(HPARAMS_CLASSES)
    for unknown in ("KN", "", "ROME2"):
        with pytest.raises(ValueError, match=f"no method '{unknown}'; there are LARIMAR, ROME, "):
            EasyEditBaselines(["ROME", unknown])
    assert EasyEditBaselines().only is None


def test_methods_are_listed_in_one_order():
    assert list(HPARAMS_CLASSES) == [LARIMAR, *METHODS]


def test_rows_stay_where_their_method_is_here_and_is_run_or_was(tmp_path, monkeypatch):
    context = Context(HPARAMS, out=tmp_path)
    beside, now, other = EasyEditBaselines(["FT"]), EasyEditBaselines().made_with(context, "ROME"), "another"
    assert beside.keeps(context, "ROME", now) and beside.keeps(context, "ROME", None)
    assert not beside.keeps(context, "ROME", other), "it is not to be run"
    assert EasyEditBaselines().keeps(context, "ROME", other) and beside.keeps(context, "FT", other)
    assert not EasyEditBaselines(devices=("97",)).keeps(context, "ROME", other), "nor can it be"
    monkeypatch.setattr(conditions, "chosen_methods", lambda *given: [])
    assert not EasyEditBaselines().keeps(context, "ROME", now), "this EasyEdit has it no more"


def test_a_method_that_a_table_does_not_take_is_told_of(tmp_path):
    said = []
    beside = EasyEditBaselines(["larimar", "ike", "rome"], log=said.append)
    beside.methods(Context(HPARAMS, out=tmp_path), ("ROME", "FT"))
    assert said == ["no rows of IKE: these are of ROME, FT"], "Larimar's row stands there by another name"


def test_a_comparison_without_a_row_says_why(tmp_path):
    """Once it pointed to logs that were not there."""
    done = CliRunner().invoke(app, ["compare", "--methods", "IKE", "--edits", "1", "--out", str(tmp_path)])
    assert isinstance(done.exception, ValueError) and "the lines above say why" in str(done.exception)
    assert "no rows of IKE: these are of LARIMAR, ROME" in done.output


def test_a_table_that_has_no_row_for_want_of_a_device_is_an_error(tmp_path):
    given = ["eval", "compare", "--baselines", "1", "--methods-device", "97", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, given)
    assert "LARIMAR is left out: there is no CUDA device 97 here" in done.output
    assert isinstance(done.exception, ValueError) and "no row of compare was measured" in str(done.exception)
