"""A checkpoint's scope detectors without its decoder: the external one knows nothing of it, and the internal
one is made with an encoder that is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from larimar_editor.checkpoints import shipped
from larimar_editor.data.calibrating import QUESTIONS_ACCEPTED, SUBJECTS_ACCEPTED
from larimar_editor.data.scope_cases import ScopeCase
from larimar_editor.model.checkpoint import checkpoint_folder, detector_weights, save_with_detector
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.scoping import ScopeDetectors
from larimar_editor.pretrained.embedded import DECODER
from larimar_editor.scope.calibration import (
    Judge,
    calibrate_internal,
    calibrate_sets,
    moved,
    train_internal,
)


class StoredDetector:
    """What a checkpoint says of scope: to train its external detector and calibrate it, or to make its
    internal one.

    Args:
        checkpoint: a folder, or the name of one that ships; the one that ships for the embedded decoder when
            None.
        device: where the encoders go.
        settings: of `LarimarSettings`, in place of the checkpoint's.

    Attributes:
        folder: of the checkpoint.
        config: its configuration.
        detectors: made when they are asked for.

    Raises:
        FileNotFoundError: no such checkpoint.
        ValueError: a setting out of its range.
    """

    def __init__(self, checkpoint: str | Path | None = None, device: str = "cpu", **settings):
        self.folder = checkpoint_folder(checkpoint or shipped(DECODER))
        self.config = LarimarConfig.from_pretrained(self.folder).changed(**settings)
        self.detectors = ScopeDetectors(self.config, device=device)
        self.detectors.weights = detector_weights(self.folder)

    def calibrate(
        self,
        sets: Mapping[str, Sequence[ScopeCase]],
        questions: float = QUESTIONS_ACCEPTED,
        subjects: float = SUBJECTS_ACCEPTED,
    ) -> dict[str, dict]:
        """Set the external detector's thresholds to the lowest that keep two rates on some cases: of the
        first stage alone, of the first two, and, by a shift of its log-odds, of the third, so that one
        threshold serves with it and without.

        Args:
            sets: cases by their name.
            questions: share of other questions about the subject that may be accepted, 0 to 1.
            subjects: share of the same questions about other subjects that may be.

        Returns:
            `Calibration` as plain numbers: ``scope_threshold``; with a second stage ``scope_cosine``, of the
            first alone; with a third ``reader``.

        Raises:
            ValueError: no prompts that ask the same, or none that do not.
        """
        external, config = self.detectors.external, self.config
        first, shown = calibrate_sets(Judge(external, 0), sets, questions, subjects)
        config.scope, config.scope_threshold, config.scope_cosine = "external", first.threshold, None
        if not config.scope_candidates or external.look is None:
            return {"scope_threshold": shown}
        judge = Judge(external, config.scope_candidates, least_cosine=first.reached, sure=0.5)
        both, of_both = calibrate_sets(judge, sets, questions, subjects)
        config.scope_threshold, config.scope_cosine = both.threshold, first.threshold
        config.scope_least_cosine = first.reached
        report = {"scope_threshold": of_both, "scope_cosine": shown}
        if external.reader is not None:
            third, report["reader"] = calibrate_sets(
                replace(judge, sure=config.scope_sure), sets, questions, subjects
            )
            self.detectors.weights = moved(self.detectors.weights, third.threshold, both.threshold)
        return report

    def make_internal(
        self,
        encode: Callable[[Sequence[str]], Tensor],
        sets: Mapping[str, Sequence[ScopeCase]],
        training: Sequence[ScopeCase] | None = None,
    ) -> dict[str, dict]:
        """Train the internal detector, which decides from now on, and set the threshold to its equal-error
        point.

        Args:
            encode: texts to latents, by the whole checkpoint; see `QueryEncoder.latents`.
            sets: cases by their name.
            training: what it is trained on; None: two thirds of the wordings of ``sets``, the threshold being
                that of the last.

        Returns:
            `Calibration` as plain numbers: ``scope_threshold``.
        """
        size = self.config.latent_size
        if training is None:
            every = [case for cases in sets.values() for case in cases]
            result, weights = calibrate_internal(encode, size, every)
        else:
            internal, weights = train_internal(encode, size, training)
            result, _ = calibrate_sets(Judge(internal), sets, None, None)
        self.config.scope, self.config.scope_threshold = "internal", result.threshold
        self.detectors.weights = dict(self.detectors.weights) | weights
        return {"scope_threshold": result.to_dict()}

    def save(self, folder: str | Path) -> None:
        """Write the checkpoint with the detectors as they are now; see `save_with_detector`."""
        save_with_detector(self.folder, Path(folder), self.config, self.detectors.weights)
