"""What made the numbers of an edited state, so that it is loaded only where they mean the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.scoping import INTERNAL

# Settings that encodings and weights depend on. A threshold or a gain does not change what is written.
_SETTINGS = ("key_encoding", "addressing", "addressing_alpha", "reference", "scope")


def origin(
    config: LarimarConfig,
    encoder: Mapping[str, Tensor],
    detectors: Mapping[str, Tensor],
    prior: Tensor | None,
) -> dict[str, str]:
    """Settings and a SHA-256 of the checkpoint, as text.

    Args:
        config: of the model.
        encoder: weights of the encoder, which make encodings.
        detectors: weights of the scope detectors, some of which make keys and scope embeddings.
        prior: trained prior memory, or None.
    """
    settings = {name: str(getattr(config, name)) for name in _SETTINGS}
    settings["memory"] = config.rest_dtype if config.has_pages else f"fixed, {config.memory_rows} rows"
    scope_encoder = Path(config.scope_encoder_name_or_path).name
    weights = {f"encoder.{name}": value for name, value in encoder.items()}
    weights |= {
        f"scope.{name}": value
        for name, value in detectors.items()
        # Later stages decide, and make none of the state's numbers; nor does an internal detector that is not
        # asked.
        if not name.startswith(("look.", "reader.")) and (name not in INTERNAL or config.scope == "internal")
    }
    weights |= {} if prior is None else {"prior": prior}
    return settings | {"scope_encoder": scope_encoder, "checkpoint_sha256": _digest(config, weights)}


def _digest(config: LarimarConfig, weights: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(config.decoder_signature, sort_keys=True).encode())
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
