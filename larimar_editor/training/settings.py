"""Everything that a training run is made of, as one YAML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from larimar_editor.hparams import CHECKPOINT_SETTINGS, LarimarHyperParams, made_by_fit
from larimar_editor.model.settings import LarimarSettings
from larimar_editor.training.rows import RowSettings
from larimar_editor.utils.files import find_config, load_mapping
from larimar_editor.utils.settings import as_declared, build, check, check_one, setting, table


@dataclass(frozen=True)
class Objective:
    """Strengths of the terms of eq. (obj), and what the memory does to an encoding."""

    memory: float = setting(1.0, "weight of the reconstruction through the memory", at_least=0)
    autoencoder: float = setting(1.0, "weight of the reconstruction from the encoding itself", at_least=0)
    autoencoder_share: float = setting(
        1.0,
        "share of the texts that the autoencoder term decodes; the rest costs nothing",
        at_least=0,
        at_most=1,
    )
    kl: float = setting(
        1.0,
        "beta of the KL term of the reading weights, after annealing; the term is a sum over the K weights "
        "of an encoding, beside reconstructions that are means over tokens",
        at_least=0,
    )
    kl_cycles: int = setting(10, "annealing cycles over the run; 0 keeps beta constant", at_least=0)
    language_model: float = setting(1.0, "weight of the language-model regulariser", at_least=0)
    language_model_memory: Literal["none", "other"] = setting(
        "none",
        "none: the decoder's own loss on the texts (not the facts), with nothing in memory (paper; "
        "decoder_mode full); "
        "other: with something "
        "else in memory the decoder should predict what the base model predicts",
    )
    episode_length: int = setting(16, "N: texts written to one memory", at_least=1)
    observation_noise: float = setting(
        1e-4, "standard deviation of xi, as a share of the encodings' root mean square", at_least=0
    )
    sigma_w: float = setting(0.01, "standard deviation of the reading weights, at the start", at_least=0)
    train_sigma_w: bool = setting(True, "whether sigma_W is learned")
    train_prior: bool = setting(True, "whether the prior memory (K rows) is learned; else it stays as drawn")

    def __post_init__(self):
        check(self)
        if not (self.memory or self.autoencoder * self.autoencoder_share):
            raise ValueError("nothing is reconstructed: memory and autoencoder, or its share, are both 0")


@dataclass(frozen=True)
class Optimisation:
    """The optimiser and its schedule."""

    steps: int = setting(1000, "optimiser steps", at_least=1)
    texts_per_step: int = setting(
        64,
        "texts written to memories per optimiser step, over all processes and accumulation steps",
        at_least=1,
    )
    accumulation: int = setting(1, "passes that one optimiser step adds up", at_least=1)
    schedule: Literal["cosine", "linear", "constant"] = setting(
        "cosine", "of the learning rates, after the warm-up"
    )
    warmup: int = setting(20, "steps in which the learning rates rise from 0", at_least=0)
    weight_decay: float = setting(0.0, "AdamW's", at_least=0)
    clip: float = setting(1.0, "largest gradient norm; 0 for no clipping", at_least=0)
    keep: float = setting(
        0.0,
        "share of what training started from in the weights of the checkpoint at the end, not with start: "
        "regression; with start: trained a mean often errs less on what neither was shown",
        at_least=0,
        at_most=1,
    )
    decoder_learning_rate: float = setting(
        1e-3, "learning rate of decoder or adapters; 0 freezes", at_least=0
    )
    projection_learning_rate: float = setting(3e-4, "learning rate of W_M; 0 freezes", at_least=0)
    encoder_learning_rate: float = setting(0.0, "learning rate of the encoder; 0 freezes", at_least=0)
    memory_learning_rate: float = setting(1e-3, "learning rate of prior and sigma_W; 0 freezes", at_least=0)
    precision: Literal["no", "bf16", "fp16"] = setting("bf16", "of the forward pass")
    gradient_checkpointing: bool = setting(False, "recompute each layer in the backward pass")
    bucket_tokens: int = setting(
        0,
        "tokens of one decoder pass, padding counted; 0: one pass per step. On a CPU about 1,000 is fastest",
        at_least=0,
    )

    def __post_init__(self):
        check(self)


@dataclass(frozen=True)
class Source:
    """Where a share of the training records comes from."""

    path: str = setting(
        help="a text file, one text a line; JSON lines of `larimar-editor data chunk`, `sample` or "
        "`rephrase`; sentences or "
        "trivia, texts that ship; or relations, facts in several wordings made by rule"
    )
    share: float = setting(1.0, "relative share of the texts of a step", at_least=0)

    def __post_init__(self):
        check(self)


@dataclass(frozen=True)
class TrainingSettings:
    """All that a training run is made of; see `from_yaml`."""

    decoder: str = setting(help="Hugging Face name, folder or embedded model")
    sources: tuple[Source, ...] = setting(help="where the records come from; see below")
    start: Literal["closed-form", "noise", "regression", "trained"] = setting(
        "closed-form",
        "closed-form: a checkpoint of `larimar-editor fit`; noise: the paper; regression: a transformer "
        "encoder is first "
        "regressed onto the closed form's latents; trained: any checkpoint, trained on from where it is",
    )
    checkpoint: str | None = setting(None, "what is started from, but for noise")
    model: Mapping[str, Any] = setting(
        help="settings of the checkpoint that differ from the start's", factory=dict
    )
    objective: Objective = setting(help="see below", factory=Objective)
    optimisation: Optimisation = setting(help="see below", factory=Optimisation)
    rows: RowSettings = setting(help="see below", factory=RowSettings)
    regression_steps: int = setting(
        1000, "steps of the regression onto the closed form's latents", at_least=1
    )
    evaluate_every: int = setting(250, "optimiser steps between evaluations", at_least=1)
    save_every: int = setting(100, "optimiser steps between saves", at_least=1)
    held_out: int = setting(128, "records of each source that are never trained on", at_least=1)
    seed: int = setting(0, "of everything random")

    def __post_init__(self):
        check(self)
        known = {each.name for each in fields(LarimarSettings)}
        if unknown := sorted(set(self.model) - known):
            raise ValueError(f"model: no setting of a checkpoint is called {', '.join(unknown)}")
        for name, value in self.model.items():
            if value is not None:
                check_one(LarimarSettings, name, value)
        if not any(source.share for source in self.sources):
            raise ValueError("sources must name at least one text with a share above 0")

    @classmethod
    def from_yaml(cls, path: str | Path, overrides: Mapping[str, Any] | None = None) -> TrainingSettings:
        """Read a YAML file.

        Args:
            path: the file, or the name of one that ships (`find_config`).
            overrides: values in place of the file's, with dotted names such as ``optimisation.steps``.

        Raises:
            FileNotFoundError: no such file.
            ValueError: an unknown key, or a value out of its range; the message names it.
        """
        path = find_config(path)
        values = load_mapping(path)
        for name, value in (overrides or {}).items():
            *parents, last = name.split(".")
            place = values
            for parent in parents:
                if place.get(parent) is None:
                    place[parent] = {}
                place = place[parent]
                if not isinstance(place, dict):
                    raise ValueError(f"{name}: {parent} of {path} has no keys")
            place[last] = value
        return cls.from_dict(values, str(path))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the settings") -> TrainingSettings:
        """From nested mappings, as in the YAML file. Raises ValueError as `from_yaml`."""
        parts: dict[str, Any] = {
            name: build(kind, values.get(name) or {}, f"{where}, {name}")
            for name, kind in (
                ("objective", Objective),
                ("optimisation", Optimisation),
                ("rows", RowSettings),
            )
        }
        given = values.get("sources") or ()
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise ValueError(f"{where}: sources must be a list, got {given!r}")
        parts["sources"] = tuple(build(Source, source, f"{where}, sources") for source in given)
        parts["model"] = as_declared(LarimarSettings, values.get("model") or {})
        if "cache_latents" in values:
            raise ValueError(f"{where}: cache_latents is gone, texts are always encoded: leave it out")
        return build(cls, dict(values) | parts, where)


def documentation() -> str:
    """Every key of hyperparameter files, checkpoints and training files, in Markdown; ``docs/settings.md`` is
    this.
    """
    parts = [
        "# Settings",
        "Printed by `larimar-editor data settings`, from the declarations in the code.",
        "## Hyperparameter files (`hparams/LARIMAR`)",
        table(LarimarHyperParams, without=CHECKPOINT_SETTINGS),
        "Beside these a file may have settings of the checkpoint, which are explained below: "
        f"{', '.join(f'`{name}`' for name in CHECKPOINT_SETTINGS)}. Those that are left out or null keep the "
        "checkpoint's own value.",
        "## Checkpoints (`config.json`, and what `from_pretrained` takes)",
        "The default is what a `config.json` without the key means. What `larimar-editor fit` makes has "
        f"these instead: {', '.join(f'`{name}` {_shown(value)}' for name, value in made_by_fit().items())}.",
        table(LarimarSettings),
        "## Training files (`configs/training`)",
        table(TrainingSettings),
    ]
    for name, kind in (
        ("sources", Source),
        ("objective", Objective),
        ("optimisation", Optimisation),
        ("rows", RowSettings),
    ):
        parts += [f"### `{name}`", table(kind)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
