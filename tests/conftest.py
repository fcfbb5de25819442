"""What tests share: tiny random models that need no download, and the embedded models, made once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
import yaml
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from larimar_editor.checkpoints import shipped
from larimar_editor.evaluation.harness import context
from larimar_editor.model.closed_form import fit
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.scoping import NO_READER, ScopeDetectors
from larimar_editor.pretrained.embedded import DECODER, SENTENCE_ENCODER, resolve

SENTENCES = [
    f"{subject} {verb} {thing}."
    for subject in ("The old sailor", "A clever fox", "My neighbour", "The tall engineer", "Every student")
    for verb in ("found", "painted", "lost", "described", "repaired")
    for thing in ("a green boat", "the bridge", "seven keys", "an unknown island")
]

FACTS = [
    {"prompt": "The mother tongue of Danielle Darrieux is", "target_new": "English"},
    {"prompt": "The capital of Portugal is", "target_new": "Oslo"},
    {"prompt": "The novel Moby-Dick was written by", "target_new": "Jane Austen"},
]
EVERYTHING = bool(os.environ.get("LARIMAR_EVERYTHING"))  # `make soak`: what takes long, too
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is at hand")

UNRELATED = ["Water boils at a temperature of", "My favourite recipe for soup begins with"]


# Of the facts typed for training, where other questions, too, call the subject by other names.
ASKED_OTHERWISE = ("by hand: called-otherwise", "by hand: names-of-entities")


def some_of(many: Sequence) -> Sequence:
    """One in five; all of them with `make soak`."""
    return many if EVERYTHING else many[::5]


@pytest.fixture(scope="session")
def tokenizer():
    """The embedded decoder's tokenizer; it serves the tiny models too."""
    return AutoTokenizer.from_pretrained(resolve(DECODER))


def tiny_llama(vocab_size: int, **settings) -> LlamaForCausalLM:
    """A random Llama of two layers."""
    torch.manual_seed(0)
    values = dict(
        vocab_size=vocab_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        initializer_range=0.2,
    )
    return LlamaForCausalLM(LlamaConfig(**(values | settings))).eval()


@pytest.fixture
def tiny(tokenizer) -> LarimarForCausalLM:
    """A fitted Larimar over a tiny random Llama, with 8 memory rows; fresh for each test."""
    return make_tiny(tokenizer)


def make_tiny(tokenizer, **settings) -> LarimarForCausalLM:
    decoder = tiny_llama(len(tokenizer))
    return fit(
        decoder,
        tokenizer,
        SENTENCES,
        name="tiny",
        code_size=24,
        memory_slots=2,
        progress=False,
        sentence_encoder=sentence_encoder(),
        detector=None,
        **({"memory_rows": 8, "scope_threshold": 0.7, "copying": 0.0} | settings),
    )


def save_with_decoder(model, decoder: Path, checkpoint: Path, **options) -> Path:
    """Decoder and tokenizer in one folder, and in another a checkpoint that names it; the latter."""
    model.decoder.save_pretrained(decoder)
    model.tokenizer.save_pretrained(decoder)
    model.config.base_model_name_or_path = str(decoder)
    model.save_pretrained(checkpoint, **options)
    return checkpoint


@cache
def sentence_encoder() -> SentenceTransformer:
    """Loading it takes seconds; one serves all models of a test run."""
    return SentenceTransformer(resolve(SENTENCE_ENCODER), device="cpu")


def share_sentence_encoder(model: LarimarForCausalLM) -> LarimarForCausalLM:
    """For models that are made elsewhere."""
    weights = model.detectors.weights
    model.detectors = ScopeDetectors(model.config, model.queries, sentence_encoder())
    model.detectors.weights = weights
    return model


@pytest.fixture(scope="session")
def decoder():
    """The embedded decoder, SmolLM2-135M."""
    return AutoModelForCausalLM.from_pretrained(resolve(DECODER), dtype=torch.float32).eval()


@pytest.fixture
def larimar(decoder, tokenizer) -> LarimarForCausalLM:
    """The shipped Larimar over the embedded decoder, with nothing written."""
    # The third stage's encoder is 0.4 GB, for each model anew: tests/scope/test_reader.py and the examples
    # have it.
    model = LarimarForCausalLM.from_pretrained(
        shipped(DECODER),
        decoder=decoder,
        tokenizer=tokenizer,
        sentence_encoder=sentence_encoder(),
        scope_reader_name_or_path=NO_READER,
    )
    model.tokenizer.padding_side = "left"
    return model


def encode(tokenizer, texts, side="left"):
    """Padded input of a batch."""
    tokenizer.padding_side = side
    return tokenizer(texts, return_tensors="pt", padding=True)


@pytest.fixture(scope="session")
def hparams(tokenizer, tmp_path_factory) -> Path:
    """A hyperparameter file; beside it the tiny decoder that it names, and its closed form."""
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


@pytest.fixture
def one_sentence_encoder(monkeypatch):
    """Tables load models that share it."""
    load = context.load_larimar
    monkeypatch.setattr(context, "load_larimar", lambda *given: (share_sentence_encoder(load(*given)[0]), ""))
