"""Made-up stages of a scope detector."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from larimar_editor.scope.low_rank import changes

LAYERS = ("encoder.layer.0.attention.self.query", "encoder.layer.5.output.dense")


def made_changes(network, scale=0.02):
    generator, result = torch.Generator().manual_seed(0), {}
    for name in LAYERS:
        weight = network.get_submodule(name).weight
        low = scale * torch.randn(3, weight.shape[1], generator=generator)
        high = torch.randn(weight.shape[0], 3, generator=generator)
        result |= changes(name, weight, low, high)
    return result


def head(size):
    generator = torch.Generator().manual_seed(1)
    return {"head.weight": torch.randn(1, 3 * size, generator=generator), "head.bias": torch.tensor([0.3])}


class Told:
    """A second stage that says what it is told, and notes what it was asked."""

    def __init__(self, reads_target=False, otherwise=0.0, **says):
        self.reads_target, self.otherwise, self.says, self.asked = reads_target, otherwise, says, []

    def probabilities(self, pairs):
        self.asked.append(list(pairs))
        return torch.tensor([self.says.get(written.split()[0], self.otherwise) for written, _ in pairs])


class Letters:
    """Embeds the counts of a text's letters."""

    embedding_size, look, reader = 26, None, None

    @staticmethod
    def embed(texts):
        counts = [[text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        return F.normalize(torch.tensor(counts, dtype=torch.float32) + 1e-3, dim=1)

    @staticmethod
    def similarity(queries, written):
        return queries @ written.T
