"""The training objective (paper, eq. (obj)): four terms of one step, as one module whose parameters are what
is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.training.decoding import checkpointed_layers, hidden_states, logits_of, of_logits
from larimar_editor.training.episodes import pseudoinverse, read_episodes, reading_kl
from larimar_editor.training.fused_lora import fused_lora
from larimar_editor.training.rows import Rows
from larimar_editor.training.settings import Objective

_MEMORY, _OTHER, _AUTOENCODER = range(3)


@dataclass
class Losses:
    """The terms of one step, unweighted, and what they add up to.

    Attributes:
        total: weighted sum; the only one with a gradient.
        terms: nats per token, or nats per encoding for "kl".
        accuracy: share of the predicted tokens of weight 1 that were right, 0 to 1.
    """

    total: Tensor
    terms: dict[str, Tensor]
    accuracy: Tensor


class LarimarObjective(nn.Module):
    """The model in training.

    Args:
        larimar: the model.
        objective: strengths of the terms.
        latents: encodings ``(N, C)`` of texts, or wider; called without gradients unless the encoder is
            trained.
        checkpointing: recompute layers in the backward pass.
        bucket_tokens: tokens of one decoder pass, padding counted; rows of like length go together. 0: all
            rows in one pass.

    Attributes:
        prior: the prior memory ``M_0``, ``(K, C)``.
        log_sigma_w: logarithm of sigma_W, ``(1,)``: DeepSpeed sends no scalars.
    """

    prior_inverse: Tensor | None

    def __init__(
        self,
        larimar: LarimarForCausalLM,
        objective: Objective,
        latents: Callable[[Rows], Tensor],
        checkpointing: bool = False,
        bucket_tokens: int = 0,
    ):
        super().__init__()
        if (
            objective.language_model
            and objective.language_model_memory == "none"
            and larimar.config.decoder_mode != "full"
        ):
            raise ValueError(
                "language_model_memory: none regularises a decoder that is trained (decoder_mode: full); "
                "with a frozen one "
                "or with adapters use `other`, or language_model: 0"
            )
        self.larimar, self.objective, self.latents, self.checkpointing = (
            larimar,
            objective,
            latents,
            checkpointing,
        )
        self.bucket_tokens = bucket_tokens
        size = larimar.config.latent_size
        generator = torch.Generator().manual_seed(0)
        prior = larimar.prior
        if prior is None:
            prior = torch.randn(larimar.config.memory_rows, size, generator=generator)
        self.prior = nn.Parameter(prior.float().to(larimar.device), requires_grad=objective.train_prior)
        sigma = torch.tensor([max(objective.sigma_w, 1e-8)], device=larimar.device).log()
        self.log_sigma_w = nn.Parameter(
            sigma, requires_grad=objective.train_sigma_w and objective.sigma_w > 0
        )
        self.register_buffer(
            "prior_inverse",
            None if objective.train_prior else pseudoinverse(self.prior.data),
            persistent=False,
        )

    @property
    def sigma_w(self) -> Tensor:
        """sigma_W, a scalar tensor."""
        return (
            self.log_sigma_w.exp()[0] if self.objective.sigma_w else torch.zeros((), device=self.prior.device)
        )

    def forward(
        self, rows: Rows, kl_strength: float = 0.0, generator: torch.Generator | None = None
    ) -> Losses:
        """Losses of one step's rows."""
        objective = self.objective
        with torch.autocast(rows.ids.device.type, enabled=False):
            Z = self.latents(rows).float()
            inverse = pseudoinverse(self.prior) if self.prior_inverse is None else self.prior_inverse
            noise = objective.observation_noise * float(Z.detach().square().mean().sqrt())
            readouts, W = read_episodes(Z, inverse, self.sigma_w, objective.episode_length, noise, generator)
            kl = reading_kl(W, self.sigma_w) if objective.kl else Z.new_zeros(())
        asked = _questions(rows, readouts, Z, objective)
        flat = self._decode(asked)
        terms: dict[str, Tensor] = {"kl": kl}
        terms["memory"], accuracy = flat.reconstruction(flat.term == _MEMORY)
        total = kl_strength * kl + objective.memory * terms["memory"]
        if objective.autoencoder:
            terms["autoencoder"], _ = flat.reconstruction(flat.term == _AUTOENCODER)
            total = total + objective.autoencoder * terms["autoencoder"]
        if objective.language_model:
            if objective.language_model_memory == "other":
                terms["language_model"] = self._divergence(flat, asked)
            else:
                terms["language_model"] = self._language_model(rows)
            total = total + objective.language_model * terms["language_model"]
        return Losses(total, {name: term.detach() for name, term in terms.items()}, accuracy)

    def _decode(self, asked: _Questions) -> _Predictions:
        larimar = self.larimar
        layers = larimar.states.shape.layers
        with self._adapted(), checkpointed_layers(larimar.decoder, layers, self.checkpointing, self._adapted):
            states = [self._bucket(asked, part) for part in asked.buckets(self.bucket_tokens)]
        return _Predictions(
            larimar.decoder,
            torch.cat(states),
            asked.ids[:, 1:][asked.wanted],
            asked.weights[:, 1:][asked.wanted],
            asked.term[:, None].expand_as(asked.wanted)[asked.wanted],
        )

    @contextmanager
    def _adapted(self) -> Iterator[None]:
        """The decoder as it reads a memory."""
        with self.larimar.adapted(), fused_lora(self.larimar.decoder):
            yield

    def _bucket(self, asked: _Questions, part: slice) -> Tensor:
        larimar, length = self.larimar, int(asked.lengths[part].max())
        hidden = hidden_states(larimar.decoder, asked.ids[part, :length], larimar.prefix(asked.latents[part]))
        return hidden[:, :-1][asked.wanted[part, : length - 1]]

    def _divergence(self, flat: _Predictions, asked: _Questions) -> Tensor:
        """``KL(base || with something else in memory)`` per unit of weight."""
        rows, chosen = (asked.term == _OTHER) & (asked.lengths > 1), flat.term == _OTHER
        if not bool(rows.any()):
            return flat.hidden.new_zeros(())
        length = int(asked.lengths[rows].max())
        with torch.no_grad():
            base = hidden_states(self.larimar.decoder, asked.ids[rows, :length])[:, :-1][
                asked.wanted[rows, : length - 1]
            ]

        def divergence(logits: Tensor, part: slice) -> Tensor:
            with torch.no_grad():
                wanted = logits_of(self.larimar.decoder, base[part]).log_softmax(-1)
            return F.kl_div(logits.log_softmax(-1), wanted, log_target=True, reduction="none").sum(-1)

        each = of_logits(self.larimar.decoder, flat.hidden[chosen], divergence)
        return _mean(each, flat.weights[chosen])

    def _language_model(self, rows: Rows) -> Tensor:
        """``-ln p(x_i | x_{i-1} .. x_1)`` of the texts, nothing in memory (paper, eq. (obj), last term).
        Facts are for the memory: of their answers the decoder itself is to learn nothing.
        """
        larimar = self.larimar
        texts = ~rows.other & ~rows.fact
        if not bool(texts.any()):
            return self.prior.new_zeros(())
        ids, wanted = rows.ids[texts], rows.weights[texts, 1:] > 0
        layers = larimar.states.shape.layers
        with checkpointed_layers(larimar.decoder, layers, self.checkpointing, nullcontext):
            hidden = hidden_states(larimar.decoder, ids)[:, :-1][wanted]
        return _surprise(larimar.decoder, hidden, ids[:, 1:][wanted])[0].mean()


@dataclass
class _Questions:
    """Rows of all terms, shortest first: what the decoder gets, and what it should say.

    Attributes:
        ids, weights: ``(R, T)``.
        latents: ``(R, C)``.
        term: int ``(R,)``.
        lengths: int ``(R,)``.
        wanted: bool ``(R, T - 1)``; positions whose successor is to be predicted.
    """

    ids: Tensor
    weights: Tensor
    latents: Tensor
    term: Tensor
    lengths: Tensor
    wanted: Tensor

    def buckets(self, tokens: int) -> list[slice]:
        """Runs of rows that hold about ``tokens`` tokens with their padding; one run when 0."""
        if not tokens:
            return [slice(0, len(self.ids))]
        parts, start = [], 0
        for end, length in enumerate(self.lengths.tolist()):
            if end > start and (end + 1 - start) * length > tokens:
                parts.append(slice(start, end))
                start = end
        return [*parts, slice(start, len(self.ids))]


@dataclass
class _Predictions:
    """Every token that is to be predicted: the state that it is predicted from ``(n, hidden)``; label, weight
    and term ``(n,)`` each.
    """

    decoder: PreTrainedModel
    hidden: Tensor
    labels: Tensor
    weights: Tensor
    term: Tensor

    def reconstruction(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """``-ln p(x | z)`` per unit of weight, and accuracy on tokens of full weight."""
        weights = self.weights[chosen]
        each, right = _surprise(self.decoder, self.hidden[chosen], self.labels[chosen])
        full = weights == 1
        return _mean(each, weights), (right.detach() * full).sum() / full.sum().clamp_min(1)


def _surprise(decoder: PreTrainedModel, hidden: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """``-ln p(label)`` ``(n,)``, and 1 where no token is likelier than the label, else 0."""

    def score(logits: Tensor, part: slice) -> Tensor:
        each = F.cross_entropy(logits, labels[part], reduction="none")
        known = logits.detach()  # argmax is several times as slow on a CPU as the largest value
        right = known.gather(1, labels[part, None])[:, 0] == known.amax(-1)
        return torch.stack((each, right.to(each)), dim=1)

    each, right = of_logits(decoder, hidden, score).unbind(1)
    return each, right


def _mean(each: Tensor, weights: Tensor) -> Tensor:
    return (each * weights).sum() / weights.sum().clamp_min(1e-9)


def _questions(rows: Rows, readouts: Tensor, Z: Tensor, objective: Objective) -> _Questions:
    nothing = torch.zeros_like(rows.other)
    recalled = ~rows.other if objective.memory else nothing
    about_other = (
        rows.other if objective.language_model and objective.language_model_memory == "other" else nothing
    )
    direct = (
        ~rows.other & (rows.memory < int(objective.autoencoder_share * len(Z)))
        if objective.autoencoder
        else nothing
    )
    chosen = [torch.nonzero(each).flatten() for each in (recalled, about_other, direct)]
    row = torch.cat(chosen)
    term = torch.cat(
        [torch.full_like(each, name) for each, name in zip(chosen, (_MEMORY, _OTHER, _AUTOENCODER))]
    )
    columns = torch.arange(1, rows.ids.shape[1] + 1, device=row.device)
    lengths = ((rows.weights[row] > 0) * columns).amax(dim=1)
    order = lengths.argsort(stable=True)
    row, term, lengths = row[order], term[order], lengths[order]
    source = torch.where((term == _AUTOENCODER)[:, None], Z[rows.memory[row]], readouts[rows.memory[row]])
    weights = rows.weights[row]
    return _Questions(rows.ids[row], weights, source, term, lengths, weights[:, 1:] > 0)
