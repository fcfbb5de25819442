"""Models by name, on a device and in a dtype: decoders and Larimars, for commands, tools and runs. A Larimar
is made by `LarimarForCausalLM.from_pretrained`, whose own arguments are for `larimar_editor.model.opening`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from larimar_editor.checkpoints import shipped
from larimar_editor.model.checkpoint import checkpoint_folder
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.settings import Dtype
from larimar_editor.model.tokenizer import tokenizer_of
from larimar_editor.pretrained.embedded import DECODER, resolve
from larimar_editor.utils.device import bfloat16_is_fast


def decoder_dtype(name: str, device: str) -> torch.dtype:
    """The torch dtype of that name; "auto" is bfloat16 where that is fast.

    Raises:
        ValueError: no such name.
    """
    names = get_args(Dtype)
    if name not in names:
        raise ValueError(f"dtype must be one of {', '.join(names)}, got {name!r}")
    if name == "auto":
        return torch.bfloat16 if bfloat16_is_fast(device) else torch.float32
    return getattr(torch, name)


def load_decoder(name: str, dtype: str, device: str):
    """Decoder and tokenizer by name; for dtype see `decoder_dtype`."""
    folder = resolve(name)
    decoder = AutoModelForCausalLM.from_pretrained(folder, dtype=decoder_dtype(dtype, device))
    return decoder.to(device).eval(), tokenizer_of(folder)  # type: ignore[arg-type]


def quantise(decoder: PreTrainedModel, bits: Literal[4, 8]) -> None:
    """Put the weights of a decoder's linear layers into 8 or 4 bits, in place, by torchao: int8 for each
    output, or int4 for each 32 inputs of one.

    Raises:
        ModuleNotFoundError: torchao is not installed.
        ValueError: any other number of bits.
    """
    if bits not in (4, 8):
        raise ValueError(f"a decoder is quantised to 4 or 8 bits, got {bits}")
    try:
        torchao = importlib.import_module("torchao.quantization")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("quantising needs torchao: pip install torchao", name="torchao") from error
    if bits == 8:
        torchao.quantize_(decoder, torchao.Int8WeightOnlyConfig())
    else:
        by_32 = torchao.PerGroup(32)
        torchao.quantize_(decoder, torchao.IntxWeightOnlyConfig(torch.int4, by_32))  # type: ignore[attr-defined]


def load_larimar(
    checkpoint: str | Path | None,
    dtype: str,
    settings: dict,
    device: str = "cpu",
    decoder: str | None = None,
    bits: Literal[4, 8] | None = None,
) -> tuple[LarimarForCausalLM, str]:
    """A checkpoint with some of its settings changed, and its folder's name.

    Args:
        checkpoint: a folder, or the name of one that ships; None takes the one that ships for the decoder.
        dtype: see `decoder_dtype`.
        settings: of `LarimarSettings`.
        device: where it goes.
        decoder: name of the decoder, for a checkpoint that ships and for a decoder in another place than the
            checkpoint says; needed with ``bits``.
        bits: what the decoder's weights are quantised to; see `quantise`.

    Raises:
        ValueError: a setting that there is none of.
    """
    if unknown := sorted(settings.keys() - LarimarConfig.settings()):
        raise ValueError(f"no setting is called {', '.join(unknown)}; docs/settings.md lists them")
    folder = checkpoint_folder(checkpoint or shipped(decoder or DECODER))
    loaded: dict[str, Any] = {"dtype": decoder_dtype(dtype, device)}
    if decoder is not None:
        loaded = dict(zip(("decoder", "tokenizer"), load_decoder(decoder, dtype, device)))
    if bits is not None:
        quantise(loaded["decoder"], bits)
    model = LarimarForCausalLM.from_pretrained(folder, **loaded, **settings)
    return model.to(device), str(folder)  # type: ignore[arg-type]
