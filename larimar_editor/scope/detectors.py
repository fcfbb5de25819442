"""Is this prompt about a written fact? Two detectors, one interface (paper, section "Scope Detector").

A detector embeds the prompts of written facts, once each, when they are written. A query is split into
sentences, and its best sentence decides: ``score`` is that sentence's similarity to the nearest written
prompt (1-NN). The detector sees prompts only, never a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from torch.nn import functional as F

from larimar_editor.scope.nearest import Lookup
from larimar_editor.utils.text import cut_to, sentences


@dataclass(frozen=True)
class ScopeDecision:
    """What a detector says of N queries.

    Attributes:
        score: ``(N,)`` float32; higher is closer. -inf where nothing is written.
        in_scope: ``(N,)`` bool, on the CPU.
        sentence: the sentence of each query that came closest; it addresses the memory.
        embedding: ``(N, E)``, that sentence's embedding.
        nearest: ``(N,)`` row of the nearest written prompt in the store; -1 where nothing is written.
    """

    score: Tensor
    in_scope: Tensor
    sentence: list[str]
    embedding: Tensor
    nearest: Tensor


class ScopeDetector(Protocol):
    """The interface of a detector."""

    @property
    def embedding_size(self) -> int:
        """E, the size of an embedding."""
        ...

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Embeddings ``(N, E)`` float32 with unit norm."""
        ...

    def similarity(self, queries: Tensor, written: Tensor) -> Tensor:
        """Scores ``(N, n)`` of query embeddings ``(N, E)`` against those of written prompts ``(n, E)``."""
        ...


class ExternalScopeDetector:
    """ESD: cosine similarity of sentence embeddings from an external encoder (paper: MiniLM).

    Args:
        model: the encoder. It may serve several detectors; its weights get no gradients.
        metric: linear map ``(E, E)`` after the encoder (`larimar_editor.scope.learning`); none when None.
    """

    def __init__(self, model: SentenceTransformer, metric: Tensor | None = None):
        self.model, self.metric = model.eval(), metric
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)

    @property
    def embedding_size(self) -> int:
        """E, the sentence encoder's."""
        size = self.model.get_embedding_dimension()
        if size is None:
            raise ValueError("the sentence encoder does not say how long its embeddings are")
        return size

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Embeddings ``(N, E)`` float32 with unit norm; of a text that is too long the end, with a
        `TruncationWarning`.
        """
        texts = [self._fitting(text) for text in texts]
        result = self.model.encode(
            texts, convert_to_tensor=True, normalize_embeddings=True, show_progress_bar=False
        ).float()
        return result if self.metric is None else F.normalize(result @ self.metric.to(result).T, dim=1)

    def _fitting(self, text: str) -> str:
        """The end of a text that is too long; the encoder itself would keep the beginning, and say
        nothing.
        """
        tokenizer = self.model.tokenizer
        limit = (self.model.max_seq_length or len(text)) - tokenizer.num_special_tokens_to_add()
        if len(text) <= limit:  # a token has at least one character
            return text
        ids = tokenizer(text, add_special_tokens=False, truncation=False, verbose=False).input_ids
        return text if len(ids) <= limit else tokenizer.decode(cut_to(ids, limit, text, tokenizer))

    @staticmethod
    def similarity(queries: Tensor, written: Tensor) -> Tensor:
        """Cosines ``(N, n)`` of unit vectors ``(N, E)`` and ``(n, E)``, in [-1, 1]."""
        return queries @ written.T


class InternalScopeDetector:
    """ISD: a binary classifier on Larimar's own encodings of query and written prompt.

    Logistic regression over ``[|q - k|, q * k]`` of the two unit-length encodings.

    Args:
        encode: texts to latents ``(N, C)``.
        latent_size: C.
        weight: ``(2 C,)`` float32.
        bias: a number.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], Tensor], latent_size: int, weight: Tensor, bias: float
    ):
        if weight.shape != (2 * latent_size,):
            raise ValueError(
                f"an internal detector for C={latent_size} has {2 * latent_size} weights, got "
                f"{tuple(weight.shape)}"
            )
        self.encode, self.embedding_size = encode, latent_size
        self.weight, self.bias = weight.float(), float(bias)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Latents scaled to unit norm, ``(N, C)`` float32."""
        return F.normalize(self.encode(texts).float(), dim=1)

    def similarity(self, queries: Tensor, written: Tensor) -> Tensor:
        """Probabilities ``(N, n)`` in [0, 1] that ``(N, C)`` and ``(n, C)`` ask the same."""
        weight = self.weight.to(queries.device)
        size = self.embedding_size
        product = (queries * weight[size:]) @ written.T
        # Row by row: (N, n, C) at once would not fit for a large store.
        distance = torch.stack([(query - written).abs() @ weight[:size] for query in queries])
        return torch.sigmoid(product + distance + self.bias)


def pair_features(queries: Tensor, written: Tensor) -> Tensor:
    """What the internal detector's classifier sees of N pairs of unit encodings ``(N, C)``: ``(N, 2 C)``."""
    return torch.cat(((queries - written).abs(), queries * written), dim=1)


def decide(
    detector: ScopeDetector, queries: Sequence[str], lookup: Lookup, threshold: float
) -> ScopeDecision:
    """Score queries against the written prompts that ``lookup`` finds nearest; the best sentence of each
    query counts.

    Args:
        detector: embeds the queries' sentences.
        queries: N texts; none give an empty decision.
        lookup: finds the nearest written prompt of each sentence.
        threshold: score from which a query is in scope.
    """
    parts = [sentences(query) for query in queries]
    flat = [sentence for group in parts for sentence in group]
    if not flat:
        nothing = torch.zeros(0)
        return ScopeDecision(
            nothing, nothing.bool(), [], torch.zeros(0, detector.embedding_size), nothing.long()
        )
    embedding = detector.embed(flat)
    # A synchronisation with the device: which sentence is nearest, and so in scope, is decided on the host.
    score, nearest = (result.cpu() for result in lookup(embedding))
    best, start = [], 0
    for group in parts:
        best.append(start + int(score[start : start + len(group)].argmax()))
        start += len(group)
    chosen = torch.tensor(best, dtype=torch.long)
    return ScopeDecision(
        score=score[chosen],
        in_scope=score[chosen] >= threshold,
        sentence=[flat[i] for i in best],
        embedding=embedding[chosen.to(embedding.device)],
        nearest=nearest[chosen],
    )
