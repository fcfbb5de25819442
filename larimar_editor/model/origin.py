"""What made the numbers of an edited state, so that it is loaded only where they mean the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from larimar_editor.model.configuration import LarimarConfig

# Settings that encodings and weights depend on. A threshold or a gain does not change what is written.
_SETTINGS = ("key_encoding", "addressing", "addressing_alpha", "reference", "scope")


def origin(config: LarimarConfig, weights: Mapping[str, Tensor]) -> dict[str, str]:
    """Settings and a SHA-256 of the checkpoint, as text.

    Args:
        config: of the model.
        weights: those that make encodings, keys and scope embeddings.
    """
    settings = {name: str(getattr(config, name)) for name in _SETTINGS}
    settings["memory"] = config.rest_dtype if config.has_pages else f"fixed, {config.memory_rows} rows"
    scope_encoder = Path(config.scope_encoder_name_or_path).name
    return settings | {"scope_encoder": scope_encoder, "checkpoint_sha256": _digest(config, weights)}


def _digest(config: LarimarConfig, weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(config.decoder_signature, sort_keys=True).encode())
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
