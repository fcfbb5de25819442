"""The commands, as a person calls them, on a tiny model in a folder."""

import json
import shutil
import subprocess
import sys

import pytest
import typer
import yaml
from conftest import FACTS, SENTENCES, make_tiny, save_with_decoder, share_sentence_encoder, tiny_llama
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from typer.main import get_command
from typer.testing import CliRunner

from larimar_editor import LarimarForCausalLM
from larimar_editor.checkpoints import shipped
from larimar_editor.cli import app, main
from larimar_editor.cli.options import methods_devices, settings_of
from larimar_editor.evaluation.harness.evaluation import Evaluation
from larimar_editor.model.loading import load_larimar
from larimar_editor.pretrained.embedded import DECODER


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """A decoder in a folder, edits about it, and a checkpoint that `fit` makes of the decoder's name."""
    folder = tmp_path_factory.mktemp("commands")
    decoder = tiny_llama(len(tokenizer))
    decoder.save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    (folder / "sentences.txt").write_text("\n".join(SENTENCES))
    options = [
        "--model",
        str(folder / "decoder"),
        "--text",
        str(folder / "sentences.txt"),
        "--code-size",
        "24",
        "--slots",
        "2",
    ]
    run(
        "fit", *options, "--dtype", "float32", "--scope-threshold", "0.7", "--out", str(folder / "checkpoint")
    )
    edits = [
        fact
        | {
            "subject": fact["prompt"].split()[1],
            "ground_truth": "French",
            "rephrase_prompt": f"{fact['prompt']} now",
        }
        | {"locality_prompt": f"My friend {number} plays the", "locality_ground_truth": "piano"}
        for number, fact in enumerate(FACTS)
    ]
    (folder / "edits.json").write_text(json.dumps(edits))
    return folder


def run(*arguments):
    """The last line that a command prints, as JSON."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout.strip().splitlines()[-1])


COMMANDS = [
    [name, *more]
    for name, command in get_command(app).commands.items()
    for more in ([], *([inner] for inner in getattr(command, "commands", ())))
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command):
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0 and "--help" in done.output


def test_help_and_import_load_neither_torch_nor_transformers():
    code = (
        "import sys, larimar_editor\n"
        "assert 'easyeditor' not in sys.modules\n"
        "from larimar_editor.cli import app\n"
        "from typer.testing import CliRunner\n"
        "assert 'calibrate' in CliRunner().invoke(app, ['--help']).output\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), 'too much'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_import_in_any_order_makes_checkpoints_known_to_transformers():
    """Whatever brings transformers in, and at whatever moment."""
    code = (
        "from transformers import AutoConfig, AutoModelForCausalLM\n"
        f"config = AutoConfig.from_pretrained({str(shipped(DECODER))!r})\n"
        "assert config.memory_rows == 512 and type(config) in AutoModelForCausalLM._model_mapping\n"
    )
    orders = [
        "import larimar_editor",
        "import transformers.models.auto.modeling_auto, larimar_editor",
        "import larimar_editor.training.loop",  # which brings peft
    ]
    processes = [
        subprocess.Popen([sys.executable, "-c", f"{order}\n{code}"], stderr=subprocess.PIPE, text=True)
        for order in orders
    ]
    for order, process in zip(orders, processes):
        errors = process.communicate(timeout=120)[1]
        assert process.returncode == 0, (order, errors)


def test_eval_takes_a_checkpoint_and_other_settings(folder, tmp_path):
    """What `--set` changes is in the summary, and its records are not mixed with others."""
    (tmp_path / "tiny.yaml").write_text(
        yaml.safe_dump({"alg_name": "LARIMAR", "model_name": str(folder / "decoder")})
    )
    given = [
        "eval",
        "batch",
        "--hparams",
        tmp_path / "tiny.yaml",
        "--checkpoint",
        folder / "checkpoint",
        "--baselines",
        "0",
    ]
    given += ["--counterfact", folder / "edits.json", "--out", tmp_path / "out"]
    for gain in ("1.5", "1.5", "2.0"):
        done = CliRunner().invoke(app, [str(each) for each in (*given, "--set", f"key_gain={gain}")])
        assert (done.exit_code == 0) == (gain == "1.5"), done.output
    assert "choose another --out" in str(done.exception)
    summary = json.loads((tmp_path / "out" / "batch" / "summary.json").read_text())
    assert summary["settings"]["overrides"] == {"key_gain": 1.5}
    records = (tmp_path / "out" / "batch" / "records.jsonl").read_text().splitlines()
    rewrites = [
        json.loads(line)["rewrite"]
        for line in records
        if json.loads(line)["condition"] == "fixed memory, K = 512, N = 3"
    ]
    (row,) = [row for row in summary["rows"] if row["name"] == "fixed memory, K = 512, N = 3"]
    assert len(rewrites) == 3 and row["rewrite"]["value"] == pytest.approx(sum(rewrites) / 3)
    done = CliRunner().invoke(app, [str(each) for each in (*given, "--set", "key_gain")])
    assert done.exit_code == 2 and "name=value" in done.output


def test_values_of_settings_are_numbers_where_they_look_like_it_and_names_are_checked():
    assert settings_of(["alpha=1e-3", "scope=none", "rows=4", "x=null"]) == {
        "alpha": 0.001,
        "scope": "none",
        "rows": 4,
        "x": None,
    }
    with pytest.raises(typer.BadParameter, match="--set"):
        settings_of(["x=[1,"])
    with pytest.raises(ValueError, match="no setting is called scope_treshold"):
        load_larimar(None, "float32", {"scope_treshold": 0.5})


def test_devices_of_methods_need_not_be_here_but_have_to_be_devices(tmp_path):
    """What was finished on another machine counts; a name that was mistyped had left every row out."""
    assert methods_devices("cuda, cuda:97,3,cpu") == ["0", "97", "3", "cpu"] and methods_devices(None) == []
    for wrong in ("cdua", "cuda:x", "cuda,", ""):
        with pytest.raises(typer.BadParameter, match="no device '"):
            methods_devices(wrong)
    given = ["eval", "compare", "--methods-device", "cdua", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2 and "no device 'cdua'" in done.output and not (tmp_path / "out").exists()


def test_perplexity_of_a_text_out_of_scope_is_the_base_models(folder, tmp_path):
    (tmp_path / "text.txt").write_text("Water boils at a temperature that depends on the pressure. " * 80)
    (tmp_path / "tiny.yaml").write_text(
        yaml.safe_dump({"alg_name": "LARIMAR", "model_name": str(folder / "decoder")})
    )
    given = [
        "eval",
        "perplexity",
        "--hparams",
        tmp_path / "tiny.yaml",
        "--checkpoint",
        folder / "checkpoint",
        "--limit",
        "2",
    ]
    given += [
        "--text",
        tmp_path / "text.txt",
        "--counterfact",
        folder / "edits.json",
        "--out",
        tmp_path / "out",
    ]
    done = CliRunner().invoke(app, [str(each) for each in given])
    assert done.exit_code == 0, (done.output, done.exception)
    (row,) = json.loads((tmp_path / "out" / "perplexity" / "summary.json").read_text())["rows"]
    assert row["perplexity"]["count"] == 2 and row["perplexity"]["value"] == row["base"]["value"] > 1
    assert row["identical"]["value"] == 1


def test_calibrate_makes_and_writes_an_internal_detector(folder, tokenizer, tmp_path):
    checkpoint = shutil.copytree(folder / "checkpoint", tmp_path / "checkpoint")
    before = load_file(checkpoint / "model.safetensors")
    found = run(
        "calibrate",
        "--checkpoint",
        checkpoint,
        "--detector",
        "internal",
        "--train",
        "12",
        "--limit",
        "9",
        "--write",
    )
    after = load_file(checkpoint / "model.safetensors")
    assert {name: value.dtype for name, value in before.items()}.items() <= {
        n: v.dtype for n, v in after.items()
    }.items()
    result = found["scope_threshold"]
    assert found["detector"] == "internal" and 0 <= result["equal_error_rate"] <= 1
    model = share_sentence_encoder(LarimarForCausalLM.from_pretrained(checkpoint))
    assert model.config.scope == "internal" and model.config.scope_threshold == pytest.approx(
        result["threshold"]
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--train", "0"], "--train"),
        (["--write"], "needs"),
        (["--write", "--checkpoint", "smollm2-135m"], "ships with"),
        (["--write", "--checkpoint", str(shipped(DECODER))], "ships with"),
        (["--out", str(shipped(DECODER))], "ships with"),
        (["--write", "--checkpoint", "mine", "--out", "other"], "give one"),
        (["--write", "--checkpoint", "nowhere"], "and nowhere is none"),
    ],
)
def test_calibrate_never_writes_over_what_is_installed(given, message):
    stored = shipped(DECODER) / "config.json"
    before = stored.read_bytes()
    done = CliRunner().invoke(app, ["calibrate", *given])
    said = " ".join(done.output.replace("│", " ").split())  # a long path breaks the box's lines anywhere
    assert done.exit_code == 2 and message in said and stored.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "notice"),
    [
        (
            ["calibrate", "--detector", "internal", "--questions", "0.1", "--subjects", "0.1"],
            "--questions, --subjects: not read with --detector internal",
        ),
        (["calibrate", "--train", "9"], "--train: not read with --detector external"),
        (["train-detector", "facts.jsonl", "--no-show-answers"], "--no-show-answers are not read"),
        (["bench", "--parts", "edits", "--training", "run.yaml"], "--training is not read"),
    ],
)
def test_an_option_that_nothing_reads_is_told_of_at_once(command, notice, tmp_path):
    done = CliRunner().invoke(app, [*command, "--checkpoint", str(tmp_path)])
    assert notice in done.output and isinstance(done.exception, FileNotFoundError), "no checkpoint is there"


def test_calibrate_prints_what_it_found():
    found = run("calibrate", "--limit", "6", "--questions", "0.1", "--subjects", "0.1")
    both, alone = found["scope_threshold"], found["scope_cosine"]
    assert found["detector"] == "external" and both["prompts"]["other_questions"] == 12 + 24
    sets = both["sets"]
    assert {name: each["prompts"]["other_questions"] for name, each in sets.items()} == {
        "made up": 12,
        "typed": 24,
    }
    for result in (both, alone, *sets.values()):
        assert result["accepted"]["other_questions"] <= 0.1 and 0 <= result["equal_error_rate"] <= 1
    assert both["f1"] > alone["f1"], "the second stage is of use"


def test_fit_makes_a_checkpoint_from_the_command_line(folder, tokenizer, tmp_path):
    options = [
        "--model",
        folder / "decoder",
        "--sentences",
        "60",
        "--code-size",
        "16",
        "--slots",
        "2",
        "--dtype",
        "float32",
        "--out",
        tmp_path / "made",
    ]
    report = run("fit", *options)
    assert report["latent_size"] == 32 and report["sentences"] == 60 and 0 < report["explained_variance"] < 1
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"config.json", "model.safetensors"}
    facts = tmp_path / "facts.jsonl"
    facts.write_text(json.dumps({"prompt": "Ada plays the", "target_new": "oboe"}) + "\n")
    trained = save_with_decoder(
        make_tiny(tokenizer, tied_projection=False), tmp_path / "decoder", tmp_path / "trained"
    )
    anew = run("refit", trained, "--sentences", "200", "--facts", facts, "--out", tmp_path / "anew")
    assert anew["sentences"] == 201 and anew["latent_size"] == 48
    for command in (["fit"], ["data", "sample"]):
        done = CliRunner().invoke(app, [*command, "--dtype", "int3"])
        assert done.exit_code == 2 and "--dtype" in done.output


def test_text_is_chunked_facts_are_made_up_and_a_decoder_is_sampled(folder, tmp_path):
    chunks = run(
        "data", "chunk", folder / "sentences.txt", "--out", tmp_path / "chunks.jsonl", "--least", "3"
    )
    assert chunks["written"] == len((tmp_path / "chunks.jsonl").read_text().splitlines()) > 10
    blocks = run(
        "data",
        "chunk",
        folder / "sentences.txt",
        "--into",
        "blocks",
        "--tokens",
        "8",
        "--out",
        tmp_path / "blocks.jsonl",
    )
    assert blocks["written"] > 0
    facts = run(
        "data",
        "rephrase",
        "--count",
        "5",
        "--out",
        tmp_path / "facts.jsonl",
        "--exclude",
        folder / "edits.json",
    )
    made = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert facts["facts"] == len(made) == 5 and all({"prompt", "target_new"} <= fact.keys() for fact in made)
    sampled = run(
        "data",
        "sample",
        "--model",
        folder / "decoder",
        "--count",
        "2",
        "--batch-size",
        "8",
        "--dtype",
        "float32",
        "--out",
        tmp_path / "sampled.jsonl",
    )
    assert sampled["out"].endswith("sampled.jsonl")


def test_training_steps_are_timed_beside_plain_ones(folder, tmp_path):
    settings = {
        "decoder": str(folder / "decoder"),
        "checkpoint": str(folder / "checkpoint"),
        "model": {"decoder_mode": "lora"},
        "sources": [{"path": str(folder / "sentences.txt")}],
        "optimisation": {"steps": 2, "texts_per_step": 6, "precision": "no"},
        "objective": {"language_model_memory": "other", "episode_length": 6},
        "held_out": 8,
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(settings))
    given = ["bench", "--parts", "training", "--training", tmp_path / "run.yaml", "--out", tmp_path / "run"]
    done = CliRunner().invoke(app, [str(each) for each in given])
    assert done.exit_code == 0, (done.output, done.exception)
    found = json.loads((tmp_path / "run" / "bench.json").read_text())["training"]
    assert found["ratio"] == pytest.approx(
        found["tokens_per_second"] / found["plain_tokens_per_second"], abs=0.02
    )
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_the_embedded_models_are_made_and_copied(tmp_path):
    done = CliRunner().invoke(app, ["data", "models", "--to", str(tmp_path)])
    assert done.exit_code == 0 and "all-MiniLM-L6-v2: " in done.output
    assert (
        AutoModelForCausalLM.from_pretrained(tmp_path / "llama-smollm2-135m").config.num_hidden_layers == 30
    )


def test_an_error_is_a_line_and_not_a_traceback(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["larimar-editor", "train", str(tmp_path / "nothing.yaml")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and capsys.readouterr().err.startswith(
        f"larimar-editor: no file {tmp_path}/nothing.yaml; there ship configs/accelerate/cpu.yaml, "
    )
    monkeypatch.setenv("LARIMAR_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        main()


def test_an_evaluation_runs_as_its_yaml_file_says_and_tells_what_it_does_not_read(tmp_path, monkeypatch):
    seen = []

    def run(self, context, out, progress=True):
        seen.append(context)
        out.mkdir(parents=True)
        (out / "table.md").write_text("")
        return {"rows": [], "left_out": {}}

    monkeypatch.setattr(Evaluation, "run", run)
    file = tmp_path / "mine.yaml"  # in a folder of any name
    file.write_text("alg_name: LARIMAR\nmodel_name: llama-smollm2-135m\ndevice: cpu\nfp16: true\n")
    command = ["eval", "lengths", "--hparams", str(file), "--out", str(tmp_path / "out"), "--baselines", "0"]
    told = CliRunner().invoke(app, [*command, "--zsre", str(file), "--minutes", "3"])
    assert told.exit_code == 0 and "lengths does not read --zsre; it reads what ships" in told.output
    assert "lengths does not read --minutes; lifelong does" in told.output
    CliRunner().invoke(app, [*command, "--out", str(tmp_path / "other"), "--dtype", "float32"])
    assert [(each.dtype, each.device) for each in seen] == [("float16", "cpu"), ("float32", "cpu")]
