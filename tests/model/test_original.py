"""Checkpoints of the original implementation: files of the same structure, made here, since none is released.

What a converted one computes is compared with transformers' own GPT-2, GPT-J and BERT, put together as that
implementation does.
"""

from __future__ import annotations

import argparse
import json

import pytest
import torch
from conftest import FACTS, share_sentence_encoder
from torch import nn
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    GPTJConfig,
    GPTJForCausalLM,
)
from typer.testing import CliRunner

from larimar_editor.cli import app
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.original import convert_original, read_original
from larimar_editor.model.reading import Reading
from larimar_editor.pretrained.embedded import SENTENCE_ENCODER, resolve

LATENT, ROWS, WIDTH, LAYERS, HEADS = 24, 16, 32, 2, 4


class Original:
    """What was trained: modules, and a file of them as Lightning writes it."""

    def __init__(self, folder, family, tokenizer):
        torch.manual_seed(3)
        words = AutoTokenizer.from_pretrained(resolve(SENTENCE_ENCODER))
        size = dict(n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, initializer_range=0.3)
        kinds = {"gpt2": (GPT2Config, GPT2LMHeadModel), "gptj": (GPTJConfig, GPTJForCausalLM)}
        config, model = kinds[family]
        rest = {} if family == "gpt2" else {"rotary_dim": 4}
        config(vocab_size=len(tokenizer), **size, **rest).save_pretrained(folder / "decoder")
        tokenizer.save_pretrained(folder / "decoder")
        self.decoder = model(config(vocab_size=len(tokenizer) + 3, **size, **rest)).eval()
        small = BertConfig(
            vocab_size=len(words),
            hidden_size=WIDTH,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=64,
            initializer_range=0.3,
        )
        small.save_pretrained(folder / "encoder")
        words.save_pretrained(folder / "encoder")
        self.encoder, self.words = BertModel(small).eval(), words
        self.to_latent = nn.Linear(WIDTH, 2 * LATENT, bias=False)
        self.memory = nn.Linear(LATENT, WIDTH * LAYERS, bias=False)
        self.embedding = nn.Linear(LATENT, WIDTH, bias=False)
        self.prior = torch.randn(ROWS, LATENT)
        for parameter in (self.to_latent, self.memory, self.embedding):
            nn.init.normal_(parameter.weight, std=0.5)
        self.folder = folder

    def weights(self):
        parts = {
            "model.encoder": self.encoder,
            "model.encoder.linear": self.to_latent,
            "model.decoder": self.decoder,
            "model.decoder.transformer.linear": self.memory,
            "model.decoder.transformer.linear_emb": self.embedding,
        }
        own = {
            f"{name}.{key}": value for name, part in parts.items() for key, value in part.state_dict().items()
        }
        mask = torch.ones(1, 1, 8, 8, dtype=torch.bool)
        own |= {f"model.decoder.transformer.h.{layer}.attn.bias": mask for layer in range(LAYERS)}
        own["model.encoder.embeddings.position_ids"] = torch.arange(512)[None]
        return own | {
            "model.memory.memory_mean": self.prior,
            "model.memory.memory_logvar": torch.zeros(1),
            "model.memory.w_logvar.weight": torch.zeros(ROWS, LATENT * ROWS),
            "model.memory.w_logvar.bias": torch.zeros(ROWS),
            "model.memory.ben_cohen_memory_init": torch.tensor([-5.0]),
        }

    def file(self, **changes):
        hyper = {
            "encoder_model_name_or_path": str(self.folder / "encoder"),
            "decoder_model_name_or_path": str(self.folder / "decoder"),
            "latent_size": LATENT,
            "block_size": 64,
        }
        stored = {"epoch": 4, "state_dict": self.weights(), "hyper_parameters": hyper} | changes
        path = self.folder / "epoch=4.ckpt"
        torch.save(stored, path)
        return path

    @torch.no_grad()
    def latents(self, texts):
        """The mean of the encoder's two halves."""
        tokens = self.words(texts, padding=True, return_tensors="pt")
        pooled = self.encoder(tokens.input_ids, tokens.attention_mask).pooler_output
        return self.to_latent(pooled).chunk(2, -1)[0]

    @torch.no_grad()
    def logits(self, ids, z):
        """Keys and values alike in front of the text, and the latent in every embedding."""
        past = DynamicCache(config=self.decoder.config)
        for layer, part in enumerate(self.memory(z).split(WIDTH, dim=1)):
            pair = part.view(len(z), 1, HEADS, WIDTH // HEADS).transpose(1, 2)
            past.update(pair, pair, layer)
        embedded = self.decoder.transformer.wte(ids) + self.embedding(z)[:, None]
        positions = torch.arange(1, ids.shape[1] + 1)[None].expand(len(ids), -1)
        return self.decoder(inputs_embeds=embedded, position_ids=positions, past_key_values=past).logits


@pytest.fixture(params=["gpt2", "gptj"])
def original(request, tmp_path, tokenizer):
    return Original(tmp_path, request.param, tokenizer)


@pytest.fixture
def gpt2(tmp_path, tokenizer):
    return Original(tmp_path, "gpt2", tokenizer)


def test_a_converted_checkpoint_computes_what_was_trained_and_is_edited(original, tmp_path):
    out = tmp_path / "converted"
    convert_original(original.file(), out)
    model = share_sentence_encoder(LarimarForCausalLM.from_pretrained(out))
    texts = ["A clever fox found the bridge.", "My neighbour lost seven keys, and then the bridge."]
    torch.testing.assert_close(
        model.latent_encoder.encode(texts), original.latents(texts), atol=1e-5, rtol=1e-4
    )
    z = torch.randn(2, LATENT)
    ids = torch.tensor(
        [[model.tokenizer.bos_token_id, 500, 600, 700], [model.tokenizer.bos_token_id, 9, 8, 7]]
    )
    with torch.no_grad():
        read = Reading(torch.tensor([True, True]), z)
        both = model(ids, reading=read).logits
        first = model(ids[:, :3], reading=read, use_cache=True)
        last = model(ids[:, 3:], past_key_values=first.past_key_values).logits
        outside = model(ids, reading=Reading.nothing(2, LATENT)).logits
        base = original.decoder(ids).logits
    expected = original.logits(ids, z)
    torch.testing.assert_close(both, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(last[:, 0], expected[:, 3], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(outside, base, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(model.prior, original.prior)
    assert (model.tokenizer.pad_token, model.tokenizer.eos_token) == ("<PAD>", "<EOS>")
    inputs = model.tokenizer(FACTS[0]["prompt"], return_tensors="pt")
    assert int(inputs.input_ids[0, 0]) == model.tokenizer.bos_token_id, "as every text in training"
    with torch.no_grad():
        before = model(**inputs).logits
        model.write(FACTS[:1])
        assert not model(**inputs).logits.equal(before)
        model.forget(FACTS[0]["prompt"])
        assert model(**inputs).logits.equal(before)


def test_the_command_converts_and_gives_it_a_detector(gpt2, tmp_path):
    out = tmp_path / "converted"
    done = CliRunner().invoke(app, ["convert-original", str(gpt2.file()), "--out", str(out)])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["decoder"], report["latent_size"], report["memory_rows"]) == ("gpt2", LATENT, ROWS)
    assert LarimarForCausalLM.from_pretrained(out).detectors.external.look is not None


def without(weights, name):
    return {key: value for key, value in weights.items() if key != name}


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda own: {"hyper_parameters": {"args": argparse.Namespace(a=1)}}, "cannot be read safely"),
        (lambda own: {"state_dict": without(own, "model.memory.memory_mean")}, "lacks .'model.memory"),
        (lambda own: {"state_dict": own | {"model.memory.lstm_z.a": torch.ones(1)}}, "`ordering`"),
        (
            lambda own: {"state_dict": own | {"model.memory.memory_mean": torch.ones(3, 5)}},
            "would fit the rest",
        ),
        (lambda own: {"state_dict": [1]}, "no Lightning checkpoint"),
        (lambda own: {"hyper_parameters": {}}, "give decoder and encoder"),
        (lambda own: {"state_dict": without(own, "model.decoder.transformer.ln_f.bias")}, "ln_f.bias"),
        (lambda own: {"state_dict": own | {"model.encoder.more": torch.ones(1)}}, "differ in .'more'"),
        (
            lambda own: {"state_dict": own | {"model.decoder.transformer.ln_f.bias": torch.ones(5)}},
            "do not fit .* size mismatch for transformer.ln_f.bias",
        ),
    ],
)
def test_what_is_no_such_checkpoint_is_refused_before_anything_is_written(gpt2, tmp_path, change, message):
    path = gpt2.file(**change(gpt2.weights()))
    with pytest.raises(ValueError, match=message):
        convert_original(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_head_that_is_not_the_embeddings_must_be_there(tmp_path, tokenizer):
    gptj = Original(tmp_path, "gptj", tokenizer)
    path = gptj.file(state_dict=without(gptj.weights(), "model.decoder.lm_head.weight"))
    with pytest.raises(ValueError, match=r"lm_head\.weight"):
        convert_original(path, tmp_path / "out")


def test_other_names_settings_and_files_are_refused(gpt2, tmp_path):
    path = gpt2.file()
    for settings in ({"memory_slots": 2}, {"no_such_setting": 1}):
        with pytest.raises(ValueError, match="is no setting, or one that the file decides"):
            convert_original(path, tmp_path / "out", **settings)
    with pytest.raises(ValueError, match="decoders are gpt2 and gptj"):
        convert_original(path, tmp_path / "out", decoder=str(gpt2.folder / "encoder"))
    with pytest.raises(ValueError, match="DeepSpeed"):
        read_original(tmp_path)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        read_original(tmp_path / "none.ckpt")
    (tmp_path / "text.ckpt").write_text("no checkpoint at all")
    with pytest.raises(ValueError, match="cannot be read safely"):
        read_original(tmp_path / "text.ckpt")
    assert not (tmp_path / "out").exists()
