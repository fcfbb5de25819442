"""A run of the detector's training: stages one after the other, begun with what a checkpoint has, and put
into a checkpoint at the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from safetensors.torch import save
from torch import Tensor

from larimar_editor.model.detector import StoredDetector
from larimar_editor.model.scoping import INTERNAL, NO_READER
from larimar_editor.scope.detectors import sentence_encoder, stage_weights
from larimar_editor.scope.look import READS_TARGET, CloserLook
from larimar_editor.scope.low_rank import mixed, shortened
from larimar_editor.training import saves
from larimar_editor.training.detector.loop import (
    WEIGHTS,
    Schedule,
    train_stage,
    trained_weights,
    will_be_finished,
)
from larimar_editor.training.detector.stages import RANKS, STAGES

_BOTH = ("candidates", "look")  # a detector's stages; the reader is an addition


@dataclass(frozen=True)
class DetectorRun:
    """Stages of a checkpoint's external detector in training.

    Attributes:
        out: folder of the run, with one of each stage's name in it.
        stored: the checkpoint's detector.
        encoder: the sentence encoder that is changed, by name or folder.
        device: where it goes.
        stages: those to train, in turn.
        starts: what each begins with; empty: all with the encoder as it is.
        second: the second stage that a reader learns from; None where none is trained.
        own: of the checkpoint's detector what stays, where no stage that is trained takes its place.
    """

    out: Path
    stored: StoredDetector
    encoder: str
    device: str
    stages: Sequence[str]
    starts: Mapping[str, Mapping[str, Tensor]]
    second: CloserLook | None
    own: Mapping[str, Tensor]

    @classmethod
    def of(
        cls,
        out: Path,
        checkpoint: str | Path | None = None,
        stage: Literal["candidates", "look", "reader"] | None = None,
        encoder: str | None = None,
        device: str = "cpu",
        go_on: bool = False,
    ) -> DetectorRun:
        """A run that trains one stage, or the first two.

        Args:
            out, device: see the class.
            checkpoint: see `StoredDetector`.
            stage: the one to train; None: the first two.
            encoder: None: the checkpoint's.
            go_on: begin with the checkpoint's own stages.

        Raises:
            ValueError: the checkpoint lacks an encoder, or a stage that is to begin with or to learn from;
                the message names the command's option.
            FileNotFoundError: no such checkpoint.
        """
        setting = "scope_reader_name_or_path" if stage == "reader" else "scope_encoder_name_or_path"
        stored = StoredDetector(checkpoint, device, **{setting: encoder})
        folder, name = stored.folder, getattr(stored.config, setting)
        if name in (None, NO_READER):
            raise ValueError(f"--encoder is needed: {folder} has {setting}: {name or 'null'}")
        second = stored.detectors.external.look if stage == "reader" else None
        if stage == "reader" and second is None:
            raise ValueError(f"--stage reader: {folder} has no trained second stage, which it adds to")
        stages = (stage,) if stage else _BOTH
        starts = {each: stage_weights(stored.detectors.weights, each) for each in stages} if go_on else {}
        if lacking := [each for each, start in starts.items() if not start]:
            raise ValueError(f"--go-on: {folder} has no trained {' and no trained '.join(lacking)}")
        own = dict(stored.detectors.external_weights) if go_on or stage == "reader" else {}
        return cls(out, stored, name, device, stages, starts, second, own)

    def train(
        self,
        facts: Sequence[dict],
        schedule: Schedule,
        rank: int | None = None,
        until: int | None = None,
        workers: int = 0,
    ) -> None:
        """Train the stages, each as `train_stage`; ``rank`` None is each one's of `RANKS`.

        Raises:
            ValueError: as `train_stage`; or a stage in the folder was begun with another rank, encoder, start
                or seed. Data and schedule may be others.
        """
        also = {} if self.second is None else {"look": self.second}
        ranks = {name: rank or RANKS[name] for name in self.stages}
        begun = {name: self._begun_with(name, ranks[name], schedule.seed) for name in self.stages}
        for name, settings in begun.items():  # of all, before the first is trained
            if saves.last(folder := self.out / name) is not None:
                saves.refuse_other_settings(folder, saves.noted_settings(folder) or settings, settings)
        for name in self.stages:
            if saves.last(self.out / name) is None:
                saves.note_settings(self.out / name, begun[name])
            encoder = sentence_encoder(self.encoder, self.device)
            stage = STAGES[name](encoder, ranks[name], self.starts.get(name), **also)
            train_stage(stage, facts, schedule, self.out / name, until, workers)

    def _begun_with(self, name: str, rank: int, seed: int) -> dict[str, Any]:
        """What makes a stage another one, as JSON gives it back; its start by a digest."""
        own = {key: value.contiguous() for key, value in self.starts.get(name, {}).items()}
        start = hashlib.sha256(save(own)).hexdigest()[:16] if own else None
        return {"rank": rank, "encoder": self.encoder, "start": start, "seed": seed}

    def refuse_in_part(self, schedule: Schedule, until: int | None = None) -> None:
        """Before hours of training: whether `write` will have what it needs after `train` with these.

        Raises:
            ValueError: it would lack one of the first two stages.
        """
        there = {path.parent.name for path in self.out.glob(f"*/{WEIGHTS}")} - {*self.stages}
        trained = {name for name in self.stages if will_be_finished(self.out / name, schedule, until)}
        self._refuse_lacking(there | trained)

    def _refuse_lacking(self, stages: Collection[str]) -> None:
        if not stages or not {*stages, *_stages_in(self.own)}.issuperset(_BOTH):
            finished = ", ".join(sorted(stages)) or "none"
            raise ValueError(
                f"--into needs both stages in {self.out}, to their last step; finished: {finished}"
            )

    def report(self) -> dict:
        """What the folder has: the stages that are finished, and how large they are in a checkpoint."""
        weights = trained_weights(self.out)
        megabytes = sum(value.nbytes for value in shortened(weights).values()) / 1e6
        return {"out": str(self.out), "finished": _stages_in(weights), "megabytes": megabytes}

    def write(self, into: Path, keep: float = 0.0, show_answers: bool = True) -> None:
        """Write the checkpoint with the stages that are finished.

        Args:
            into: folder.
            keep: share of the checkpoint's own in each of them.
            show_answers: whether the second stage is shown the facts' answers in use.

        Raises:
            ValueError: it would lack one of the first two stages.
        """
        weights = trained_weights(self.out)
        stages = _stages_in(weights)
        self._refuse_lacking(stages)
        for name in stages if keep else ():
            mean = mixed(stage_weights(self.own, name), stage_weights(weights, name), keep)
            weights |= {f"{name}.{key}": value for key, value in mean.items()}
        if not show_answers:
            weights.pop(f"look.{READS_TARGET}", None)
        detectors = self.stored.detectors
        internal = {name: value for name, value in detectors.weights.items() if name in INTERNAL}
        stays = {name: value for name, value in self.own.items() if _stage_of(name) not in stages}
        detectors.weights = internal | shortened(stays | weights)
        self.stored.save(into)


def _stages_in(weights: Mapping[str, Tensor]) -> list[str]:
    return sorted({_stage_of(name) for name in weights})


def _stage_of(name: str) -> str:
    return name.split(".")[0]
