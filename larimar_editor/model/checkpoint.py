"""A checkpoint: a folder with ``config.json`` and ``model.safetensors``; the decoder is named in it, not
copied.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers.utils import cached_file

from larimar_editor.checkpoints import CHECKPOINTS
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.scoping import INTERNAL
from larimar_editor.model.settings import DETECTOR_SETTINGS
from larimar_editor.pretrained.embedded import resolve
from larimar_editor.scope.low_rank import SCALE
from larimar_editor.utils.files import flush, undamaged, written

if TYPE_CHECKING:
    from larimar_editor.model.larimar import LarimarForCausalLM

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")  # as "me/larimar-llama"
_SCOPE = "scope."  # how names of the scope detectors' weights begin


def checkpoint_folder(name_or_path: str | Path, model: str = "MODEL", **of_hub) -> Path:
    """The folder of a checkpoint, by its path; where there is no such folder, by the name of one that ships,
    or of a repository on the Hugging Face hub, from which both files are fetched.

    Args:
        name_or_path: either.
        model: the decoder's name, for the message.
        of_hub: ``revision``, ``subfolder``, ``token``, ``cache_dir`` and the like, as transformers has them.

    Raises:
        FileNotFoundError: none of these; the message says what a checkpoint has, and what ships.
    """
    if (here := local_checkpoint(name_or_path)) is not None:
        return here
    nor_fetched = ""
    if _REPOSITORY.fullmatch(str(name_or_path)) and not Path(name_or_path).exists():
        try:
            return _fetched(str(name_or_path), of_hub)
        except (OSError, ValueError) as error:
            nor_fetched = f" Nor does the hub give it: {str(error).splitlines()[0]}"
    raise FileNotFoundError(
        f"{Path(name_or_path).resolve()} is no Larimar checkpoint: it needs {CONFIG} and {WEIGHTS}. There "
        f"ships {', '.join(CHECKPOINTS)}; `larimar-editor fit --model {model} --out {name_or_path}` makes "
        f"one.{nor_fetched}"
    )


def local_checkpoint(name_or_path: str | Path) -> Path | None:
    """The folder of a checkpoint that is here or ships; None where neither does."""
    for folder in (Path(name_or_path), CHECKPOINTS.get(str(name_or_path))):
        if folder is not None and (folder / CONFIG).exists() and (folder / WEIGHTS).exists():
            return folder
    return None


def _fetched(name: str, of_hub: Mapping[str, Any]) -> Path:
    """A repository's snapshot with both files. A ValueError where it is another model's, of which no weights
    are asked for.
    """
    config = cached_file(name, CONFIG, **of_hub)
    kind = None if config is None else json.loads(Path(config).read_text(encoding="utf-8")).get("model_type")
    if kind != LarimarConfig.model_type:
        raise ValueError(f"the repository {name} has a model of type {kind!r}")
    return Path(str(cached_file(name, WEIGHTS, **of_hub))).parent


def decoder_place(folder: Path, named: str) -> str:
    """Where the decoder is that a checkpoint's folder names: a folder in it, or as `resolve` finds it."""
    inside = folder / named
    is_there = bool(named) and (inside / CONFIG).is_file() and inside.resolve() != folder.resolve()
    return str(inside) if is_there else resolve(named)


def stored_dtype(folder: Path) -> torch.dtype:
    """The dtype of a checkpoint's projection, as it is in the file."""
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        return file.get_slice("projection.basis")[:1].dtype


def save_checkpoint(model: LarimarForCausalLM, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Write a model's configuration and own weights, as `_write`."""
    values = model.config.to_diff_dict() | {"architectures": [type(model).__name__]}
    _write(folder, values, _in_dtype(own_weights(model), dtype))


def _in_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Tensors on the CPU, in a dtype where one is given; what is in eight bits stays so."""
    kept = lambda name, value: name.endswith(SCALE) or not value.is_floating_point()
    return {
        name: value.detach().to("cpu", None if kept(name, value) else dtype)
        for name, value in tensors.items()
    }


def _write(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write both files beside the old ones; when both are on the disk, each takes its place in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    values = dict(config) | {"model_type": LarimarConfig.model_type}
    new = {name: folder / f".{name}.{os.getpid()}.new" for name in (WEIGHTS, CONFIG)}
    try:
        new[CONFIG].write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        whole = {name: value.contiguous() for name, value in tensors.items()}
        with written(folder / WEIGHTS):
            save_file(whole, new[WEIGHTS], metadata={"format": "pt"})
        for path in new.values():
            flush(path)
        for name, path in new.items():
            os.replace(path, folder / name)
    finally:
        for path in new.values():
            path.unlink(missing_ok=True)
    flush(folder)


def external_detector_of(
    checkpoint: str | Path | None, settings: Mapping[str, Any] | None = None
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """A checkpoint's external scope detector: its weights, and the settings that belong to them.

    It knows nothing of the decoder, so that it may serve a checkpoint of any other.

    Args:
        checkpoint: its folder or name; None has no detector.
        settings: of the checkpoint that it is to serve; with another sentence encoder it has no use for it.

    Returns:
        both; empty where there is no detector for it, and the sentence encoder serves as it is.

    Raises:
        FileNotFoundError: no such checkpoint.
        ValueError: a checkpoint whose threshold is of another detector.
    """
    if checkpoint is None or "scope_encoder_name_or_path" in (settings or {}):
        return {}, {}
    folder = checkpoint_folder(checkpoint)
    config = LarimarConfig.from_pretrained(folder)
    if config.scope != "external":
        raise ValueError(f"the thresholds of {folder} are not of an external detector: scope: {config.scope}")
    weights = {name: value for name, value in detector_weights(folder).items() if name not in INTERNAL}
    return weights, {name: getattr(config, name) for name in DETECTOR_SETTINGS}


def detector_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint's scope detectors, by name; nothing else of the file is read.

    Raises:
        ValueError: a damaged file.
    """
    path = folder / WEIGHTS
    with undamaged(path), safe_open(path, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(_SCOPE)]
        return {name.removeprefix(_SCOPE): file.get_tensor(name) for name in names}


def save_with_detector(
    source: Path, folder: Path, config: LarimarConfig, weights: Mapping[str, Tensor]
) -> None:
    """Write a checkpoint with other scope detectors; all else in it stays as it is, to the bit, and its
    decoder is not needed. The weights have the dtype of its projection, but for what is in eight bits.

    Args:
        source: folder of the checkpoint.
        folder: where it goes, which may be ``source``.
        config: its configuration, with the settings that belong to the new detectors.
        weights: of the new detectors, as `detector_weights` gives them.

    Raises:
        ValueError: a damaged file in ``source``.
    """
    path = source / WEIGHTS
    with undamaged(path):
        dtype, every = stored_dtype(source), load_file(path)
    tensors = {name: value for name, value in every.items() if not name.startswith(_SCOPE)}
    tensors |= {f"{_SCOPE}{name}": value for name, value in _in_dtype(weights, dtype).items()}
    _write(folder, config.to_diff_dict(), tensors)


def own_weights(model: LarimarForCausalLM) -> dict[str, Tensor]:
    """What a checkpoint holds of the model, by name."""
    own: dict[str, Tensor] = {
        f"projection.{name}": value for name, value in model.projection.named_parameters()
    }
    if model.analysis is not model.projection:
        own |= {f"analysis.{name}": value for name, value in model.analysis.named_parameters()}
    if model.embedding is not None:
        own["embedding.weight"] = model.embedding.weight
    if isinstance(model.latent_encoder, nn.Module):
        own |= {f"encoder.{name}": value for name, value in model.latent_encoder.state_dict().items()}
    if model.config.decoder_mode == "full":
        own |= {f"decoder.{name}": value for name, value in model.decoder.named_parameters()}
    if model.adapters is not None:
        own |= {f"lora.{name}": value for name, value in model.adapters.weights().items()}
    if model.prior is not None:
        own["prior"] = model.prior
    return own | {f"{_SCOPE}{name}": value for name, value in model.detectors.weights.items()}


def load_weights(model: LarimarForCausalLM, folder: Path) -> None:
    """Put a checkpoint's weights into a model that was made by its configuration.

    Raises:
        ValueError: a damaged file, or weights of other names or shapes.
    """
    path = folder / WEIGHTS
    with undamaged(path):
        tensors = load_file(path)
    model.prior = tensors.pop("prior", None)
    scope = [name for name in tensors if name.startswith(_SCOPE)]
    model.detectors.weights = {name.removeprefix(_SCOPE): tensors.pop(name) for name in scope}
    own = {
        name: value
        for name, value in own_weights(model).items()
        if name != "prior" and not name.startswith(_SCOPE)
    }
    if differing := sorted(own.keys() ^ tensors.keys()):
        more = f" and {len(differing) - 5} more" if len(differing) > 5 else ""
        raise ValueError(
            f"the checkpoint {path} is damaged or of another kind: its weights differ in "
            f"{', '.join(differing[:5])}{more}"
        )
    for name, value in own.items():
        if value.shape != tensors[name].shape:
            raise ValueError(
                f"the checkpoint {path} has {name} of shape {tuple(tensors[name].shape)}, expected "
                f"{tuple(value.shape)}"
            )
        if name.startswith("decoder."):
            value.data = tensors[name].to(
                value
            )  # the decoder may be another's, who gets its weights back if this fails
        else:
            value.data.copy_(tensors[name])
