"""The scope detector's threshold, and the internal detector's classifier, from pairs of prompts.

Positives are rephrasings of a written prompt, negatives are its locality prompts (paper, section "Scope
Detector").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_curve
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.data.edits import Edit
from larimar_editor.data.hard_negatives import made_up_facts
from larimar_editor.data.texts import SENTENCES, read_sentences
from larimar_editor.scope.detectors import (
    ExternalScopeDetector,
    InternalScopeDetector,
    ScopeDetector,
    decide,
    pair_features,
)
from larimar_editor.scope.learning import train_metric
from larimar_editor.scope.nearest import exact


@dataclass(frozen=True)
class Calibration:
    """Result of `calibrate`.

    Attributes:
        threshold: from which a query is in scope: where false accepts and false rejects are equally frequent,
            or where false accepts are as frequent as was allowed.
        equal_error_rate: frequency of either where they are equal, in [0, 1].
        f1: F1 of "in scope" at the threshold.
        false_accepts, false_rejects: their frequencies at the threshold, in [0, 1].
        positives, negatives: pairs used.
    """

    threshold: float
    equal_error_rate: float
    f1: float
    false_accepts: float
    false_rejects: float
    positives: int
    negatives: int

    def to_dict(self) -> dict:
        """As plain numbers, which JSON can hold."""
        return asdict(self)


def as_edits(facts: Sequence[Mapping], negatives: str) -> list[Edit]:
    """Made-up facts (`larimar_editor.data.hard_negatives`) as edits to calibrate on.

    Args:
        facts: records.
        negatives: key of the prompts that are negatives, ``locality_prompt`` or ``near_prompt``.
    """
    return [
        Edit(
            prompt=fact["prompt"],
            target_new=fact["target_new"],
            ground_truth="",
            subject=fact["subject"],
            rephrase_prompts=tuple(fact["rephrase_prompt"]),
            locality_prompts=tuple(fact[negatives]),
        )
        for fact in facts
    ]


def scope_pairs(edits: Sequence[Edit]) -> list[tuple[str, str, bool]]:
    """(query, written prompt, is it about the same fact) of every rephrasing and locality prompt."""
    return [
        pair
        for edit in edits
        for pair in [(query, edit.prompt, True) for query in edit.rephrase_prompts]
        + [(query, edit.prompt, False) for query in edit.locality_prompts]
    ]


def calibrate(
    detector: ScopeDetector, edits: Sequence[Edit], false_accepts: float | None = None
) -> Calibration:
    """The threshold, each query scored against its own fact alone.

    Args:
        detector: the detector.
        edits: with rephrasings and locality prompts.
        false_accepts: share of locality prompts that may be taken for the fact, 0 to 1; None takes the
            equal-error point.

    Raises:
        ValueError: no rephrasings or no locality prompts in ``edits``.
    """
    scores, labels = pair_scores(detector, edits)
    if labels.all() or not labels.any():
        raise ValueError("calibration needs edits with rephrasings and with locality prompts")
    threshold, error = equal_error(scores, labels)
    if false_accepts is not None:
        threshold = accepting_at_most(scores, labels, false_accepts)
    accepted = scores >= threshold
    return Calibration(
        threshold=threshold,
        equal_error_rate=error,
        f1=float(f1_score(labels, accepted)),
        false_accepts=float(accepted[~labels].mean()),
        false_rejects=float((~accepted)[labels].mean()),
        positives=int(labels.sum()),
        negatives=int((~labels).sum()),
    )


def pair_scores(
    detector: ScopeDetector, edits: Sequence[Edit], progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Score of every rephrasing and locality prompt against its own fact alone, and whether it is a
    rephrasing.
    """
    pairs = scope_pairs(edits)
    asked: dict[str, list[int]] = {}
    for place, (_, prompt, _) in enumerate(pairs):
        asked.setdefault(prompt, []).append(place)
    scores = np.empty(len(pairs))
    for prompt, places in tqdm(
        asked.items(), desc="calibration", unit="edit", disable=None if progress else True
    ):
        queries = [pairs[place][0] for place in places]
        lookup = exact(detector.similarity, detector.embed([prompt]))
        scores[places] = decide(detector, queries, lookup, threshold=0.0).score.numpy()
    return scores, np.array([positive for *_, positive in pairs], dtype=bool)


def equal_error(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Threshold and rate at which false accepts and false rejects come closest; ``scores >= threshold``
    accepts.
    """
    false_accepts, true_accepts, thresholds = roc_curve(labels, scores, drop_intermediate=False)
    best = int(np.argmin(np.abs(false_accepts - (1 - true_accepts))))
    best = max(best, 1)  # the first threshold is infinite
    rate = float((false_accepts[best] + 1 - true_accepts[best]) / 2)
    # Half-way to the next score, so that rounding on another machine does not flip a case.
    lower = thresholds[best + 1] if best + 1 < len(thresholds) else thresholds[best]
    return float((thresholds[best] + lower) / 2), rate


def accepting_at_most(scores: np.ndarray, labels: np.ndarray, share: float) -> float:
    """The lowest threshold at which at most ``share`` of the negatives are accepted; between two scores."""
    negatives = np.sort(scores[~labels])[::-1]
    highest = negatives[int(share * len(negatives))]  # the first that must stay outside
    above = scores[scores > highest]
    return float((highest + above.min()) / 2) if len(above) else float(np.nextafter(highest, np.inf))


def _contrast(edits: Sequence[Edit]) -> list[tuple[str, str, bool]]:
    """Prompts with themselves, with those of other facts, and with generic sentences.

    Locality prompts share their fact's wording and rephrasings do not, so that from these alone a classifier
    would learn that another wording means the same fact.
    """
    generic = read_sentences(SENTENCES, limit=len(edits))
    pairs = [(edit.prompt, edit.prompt, True) for edit in edits]
    for step in (1, len(edits) // 3 or 1, len(edits) // 2 or 1):
        for edit, other, sentence in zip(edits, _turned(edits, step), _turned(generic, step)):
            pairs.append((sentence, edit.prompt, False))
            if other.prompt != edit.prompt:
                pairs += [
                    (query, edit.prompt, False) for query in (other.prompt, *other.rephrase_prompts[:1])
                ]
    return pairs


def _turned(items: Sequence, step: int) -> list:
    return [*items[step:], *items[:step]]


def calibrate_external(
    encoder: SentenceTransformer,
    weights: Mapping[str, Tensor],
    edits: Sequence[Edit] | None,
    train: int = 0,
    false_accepts: float | None = None,
    seed: int = 0,
) -> tuple[dict, dict[str, Tensor]]:
    """The external detector's threshold, and its map if one is to be learned.

    Args:
        encoder: the sentence encoder.
        weights: of the checkpoint's detectors; ``metric`` is used where none is learned.
        edits: to calibrate on; None takes made-up facts of relations that the map tried on them has not seen.
        train: made-up facts to learn a map from; 0 learns none.
        false_accepts: see `calibrate`.
        seed: of the made-up facts.

    Returns:
        the calibration as a mapping, with ``other_questions_accepted`` where made-up facts were calibrated
        on; and the new weights, none where no map was learned.
    """
    plain = ExternalScopeDetector(encoder)
    if not train:
        assert edits is not None, "there is nothing else to calibrate on"
        return calibrate(
            ExternalScopeDetector(encoder, weights.get("metric")), edits, false_accepts
        ).to_dict(), {}
    seen = made_up_facts(train - train // 4, plain.embed, seed=seed)
    unseen = made_up_facts(train // 4, plain.embed, held_out=True, seed=seed)
    metric = train_metric(plain.embed, seen + unseen)
    learned = {"metric": metric.cpu()}
    if edits is not None:
        return calibrate(ExternalScopeDetector(encoder, metric), edits, false_accepts).to_dict(), learned
    tried = ExternalScopeDetector(encoder, train_metric(plain.embed, seen))
    result = calibrate(tried, as_edits(unseen, "near_prompt"), false_accepts)
    scores, same = pair_scores(tried, as_edits(unseen, "other_prompt"))
    return result.to_dict() | {
        "other_questions_accepted": float((scores[~same] >= result.threshold).mean())
    }, learned


def calibrate_internal(
    encode, latent_size: int, edits: Sequence[Edit]
) -> tuple[Calibration, dict[str, Tensor]]:
    """The internal detector: trained on two thirds of the prompt wordings, calibrated on the last third.

    Edits that share a wording (the prompt without its subject) stay on one side, so that no template is seen
    twice.

    Returns:
        the calibration on the part that was held out, and the weights.
    """
    wording = [edit.prompt.replace(edit.subject, "{}") for edit in edits]
    order = {template: index for index, template in enumerate(dict.fromkeys(wording))}
    held_out = [order[template] % 3 == 2 for template in wording]
    detector, weights = train_internal(encode, latent_size, [e for e, out in zip(edits, held_out) if not out])
    return calibrate(detector, [e for e, out in zip(edits, held_out) if out]), weights


def train_internal(
    encode, latent_size: int, edits: Sequence[Edit]
) -> tuple[InternalScopeDetector, dict[str, Tensor]]:
    """The internal detector's logistic regression on Larimar's own encodings.

    Args:
        encode: texts to latents ``(N, C)``.
        latent_size: C.
        edits: with rephrasings and locality prompts.

    Returns:
        the detector, and its weights for a checkpoint.
    """
    pairs = scope_pairs(edits) + _contrast(edits)
    blank = InternalScopeDetector(encode, latent_size, torch.zeros(2 * latent_size), 0.0)
    embedding: dict[str, Tensor] = {}
    texts = sorted({text for query, prompt, _ in pairs for text in (query, prompt)}, key=len)
    for start in range(0, len(texts), 32):
        part = texts[start : start + 32]
        embedding |= dict(zip(part, blank.embed(part).cpu(), strict=True))
    features = pair_features(
        torch.stack([embedding[query] for query, *_ in pairs]),
        torch.stack([embedding[prompt] for _, prompt, _ in pairs]),
    )
    # Features of unit vectors are small; scaling them to unit size keeps one penalty fit for every C.
    size = features.std(dim=0).mean()
    classifier = LogisticRegression(max_iter=2000, class_weight="balanced")
    classifier.fit((features / size).numpy(), [positive for *_, positive in pairs])
    weights = {
        "weight": torch.tensor(classifier.coef_[0], dtype=torch.float32) / size,
        "bias": torch.tensor(classifier.intercept_, dtype=torch.float32),
    }
    return InternalScopeDetector(encode, latent_size, weights["weight"], float(weights["bias"])), weights
