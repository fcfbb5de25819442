"""What an evaluation is run on: a model by its hyperparameter file, and cases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from larimar_editor.checkpoints import shipped
from larimar_editor.data.edits import Edit, load_edits
from larimar_editor.data.questions.by_hand import BY_HAND
from larimar_editor.data.texts import SENTENCES
from larimar_editor.evaluation.harness.baselines import Baselines, NoBaselines
from larimar_editor.evaluation.harness.records import processes
from larimar_editor.hparams import LarimarHyperParams
from larimar_editor.model.checkpoint import checkpoint_folder
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.loading import load_larimar
from larimar_editor.pretrained.embedded import READER, resolve


@dataclass
class Context:
    """Model and data of a run.

    Attributes:
        hparams: Larimar's YAML file.
        counterfact, zsre: data files; the project's own edits where None.
        text: plain text for perplexity; the sentences that ship where None.
        facts: for reads from long contexts; the invented ones that ship where None.
        out: folder of all evaluations; what EasyEdit's methods did is kept in ``easyedit`` there, once for
            all.
        limit: cases at most.
        baseline_cases: cases at most for EasyEdit's methods, which take seconds each.
        minutes: of editing for each of EasyEdit's methods, in place of ``baseline_cases``, where they edit
            for as long as the time goes.
        dtype: of the decoder: auto, float32, bfloat16 or float16.
        device: cpu, cuda or cuda:N.
        seed: of everything random.
        settings: of `LarimarSettings`, in place of the hyperparameter file's and the checkpoint's.
        checkpoint: folder or name, in place of the hyperparameter file's.
        asked: further data of the table ``scope``; see `larimar_editor.data.scope_cases`.
        baselines: runs the methods that Larimar is measured beside.
        methods_device: of these methods, as it was asked for; for the record.
    """

    hparams: Path
    counterfact: Path | None = None
    zsre: Path | None = None
    text: Path | None = None
    facts: Path | None = None
    out: Path = Path("results/eval")
    limit: int | None = None
    baseline_cases: int = 10
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None
    baselines: Baselines = field(default_factory=NoBaselines)
    asked: tuple[Path, ...] = ()
    minutes: float | None = None
    methods_device: str | None = None
    _models: dict[str, LarimarForCausalLM] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def values(self) -> LarimarHyperParams:
        """What the hyperparameter file holds, checked."""
        return LarimarHyperParams.from_hparams(str(self.hparams))

    @cached_property
    def counterfact_edits(self) -> list[Edit]:
        """CounterFact's cases, or the project's own."""
        return load_edits(self.counterfact, self.limit)

    @cached_property
    def zsre_edits(self) -> list[Edit]:
        """ZsRE's cases, or the project's own."""
        return load_edits(self.zsre, self.limit)

    @property
    def plain_text(self) -> str:
        """Plain text for perplexity, read from ``text`` or what ships."""
        return (self.text or SENTENCES).read_text(encoding="utf-8")

    @property
    def folder(self) -> Path:
        """Folder of the Larimar checkpoint that is measured."""
        return checkpoint_folder(
            self.checkpoint or self.values.larimar_checkpoint or shipped(self.values.model_name)
        )

    @property
    def overrides(self) -> dict[str, Any]:
        """The checkpoint's settings that are changed."""
        return self.values.config_overrides() | dict(self.settings)

    def larimar(self, bits: Literal[4, 8] | None = None, **settings) -> LarimarForCausalLM:
        """The Larimar with some settings changed, nothing written. The last one asked for is kept.

        Args:
            bits: what its decoder is quantised to; None: as it is.
            settings: in place of the context's.
        """
        key = json.dumps(settings | ({} if bits is None else {"bits": bits}), sort_keys=True)
        if key not in self._models:
            self._models.clear()  # two decoders at once may be too many
            changed = self.overrides | settings
            # Of processes launched together on GPUs, each has one of its own.
            device = f"cuda:{processes().local_process_index}" if self.device == "cuda" else self.device
            self._models[key], _ = load_larimar(
                self.folder, self.dtype, changed, device, self.values.model_name, bits
            )
        return self._models[key]

    def describe(self) -> dict:
        """What was run on what, for the record."""
        return {
            "hparams": f"{self.hparams.parent.name}/{self.hparams.stem}",
            **self.which_larimar(),
            "counterfact": _source(self.counterfact),
            "zsre": _source(self.zsre),
            "text": _source(self.text),
            "facts": _source(self.facts),
            "asked": sorted(_source(path) for path in self.asked),
            "own_data": _own_data(),
            "limit": self.limit,
            "baseline_cases": self.baseline_cases,
            "minutes": self.minutes,
            "dtype": self.dtype,
            "device": self.device,
            "methods_device": self.methods_device,
            "seed": self.seed,
            "files": self._files(),
        }

    def _files(self) -> dict[str, Any]:
        """Those that were given, each with its folder, after which rows are named."""
        given = {name: getattr(self, name) for name in ("counterfact", "zsre", "text", "facts")}
        named = lambda path: Path(*path.parts[-2:]).as_posix()
        files = {name: named(path) for name, path in given.items() if path is not None}
        return files | {"asked": [named(path) for path in self.asked]}

    def which_larimar(self) -> dict:
        """Its settings and its weights' digest; other methods are measured where there is none, too."""
        if not self.hparams.exists():
            return {"model": self.hparams.stem, "overrides": dict(self.settings), "checkpoint": None}
        known = {
            "model": self.values.model_name,
            "overrides": self.overrides,
            "third_stage": _reader_is_here(),
        }
        try:
            files = [self.folder / name for name in ("config.json", "model.safetensors")]
            return known | {"checkpoint": _digest(*files)}
        except FileNotFoundError:
            return known | {"checkpoint": None}

    def lasting(self) -> dict:
        """`describe` less how many cases there are, and where files and methods are: records of one run serve
        another where all this is the same.
        """
        passing = ("limit", "baseline_cases", "minutes", "methods_device", "files")
        return {key: value for key, value in self.describe().items() if key not in passing}


def _source(path: Path | None) -> str:
    return "the project's own" if path is None else f"{path.name}, {_digest(path)}"


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return "sha256:" + digest.hexdigest()[:16]


@cache
def _own_data() -> str:
    """Digest of what is measured on of what ships; facts that were typed for training are not."""
    folder = SENTENCES.parent
    found = [path for pattern in ("*.json", "*.yaml", "*.txt") for path in folder.rglob(pattern)]
    return _digest(*sorted(path for path in found if BY_HAND not in path.parents))


@cache
def _reader_is_here() -> bool:
    """Whether the embedded encoder of the scope detector's third stage is installed."""
    try:
        return Path(resolve(READER)).is_dir()
    except ModuleNotFoundError:
        return False
