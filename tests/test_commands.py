"""The commands, as a person calls them, on a tiny model in a folder."""

import json

import pytest
import torch
import yaml
from conftest import FACTS, SENTENCES, encode, share_sentence_encoder, tiny_llama
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from larimar_editor import LarimarForCausalLM
from larimar_editor.caching import LarimarCache
from larimar_editor.cli import app, main
from larimar_editor.evaluation.context import Context
from larimar_editor.evaluation.prompted import prompted_conditions


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """A decoder in a folder, edits about it, and a checkpoint that `fit` makes of the decoder's name."""
    folder = tmp_path_factory.mktemp("commands")
    decoder = tiny_llama(len(tokenizer))
    decoder.save_pretrained(folder / "decoder")
    tokenizer.save_pretrained(folder / "decoder")
    (folder / "sentences.txt").write_text("\n".join(SENTENCES))
    options = ["--model", str(folder / "decoder"), "--text", str(folder / "sentences.txt"), "--code-size", "24", "--slots", "2"]
    run("fit", *options, "--dtype", "float32", "--scope-threshold", "0.7", "--out", str(folder / "checkpoint"))
    edits = [
        fact | {"subject": fact["prompt"].split()[1], "ground_truth": "French", "rephrase_prompt": f"{fact['prompt']} now"}
        | {"locality_prompt": f"My friend {number} plays the", "locality_ground_truth": "piano"}
        for number, fact in enumerate(FACTS)
    ]  # fmt: skip
    (folder / "edits.json").write_text(json.dumps(edits))
    return folder


def run(*arguments):
    """The last line that a command prints, as JSON."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("write", ["single", "together", "sequentially"])
def test_score_writes_a_record_per_edit_and_prints_their_means(folder, tmp_path, write):
    given = ["--checkpoint", folder / "checkpoint", "--data", folder / "edits.json", "--write", write, "--memory-rows", "7"]
    found = run("score", *given, "--key-gain", "1.5", "--out", tmp_path / "made" / "records.jsonl")
    records = [json.loads(line) for line in (tmp_path / "made" / "records.jsonl").read_text().splitlines()]
    assert found["write"] == write and found["memory_rows"] == 7 and found["key_gain"] == 1.5 and found["edits"] == 3
    assert len(records) == 3 and [record["case_id"] for record in records] == [0, 1, 2]
    name, values = ("rewrite_accuracy", [record["rewrite"] for record in records])
    accuracies = [value[0]["accuracy"] if isinstance(value, list) else value for value in values]
    said = found[name][0] if isinstance(found[name], list) else found[name]
    assert said == pytest.approx(sum(accuracies) / 3, abs=1e-3)


def test_perplexity_of_a_text_out_of_scope_is_the_base_models(folder, tmp_path):
    (tmp_path / "text.txt").write_text("Water boils at a temperature that depends on the pressure. " * 80)
    found = run("perplexity", tmp_path / "text.txt", "--checkpoint", folder / "checkpoint", "--data", folder / "edits.json",
                "--limit", "2")  # fmt: skip
    assert found["windows"] == 2 and found["facts"] == 3 and found["perplexity"] == found["base_perplexity"] > 1


def test_calibrate_makes_and_writes_an_internal_detector(folder, tokenizer):
    found = run("calibrate", "--checkpoint", folder / "checkpoint", "--detector", "internal", "--limit", "9", "--write")
    assert found["detector"] == "internal" and 0 <= found["equal_error_rate"] <= 1
    model = share_sentence_encoder(LarimarForCausalLM.from_pretrained(folder / "checkpoint"))
    assert model.config.scope == "internal" and model.episodic.detector.threshold == pytest.approx(found["threshold"])
    done = CliRunner().invoke(app, ["calibrate", "--train", "7"])
    assert done.exit_code == 2 and "at least 80" in done.output


def test_text_is_chunked_facts_are_made_up_and_a_decoder_is_sampled(folder, tmp_path):
    chunks = run("chunk", folder / "sentences.txt", "--out", tmp_path / "chunks.jsonl", "--least", "3")
    assert chunks["kept"] == len((tmp_path / "chunks.jsonl").read_text().splitlines()) > 10
    blocks = run("chunk", folder / "sentences.txt", "--into", "blocks", "--tokens", "8", "--out", tmp_path / "blocks.jsonl")
    assert blocks["kept"] > 0
    facts = run("rephrase", "--count", "5", "--out", tmp_path / "facts.jsonl", "--exclude", folder / "edits.json")
    made = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert facts["facts"] == len(made) == 5 and all({"prompt", "target_new"} <= fact.keys() for fact in made)
    sampled = run("sample", "--model", folder / "decoder", "--count", "2", "--batch-size", "8", "--dtype", "float32",
                  "--out", tmp_path / "sampled.jsonl")  # fmt: skip
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
    found = run("train", tmp_path / "run.yaml", "--out", tmp_path / "run", "--device", "cpu", "--dtype", "float32", "--speed")
    assert found["ratio"] == pytest.approx(found["tokens_per_second"] / found["plain_tokens_per_second"], abs=0.02)
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_the_embedded_models_are_made_and_copied(tmp_path):
    done = CliRunner().invoke(app, ["models", "--to", str(tmp_path)])
    assert done.exit_code == 0 and "all-MiniLM-L6-v2: " in done.output
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "llama-smollm2-135m").config.num_hidden_layers == 30


def test_an_error_is_a_line_and_not_a_traceback(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["larimar-editor", "score", "--data", str(tmp_path / "nothing.json")])
    monkeypatch.setattr("larimar_editor.loading.load_larimar", lambda *args: (None, ""))
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2 and capsys.readouterr().err == f"larimar-editor: no data file {tmp_path}/nothing.json\n"
    monkeypatch.setenv("LARIMAR_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        main()


def test_forgetting_by_prompt_is_asked_with_and_without_marks(tiny, monkeypatch, tmp_path):
    from larimar_editor.data import load_edits

    context = Context(None, None, None, None, None, tmp_path, 8, 1, "float32", "cpu", 0)
    monkeypatch.setattr(Context, "larimar", lambda self, **settings: tiny)
    (condition,) = prompted_conditions(context, load_edits(limit=8), trials=1)
    (record,) = condition.score(list(condition.cases.values()))
    assert record.keys() == {"before", "forgotten", "retained_before", "retained"} and all(0 <= v <= 1 for v in record.values())
    assert not prompted_conditions(context, load_edits(limit=2), trials=1), "too few"


@torch.no_grad()
def test_a_cache_can_be_cut_chosen_from_and_repeated(tiny, tokenizer):
    """Rows in and out of scope, continued after each, say what the whole text says."""
    tiny.write(FACTS)
    texts = [FACTS[0]["prompt"], "Water boils at a temperature", FACTS[1]["prompt"]]
    batch = encode(tokenizer, texts)
    lengths = torch.full((3,), batch.input_ids.shape[1])
    more = torch.tensor([[260, 17], [318, 17], [285, 17]])
    mask = torch.cat((batch.attention_mask, torch.ones_like(more)), dim=1)

    def whole(rows):
        ids = torch.cat((batch.input_ids, more), dim=1)[rows]
        return tiny(ids, attention_mask=mask[rows], prompt_lengths=lengths[rows]).logits[:, -1]

    def started():
        return tiny(**batch, prompt_lengths=lengths, use_cache=True).past_key_values

    cache = tiny(more, attention_mask=mask, past_key_values=started()).past_key_values
    assert isinstance(cache, LarimarCache) and cache.get_seq_length() == mask.shape[1] and cache.get_max_length() == -1
    cache.crop(-1)
    assert cache.get_seq_length() == mask.shape[1] - 1 and not cache.is_compileable
    torch.testing.assert_close(tiny(more[:, 1:], attention_mask=mask, past_key_values=cache).logits[:, -1], whole([0, 1, 2]),
                               atol=1e-4, rtol=1e-4)  # fmt: skip
    for change, rows in (
        (lambda cache: cache.reorder_cache(torch.tensor([2, 0, 1])), [2, 0, 1]),
        (lambda cache: cache.batch_select_indices(torch.tensor([1, 2])), [1, 2]),
        (lambda cache: cache.batch_repeat_interleave(2), [0, 0, 1, 1, 2, 2]),
    ):
        cache = started()
        change(cache)
        found = tiny(more[rows], attention_mask=mask[rows], past_key_values=cache).logits[:, -1]
        torch.testing.assert_close(found, whole(rows), atol=1e-4, rtol=1e-4)
    inside = tiny(**encode(tokenizer, texts[:1]), use_cache=True).past_key_values
    with pytest.raises(ValueError, match="must be"):
        tiny(more[:1], attention_mask=mask[:1, None, None], past_key_values=inside)
    with pytest.raises(ValueError, match="covers"):
        tiny(more[:1], attention_mask=mask[:1, 1:], past_key_values=inside)
