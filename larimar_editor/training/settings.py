"""Everything that a training run is made of, as one YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from larimar_editor.training.rows import RowSettings

STARTS = ("closed-form", "noise", "regression")
LM_MEMORIES = ("none", "other")


@dataclass(frozen=True)
class Objective:
    """Strengths of the terms of eq. (obj), and what the memory does to an encoding.

    Attributes:
        memory: weight of the reconstruction through the memory.
        autoencoder: weight of the reconstruction from the encoding itself.
        autoencoder_share: share of the texts that the autoencoder term decodes; the rest costs nothing.
        kl: beta of the KL term of the reading weights, after annealing.
        kl_cycles: annealing cycles over the run; 0 keeps beta constant.
        language_model: weight of the language-model regulariser.
        language_model_memory: "none": the decoder's own loss on the texts, with nothing in memory (paper; decoder_mode
            full). "other": with something else in memory the decoder should predict what the base model predicts.
        episode_length: N, texts written to one memory.
        observation_noise: standard deviation of xi, as a share of the encodings' root mean square.
        sigma_w: standard deviation of the reading weights, at the start.
        train_sigma_w: whether it is learned.
        train_prior: whether the prior memory (K rows, ``memory_rows`` of the model) is learned; else it stays as drawn.
    """

    memory: float = 1.0
    autoencoder: float = 1.0
    autoencoder_share: float = 1.0
    kl: float = 1.0
    kl_cycles: int = 10
    language_model: float = 1.0
    language_model_memory: str = "none"
    episode_length: int = 16
    observation_noise: float = 1e-4
    sigma_w: float = 0.01
    train_sigma_w: bool = True
    train_prior: bool = True

    def __post_init__(self):
        for name in ("memory", "autoencoder", "kl", "language_model", "observation_noise", "sigma_w"):
            _number(name, getattr(self, name), 0)
        _number("autoencoder_share", self.autoencoder_share, 0, 1)
        _number("episode_length", self.episode_length, 1)
        if self.language_model_memory not in LM_MEMORIES:
            raise ValueError(f"language_model_memory must be one of {', '.join(LM_MEMORIES)}, got {self.language_model_memory!r}")


@dataclass(frozen=True)
class Optimisation:
    """The optimiser and its schedule.

    Attributes:
        steps: optimiser steps.
        texts_per_step: texts written to memories per optimiser step, over all processes and accumulation steps.
        accumulation: passes that one optimiser step adds up.
        schedule: "cosine", "linear" or "constant", after the warm-up.
        warmup: steps in which the rates rise from 0.
        weight_decay: AdamW's.
        clip: largest gradient norm; 0 for no clipping.
        decoder_rate, projection_rate, encoder_rate, memory_rate: learning rates of decoder or adapters, of W_M, of the
            encoder, and of prior and sigma_W; 0 freezes.
        precision: "no", "bf16" or "fp16".
        gradient_checkpointing: recompute each layer in the backward pass.
        bucket_tokens: tokens of one decoder pass, padding counted; 0 for one pass per step. On a CPU about 1,000 is fastest.
    """

    steps: int = 1000
    texts_per_step: int = 64
    accumulation: int = 1
    schedule: str = "cosine"
    warmup: int = 20
    weight_decay: float = 0.0
    clip: float = 1.0
    decoder_rate: float = 1e-3
    projection_rate: float = 3e-4
    encoder_rate: float = 0.0
    memory_rate: float = 1e-3
    precision: str = "bf16"
    gradient_checkpointing: bool = False
    bucket_tokens: int = 0

    def __post_init__(self):
        for name in ("steps", "texts_per_step", "accumulation"):
            _number(name, getattr(self, name), 1)
        for name in (
            "warmup",
            "weight_decay",
            "clip",
            "bucket_tokens",
            "decoder_rate",
            "projection_rate",
            "encoder_rate",
            "memory_rate",
        ):
            _number(name, getattr(self, name), 0)
        if self.schedule not in ("cosine", "linear", "constant"):
            raise ValueError(f"schedule must be cosine, linear or constant, got {self.schedule!r}")
        if self.precision not in ("no", "bf16", "fp16"):
            raise ValueError(f"precision must be no, bf16 or fp16, got {self.precision!r}")


@dataclass(frozen=True)
class Source:
    """Training records.

    Attributes:
        path: a text file, one text a line; JSON lines of `larimar-editor chunk`, `sample` or `rephrase`; "sentences" or
            "trivia", texts that ship; or "relations", facts in several wordings made by rule.
        share: relative share of the texts of a step.
    """

    path: str
    share: float = 1.0

    def __post_init__(self):
        _number("share", self.share, 0)


@dataclass(frozen=True)
class TrainingSettings:
    """One training run.

    Attributes:
        decoder: Hugging Face name, folder or embedded model.
        start: "closed-form" (a checkpoint of `larimar-editor fit`), "noise" (the paper), or "regression" (a transformer
            encoder is first regressed onto the closed form's latents).
        checkpoint: the closed form, for the starts that need one.
        model: settings of `LarimarConfig` that differ from the checkpoint's.
        sources: where the records come from.
        objective, optimisation, rows: see there.
        regression_steps: steps of the regression onto the closed form's latents.
        evaluate_every, save_every: optimiser steps between evaluations and between saves.
        held_out: records of each source kept for evaluation.
        cache_latents: keep the encodings of a frozen encoder on disk.
        seed: of everything random.
    """

    decoder: str
    sources: tuple[Source, ...]
    start: str = "closed-form"
    checkpoint: str | None = None
    model: Mapping[str, Any] = field(default_factory=dict)
    objective: Objective = field(default_factory=Objective)
    optimisation: Optimisation = field(default_factory=Optimisation)
    rows: RowSettings = field(default_factory=RowSettings)
    regression_steps: int = 1000
    evaluate_every: int = 250
    save_every: int = 100
    held_out: int = 128
    cache_latents: bool = True
    seed: int = 0

    def __post_init__(self):
        if self.start not in STARTS:
            raise ValueError(f"start must be one of {', '.join(STARTS)}, got {self.start!r}")
        if not self.sources or not any(source.share for source in self.sources):
            raise ValueError("sources must name at least one text with a share above 0")
        for name in ("evaluate_every", "save_every", "held_out"):
            _number(name, getattr(self, name), 1)

    @classmethod
    def from_yaml(cls, path: str | Path, overrides: Mapping[str, Any] | None = None) -> TrainingSettings:
        """Read a YAML file.

        Args:
            path: the file.
            overrides: values in place of the file's, with dotted names such as ``optimisation.steps``.

        Raises:
            FileNotFoundError: no such file.
            ValueError: an unknown key, or a value out of its range; the message names it.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(f"no training file {path}")
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"{path} must hold keys and values")
        for name, value in (overrides or {}).items():
            *parents, last = name.split(".")
            place = values
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainingSettings:
        """From nested mappings, as in the YAML file. Raises ValueError as `from_yaml`."""
        values = dict(values)
        for name, kind in (("objective", Objective), ("optimisation", Optimisation), ("rows", RowSettings)):
            values[name] = _build(kind, values.get(name) or {}, name)
        values["sources"] = tuple(_build(Source, source, "sources") for source in values.get("sources") or ())
        return _build(cls, values, "the file")

    def to_dict(self) -> dict:
        """Nested mappings; `from_dict` takes them back."""
        return asdict(self) | {"sources": [asdict(source) for source in self.sources], "model": dict(self.model)}


def _build(kind: type, values: Mapping, where: str):
    unknown = set(values) - {each.name for each in fields(kind)}
    if unknown:
        raise ValueError(f"{where} has no {', '.join(sorted(unknown))}; it knows {', '.join(each.name for each in fields(kind))}")
    numbers = {each.name for each in fields(kind) if each.type in ("float", "int")}
    # YAML reads 1e-3 as text.
    values = {key: float(value) if key in numbers and isinstance(value, str) else value for key, value in values.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def _number(name: str, value, least: float, most: float = float("inf")) -> None:
    if isinstance(value, str) or not least <= value <= most:
        limit = f"between {least} and {most}" if most < float("inf") else f"at least {least}"
        raise ValueError(f"{name} must be a number {limit}, got {value!r}")
