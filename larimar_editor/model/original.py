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
from tokenizers.processors import TemplateProcessing
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
from larimar_editor.model.key_values import StateShape, signature
from larimar_editor.model.larimar import LarimarForCausalLM

DECODERS = ("gpt2", "gptj")
_LONGEST = 64  # tokens of a text, where the file does not say; the original's own default
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
            f"{path} is a folder, as DeepSpeed writes; make one file of it first, with Lightning's "
            "convert_zero_checkpoint_to_fp32_state_dict"
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
    if any(name.startswith(f"{_MEMORY}lstm_z.") for name in weights):
        raise ValueError(f"{path} was trained with `ordering`, an LSTM over latents, which is not here")
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
    ``sigma_w`` says so), the noise of what is written (``observation_noise``), and the iterations towards a
    pseudoinverse, which here is the exact one, of the prior.

    Args:
        path: the Lightning file.
        out: folder to write, made if need be.
        decoder: GPT-2 or GPT-J that it was trained from, by name or folder: its configuration and tokenizer
            are read, not its weights; by default what the file's hyperparameters name.
        encoder: the BERT that it was trained from, likewise.
        detector: weights of an external scope detector; none: the sentence encoder as it is.
        settings: further settings of `LarimarSettings`, but none that the file itself decides.

    Raises:
        FileNotFoundError, ValueError: see `read_original`; a decoder of another kind, weights that do not
            fit those names or each other, or a setting that cannot be given. Nothing is written then.
    """
    weights, hyper = read_original(path)
    names = {
        part: str(name or hyper.get(f"{part}_model_name_or_path") or "")
        for part, name in (("decoder", decoder), ("encoder", encoder))
    }
    if unknown := [part for part, name in names.items() if not name]:
        raise ValueError(f"{path} does not say what it was trained from: give {' and '.join(unknown)}")
    language_model, tokenizer = _decoder(weights, names["decoder"])
    bert, words = _encoder(weights, names["encoder"]), AutoTokenizer.from_pretrained(names["encoder"])
    values = _structure(weights, language_model, bert, hyper, out)
    if bad := [name for name in settings if name in values or name not in LarimarConfig.settings()]:
        raise ValueError(f"{bad[0]} is no setting, or one that the file decides")
    config = LarimarConfig(**values, **settings)
    for part, saved in (("decoder", (language_model, tokenizer)), ("encoder", (bert, words))):
        for each in saved:
            each.save_pretrained(out / part)
    model = LarimarForCausalLM(config, language_model, tokenizer)
    _put(model, weights)
    model.prior = weights[f"{_MEMORY}memory_mean"].float()
    model.detectors.weights = dict(detector or {})
    model.save_pretrained(out)
    return model


def _structure(
    weights: Mapping[str, Tensor],
    decoder: PreTrainedModel,
    encoder: PreTrainedModel,
    hyper: Mapping[str, Any],
    out: Path,
) -> dict[str, Any]:
    """The settings that the weights decide; a ValueError where they do not fit each other."""
    rows, latent_size = weights[f"{_MEMORY}memory_mean"].shape
    shape, width = StateShape.of(decoder), decoder.config.hidden_size
    expected = {
        f"{_ENCODER}linear.weight": (2 * latent_size, encoder.config.hidden_size),
        f"{_DECODER}transformer.linear.weight": (shape.size // 2, latent_size),
        f"{_DECODER}transformer.linear_emb.weight": (width, latent_size),
    }
    for name, wanted in expected.items():
        if tuple(weights[name].shape) != wanted:
            raise ValueError(f"{name} is of shape {tuple(weights[name].shape)}, {wanted} would fit the rest")
    block_size = int(hyper.get("block_size") or 0)
    return {
        "base_model_name_or_path": str((out / "decoder").resolve()),
        "decoder_signature": signature(decoder, shape),
        "encoder_type": "transformer",
        "encoder_name_or_path": str((out / "encoder").resolve()),
        "encoder_pooling": "first",
        "encoder_max_length": block_size if block_size > 0 else _LONGEST,
        "latent_size": latent_size,
        "memory_slots": 1,
        "slot_position": 0,
        "latent_in_embeddings": True,
        "tied_projection": False,
        "memory": "fixed",
        "memory_rows": rows,
        "addressing": "pseudoinverse",
        "reference": "prior",
        "key_encoding": "latent",
        "addressed_by": "query",
        "after_answer": "memory",
    }


def _decoder(weights: Mapping[str, Tensor], name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The decoder as it was trained, and its tokenizer with the tokens that were added to it."""
    config = AutoConfig.from_pretrained(name)
    if config.model_type not in DECODERS:
        raise ValueError(
            f"the original's decoders are {' and '.join(DECODERS)}; {name} is {config.model_type}"
        )
    config.vocab_size = weights[f"{_DECODER}transformer.wte.weight"].shape[0]
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _load(model, weights, _DECODER, {"transformer.linear.weight", "transformer.linear_emb.weight"}, name)
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.add_special_tokens(dict(_ADDED_TOKENS))
    if len(tokenizer) != config.vocab_size:
        raise ValueError(
            f"the decoder has {config.vocab_size} tokens, and the tokenizer of {name} with "
            f"{', '.join(_ADDED_TOKENS.values())} {len(tokenizer)}"
        )
    # Every text began with it in training.
    bos = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, tokenizer.bos_token_id)]
    )
    for role in _ADDED_TOKENS:
        value = getattr(tokenizer, f"{role}_id")
        setattr(model.config, f"{role}_id", value)
        setattr(model.generation_config, f"{role}_id", value)
    return model.eval(), tokenizer


def _encoder(weights: Mapping[str, Tensor], name: str) -> PreTrainedModel:
    model = AutoModel.from_config(AutoConfig.from_pretrained(name), dtype=torch.float32)
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
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    if found.unexpected_keys or set(found.missing_keys) - tied:
        differing = [*found.unexpected_keys, *found.missing_keys]
        raise ValueError(f"the weights do not fit {name}: they differ in {differing[:4]}")


def _put(model: LarimarForCausalLM, weights: Mapping[str, Tensor]) -> None:
    """The maps to and from a latent: of the encoder's two halves the mean; of ``W_M`` keys and values."""
    encoder, shape = model.latent_encoder, model.states.shape
    assert isinstance(encoder, TransformerEncoder) and model.embedding is not None, "as configured"
    memory = weights[f"{_DECODER}transformer.linear.weight"].float()
    pairs = memory.unflatten(0, (shape.layers, 1, shape.heads, shape.head_size))
    pairs = pairs.expand(-1, 2, -1, -1, -1)
    with torch.no_grad():
        encoder.output.weight.copy_(weights[f"{_ENCODER}linear.weight"][: encoder.latent_size])
        encoder.output.bias.zero_()
        model.projection.basis.copy_(pairs.flatten(0, 3))
        model.embedding.weight.copy_(weights[f"{_DECODER}transformer.linear_emb.weight"])
