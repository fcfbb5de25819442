"""A checkpoint is opened: what `from_pretrained` is given is told apart, and the decoder is loaded that the
checkpoint names. For `LarimarForCausalLM.from_pretrained` alone, which is given what transformers' loaders
are; what the commands and tools load, by name, device and dtype, is in `larimar_editor.model.loading`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from larimar_editor.model.checkpoint import checkpoint_folder, decoder_place, local_checkpoint
from larimar_editor.model.configuration import LarimarConfig

# Of the decoder's loader, what the tokenizer's is given too.
_OF_HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token", "trust_remote_code")
_OF_A_REPOSITORY = ("revision", "subfolder")


def find_checkpoint(
    name_or_path: str | Path, given: Mapping[str, Any], decoder: PreTrainedModel | None
) -> tuple[Path, dict[str, Any]]:
    """A checkpoint's folder, and the arguments without those that were for fetching it alone: ``revision``
    and ``subfolder``, and with a ``decoder`` that is loaded already all that concerns the hub.

    Raises:
        FileNotFoundError: as `checkpoint_folder`.
    """
    hubs = {*_OF_HUB, *_OF_A_REPOSITORY}
    fetching = {name: given[name] for name in hubs - {"trust_remote_code"} if name in given}
    folder = checkpoint_folder(name_or_path, **fetching)
    taken: set[str] = set()
    if local_checkpoint(name_or_path) is None:  # it was fetched
        taken = hubs if decoder is not None else {*_OF_A_REPOSITORY}
    return folder, {name: value for name, value in given.items() if name not in taken}


def check_options(
    options: Mapping[str, Any],
    decoder: PreTrainedModel | None,
    dtype: torch.dtype | str | None,
    device_map: Any,
) -> None:
    """What is no setting is for the decoder's loader, and there is none where a ``decoder`` is given.

    Raises:
        ValueError: something for a loader that is not called, or what is nearly a setting's name.
    """
    if decoder is not None and options:
        raise ValueError(f"no setting is called {', '.join(options)}; docs/settings.md lists them")
    if decoder is not None and (dtype is not None or device_map is not None):
        raise ValueError("dtype and device_map are of a decoder that is to be loaded: load it with them")
    for name in options:
        if meant := LarimarConfig.meant_by(name):
            raise ValueError(f"no setting is called {name}: is {meant} meant?")


def decoder_of(
    folder: Path, named: str, dtype: torch.dtype | str | None, device_map: Any, options: Mapping[str, Any]
) -> PreTrainedModel:
    """The decoder that a checkpoint's folder names.

    Raises:
        FileNotFoundError: it is not there.
    """
    name = decoder_place(folder, named)
    try:
        return AutoModelForCausalLM.from_pretrained(
            name, dtype=dtype or "auto", device_map=device_map, **options
        )
    except OSError as error:
        raise FileNotFoundError(
            f"the decoder {named} that {folder} names is not here. Give its place, as "
            "base_model_name_or_path=..., or itself, as decoder=... and tokenizer=...: "
            f"{str(error).splitlines()[0]}"
        ) from error


def of_tokenizer(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the decoder's loader's options those that the tokenizer's loader is given too."""
    return {name: options[name] for name in _OF_HUB if name in options}
