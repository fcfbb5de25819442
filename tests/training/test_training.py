"""Training: the objective against independent computations, data order, and going on after a kill."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import forked
import pytest
import torch
import yaml
from accelerate import Accelerator
from conftest import (
    EVERYTHING,
    SENTENCES,
    make_tiny,
    needs_gpu,
    save_with_decoder,
    share_sentence_encoder,
    tiny_llama,
)
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, CohereConfig, GraniteConfig

from larimar_editor.data.edits import load_edits
from larimar_editor.data.relations import Names, RephrasedFacts, read_relations, without_wordings_of
from larimar_editor.model.closed_form import fit
from larimar_editor.model.encoders import TransformerEncoder
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.reading import Reading
from larimar_editor.pretrained.embedded import resolve
from larimar_editor.training import loop, opening, saves, starts
from larimar_editor.training.decoding import hidden_states, logits_of, of_logits
from larimar_editor.training.episodes import kl_strength, read_episodes, reading_kl
from larimar_editor.training.fused_lora import fused_lora
from larimar_editor.training.objective import LarimarObjective
from larimar_editor.training.parameters import trained_parameters
from larimar_editor.training.rows import RowMaker, RowSettings, checked_record
from larimar_editor.training.settings import Objective, Source, TrainingSettings
from larimar_editor.training.sources import LineFile, Stream

ROOT = Path(__file__).parents[2]
QUIET = {
    "autoencoder": 0,
    "kl": 0,
    "language_model": 0,
    "observation_noise": 0,
    "sigma_w": 0,
    "train_prior": False,
}
FACT = {
    "prompt": "Ada plays the",
    "target_new": "cello",
    "rephrase_prompt": ["The instrument of Ada is the", "Which instrument does Ada play? The"],
    "locality_prompt": ["Bob plays the"],
}


@pytest.fixture(autouse=True)
def few_edits(monkeypatch):
    """Every evaluation scores them."""
    monkeypatch.setattr(loop, "load_edits", lambda: load_edits(limit=4))


# --- the memory with gradients


@pytest.mark.parametrize("count", [5, 30], ids=["N < K", "N > K"])
def test_an_episode_is_algorithm_1(count):
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(count, 40, generator=generator, dtype=torch.float64)
    prior = torch.randn(12, 40, generator=generator, dtype=torch.float64)
    inverse = torch.linalg.pinv(prior)
    readouts, W = read_episodes(Z, inverse, torch.tensor(0.0), length=count)
    M = torch.linalg.pinv(Z @ inverse) @ Z
    torch.testing.assert_close(W, Z @ torch.linalg.pinv(M), atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(readouts, Z @ torch.linalg.pinv(M) @ M, atol=1e-3, rtol=1e-3)
    noisy, _ = read_episodes(
        Z, inverse, torch.tensor(0.3), length=count, generator=torch.Generator().manual_seed(5)
    )
    drawn = torch.Generator().manual_seed(5)
    torch.randn(Z.shape, generator=drawn, dtype=Z.dtype)  # xi
    expected = readouts + 0.3 * torch.randn(count, 12, generator=drawn, dtype=Z.dtype) @ M
    torch.testing.assert_close(noisy, expected, atol=1e-3, rtol=1e-3)


def test_episodes_do_not_share_a_memory():
    Z = torch.randn(8, 20)
    inverse = torch.linalg.pinv(torch.randn(3, 20))
    together, _ = read_episodes(Z, inverse, torch.tensor(0.0), length=4)
    apart = torch.cat([read_episodes(part, inverse, torch.tensor(0.0), length=4)[0] for part in Z.split(4)])
    torch.testing.assert_close(together, apart)
    assert not torch.allclose(together, read_episodes(Z, inverse, torch.tensor(0.0), length=8)[0], atol=1e-3)


def test_the_kl_term_is_that_of_two_gaussians():
    W, sigma = torch.randn(6, 10), torch.tensor(0.3)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Normal(W, sigma), torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    )
    torch.testing.assert_close(reading_kl(W, sigma), expected.sum(1).mean())


def test_beta_is_annealed_in_cycles():
    betas = [kl_strength(step, 100, 2.0, cycles=2) for step in range(100)]
    assert betas[0] == betas[24] == betas[50] == 0 and 0 < betas[30] < 2.0 and betas[49] == betas[99] == 2.0
    assert kl_strength(7, 100, 0.5, cycles=0) == 0.5


# --- rows


def test_what_is_predicted_is_the_answer(tokenizer):
    settings = RowSettings(preamble_share=1.0, other_share=1.0, stop_weight=0.5)
    rows = RowMaker(tokenizer, settings, ["Something else entirely"]).make([FACT], random.Random(0))
    assert rows.texts == ["Ada plays the cello"]
    for ids, weights, other in zip(rows.ids, rows.weights, rows.other):
        answer = tokenizer.decode(ids[weights == 1])
        asked = tokenizer.decode(ids[: int((weights > 0).int().argmax())])
        assert answer == " cello" and asked.startswith("Something else entirely. ")
        if not other:
            assert tokenizer.decode(ids[weights == 0.5]) == "." and asked.endswith(" the") and "Ada" in asked
        else:
            assert asked.endswith("Bob plays the") and not (weights == 0.5).any(), (
                "a locality prompt is not told to stop"
            )


def test_a_full_stop_without_weight_is_shown_and_not_asked(tokenizer):
    settings = RowSettings(cut_share=0, preamble_share=0, other_share=0, stop_weight=0)
    rows = RowMaker(tokenizer, settings).make([FACT], random.Random(0))
    for ids, weights in zip(rows.ids, rows.weights):
        assert tokenizer.decode(ids[weights > 0]) == " cello"
        assert tokenizer.decode(ids[: int(weights.nonzero().max()) + 2]).endswith(" cello.")


def test_rows_are_the_same_for_the_same_seed(tokenizer):
    records = [{"text": SENTENCES[0]}, {"text": SENTENCES[7]}, FACT]
    maker = RowMaker(tokenizer, RowSettings(other_share=0.5), SENTENCES)
    first, again, another = (maker.make(records, random.Random(seed)) for seed in (3, 3, 4))
    assert torch.equal(first.ids, again.ids) and torch.equal(first.weights, again.weights)
    assert first.ids.shape != another.ids.shape or not torch.equal(first.ids, another.ids)
    assert first.decoded == int((first.weights.flip(1).cumsum(1).flip(1) > 0).sum()), (
        "tokens up to the last predicted one"
    )


def test_row_settings_and_records_are_checked(tokenizer):
    with pytest.raises(ValueError, match="cut_share must be a number between 0 and 1"):
        RowSettings(cut_share=2)
    with pytest.raises(ValueError, match="neither a text nor a fact"):
        checked_record({"title": "x"}, "line 4")


# --- data


def test_every_record_is_taken_once_an_epoch_and_held_out_ones_never(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"line {i}" for i in range(25)) + "\n")
    sources = [Source(str(path), 0.75), Source("relations", 0.25)]
    facts = RephrasedFacts(read_relations(), Names(), 0)
    stream = Stream(sources, [LineFile(path), facts], texts_per_step=4, held_out=1, seed=0)
    taken = [record for step in range(8) for record in stream.step(step)]
    texts = [record["text"] for record in taken if "text" in record]
    assert len(taken) == 32 and len(texts) == 24
    assert sorted(texts) == sorted(f"line {i}" for i in range(1, 25))
    assert stream.step(5) == Stream(sources, [LineFile(path), facts], 4, 1, 0).step(5), (
        "a step depends on its number alone"
    )
    second = [record["text"] for step in range(8, 16) for record in stream.step(step) if "text" in record]
    assert sorted(second) == sorted(texts) and second != texts
    assert facts[0] in stream.evaluation(1)
    with pytest.raises(ValueError, match="lower held_out"):
        Stream(sources, [LineFile(path), facts], 4, 25, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"title": "x"}, r"line 2 is neither a text nor a fact: it has \['title'\]"),
        ({"text": "\u00a0"}, "line 2: 'text' must be a text that is not blank"),
        ({"text": ["a", "b"]}, "line 2: 'text' must be a text"),
        ({"prompt": "Ada plays the"}, "line 2 .* no 'target_new'"),
        ({"prompt": "Ada plays the", "target_new": "oboe"}, "line 2: 'rephrase_prompt' must be a list"),
        (FACT | {"rephrase_prompt": "Ada's instrument is"}, "line 2: 'rephrase_prompt' must be a list"),
        (FACT | {"locality_prompt": "Bob plays the"}, "line 2: 'locality_prompt' must be a list"),
        (FACT | {"target_new": 7}, "line 2: 'target_new' must be a text"),
        (FACT | {"continuation": None}, "line 2: 'continuation' must be a text"),
    ],
)
def test_a_line_that_no_rows_can_be_made_of_is_refused_before_a_run(tmp_path, line, message):
    path = tmp_path / "facts.jsonl"
    path.write_text(json.dumps(FACT) + "\n" + json.dumps(line) + "\n")
    with pytest.raises(ValueError, match=rf"facts\.jsonl, {message}"):
        LineFile(path)
    path.write_text("\n" + json.dumps(FACT | {"locality_prompt": None}) + "\n")
    assert len(LineFile(path)) == 1


def test_plain_text_is_its_lines_that_have_letters_and_no_list_of_json(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("One.\n\u00a0\n \nTwo.\n", encoding="utf-8")
    file = LineFile(path)
    assert [file[number]["text"] for number in range(len(file))] == ["One.", "Two."]
    path.write_bytes(b"One.\n\xff\n")
    with pytest.raises(ValueError, match=r"text\.txt, line 2: .* not UTF-8"):
        LineFile(path)
    (tmp_path / "facts.json").write_text(json.dumps([FACT]))
    with pytest.raises(ValueError, match=r"whose name ends in \.jsonl"):
        LineFile(tmp_path / "facts.json")


def test_shipped_wordings_are_not_those_of_the_edits_that_are_probed():
    relations = read_relations()
    edits = load_edits()
    assert sum(len(r.prompts) for r in without_wordings_of(relations, edits)) == sum(
        len(r.prompts) for r in relations
    )
    one, two = (prompt.replace("{}", "Zed") for prompt in relations[0].prompts[:2])
    same = type(edits[0])(one, "a", "b", "Zed", (f"Noise here. {two}",))
    assert (
        sum(len(r.prompts) for r in without_wordings_of(relations, [same]))
        == sum(len(r.prompts) for r in relations) - 2
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (None, "must hold a list of relations"),
        (["x"], "relation 0: not a known format"),
        ([{"relation": "r", "subject": "person", "target": "city"}], "relation 0: .* lacks 'prompts'"),
        ([{"relation": "r", "subject": "person", "target": "city", "prompts": [1, 2]}], "relation 0: "),
    ],
)
def test_a_file_of_relations_that_is_none_is_refused(tmp_path, rows, message):
    path = tmp_path / "relations.yaml"
    path.write_text(yaml.safe_dump(rows))
    with pytest.raises(ValueError, match=rf"relations\.yaml.*{message}"):
        read_relations(path)
    with pytest.raises(ValueError, match="no relation is left"):
        RephrasedFacts([], Names())


def test_rephrased_facts_ask_one_thing_in_several_ways():
    facts = RephrasedFacts(read_relations(), Names(text=["We met Ada Lovelace in the park"]), seed=1)
    assert facts[3] == facts[3] != facts[4]
    for number in range(50):
        fact = facts[number]
        assert fact["subject"] in fact["prompt"] and all(
            fact["subject"] in each for each in fact["rephrase_prompt"]
        )
        assert fact["prompt"] not in fact["rephrase_prompt"] and "{}" not in json.dumps(fact)


# --- the objective


def in_training(tokenizer, objective=None, maker=None, records=None, model=None, **options):
    model = model or make_tiny(tokenizer)
    records = records or [{"text": text} for text in SENTENCES[:6]] + [FACT]
    maker = maker or RowMaker(
        tokenizer, RowSettings(cut_share=0, other_share=0.5, preamble_share=0.3), SENTENCES
    )
    rows = maker.make(records, random.Random(0))
    encoder = model.latent_encoder
    module = LarimarObjective(
        model, Objective(**(QUIET | (objective or {}))), lambda rows: encoder.encode(rows.texts), **options
    )
    return module, rows


def test_the_memory_term_is_the_loss_of_the_edited_model(tokenizer):
    module, rows = in_training(tokenizer)
    model = module.larimar
    losses = module(rows)
    Z = model.latent_encoder.encode(rows.texts)
    chosen = ~rows.other
    reading = Reading(torch.ones(int(chosen.sum()), dtype=torch.bool), Z[rows.memory[chosen]])
    with torch.no_grad():
        logits = model(input_ids=rows.ids[chosen], reading=reading).logits
    each = F.cross_entropy(logits[:, :-1].flatten(0, 1), rows.ids[chosen][:, 1:].flatten(), reduction="none")
    weights = rows.weights[chosen][:, 1:].flatten()
    torch.testing.assert_close(
        losses.terms["memory"], (each * weights).sum() / weights.sum(), atol=2e-4, rtol=1e-4
    )


@pytest.mark.parametrize("mode", ["frozen", "lora"])
@pytest.mark.parametrize(
    "options", [{"bucket_tokens": 40}, {"checkpointing": True}], ids=lambda x: next(iter(x))
)
def test_buckets_and_recomputed_layers_change_nothing(tokenizer, options, mode):
    objective = {"language_model": 0.7, "language_model_memory": "other", "autoencoder": 0.5}
    results = []
    for each in ({}, options):
        module, rows = in_training(
            tokenizer, objective, model=make_tiny(tokenizer, decoder_mode=mode), **each
        )
        module.larimar.projection.requires_grad_(True)
        torch.manual_seed(0)
        for adapter in module.larimar.adapters.parameters() if module.larimar.adapters else ():
            torch.nn.init.normal_(adapter, std=0.1)
        losses = module(rows)
        losses.total.backward()
        weight = (
            module.larimar.projection.basis if mode == "frozen" else module.larimar.adapters.lora_B[0].weight
        )
        results.append((losses, weight.grad))
    (plain, gradient), (other, other_gradient) = results
    assert plain.terms.keys() == other.terms.keys() == {"kl", "memory", "autoencoder", "language_model"}
    for name, term in plain.terms.items():
        torch.testing.assert_close(term, other.terms[name], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradient, other_gradient, atol=1e-5, rtol=1e-3)
    assert float(gradient.norm()) > 0


def test_the_regulariser_is_the_divergence_from_the_base_model(tokenizer):
    module, rows = in_training(tokenizer, {"language_model": 1.0, "language_model_memory": "other"})
    model, term = module.larimar, float(module(rows).terms["language_model"])
    chosen = rows.other
    Z = model.latent_encoder.encode(rows.texts)
    reading = Reading(torch.ones(int(chosen.sum()), dtype=torch.bool), Z[rows.memory[chosen]])
    with torch.no_grad():
        base = torch.distributions.Categorical(logits=model.decoder(rows.ids[chosen]).logits[:, :-1])
        said = torch.distributions.Categorical(
            logits=model(input_ids=rows.ids[chosen], reading=reading).logits[:, :-1]
        )
    weights = rows.weights[chosen][:, 1:]
    expected = (torch.distributions.kl_divergence(base, said) * weights).sum() / weights.sum()
    assert term == pytest.approx(float(expected), rel=1e-3) and term > 0


def test_the_decoder_itself_learns_texts_and_no_facts(tokenizer):
    """The last term of eq. (obj) is of texts: with nothing in memory a made-up answer is nothing to learn."""
    module, rows = in_training(tokenizer, {"language_model": 1.0, "language_model_memory": "other"})
    texts = ~rows.other & ~rows.fact
    assert bool(texts.any()) and bool(rows.fact.any())
    with torch.no_grad():
        logits = module.larimar.decoder(rows.ids[texts]).logits[:, :-1]
        wanted = rows.weights[texts][:, 1:] > 0
        expected = F.cross_entropy(logits[wanted], rows.ids[texts][:, 1:][wanted])
        assert float(module._language_model(rows)) == pytest.approx(float(expected), rel=1e-4)
        rows.fact[:] = True
        assert float(module._language_model(rows)) == 0


def test_layers_of_a_pass_without_a_memory_are_recomputed_too(tokenizer):
    module, rows = in_training(tokenizer, {"language_model": 1.0, "language_model_memory": "other"})
    mlp, gradients, runs, seen = module.larimar.decoder.model.layers[1].mlp, [], [], []
    mlp.register_forward_pre_hook(lambda *given: seen.append(given))
    weight = mlp.down_proj.weight.requires_grad_(True)
    for module.checkpointing in (False, True):
        module._language_model(rows).backward()
        runs.append(len(seen))
        gradients.append(weight.grad.clone())
        weight.grad = None
    assert runs == [1, 1 + 2], "once, and once more in the backward pass"
    torch.testing.assert_close(*gradients)


def test_a_text_without_weight_is_nothing_to_compare(tokenizer):
    objective = {"language_model": 1.0, "language_model_memory": "other"}
    module, rows = in_training(tokenizer, objective)
    rows.weights[rows.other] = 0
    assert float(module(rows).terms["language_model"]) == 0


def test_fused_adapters_are_pefts(tokenizer):
    decoder = tiny_llama(len(tokenizer))
    closed = make_tiny(tokenizer)
    values = closed.config.to_dict() | {"decoder_mode": "lora", "lora_rank": 3}
    values.pop("model_type")
    model = LarimarForCausalLM(type(closed.config)(**values), decoder, tokenizer)
    weights = list(model.adapters.parameters())
    for weight in weights:
        weight.requires_grad_(True)
        weight.data.normal_(std=0.2)
    ids = torch.randint(0, 1000, (2, 7))
    with model.adapted():
        plain = decoder(ids).logits
        grads = torch.autograd.grad(plain.square().sum(), weights)
        with fused_lora(decoder):
            fused = decoder(ids).logits
    torch.testing.assert_close(plain, fused, atol=1e-4, rtol=1e-4)
    for one, other in zip(grads, torch.autograd.grad(fused.square().sum(), weights)):
        torch.testing.assert_close(one, other, atol=1e-2, rtol=1e-3)
    assert not torch.allclose(decoder(ids).logits, plain, atol=1e-3)
    with fused_lora(decoder):
        torch.testing.assert_close(decoder(ids).logits, tiny_llama(len(tokenizer))(ids).logits)


def test_regularising_a_frozen_decoder_without_memory_is_refused(tokenizer):
    with pytest.raises(ValueError, match="language_model_memory: none"):
        in_training(tokenizer, {"language_model": 1.0})


# --- runs


@pytest.fixture
def run_folder(tmp_path, tokenizer):
    """A tiny decoder, its closed form and a settings file on disk."""
    closed = make_tiny(tokenizer)
    save_with_decoder(closed, tmp_path / "tiny-llama", tmp_path / "closed", dtype=torch.float32)
    text = tmp_path / "text.txt"
    text.write_text("\n".join(SENTENCES) + "\n")
    values = {
        "decoder": str(tmp_path / "tiny-llama"),
        "checkpoint": str(tmp_path / "closed"),
        "model": {"decoder_mode": "lora", "lora_rank": 4, "scope": "none", "key_encoding": "latent"},
        "sources": [{"path": str(text), "share": 0.5}, {"path": "relations", "share": 0.5}],
        "objective": {"language_model_memory": "other", "episode_length": 4, "sigma_w": 0.05},
        "optimisation": {
            "steps": 16,
            "texts_per_step": 8,
            "precision": "no",
            "warmup": 2,
            "decoder_learning_rate": "1e-2",
        },
        "evaluate_every": 16,
        "save_every": 2,
        "held_out": 4,
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(values))
    return tmp_path


def command(folder, *arguments):
    program = [
        sys.executable,
        "-m",
        "larimar_editor.cli",
        "train",
        str(folder / "run.yaml"),
        "--device",
        "cpu",
        "--dtype",
        "float32",
    ]
    return [*program, *map(str, arguments)]


def losses_of(out):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["total"] for line in lines if line["kind"] == "train"}


def test_a_killed_run_goes_on_with_the_same_losses(run_folder):
    whole, killed = run_folder / "whole", run_folder / "killed"
    forked.run(command(run_folder, "--out", whole)[1:], run_folder)
    process = forked.started(command(run_folder, "--out", killed)[1:], run_folder)
    limit = time.time() + 120
    while saves.last(killed / "states") is None and time.time() < limit and process.is_alive():
        time.sleep(0.01)
    process.kill()
    process.join()
    reached = saves.step_of(saves.last(killed / "states"))
    assert reached < 16, "it was killed on the way"
    with (killed / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "to')  # a line that the kill tore
    forked.run(command(run_folder, "--out", killed)[1:], run_folder)
    expected, found = losses_of(whole), losses_of(killed)
    assert list(expected) == list(found) == list(range(1, 17))
    # What is encoded beside other texts, padded otherwise, is rounded otherwise.
    assert found == pytest.approx(expected, rel=1e-3)
    assert expected[16] < expected[1]
    for name in ("checkpoint/model.safetensors", "training.png", "tensorboard"):
        assert (killed / name).exists()


def test_a_run_goes_on_longer_but_not_with_other_data(run_folder, tokenizer):
    loop.train(prepared(run_folder, tokenizer, small(run_folder)), until=2, progress=False)
    with pytest.raises(ValueError, match=r"begun with other settings \(seed\): choose another --out"):
        loop.train(prepared(run_folder, tokenizer, small(run_folder, seed=7)), until=3, progress=False)
    with pytest.raises(ValueError, match=r"\(rows\)"):
        other = small(run_folder, **{"rows.max_length": 63})
        loop.train(prepared(run_folder, tokenizer, other), until=3, progress=False)
    noted = (run_folder / "out" / "settings.json").read_bytes()
    with pytest.raises(ValueError, match=r"\(optimisation\.texts_per_step\)"):
        other = small(run_folder, **{"optimisation.texts_per_step": 6})
        loop.train(prepared(run_folder, tokenizer, other), until=3, progress=False)
    assert (run_folder / "out" / "settings.json").read_bytes() == noted
    longer = small(run_folder, **{"optimisation.steps": 20})
    loop.train(prepared(run_folder, tokenizer, longer), until=3, progress=False)
    assert saves.step_of(saves.last(run_folder / "out" / "states")) == 3


class Second:
    """An accelerator as the second process has it."""

    is_main_process = False

    def __init__(self, accelerator):
        self.accelerator = accelerator

    def __getattr__(self, name):
        return getattr(self.accelerator, name)


def test_a_process_that_is_not_the_first_refuses_other_settings_too(run_folder, tokenizer):
    """If the first alone did, the others would wait for it when gradients are exchanged, for ever."""
    loop.train(prepared(run_folder, tokenizer, small(run_folder)), until=2, progress=False)
    other = prepared(run_folder, tokenizer, small(run_folder, seed=7))
    with pytest.raises(ValueError, match=r"begun with other settings \(seed\): choose another --out"):
        loop.train(replace(other, accelerator=Second(other.accelerator)), until=3, progress=False)


@pytest.mark.soak
def test_two_processes_refuse_other_settings_together(run_folder, tokenizer):
    """Neither hangs. They are started without a launcher, which would end the second when the first ends."""
    loop.train(prepared(run_folder, tokenizer, small(run_folder)), until=2, progress=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    group |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            command(run_folder, "--out", run_folder / "out", "--set", "seed=7"),
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=os.environ | group | {"RANK": rank, "LOCAL_RANK": rank},
        )
        for rank in ("0", "1")
    ]
    try:
        for process in processes:
            said = process.communicate(timeout=240)[1]
            assert process.returncode == 2 and "begun with other settings (seed)" in said, said[-2000:]
    finally:
        for process in processes:
            process.kill()


def test_until_0_takes_no_step(run_folder, tokenizer):
    """It counts a run's steps from its beginning, and 0 is a count as any other: not "to the end"."""
    run = prepared(run_folder, tokenizer, small(run_folder))
    assert loop.train(run, until=0, progress=False) == {"step": 0}
    assert saves.last(run_folder / "out" / "states") is None


def test_a_finished_run_that_is_run_again_keeps_its_checkpoint_as_it_was_calibrated(run_folder, tokenizer):
    settings, checkpoint = small(run_folder, **{"optimisation.steps": 2}), run_folder / "out" / "checkpoint"
    loop.train(prepared(run_folder, tokenizer, settings), progress=False)
    config = json.loads((checkpoint / "config.json").read_text()) | {"scope_threshold": 0.123}
    (checkpoint / "config.json").write_text(json.dumps(config))
    for until in (None, 1):
        with pytest.warns(UserWarning, match="stays as it is"):
            done = loop.train(prepared(run_folder, tokenizer, settings), until=until, progress=False)
        assert done == {"step": 2}, "not fewer than it has gone"
    assert json.loads((checkpoint / "config.json").read_text()) == config
    longer = small(run_folder, **{"optimisation.steps": 3})
    loop.train(prepared(run_folder, tokenizer, longer), progress=False)
    assert json.loads((checkpoint / "config.json").read_text()) != config


def test_a_save_of_other_shapes_is_refused_and_a_damaged_one_is_named(tmp_path):
    named = lambda size: {"weight": torch.nn.Parameter(torch.ones(size))}
    adam = lambda trained: torch.optim.AdamW(trained.values())
    saves.save(tmp_path, 1, named(3), adam(named(3)))
    state, other = saves.last(tmp_path), named(2)
    with pytest.raises(ValueError, match=r"of other shapes: \['parameter.weight'\]; choose another --out"):
        saves.restore(state, other, adam(other))
    (state / "state.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"state\.safetensors is damaged"):
        saves.restore(state, named(3), adam(named(3)))


def test_what_a_full_disk_does_not_take_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "weights.safetensors"
    saves.save_tensors(path, {"a": torch.ones(1)})

    def full(tensors, partial):
        partial.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    monkeypatch.setattr(saves, "save_file", full)
    with pytest.raises(OSError, match=r"weights\.safetensors could not be written: No space"):
        saves.save_tensors(path, {"a": torch.zeros(1)})
    assert [*tmp_path.iterdir()] == [path] and saves.load_tensors(path)["a"] == 1


@pytest.mark.parametrize("keep", [0.0, 0.25, 1.0])
def test_a_share_of_the_start_is_kept_in_the_checkpoint(run_folder, tokenizer, keep):
    settings = small(run_folder, **{"optimisation.steps": 3, "optimisation.keep": keep})
    run = prepared(run_folder, tokenizer, settings)
    loop.optimiser_of(run)  # decides what is trained
    start = {name: value.detach().clone() for name, value in run.trained.items()}
    loop.train(run, until=2, progress=False)
    after = {name: value.detach().clone() for name, value in run.trained.items()}
    assert any(not torch.equal(start[name], after[name]) for name in start), "no mean before the end"
    again = prepared(run_folder, tokenizer, settings)
    loop.train(again, progress=False)
    saved = saves.last(run_folder / "out" / "states")
    trained = load_file(saved / "state.safetensors")
    for name, value in again.trained.items():
        expected = keep * start[name] + (1 - keep) * trained[f"parameter.{name}"]
        torch.testing.assert_close(value.detach(), expected, atol=1e-5, rtol=1e-5)


def test_a_start_that_is_trained_first_is_not_kept(run_folder, tokenizer):
    with pytest.raises(ValueError, match=r"optimisation\.keep"):
        prepared(run_folder, tokenizer, small(run_folder, start="regression", **{"optimisation.keep": 0.5}))


def small(run_folder, **changes):
    return TrainingSettings.from_yaml(run_folder / "run.yaml", changes)


def prepared(run_folder, tokenizer, settings, decoder=None):
    decoder = decoder or tiny_llama(len(tokenizer))
    run = opening.prepare(settings, run_folder / "out", decoder, tokenizer, Accelerator(cpu=True))
    return run


def test_an_episode_that_passes_or_processes_would_cut_is_refused(run_folder, tokenizer):
    changes = {"objective.episode_length": 8, "optimisation.accumulation": 2}
    with pytest.raises(ValueError, match="leaves 4 texts for an episode"):
        prepared(run_folder, tokenizer, small(run_folder, **changes))


def test_a_run_that_has_gone_further_than_its_steps_is_refused(run_folder, tokenizer):
    quiet = {"objective.language_model": 0, "objective.autoencoder": 0, "save_every": 1}
    loop.train(prepared(run_folder, tokenizer, small(run_folder, **quiet)), until=3, progress=False)
    noted = (run_folder / "out" / "settings.json").read_bytes()
    shorter = small(run_folder, **quiet, **{"optimisation.steps": 2})
    with pytest.raises(ValueError, match="has gone 3 steps, further than 2: choose another --out"):
        loop.train(prepared(run_folder, tokenizer, shorter), progress=False)
    assert not (run_folder / "out" / "checkpoint").exists()
    assert (run_folder / "out" / "settings.json").read_bytes() == noted


def test_training_from_the_closed_form_starts_there_and_gets_better(run_folder, tokenizer):
    quiet = {"objective.language_model": 0, "objective.kl": 0, "objective.autoencoder": 0}
    settings = small(run_folder, **quiet, **{"optimisation.steps": 40})
    run = prepared(run_folder, tokenizer, settings)
    model = run.objective.larimar
    closed = LarimarForCausalLM.from_pretrained(
        run_folder / "closed", decoder=tiny_llama(len(tokenizer)), tokenizer=tokenizer
    )
    ids, reading = torch.tensor([[5, 6, 7]]), Reading(torch.tensor([True]), torch.randn(1, 48))
    torch.testing.assert_close(
        model(ids, reading=reading).logits, closed(ids, reading=reading).logits, atol=1e-5, rtol=1e-4
    )
    before = loop.evaluate(run)
    after = loop.train(run, progress=False)
    assert after["texts_loss"] < 0.9 * before["texts_loss"]
    assert after["rewrite_accuracy"] >= before["rewrite_accuracy"]
    decoder = tiny_llama(len(tokenizer))
    adapters = [value for name, value in run.trained.items() if "lora_B" in name]
    assert adapters and all(float(value.detach().abs().max()) > 0 for value in adapters), (
        "every adapter is trained"
    )
    loaded = LarimarForCausalLM.from_pretrained(
        run_folder / "out" / "checkpoint", decoder=decoder, tokenizer=tokenizer
    )
    torch.testing.assert_close(
        loaded(ids, reading=reading).logits, model(ids, reading=reading).logits, atol=2e-2, rtol=2e-2
    )
    torch.testing.assert_close(
        loaded.latent_encoder.encode(["a fact"]),
        closed.latent_encoder.encode(["a fact"]),
        rtol=2e-2,
        atol=2e-2,
    )
    outside = Reading.nothing(1, 48)
    assert torch.equal(loaded(ids, reading=outside).logits, tiny_llama(len(tokenizer))(ids).logits), (
        "out of scope: the base model"
    )


def test_the_papers_set_up_trains_everything(run_folder, tokenizer):
    changes = {
        "start": "noise",
        "model": {
            "encoder_type": "transformer",
            "encoder_name_or_path": "all-MiniLM-L6-v2",
            "latent_size": 24,
            "decoder_mode": "full",
            "memory_rows": 8,
            "scope": "none",
            "key_encoding": "latent",
            "reference": "prior",
        },
        "objective.language_model_memory": "none",
        "objective.kl": 1e-3,
        "optimisation.encoder_learning_rate": 1e-3,
        "optimisation.steps": 3,
        "optimisation.accumulation": 2,
    }
    run = prepared(run_folder, tokenizer, small(run_folder, **changes))
    assert run.objective.larimar.detectors.external_weights, "the detector that ships"
    watched = {name: value.detach().clone() for name, value in run.objective.named_parameters()}
    loop.train(run, progress=False)
    now = dict(run.objective.named_parameters())
    moved = {name for name, value in watched.items() if not torch.equal(value, now[name])}
    for part in (
        "prior",
        "log_sigma_w",
        "larimar.decoder.lm_head.weight",
        "larimar.projection.basis",
        "larimar.latent_encoder.queries",
    ):
        assert part in moved, f"{part} was not trained"
    folder = run_folder / "out" / "checkpoint"
    loaded = LarimarForCausalLM.from_pretrained(
        folder, decoder=tiny_llama(len(tokenizer)), tokenizer=tokenizer
    )
    torch.testing.assert_close(
        loaded.prior, run.objective.prior.detach(), atol=1e-2, rtol=1e-2, check_dtype=False
    )
    torch.testing.assert_close(
        loaded.decoder.lm_head.weight, run.objective.larimar.decoder.lm_head.weight, atol=1e-3, rtol=1e-2
    )
    share_sentence_encoder(loaded).write([{"prompt": "Ada plays the", "target_new": "cello"}])
    assert loaded.read(["Ada plays the"]).latents.shape == (1, 24)


REGRESSION = {
    "start": "regression",
    "model.encoder_type": "transformer",
    "model.encoder_name_or_path": "all-MiniLM-L6-v2",
}


def test_an_encoder_is_regressed_onto_the_closed_form(run_folder, tokenizer):
    changes = REGRESSION | {"regression_steps": 25, "optimisation.encoder_learning_rate": 1e-4}
    run = prepared(run_folder, tokenizer, small(run_folder, **changes))
    loop.train(run, until=1, progress=False)
    errors = json.loads((run_folder / "out" / "regression.json").read_text())
    assert len(errors) == 25 and sum(errors[-3:]) < 0.9 * sum(errors[:3])


def test_a_regressed_encoder_that_is_not_trained_is_there_again_when_the_run_goes_on(run_folder, tokenizer):
    changes = REGRESSION | {"regression_steps": 3}
    encoded = []
    for until in (1, 2):
        run = prepared(run_folder, tokenizer, small(run_folder, **changes))
        loop.train(run, until=until, progress=False)
        encoded.append(run.objective.larimar.latent_encoder.encode(["a fact"]))
    torch.testing.assert_close(*encoded)


def test_a_tied_checkpoint_is_not_trained_as_a_trained_one(run_folder, tokenizer):
    with pytest.raises(ValueError, match="start: closed-form"):
        prepared(run_folder, tokenizer, small(run_folder, start="trained"))


@pytest.mark.parametrize(
    "changes",
    [
        {"model.tied_projection": True},
        {"start": "noise", "model": {"encoder_type": "decoder-states", "latent_size": 48, "scope": "none"}},
    ],
    ids=lambda changes: changes.get("start", "closed-form"),
)
def test_no_start_trains_a_projection_that_is_the_encoder_too(run_folder, tokenizer, changes):
    with pytest.raises(ValueError, match="tied_projection: true would change the encoder"):
        prepared(run_folder, tokenizer, small(run_folder, **changes))
    frozen = {"start": "trained", "model": {"scope": "none"}, "optimisation.projection_learning_rate": 0}
    run = prepared(run_folder, tokenizer, small(run_folder, **frozen))
    assert run.objective.larimar.config.tied_projection


@pytest.mark.parametrize("start", ["closed-form", "regression"])
def test_what_was_trained_is_not_left_out_by_a_start_from_a_closed_form(run_folder, tokenizer, start):
    for name, settings in (("untied", {"tied_projection": False}), ("adapters", {"decoder_mode": "lora"})):
        make_tiny(tokenizer, **settings).save_pretrained(run_folder / name)
        given = small(run_folder, **(REGRESSION | {"start": start, "checkpoint": str(run_folder / name)}))
        with pytest.raises(ValueError, match=r"no closed form, .*start: trained goes on from it"):
            prepared(run_folder, tokenizer, given)


def test_a_checkpoint_names_the_decoder_that_it_is_trained_on(run_folder, tokenizer):
    make_tiny(tokenizer, tied_projection=False).save_pretrained(run_folder / "untied")
    trained = {"start": "trained", "checkpoint": str(run_folder / "untied"), "model": {"scope": "none"}}
    for changes in ({}, trained):
        run = prepared(run_folder, tokenizer, small(run_folder, decoder="its-sister", **changes))
        assert run.objective.larimar.config.base_model_name_or_path == "its-sister"


def test_a_decoder_that_was_trained_is_trained_on_in_float32(run_folder, monkeypatch):
    """In bfloat16 most of what its first training changed would be rounded away."""
    (run_folder / "full").mkdir()
    config = {"model_type": "larimar", "decoder_mode": "full", "encoder_type": "transformer"}
    (run_folder / "full" / "config.json").write_text(json.dumps(config))
    (run_folder / "full" / "model.safetensors").touch()

    def load(name, dtype, device):
        raise LookupError(dtype)

    monkeypatch.setattr(opening, "load_decoder", load)
    settings = small(run_folder, start="trained", checkpoint=str(run_folder / "full"), model={})
    with pytest.raises(LookupError, match="float32"):
        opening.open_run(settings, run_folder / "out", "cpu", "bfloat16")


def test_an_internal_detector_of_another_encoder_is_refused(run_folder, tokenizer):
    with pytest.raises(ValueError, match="scope: internal is of the encoder as it was"):
        prepared(run_folder, tokenizer, small(run_folder, **{"model.scope": "internal"}))


def test_no_more_of_an_answer_is_trained_on_than_is_written_in_use(run_folder, tokenizer):
    run = prepared(run_folder, tokenizer, small(run_folder, **{"model.encoder_max_length": 9}))
    assert run.maker.answer_tokens == 8 < run.objective.larimar.config.answer_tokens


def test_codes_of_another_size_than_the_closed_forms_are_refused(run_folder, tokenizer):
    with pytest.raises(ValueError, match="latent_size 48 is not memory_slots 4 times the 24 numbers"):
        prepared(run_folder, tokenizer, small(run_folder, **{"model.memory_slots": 4}))


def test_the_regression_does_not_hang_on_what_was_drawn_before():
    errors = []
    for seed in (1, 2):
        torch.manual_seed(0)
        encoder = TransformerEncoder(resolve("all-MiniLM-L6-v2"), 24)
        torch.manual_seed(seed)
        target = lambda texts: torch.eye(4, 24)
        errors.append(starts.regress(encoder, lambda step: SENTENCES[:4], target, steps=2, progress=False))
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    "scaled", [CohereConfig(logit_scale=0.25), GraniteConfig(logits_scaling=4.0)], ids=["cohere", "granite"]
)
@torch.no_grad()
def test_training_sees_the_decoders_own_logits(scaled):
    sizes = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    scaled.update(sizes | {"num_attention_heads": 4, "num_key_value_heads": 4, "pad_token_id": 0})
    decoder = AutoModelForCausalLM.from_config(scaled).eval()
    ids = torch.tensor([[5, 6, 7]])
    hidden = hidden_states(decoder, ids)
    torch.testing.assert_close(logits_of(decoder, hidden[0]), decoder(ids).logits[0].float())


def test_logits_made_part_by_part_have_the_loss_and_the_gradients_of_all_at_once():
    """Also the gradient of the output embeddings, where they are trained."""
    decoder = tiny_llama(vocab_size=50)
    head = decoder.get_output_embeddings().weight
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(23, head.shape[1], generator=generator, requires_grad=True)
    labels = torch.randint(head.shape[0], (23,), generator=generator)
    weights = torch.rand(23, generator=generator)
    score = lambda logits, part: F.cross_entropy(logits, labels[part], reduction="none")
    parts = of_logits(decoder, hidden, score, at_once=5 * head.shape[0])
    together = F.cross_entropy(hidden @ head.T, labels, reduction="none")
    torch.testing.assert_close(parts, together)
    gradients = [
        torch.autograd.grad((weights * each).sum(), (hidden, head), retain_graph=True)
        for each in (parts, together)
    ]
    torch.testing.assert_close(*gradients)


def test_a_prior_that_is_read_by_is_kept_also_where_none_is_trained(run_folder, tokenizer):
    changes = {
        "start": "noise",
        "model": {
            "encoder_type": "transformer",
            "encoder_name_or_path": "all-MiniLM-L6-v2",
            "latent_size": 48,
            "memory": "fixed",
            "memory_rows": 8,
            "reference": "prior",
            "key_encoding": "latent",
            "scope": "none",
        },
        "objective.train_prior": False,
    }
    run = prepared(run_folder, tokenizer, small(run_folder, **changes, **{"optimisation.steps": 1}))
    loop.train(run, progress=False)
    assert run.objective.larimar.prior.shape == (8, 48)
    stored = load_file(run_folder / "out" / "checkpoint" / "model.safetensors")["prior"]
    torch.testing.assert_close(stored, run.objective.prior.detach().half())


@pytest.mark.parametrize("family", ["gpt2", "gptj", "gpt_neox"])
def test_other_families_are_fitted_and_trained(run_folder, tokenizer, family):
    if family == "gpt_neox":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    else:
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4} | ({"rotary_dim": 4} if family == "gptj" else {})
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=2, **sizes)
    decoder = AutoModelForCausalLM.from_config(config).eval()
    closed = fit(
        decoder,
        tokenizer,
        SENTENCES,
        name=family,
        code_size=24,
        memory_slots=2,
        progress=False,
        memory_rows=8,
        detector=None,
    )
    closed.save_pretrained(run_folder / family, dtype=torch.float32)
    changes = {
        "checkpoint": str(run_folder / family),
        "optimisation.steps": 12,
        "objective.kl": 0,
        "objective.language_model": 0,
    }
    run = prepared(run_folder, tokenizer, small(run_folder, **changes), decoder)
    before = loop.evaluate(run)["texts_loss"]
    assert loop.train(run, progress=False)["texts_loss"] < before


def test_accumulated_passes_are_one_step(run_folder, tokenizer):
    off = ("sigma_w", "observation_noise", "kl", "language_model")
    quiet = {f"objective.{name}": 0 for name in off} | {
        "objective.episode_length": 1,
        "rows.cut_share": 0,
        "rows.tail": 64,
    }
    quiet["sources"] = [{"path": str(run_folder / "text.txt")}]
    found = []
    for parts in (1, 2):
        run = prepared(
            run_folder, tokenizer, small(run_folder, **quiet, **{"optimisation.accumulation": parts})
        )
        trained_parameters(run.objective, run.settings)
        loop._passes(run, run.objective, step=0, strength=0.0)
        found.append(run.objective.larimar.projection.mean.grad)
    torch.testing.assert_close(found[0], found[1], rtol=0.2, atol=0.05 * float(found[0].abs().max()))


def test_two_processes_start(run_folder):
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    arguments = [*launch, "-m", *command(run_folder, "--out", run_folder / "out", "--dry-run")[2:]]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.strip().splitlines()[-1])
    assert report["processes"] == 2 and report["distributed"] == "MULTI_CPU" and report["total"] > 0


ACCELERATE = sorted((ROOT / "configs/accelerate").glob("*.yaml"))


@pytest.mark.parametrize(
    "path",
    ACCELERATE if EVERYTHING else [path for path in ACCELERATE if "eight" in path.stem],
    ids=lambda path: path.stem,
)
def test_shipped_accelerate_settings_start(run_folder, path):
    """On a CPU and in one process. DeepSpeed's own does without --cpu, which would switch it off."""
    zero = "zero" in path.stem
    if zero:
        pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(path),
        "--num_processes",
        "1",
    ]
    rest = [
        part
        for part in command(run_folder, "--out", run_folder / "out", "--dry-run")[2:]
        if part not in ("--device", "cpu")
    ]
    done = subprocess.run(
        [*launch, *([] if zero else ["--cpu"]), "-m", *rest],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"DS_ACCELERATOR": "cpu"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.strip().splitlines()[-1])
    assert report["total"] > 0 and report["distributed"] == ("DEEPSPEED" if zero else "NO")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs/training").glob("*.yaml")), ids=lambda path: path.stem
)
def test_shipped_settings_are_well_formed(path):
    settings = TrainingSettings.from_yaml(path)
    assert settings.optimisation.texts_per_step >= settings.objective.episode_length


def test_settings_are_checked_at_the_door(run_folder, tokenizer):
    with pytest.raises(ValueError, match="objective: unknown key 'sigma_v'; did you mean 'sigma_w'"):
        small(run_folder, **{"objective.sigma_v": 1})
    with pytest.raises(ValueError, match="model: no setting of a checkpoint is called lora_ranks"):
        small(run_folder, **{"model.lora_ranks": 3})
    assert small(run_folder, **{"optimisation.precision": False}).optimisation.precision == "no", "YAML's no"
    given = {
        "decoder": "d",
        "sources": [{"path": "trivia"}],
        "optimisation": {"decoder_learning_rate": "1e-4", "steps": 3.0},
    }
    read = TrainingSettings.from_dict(given).optimisation
    assert (read.decoder_learning_rate, read.steps) == (1e-4, 3), "as YAML reads such numbers"
    with pytest.raises(ValueError, match="nothing is reconstructed"):
        small(run_folder, **{"objective.memory": 0, "objective.autoencoder": 0})
    for wrong in (3, "text.txt"):
        with pytest.raises(ValueError, match="sources must be a list"):
            small(run_folder, sources=wrong)
    assert small(run_folder, **{"model.observation_noise": "1e-3"}).model["observation_noise"] == 1e-3
    with pytest.raises(ValueError, match="lora_rank must be a whole number of at least 1, got 'four'"):
        small(run_folder, **{"model.lora_rank": "four"})
    with pytest.raises(ValueError, match="cache_latents is gone"):
        small(run_folder, cache_latents=True)
    with pytest.raises(ValueError, match="start must be one of"):
        small(run_folder, start="scratch")
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        small(run_folder, **{"optimisation.steps": 0})
    with pytest.raises(ValueError, match="needs `checkpoint`"):
        starts.start(small(run_folder, checkpoint=None), tiny_llama(len(tokenizer)), tokenizer)
    with pytest.raises(ValueError, match="nothing to train"):
        prepared(run_folder, tokenizer, small(run_folder, **{"optimisation.encoder_learning_rate": 1e-3}))


@needs_gpu
def test_a_step_on_a_gpu_is_the_step_on_the_cpu_and_a_run_goes_on_there(run_folder):
    forked.run(command(run_folder, "--out", run_folder / "cpu")[1:], run_folder)
    on_gpu = [each for each in command(run_folder) if each not in ("--device", "cpu")]
    for arguments in (("--out", "gpu"), ("--out", "half", "--until", "7"), ("--out", "half")):
        subprocess.run([*on_gpu, *arguments], cwd=run_folder, check=True)
    losses = {name: losses_of(run_folder / name) for name in ("cpu", "gpu", "half")}
    assert losses["half"] == pytest.approx(losses["gpu"], rel=1e-3)
    # The noise that a memory adds is another generator's there.
    assert losses["gpu"] == pytest.approx(losses["cpu"], rel=0.2)
    assert losses["gpu"][16] < losses["gpu"][1]
