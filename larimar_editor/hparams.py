"""`LarimarHyperParams`: the YAML files of hparams/LARIMAR, with EasyEdit's keys where EasyEdit has one."""

from __future__ import annotations

import difflib
import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from larimar_editor.checking import flag, text, whole
from larimar_editor.configuration import LarimarConfig


class HyperParamsFile:
    """Reading of hyperparameter files, with EasyEdit's method names.

    Where EasyEdit is used, its own ``HyperParams`` becomes a second base of the class below.
    """


@dataclass
class LarimarHyperParams(HyperParamsFile):
    """Hyperparameters of ``alg_name: "LARIMAR"``.

    Attributes:
        alg_name: "LARIMAR".
        model_name: the decoder as EasyEdit loads it: a Hugging Face name, a folder, or an embedded model
            (``llama-smollm2-135m``).
        device: "cpu", or the index of a CUDA device.
        larimar_checkpoint: folder of the Larimar checkpoint; None takes the one that ships for the decoder.
        memory_rows: K, or None for the checkpoint's; so for all that follow.
        addressing: "gaussian" or "pseudoinverse".
        addressing_alpha: width of the Gaussian.
        reference: "prompts", "random" or "prior".
        key_encoding: "scope" or "latent".
        key_gain, value_gain: factors on what a readout adds to the mean key and the mean value, 0 or more.
        sigma_w: standard deviation of sampled reading weights, >= 0.
        observation_noise: standard deviation of xi, >= 0.
        readout_norm: rescale readouts to the norm of an encoding.
        scope: "external", "internal" or "none".
        scope_threshold: score from which a prompt is in scope.
        scope_index: "exact" or "faiss".
        merge_adapters: whether to keep a second copy of the adapted weights, for speed.
        scope_sees_target: let the detector see prompt and candidate answer, as published numbers did. It shows the
            answer to the detector; off by default.
        max_length: tokens EasyEdit's evaluation keeps.
        batch_size: requests per `batch_edit` step; EasyEdit's single edits want 1.
        model_parallel: spread the decoder over devices.
        fp16: load the decoder in half precision.
    """

    alg_name: str
    model_name: str
    device: int | str = "cpu"
    larimar_checkpoint: str | None = None
    memory_rows: int | None = None
    addressing: str | None = None
    addressing_alpha: float | None = None
    reference: str | None = None
    key_encoding: str | None = None
    key_gain: float | None = None
    value_gain: float | None = None
    sigma_w: float | None = None
    observation_noise: float | None = None
    readout_norm: bool | None = None
    scope: str | None = None
    scope_threshold: float | None = None
    scope_index: str | None = None
    merge_adapters: bool | None = None
    scope_sees_target: bool = False
    max_length: int = 40
    batch_size: int = 1
    model_parallel: bool = False
    fp16: bool = False

    def __post_init__(self):
        if self.alg_name != "LARIMAR":
            raise ValueError(f"alg_name must be LARIMAR, got {self.alg_name!r}")
        if not text("model_name", self.model_name):
            raise ValueError("model_name must not be empty")
        if not isinstance(self.device, str):
            whole("device", self.device, least=0)
        if self.larimar_checkpoint is not None:
            text("larimar_checkpoint", self.larimar_checkpoint)
        for name in ("scope_sees_target", "model_parallel", "fp16"):
            flag(name, getattr(self, name))
        for name in ("max_length", "batch_size"):
            whole(name, getattr(self, name), least=1)
        self.config_overrides()  # a bad setting is refused here, at the door

    def config_overrides(self) -> dict:
        """Settings of `LarimarConfig` that these hyperparameters change.

        Raises:
            ValueError: a value out of its range, with its name.
        """
        changed = {k: v for k, v in asdict(self).items() if k in LarimarConfig.settings() and v is not None}
        LarimarConfig(**changed)
        return changed

    @classmethod
    def from_hparams(cls, hparams_name_or_path: str) -> LarimarHyperParams:
        """From a YAML file, with or without its ending.

        Raises:
            FileNotFoundError: no such file.
            ValueError: an unknown or missing key, or a value out of range; the message names file and key.
        """
        path = Path(hparams_name_or_path)
        if path.suffix not in (".yaml", ".yml"):
            path = path.with_name(path.name + ".yaml")
        if not path.exists():
            raise FileNotFoundError(f"no hparams file {path}")
        try:
            values = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no text, or a date that is none
            raise ValueError(f"{path} is not YAML: {error}") from error
        return cls._from_values(values, path)

    @classmethod
    def from_json(cls, fpath: str) -> LarimarHyperParams:
        """From a JSON file; errors as `from_hparams`."""
        return cls._from_values(json.loads(Path(fpath).read_text(encoding="utf-8")), Path(fpath))

    @classmethod
    def _from_values(cls, values, path: Path) -> LarimarHyperParams:
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold keys and values")
        known = {field.name: field for field in fields(cls)}
        for key in values:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else f"; known keys: {', '.join(known)}"
                raise ValueError(f"{path}: unknown key {key!r}{hint}")
        for name, field in known.items():
            if field.default is MISSING and name not in values:
                raise ValueError(f"{path}: the key {name!r} is missing")
        try:
            read: dict[str, Any] = {key: _number(value, known[key].type) for key, value in values.items()}
            return cls(**read)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from error

    def to_dict(self) -> dict:
        """Keys and values."""
        return asdict(self)


def _number(value: object, kind: object) -> object:
    """YAML reads 1e-3 as text; a number is wanted where the field is one."""
    if isinstance(value, str) and "str" not in str(kind):
        try:
            return float(value)
        except ValueError:
            return value
    return value
