"""A Larimar for any causal decoder, in closed form: no gradient, no training run.

The latent is the decoder's own key/value states of a text's last tokens, through a PCA over generic
sentences; its transpose, with the mean as bias, is ``W_M``. Each layer's keys and values are scaled to unit
variance first, so that no layer is fitted at the cost of another.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.key_values import DecoderStates, signature
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.settings import FIT_KEY_GAIN, FIT_VALUE_GAIN


def fit(
    decoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    name: str,
    code_size: int = 768,
    memory_slots: int = 4,
    key_gain: float = FIT_KEY_GAIN,
    value_gain: float = FIT_VALUE_GAIN,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = True,
    sentence_encoder: SentenceTransformer | None = None,
    **settings,
) -> LarimarForCausalLM:
    """Fit the closed form.

    Args:
        decoder: Hugging Face causal language model.
        tokenizer: its tokenizer.
        sentences: generic text; at least ``code_size`` tokens of it, better ten times that.
        name: what the checkpoint calls its base model.
        code_size: C / P, numbers per memory slot.
        memory_slots: P, last tokens of a fact that are kept.
        key_gain, value_gain: see `LarimarSettings`; the defaults were chosen on SmolLM2-135M with the
            project's own edits.
        batch_size: sentences per decoder pass.
        seed: of the randomised PCA.
        progress: whether to show a progress bar.
        sentence_encoder: the external scope detector's, where it is loaded already.
        settings: further settings of `LarimarSettings`.

    Raises:
        ValueError: too few sentences for ``code_size``.
    """
    states = DecoderStates(decoder, tokenizer)
    code_size = min(code_size, states.shape.size)
    if len(sentences) * memory_slots < code_size:
        raise ValueError(
            f"{len(sentences)} sentences of {memory_slots} tokens are too few for {code_size} components"
        )
    rows = _collect(states, sentences, memory_slots, batch_size, progress)
    mean, scale, basis, explained = principal_components(rows, states.shape.layers * 2, code_size, seed)
    config = LarimarConfig(
        base_model_name_or_path=name,
        decoder_signature=signature(decoder, states.shape),
        latent_size=code_size * memory_slots,
        memory_slots=memory_slots,
        key_gain=key_gain,
        value_gain=value_gain,
        **settings,
    )
    model = LarimarForCausalLM(config, decoder, tokenizer, sentence_encoder)
    for parameter, value in (
        (model.projection.mean, mean),
        (model.projection.scale, scale),
        (model.projection.basis, basis),
    ):
        parameter.data.copy_(value)
    sample = model.latent_encoder.encode(list(sentences[: min(len(sentences), 64)]))
    config.latent_norm = float(sample.norm(dim=1).mean())
    config.explained_variance = round(explained, 4)
    return model


def principal_components(
    rows: Tensor, groups: int, count: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Mean, scale, orthonormal basis and share of variance kept, of states ``(n, groups * m)``.

    ``scale`` is one number per group of ``m`` columns, the root mean square of what is left without the mean,
    repeated for each of its columns. ``basis`` is ``(groups * m, count)``, of ``(rows - mean) / scale``.
    """
    mean = rows.mean(dim=0)
    rows = rows - mean
    scale = rows.view(len(rows), groups, -1).square().mean(dim=(0, 2)).sqrt().clamp_min(1e-6)
    scale = scale.repeat_interleave(rows.shape[1] // groups)
    rows /= scale
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _, singular, basis = torch.svd_lowrank(rows, q=min(count + 16, *rows.shape), niter=2)
    explained = float(singular[:count].square().sum() / rows.square().sum())
    return mean, scale, basis[:, :count], explained


def _collect(
    states: DecoderStates, sentences: Sequence[str], slots: int, batch_size: int, progress: bool
) -> Tensor:
    by_length = sorted(sentences, key=len)
    rows = torch.empty(len(by_length) * slots, states.shape.size)
    done = 0
    bar = tqdm(total=len(by_length), desc="decoder states", unit="sentence", disable=not progress)
    for start in range(0, len(by_length), batch_size):
        part = by_length[start : start + batch_size]
        got = states.last_tokens(part, slots).flatten(0, 1).flatten(1)
        rows[done : done + len(got)] = got.cpu()
        done += len(got)
        bar.update(len(part))
    bar.close()
    return rows
