"""How a text goes on after an edit: whether it repeats itself, and whether the base model finds it likely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from nltk.tokenize import NLTKWordTokenizer
from scipy.stats import entropy

_WEIGHTS = {2: 2 / 3, 3: 4 / 3}  # as ROME's authors have it, and EasyEdit after them


def ngram_entropy(text: str) -> float:
    """Mean of the weighted entropies, in bits, of a text's bigrams and trigrams of words (Meng et al. 2022,
    "fluency"); 0 of a text of fewer than two words.
    """
    words = list(NLTKWordTokenizer().tokenize(text))
    return float(np.mean([weight * _bits(ngrams(words, size)) for size, weight in _WEIGHTS.items()]))


def distinct(items: Sequence, size: int = 2) -> float:
    """Share of the n-grams of a sequence that are different ones, 0 to 1; 1 where there is none."""
    found = ngrams(items, size)
    return len(set(found)) / len(found) if found else 1.0


def ngrams(items: Sequence, size: int) -> list[tuple]:
    """All runs of ``size`` items, from left to right."""
    return list(zip(*(items[start:] for start in range(size))))


def _bits(grams: Sequence[tuple]) -> float:
    return float(entropy(list(Counter(grams).values()), base=2)) if grams else 0.0
