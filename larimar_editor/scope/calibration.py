"""The scope detector's threshold, and the internal detector's classifier, from cases of prompts.

What asks the same as a written prompt is to be in scope, what asks something else is not (paper, section
"Scope Detector"). Of the latter two rates are stated and kept apart: of other questions about the subject,
and of the same question about other subjects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_curve
from torch import Tensor
from tqdm.auto import tqdm

from larimar_editor.data.calibrating import MADE_UP_CASES, QUESTIONS_ACCEPTED, SUBJECTS_ACCEPTED
from larimar_editor.data.question_sources import Questions, calibration_facts, records
from larimar_editor.data.question_sources import questions as all_questions
from larimar_editor.data.questions.kinds import SUBJECT
from larimar_editor.data.scope_cases import (
    OTHER,
    SAME,
    TYPED_TO_CALIBRATE,
    ScopeCase,
    of_facts,
    of_record,
    scope_cases,
)
from larimar_editor.data.texts import SENTENCES, read_sentences
from larimar_editor.scope.asking import asked_by
from larimar_editor.scope.decision import SecondStage, Written, decide
from larimar_editor.scope.detectors import InternalScopeDetector, ScopeDetector, pair_features
from larimar_editor.scope.look import HEAD
from larimar_editor.scope.nearest import exact

QUESTIONS, SUBJECTS = ("other_questions",), ("other_subjects",)


@dataclass(frozen=True)
class Judge:
    """A detector, and how it decides.

    Attributes:
        detector: embeds; its second stage looks closer.
        candidates: what the second stage looks at, where there is one; 0: the first decides alone.
        with_subject: whether it is told what the written prompt is about.
        least_cosine: of the first stage, for the second to look.
        sure: probability of the second at which the third stage, where there is one, is not asked; with 0.5
            it never is.
    """

    detector: ScopeDetector
    candidates: int = 4
    with_subject: bool = False
    least_cosine: float = 0.4
    sure: float = 0.99

    def scores(self, case: ScopeCase) -> dict[str, list[float]]:
        """Score of every prompt of a case against the case's own fact alone, by sort."""
        queries = [prompt for prompts in case.asked.values() for prompt in prompts]
        asked = asked_by(case.prompt)
        written = Written(asked, case.subject if self.with_subject else None, case.target)
        second = SecondStage.of(
            self.detector, lambda row: written, self.candidates, self.least_cosine, self.sure
        )
        lookup = exact(self.detector.similarity, self.detector.embed([asked]))
        # Nothing reaches an endless threshold: each score is the highest of its sentences'.
        scores = iter(decide(self.detector, queries, lookup, math.inf, second).score.tolist())
        return {sort: [next(scores) for _ in prompts] for sort, prompts in case.asked.items()}


@dataclass(frozen=True)
class Calibration:
    """Result of `calibrate`.

    Attributes:
        threshold: from which a query is in scope.
        equal_error_rate: frequency of false accepts and of false rejects where they are equal, in [0, 1].
        f1: F1 of "in scope" at the threshold.
        accepted: share of the prompts of each sort that are accepted at the threshold, in [0, 1].
        prompts: how many there were of each sort.
        reached: score that all but one in a hundred of the rewordings reach, and of the aliases.
    """

    threshold: float
    equal_error_rate: float
    f1: float
    accepted: Mapping[str, float]
    prompts: Mapping[str, int]
    reached: float

    def to_dict(self) -> dict:
        """As plain numbers, which JSON can hold."""
        return asdict(self)


def calibrate(
    judge: Judge,
    cases: Sequence[ScopeCase],
    questions: float | None = QUESTIONS_ACCEPTED,
    subjects: float | None = SUBJECTS_ACCEPTED,
    progress: bool = True,
) -> Calibration:
    """The lowest threshold that keeps both rates: `scored`, and then `calibrated`."""
    return calibrated(scored(judge, cases, progress), questions, subjects)


def calibrate_sets(
    judge: Judge,
    sets: Mapping[str, Sequence[ScopeCase]],
    questions: float | None,
    subjects: float | None,
) -> tuple[Calibration, dict]:
    """The lowest threshold that keeps both rates on all cases together.

    Args:
        judge, questions, subjects: as in `calibrate`.
        sets: cases by their name.

    Returns:
        it, and as plain numbers the same with, where there are several ``sets``, what each would give alone.
    """
    scores = {name: scored(judge, cases) for name, cases in sets.items()}
    whole = calibrated(_together(scores.values()), questions, subjects)
    if len(sets) == 1:
        return whole, whole.to_dict()
    alone = {name: calibrated(of_set, questions, subjects).to_dict() for name, of_set in scores.items()}
    return whole, whole.to_dict() | {"sets": alone}


def scored(judge: Judge, cases: Sequence[ScopeCase], progress: bool = True) -> dict[str, list[float]]:
    """Score of every prompt against its case's own fact, by sort.

    Args:
        judge: the detector.
        cases: what is asked.
        progress: whether to show a progress bar.
    """
    shown = tqdm(cases, desc="calibration", unit="case", disable=not progress)
    return _together(judge.scores(case) for case in shown)


def calibrated(
    by_sort: Mapping[str, Sequence[float]],
    questions: float | None = QUESTIONS_ACCEPTED,
    subjects: float | None = SUBJECTS_ACCEPTED,
) -> Calibration:
    """The lowest threshold that keeps both rates.

    Args:
        by_sort: scores, as `scored` gives them.
        questions: share of other questions about the subject that may be accepted, 0 to 1.
        subjects: share of the same questions about other subjects that may be.
            Where both are None, the threshold is the equal-error point of all that asks something else.

    Raises:
        ValueError: no prompts that ask the same, or none that do not.
    """
    same, other = _joined(by_sort, SAME[1:]), _joined(by_sort, OTHER)
    if not len(same) or not len(other):
        raise ValueError("calibration needs prompts that ask the same as a fact, and prompts that do not")
    scores, labels = np.concatenate((same, other)), np.arange(len(same) + len(other)) < len(same)
    threshold, error = equal_error(scores, labels)
    limits = [
        accepting_at_most(negatives, same, share)
        for share, sorts in ((questions, QUESTIONS), (subjects, SUBJECTS))
        if share is not None and len(negatives := _joined(by_sort, sorts))
    ]
    threshold = max(limits) if limits else threshold
    return Calibration(
        threshold=threshold,
        equal_error_rate=error,
        f1=float(f1_score(labels, scores >= threshold)),
        accepted={sort: float((np.array(values) >= threshold).mean()) for sort, values in by_sort.items()},
        prompts={sort: len(values) for sort, values in by_sort.items()},
        reached=min(float(np.quantile(by_sort[sort], 0.01)) for sort in SAME[1:] if by_sort.get(sort)),
    )


def _together(parts: Iterable[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """Scores by sort, of several such."""
    by_sort: dict[str, list[float]] = {}
    for part in parts:
        for sort, values in part.items():
            by_sort.setdefault(sort, []).extend(values)
    return by_sort


def _joined(by_sort: Mapping[str, Sequence[float]], sorts: Sequence[str]) -> np.ndarray:
    return np.array([score for sort in sorts for score in by_sort.get(sort, ())])


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


def accepting_at_most(negatives: np.ndarray, positives: np.ndarray, share: float) -> float:
    """The lowest threshold at which at most ``share`` of the negatives' scores are accepted; between two
    scores.
    """
    ordered = np.sort(negatives)[::-1]
    highest = ordered[min(int(share * len(ordered)), len(ordered) - 1)]  # the first that must stay outside
    above = np.concatenate((negatives, positives))
    above = above[above > highest]
    return float((highest + above.min()) / 2) if len(above) else float(np.nextafter(highest, np.inf))


def moved(weights: Mapping[str, Tensor], threshold: float, to: float) -> dict[str, Tensor]:
    """An external detector's weights whose third stage finds probability ``to`` where it found ``threshold``.

    Args:
        weights: with ``reader.head.bias``.
        threshold, to: probabilities; what is nearer to 0 or 1 than a millionth counts as that.
    """
    bias = f"reader.{HEAD}.bias"
    by = torch.tensor([threshold, to]).logit(eps=1e-6).diff()
    return dict(weights) | {bias: weights[bias].float() + by}


def made_up_cases(questions: Questions, count: int, seed: int = 0) -> list[ScopeCase]:
    """Cases of kinds of questions that are neither trained on nor measured with."""
    return of_facts(calibration_facts(questions, seed), count)


def sets_of_cases(
    data: Path | None = None, limit: int | None = None, seed: int = 0
) -> dict[str, list[ScopeCase]]:
    """What is calibrated on, by name: a file's cases or, without one, made-up ones and those that were typed.

    Args:
        data: see `scope_cases`.
        limit: cases of each at most; of the made-up ones `MADE_UP_CASES` when None.
        seed: of the made-up ones.
    """
    if data is not None:
        return {"given": scope_cases(data, limit)}
    made_up = made_up_cases(all_questions(), limit or MADE_UP_CASES, seed)
    return {"made up": made_up, "typed": scope_cases(TYPED_TO_CALIBRATE, limit)}


def calibrate_internal(
    encode, latent_size: int, cases: Sequence[ScopeCase]
) -> tuple[Calibration, dict[str, Tensor]]:
    """The internal detector: trained on two thirds of the prompt wordings, calibrated at the equal-error
    point of the last third.

    Cases that share a wording (the prompt without its subject) stay on one side, so that no template is seen
    twice.

    Returns:
        the calibration on the part that was held out, and the weights.
    """
    wording = [case.prompt.replace(case.subject or "", SUBJECT) for case in cases]
    order = {template: index for index, template in enumerate(dict.fromkeys(wording))}
    held_out = [order[template] % 3 == 2 for template in wording]
    seen, unseen = ([case for case, out in zip(cases, held_out) if out == side] for side in (False, True))
    detector, weights = train_internal(encode, latent_size, seen)
    return calibrate(Judge(detector), unseen, None, None), weights


def training_cases(questions: Questions, count: int, seed: int = 0) -> list[ScopeCase]:
    """Cases of what the external detector is trained on."""
    facts = questions.facts(seed=seed, others=2)
    return [of_record(record) for record in records(facts, count, seed)]


def train_internal(
    encode, latent_size: int, cases: Sequence[ScopeCase]
) -> tuple[InternalScopeDetector, dict[str, Tensor]]:
    """The internal detector's logistic regression on Larimar's own encodings.

    Args:
        encode: texts to latents ``(N, C)``.
        latent_size: C.
        cases: with prompts that ask the same and prompts that do not.

    Returns:
        the detector, and its weights for a checkpoint.
    """
    pairs = _pairs(cases)
    blank = InternalScopeDetector(encode, latent_size, torch.zeros(2 * latent_size), 0.0)
    embedding: dict[str, Tensor] = {}
    texts = sorted({text for query, prompt, _ in pairs for text in (query, prompt)}, key=len)
    for start in tqdm(range(0, len(texts), 32), desc="encoding", unit="batch"):
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


def _pairs(cases: Sequence[ScopeCase]) -> list[tuple[str, str, bool]]:
    """(query, written prompt, whether both ask the same), also with the prompts of other facts and with
    generic sentences.
    """
    pairs = [
        (query, case.prompt, sort in SAME)
        for case in cases
        for sort, prompts in case.asked.items()
        for query in prompts
    ]
    generic = read_sentences(SENTENCES, limit=len(cases))
    for case, other, sentence in zip(cases, [*cases[1:], *cases[:1]], generic):
        pairs += [(query, case.prompt, False) for query in (other.prompt, sentence) if query != case.prompt]
    return pairs
