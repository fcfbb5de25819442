"""Checkpoints of the original implementation (github.com/IBM/larimar), as a checkpoint of this one.

There a Lightning file holds a BERT whose pooled first token is projected to the latent, a GPT-2 or GPT-J
that was trained with it, one map from a latent to a key/value pair of each layer (keys and values alike),
another that is added to the token embeddings, and the memory's prior.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.encoders import TransformerEncoder
from larimar_editor.model.key_values import signature
from larimar_editor.model.larimar import LarimarForCausalLM

DECODERS = ("gpt2", "gptj")
_ENCODER, _DECODER, _MEMORY = "model.encoder.", "model.decoder.", "model.memory."
_NEEDED = (
    f"{_ENCODER}linear.weight",
    f"{_DECODER}transformer.linear.weight",
    f"{_DECODER}transformer.linear_emb.weight",
    f"{_DECODER}transformer.wte.weight",
    f"{_MEMORY}memory_mean",
)
# In this order they got their numbers.
_ADDED_TOKENS = {"pad_token": "<PAD>", "bos_token": "<BOS>", "eos_token": "<EOS>"}
# Masks and positions that older versions of transformers kept among the weights.
_BUFFER = re.compile(r"\.(attn\.(masked_)?bias|embed_positions|position_ids|token_type_ids)$")


def read_original(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Weights and hyperparameters of a Lightning file; nothing in it is run.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a folder (as DeepSpeed writes), a file that holds more than tensors and plain values, or
            no checkpoint of a Larimar.
    """
    if path.is_dir():
        raise ValueError(
            f"{path} is a folder, as DeepSpeed writes; the zero_to_fp32.py in it makes one file of it"
        )
    if not path.exists():
        raise FileNotFoundError(f"no checkpoint {path}")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{path} cannot be read safely: it holds other things than tensors and plain values, or is "
            f"damaged ({str(error).splitlines()[0]})"
        ) from error
    weights = stored.get("state_dict") if isinstance(stored, Mapping) else None
    if not isinstance(weights, Mapping):
        raise ValueError(f"{path} has no state_dict: it is no Lightning checkpoint")
    if missing := [name for name in _NEEDED if name not in weights]:
        raise ValueError(f"{path} is no checkpoint of a Larimar with a memory: it lacks {missing}")
    return dict(weights), dict(stored.get("hyper_parameters") or {})


def convert_original(
    path: Path,
    out: Path,
    decoder: str | None = None,
    encoder: str | None = None,
    detector: Mapping[str, Tensor] | None = None,
    **settings: Any,
) -> LarimarForCausalLM:
    """Write a checkpoint folder, with decoder and encoder in folders of their own inside it.

    What is not taken over: the network that makes sigma_W of the memory (readings are not sampled unless
    ``sigma_w`` says so), and the iterations towards a pseudoinverse, which here is the exact one, of the
    prior.

    Args:
        path: the Lightning file.
        out: folder to write, made if need be.
        decoder: GPT-2 or GPT-J that it was trained from, by name or folder: its configuration and tokenizer
            are read, not its weights; by default what the file's hyperparameters name.
        encoder: the BERT that it was trained from, likewise.
        detector: weights of an external scope detector; none: the sentence encoder as it is.
        settings: further settings of `LarimarSettings`.

    Raises:
        FileNotFoundError, ValueError: see `read_original`; a decoder of another kind, or weights that do not
            fit those names.
    """
    weights, hyper = read_original(path)
    names = {
        part: str(name or hyper.get(f"{part}_model_name_or_path") or "")
        for part, name in (("decoder", decoder), ("encoder", encoder))
    }
    if unknown := [part for part, name in names.items() if not name]:
        raise ValueError(f"{path} does not say what it was trained from: give {' and '.join(unknown)}")
    language_model, tokenizer = _decoder(weights, names["decoder"])
    bert = _encoder(weights, names["encoder"])
    for part, model, words in (
        ("decoder", language_model, tokenizer),
        ("encoder", bert, AutoTokenizer.from_pretrained(names["encoder"])),
    ):
        model.save_pretrained(out / part)
        words.save_pretrained(out / part)
    prior = weights[f"{_MEMORY}memory_mean"].float()
    latent_size = prior.shape[1]
    values: dict[str, Any] = {
        "base_model_name_or_path": str((out / "decoder").resolve()),
        "decoder_signature": signature(language_model),
        "encoder_type": "transformer",
        "encoder_name_or_path": str((out / "encoder").resolve()),
        "encoder_pooling": "first",
        "encoder_max_length": int(hyper.get("block_size") or 0) or 64,
        "latent_size": latent_size,
        "memory_slots": 1,
        "slot_position": 0,
        "latent_in_embeddings": True,
        "tied_projection": False,
        "memory": "fixed",
        "memory_rows": prior.shape[0],
        "addressing": "pseudoinverse",
        "reference": "prior",
        "key_encoding": "latent",
        "addressed_by": "query",
        "after_answer": "memory",
    }
    model = LarimarForCausalLM(LarimarConfig(**values | settings), language_model, tokenizer)
    _put(model, weights, latent_size)
    model.prior = prior
    model.detectors.weights = dict(detector or {})
    model.save_pretrained(out)
    return model


def _decoder(weights: Mapping[str, Tensor], name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The decoder as it was trained, and its tokenizer with the tokens that were added to it."""
    config = AutoConfig.from_pretrained(name)
    if config.model_type not in DECODERS:
        raise ValueError(
            f"the original's decoders are {' and '.join(DECODERS)}; {name} is {config.model_type}"
        )
    config.vocab_size = weights[f"{_DECODER}transformer.wte.weight"].shape[0]
    model = AutoModelForCausalLM.from_config(config)
    _load(model, weights, _DECODER, {"transformer.linear.weight", "transformer.linear_emb.weight"}, name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.add_special_tokens(dict(_ADDED_TOKENS))
    if len(tokenizer) != config.vocab_size:
        raise ValueError(
            f"the decoder has {config.vocab_size} tokens, and the tokenizer of {name} with "
            f"{', '.join(_ADDED_TOKENS.values())} {len(tokenizer)}"
        )
    for role in _ADDED_TOKENS:
        value = getattr(tokenizer, f"{role}_id")
        setattr(model.config, f"{role}_id", value)
        setattr(model.generation_config, f"{role}_id", value)
    return model.eval(), tokenizer


def _encoder(weights: Mapping[str, Tensor], name: str) -> PreTrainedModel:
    model = AutoModel.from_config(AutoConfig.from_pretrained(name))
    _load(model, weights, _ENCODER, {"linear.weight"}, name)
    return model.eval()


def _load(
    model: PreTrainedModel, weights: Mapping[str, Tensor], prefix: str, but: set[str], name: str
) -> None:
    """Put the weights below a prefix into a model, each and no other."""
    own = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
    own = {key: value for key, value in own.items() if key not in but and not _BUFFER.search(key)}
    try:
        found = model.load_state_dict(own, strict=False)
    except RuntimeError as error:
        raise ValueError(f"the weights do not fit {name}: {str(error).splitlines()[-1].strip()}") from error
    tied = {"lm_head.weight"}  # GPT-2's are its embeddings
    if found.unexpected_keys or set(found.missing_keys) - tied:
        differing = [*found.unexpected_keys, *found.missing_keys]
        raise ValueError(f"the weights do not fit {name}: they differ in {differing[:4]}")


def _put(model: LarimarForCausalLM, weights: Mapping[str, Tensor], latent_size: int) -> None:
    """The maps to and from a latent: of the encoder's two halves the mean; of ``W_M`` keys and values."""
    encoder, shape = model.latent_encoder, model.states.shape
    assert isinstance(encoder, TransformerEncoder) and model.embedding is not None, "as configured"
    memory = weights[f"{_DECODER}transformer.linear.weight"].float()
    pairs = memory.unflatten(0, (shape.layers, 1, shape.heads, shape.head_size))
    pairs = pairs.expand(-1, 2, -1, -1, -1)
    with torch.no_grad():
        encoder.output.weight.copy_(weights[f"{_ENCODER}linear.weight"][:latent_size])
        encoder.output.bias.zero_()
        model.projection.basis.copy_(pairs.flatten(0, 3))
        model.embedding.weight.copy_(weights[f"{_DECODER}transformer.linear_emb.weight"])
