"""The second stage of the scope detector: a closer look at a query and a written prompt together."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerBase

from larimar_editor.scope.low_rank import changed_copy
from larimar_editor.utils.device import bfloat16_is_fast
from larimar_editor.utils.text import read_alike

HEAD = "head"
READS_TARGET = "reads_target"
_MOST_OF_TARGET = 100  # characters: what sort of answer it is shows in its beginning
MOST_TOKENS = 256  # of a pair; of longer ones the longer text loses its start


def as_written(prompt: str, subject: str | None = None, target: str | None = None) -> str:
    """A written prompt as the second stage reads it: its subject in front, its answer behind, where given."""
    if subject and subject.strip():
        prompt = f"{subject.strip()} | {prompt}"
    if not target or not target.strip():
        return prompt
    target = target.strip()
    if len(target) > _MOST_OF_TARGET:
        target = target[:_MOST_OF_TARGET].rpartition(" ")[0] or target[:_MOST_OF_TARGET]
    return f"{prompt} = {target}"


@dataclass(frozen=True)
class PairTokens:
    """Texts, or pairs of texts, as a network takes them.

    Attributes:
        inputs: ids, mask and, where the network has them, types; each ``(N, T)``.
        first, second: bool ``(N, T)``: which tokens are of which text, what is put around them counted.
    """

    inputs: dict[str, Tensor]
    first: Tensor
    second: Tensor

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        texts: Sequence[tuple[str, ...]],
        device: torch.device | str = "cpu",
    ) -> PairTokens:
        """Padded to the longest; see `read_alike` for what is made of their letters.

        Args:
            tokenizer: one that cuts texts from their start, see `cutting_starts`.
            texts: one or two each.
            device: where they go.
        """
        columns = [[read_alike(text) for text in column] for column in zip(*texts)]
        tokens = tokenizer(
            *columns, padding=True, truncation=True, max_length=MOST_TOKENS, return_tensors="pt"
        )
        mask = tokens["attention_mask"].bool()
        if "token_type_ids" in tokens:
            second = mask & tokens["token_type_ids"].bool()
        else:
            ids = [[part == 1 for part in tokens.sequence_ids(row)] for row in range(len(texts))]
            second = mask & torch.tensor(ids)
        inputs = {name: value.to(device) for name, value in tokens.items()}
        return cls(inputs, (mask & ~second).to(device), second.to(device))


def cutting_starts(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """A copy of a tokenizer that cuts what is too long from its start: a prompt is continued at its end."""
    copied = copy.deepcopy(tokenizer)
    copied.truncation_side = "left"
    return copied


def joint_features(hidden: Tensor, tokens: PairTokens) -> Tensor:
    """What the log-odds are linear in: product and distance of the two texts' mean states, both of unit
    length, and the first token's state.

    The product makes the start of training that of a bi-encoder, whose cosines are worth something already.

    Args:
        hidden: the last states of pairs ``(N, T, E)``.
        tokens: of the same pairs.

    Returns:
        ``(N, 3 E)`` float32.
    """
    hidden = hidden.float()
    one, other = (
        F.normalize((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=1)
        for mask in (tokens.first, tokens.second)
    )
    return torch.cat((one * other, (one - other).abs(), F.normalize(hidden[:, 0], dim=1)), dim=1)


def reading_dtype(device: torch.device | str) -> torch.dtype:
    """In which pairs are read there: bfloat16 where that is fast, as in training."""
    return torch.bfloat16 if bfloat16_is_fast(device) else torch.float32


class CloserLook:
    """Whether a query asks what a written prompt asks, from both texts at once.

    The sentence encoder with trained changes of low rank reads the two as a pair; the log-odds are linear in
    `joint_features`. It reads in bfloat16, as it was trained, where that is fast: probabilities then differ a
    little from those in float32.

    Args:
        network: the sentence encoder's, below its pooling; it stays as it is.
        tokenizer: the sentence encoder's.
        weights: ``LAYER.A``, ``LAYER.B``, ``LAYER.norm`` (see `changed_copy`), ``head.weight`` ``(1, 3 E)``,
            ``head.bias`` ``(1,)``, and ``reads_target`` where it was trained with the facts' answers.

    Attributes:
        reads_target: whether a written prompt is shown with its answer behind it: "Silver melts at = 961 °C"
            and "What is the boiling point of silver?". What is asked is thereby plainer; the query never has
            an answer.

    Raises:
        ValueError: weights for another encoder.
    """

    def __init__(self, network: nn.Module, tokenizer: PreTrainedTokenizerBase, weights: Mapping[str, Tensor]):
        self.reads_target = READS_TARGET in weights
        rest = {name for name in weights if name == READS_TARGET or name.startswith(f"{HEAD}.")}
        changed = {name: value for name, value in weights.items() if name not in rest}
        self.tokenizer = cutting_starts(tokenizer)
        self.network = changed_copy(network, changed)
        self._weight, self._bias = (weights[f"{HEAD}.{name}"].float() for name in ("weight", "bias"))
        self.to(next(network.parameters()).device)

    def to(self, device: torch.device) -> None:
        """Move it."""
        dtype = reading_dtype(device)
        if next(self.network.parameters()).dtype != dtype:
            self.network = copy.deepcopy(self.network).to(dtype)  # it shares what it has not changed
        self.network.to(device)
        self._weight, self._bias = self._weight.to(device), self._bias.to(device)

    def probabilities(self, pairs: Sequence[tuple[str, str]], batch: int | None = None) -> Tensor:
        """Probabilities ``(N,)`` in [0, 1], float32 on the CPU, that (written prompt, query) ask the same.
        Arguments as `log_odds`'.
        """
        return self.log_odds(pairs, batch).sigmoid()

    def log_odds(self, pairs: Sequence[tuple[str, str]], batch: int | None = None) -> Tensor:
        """Log-odds ``(N,)``, float32 on the CPU, that (written prompt, query) ask the same.

        Args:
            pairs: written prompts, as `as_written` gives them, with queries.
            batch: pairs of like length that are read at once; by default 64 on a CPU and 512 elsewhere.
        """
        batch = batch or (64 if self._weight.device.type == "cpu" else 512)
        result = torch.zeros(len(pairs))
        order = sorted(range(len(pairs)), key=lambda place: sum(map(len, pairs[place])))
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            result[places] = self._read([pairs[place] for place in places])
        return result

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        device = self._weight.device
        tokens = PairTokens.of(self.tokenizer, pairs, device)
        # Its numbers are the same where training another stage has set other ones for what it computes.
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            features = joint_features(self.network(**tokens.inputs).last_hidden_state, tokens)
            return F.linear(features, self._weight, self._bias)[:, 0].cpu()
