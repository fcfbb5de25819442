"""The two stages as they are trained: low-rank changes to the sentence encoder, one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from larimar_editor.scope.detectors import ExternalScopeDetector, transformer_of
from larimar_editor.scope.look import (
    HEAD,
    READS_TARGET,
    CloserLook,
    PairTokens,
    cutting_starts,
    joint_features,
)
from larimar_editor.scope.low_rank import changes, fits
from larimar_editor.scope.reader import MIX
from larimar_editor.training.detector.examples import Example
from larimar_editor.utils.device import bfloat16_is_fast

TEMPERATURE = 0.05
# A pair's share in what the third stage learns from: p (1 - p), of the second's log-odds times _HARDNESS, and
# _EASY of any.
_HARDNESS, _EASY = 0.6, 0.02
_CHUNKS = 3  # parts of a batch, by length, each padded for itself; on a GPU padding costs less than parts do
_LAYERS = ["query", "key", "value", "dense", "q", "k", "v", "o"]  # as BERT and MPNet name them


class Stage(Protocol):
    """Something to train."""

    @property
    def network(self) -> nn.Module:
        """What is trained, with what is not."""
        ...

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """A number to be made small."""
        ...

    def weights(self) -> dict[str, Tensor]:
        """What a checkpoint holds of it, by name."""
        ...


class Candidates:
    """The first stage: an embedding of each prompt, near those that ask the same.

    Contrastive loss (InfoNCE) of a wording against every other query of the batch. Arguments as `Look`'s.
    """

    def __init__(self, encoder: SentenceTransformer, rank: int, start: Mapping[str, Tensor] | None = None):
        self.tokenizer = cutting_starts(encoder.tokenizer)
        self.network: nn.Module = _adapted(encoder, rank, start)
        self._above = list(encoder)[1:]  # the encoder's own pooling, and what else it has above its network

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Cross-entropy of each fact's first wording among all queries."""
        queries = [text for each in examples for text in (each.same[0], *each.other)]
        rows = self._embedded([each.prompt for each in examples] + queries)
        prompts, others = rows[: len(examples)], rows[len(examples) :]
        own, place = [], 0
        for each in examples:
            own.append(place)
            place += 1 + len(each.other)
        return F.cross_entropy(prompts @ others.T / TEMPERATURE, torch.tensor(own, device=prompts.device))

    def _embedded(self, texts: Sequence[str]) -> Tensor:
        rows: list[tuple[list[int], Tensor]] = []
        for places, tokens in _chunks(self.network, self.tokenizer, [(text,) for text in texts]):
            hidden = self.network(**tokens.inputs).last_hidden_state
            features = {"token_embeddings": hidden.float(), "attention_mask": tokens.inputs["attention_mask"]}
            for module in self._above:
                features = module(features)
            rows.append((places, F.normalize(features["sentence_embedding"].float(), dim=1)))
        return _in_order(rows)

    def weights(self) -> dict[str, Tensor]:
        """The low-rank changes."""
        return _changes(self.network)


class Look:
    """The second stage: a written prompt and a query together, and the log-odds that they ask the same.

    Args:
        encoder: the sentence encoder.
        rank: of its changes.
        start: weights of a trained stage to begin with, of at most this rank; None: the encoder as it is.
        layers: of the encoder, that change, by number; None: all.

    Raises:
        ValueError: weights of a higher rank or another encoder.
    """

    # Of the head: a factor of its numbers; at the start, log-odds per cosine, and the cosine of even odds.
    _gain, _slope, _even = 1.0, 12.0, 0.75

    def __init__(
        self,
        encoder: SentenceTransformer,
        rank: int,
        start: Mapping[str, Tensor] | None = None,
        layers: Sequence[int] | None = None,
    ):
        self.tokenizer = cutting_starts(encoder.tokenizer)
        size = ExternalScopeDetector(encoder).embedding_size
        head = nn.Linear(3 * size, 1)
        with torch.no_grad():
            head.weight.zero_()
            head.weight[0, :size] = self._slope  # at first the log-odds rise with the cosine of the two texts
            head.bias.fill_(-self._slope * self._even)
            for name, value in head.named_parameters():
                value.copy_((start[f"{HEAD}.{name}"] if start else value) / self._gain)
        self.encoder, self.head = _adapted(encoder, rank, start, layers), head.to(encoder.device)
        self.network: nn.Module = nn.ModuleDict({"encoder": self.encoder, HEAD: head})

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Binary cross-entropy, where what asks the same and what does not weigh alike in each fact."""
        pairs, labels, weights = [], [], []
        for each in examples:
            for label, query in each.labelled():
                pairs.append(each.pair(query))
                labels.append(label)
                weights.append(1 / len(each.same if label else each.other))
        logits = self.logits(pairs)
        target, weight = (torch.tensor(each, device=logits.device) for each in (labels, weights))
        return F.binary_cross_entropy_with_logits(logits, target, weight) * len(pairs) / weight.sum()

    def logits(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Log-odds ``(N,)`` of (written prompt, query)."""
        rows: list[tuple[list[int], Tensor]] = []
        for places, tokens in _chunks(self.network, self.tokenizer, pairs):
            hidden = self.encoder(**tokens.inputs).last_hidden_state
            with torch.autocast(hidden.device.type, enabled=False):
                rows.append((places, self._gain * self.head(joint_features(hidden, tokens))[:, 0]))
        return _in_order(rows)

    def weights(self) -> dict[str, Tensor]:
        """The low-rank changes, and what makes a number of the features."""
        head = {f"{HEAD}.{name}": self._gain * value.detach() for name, value in self.head.named_parameters()}
        return _changes(self.encoder) | head | {READS_TARGET: torch.ones(())}


class Reader(Look):
    """The third stage: what a larger encoder adds to the second stage's log-odds, where that is unsure.

    Of a step's pairs a quarter are read, drawn by how unsure the second stage is of them. Only the upper two
    thirds of the encoder's layers change.

    Args:
        encoder: the larger sentence encoder.
        rank: of its changes.
        start: weights of a trained stage to begin with, of at most this rank; None: the encoder as it is.
        look: the second stage, which is not trained with it.

    Raises:
        ValueError: weights of a higher rank or another encoder.
    """

    # Its features are finer: numbers of them are learned faster. A power of two, so that nothing is rounded.
    _gain, _slope, _even = 8.0, 4.0, 0.75

    def __init__(
        self,
        encoder: SentenceTransformer,
        rank: int,
        start: Mapping[str, Tensor] | None = None,
        *,
        look: CloserLook,
    ):
        layers = transformer_of(encoder).config.num_hidden_layers
        super().__init__(encoder, rank, start, range(layers // 3, layers))
        self.second = look
        mix = torch.tensor(0.6) if start is None else start[MIX].float()
        self.mix = nn.Parameter(mix.to(encoder.device))
        self.network.register_parameter(MIX, self.mix)

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Binary cross-entropy of both stages' log-odds together, where what asks the same and what does not
        weigh alike.
        """
        asked = [(each, query, label) for each in examples for label, query in each.labelled()]
        before = self.second.log_odds([each.bare_pair(query) for each, query, _ in asked]).clamp(-9, 9)
        likely = torch.sigmoid(_HARDNESS * before)
        hard = torch.multinomial(likely * (1 - likely) + _EASY, -(-len(asked) // 4))
        chosen = [asked[place] for place in hard.tolist()]
        logits = self.logits([each.pair(query) for each, query, _ in chosen])
        logits = logits + self.mix * before[hard].to(logits)
        target = torch.tensor([label for *_, label in chosen], device=logits.device)
        balance = ((1 - target).sum() / target.sum().clamp(min=1)).clamp(1 / 3, 3)
        weight = torch.where(target > 0, balance, 1.0)
        return F.binary_cross_entropy_with_logits(logits, target, weight)

    def weights(self) -> dict[str, Tensor]:
        """As `Look.weights`, and what the second stage's log-odds are multiplied by."""
        return super().weights() | {MIX: self.mix.detach()}


STAGES: dict[str, Callable[..., Stage]] = {"candidates": Candidates, "look": Look, "reader": Reader}
RANKS = {"candidates": 20, "look": 48, "reader": 16}  # 2.9 MB in a checkpoint, and 1.8 of the last


def _adapted(
    encoder: SentenceTransformer,
    rank: int,
    start: Mapping[str, Tensor] | None,
    layers: Sequence[int] | None = None,
) -> nn.Module:
    network = transformer_of(encoder)
    if bfloat16_is_fast(encoder.device):
        network.bfloat16()
    network.set_attn_implementation("eager")  # half the time of a step for texts this short
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # no stage has learned all there is to learn
    settings = LoraConfig(r=rank, lora_alpha=rank, target_modules=_LAYERS, exclude_modules=["pooler.dense"])
    if layers is not None:
        settings.layers_to_transform, settings.layers_pattern = list(layers), "layer"
    adapted = get_peft_model(network, settings)
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
    if start:
        _begin_with(adapted, start)
    return adapted


def _begin_with(network: nn.Module, start: Mapping[str, Tensor]) -> None:
    """Put trained low-rank changes in place, as `_changes` gives them."""
    for name, layer in _adapted_layers(network):
        (adapter,) = layer.active_adapters
        parts = [start[key] for part in ("A", "B", "norm") if (key := f"{name}.{part}") in start]
        rank = layer.r[adapter]
        if len(parts) < 3 or len(parts[0]) > rank or not fits(layer.get_base_layer().weight, *parts):
            raise ValueError(
                f"the weights to begin with are of another encoder, or of a higher rank than {rank}: "
                f"see {name}"
            )
        low, high, _ = parts
        with torch.no_grad():  # of a lower rank: what is more stays as PEFT begins it, at random times zero
            layer.lora_A[adapter].weight[: len(low)] = low
            layer.lora_B[adapter].weight[:, : len(low)] = high / layer.scaling[adapter]


def _adapted_layers(network: nn.Module) -> Iterator[tuple[str, Any]]:
    """Layers that have changes of low rank, each with its name in the encoder."""
    for name, module in network.named_modules():
        if isinstance(module, LoraLayer):
            yield name.removeprefix("base_model.model."), cast(Any, module)


def _changes(network: nn.Module) -> dict[str, Tensor]:
    result: dict[str, Tensor] = {}
    for name, layer in _adapted_layers(network):
        (adapter,) = layer.active_adapters
        low, high = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight * layer.scaling[adapter]
        result |= changes(name, layer.get_base_layer().weight, low.detach(), high.detach())
    return result


def _chunks(
    network: nn.Module, tokenizer: PreTrainedTokenizerBase, texts: Sequence[tuple[str, ...]]
) -> Iterator[tuple[list[int], PairTokens]]:
    """Places and tokens of texts, or of pairs, of like length."""
    order = sorted(range(len(texts)), key=lambda place: sum(map(len, texts[place])))
    device = next(network.parameters()).device
    size = -(-len(order) // (_CHUNKS if device.type == "cpu" else 1))
    for start in range(0, len(order), size):
        places = order[start : start + size]
        yield places, PairTokens.of(tokenizer, [texts[place] for place in places], device)


def _in_order(rows: Sequence[tuple[list[int], Tensor]]) -> Tensor:
    """What was computed of the parts that `_chunks` gives, with their places, as the texts stand."""
    order = torch.tensor([place for places, _ in rows for place in places])
    return torch.cat([values for _, values in rows])[order.argsort()]
