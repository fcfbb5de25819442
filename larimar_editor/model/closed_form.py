"""A Larimar for any causal decoder, in closed form: no gradient, no training run.

The latent is the decoder's own key/value states of a text's last tokens, through a PCA over generic
sentences; its transpose, with the mean as bias, is ``W_M``. Each layer's keys and values are scaled to unit
variance first, so that no layer is fitted at the cost of another; but the first layer counts for more. Its
states hang on the token alone, and are what tells "hog" from "cheeses" in a code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.checkpoints import DETECTOR
from larimar_editor.model.checkpoint import external_detector_of
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.encoders import KeyValueProjection
from larimar_editor.model.key_values import DecoderStates, signature
from larimar_editor.model.larimar import LarimarForCausalLM
from larimar_editor.model.settings import FIT_COPYING, FIT_KEY_GAIN, FIT_VALUE_GAIN

# With 3, every token of unseen answers is the nearest to its code's first-layer values; with 1, 96% of them.
FIRST_LAYER = 3.0
_AT_ONCE = 4096  # rows of states of which a second copy is held


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
    first_layer: float = FIRST_LAYER,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = True,
    sentence_encoder: SentenceTransformer | None = None,
    detector: str | Path | None = DETECTOR,
    **settings,
) -> LarimarForCausalLM:
    """Fit the closed form.

    Args:
        decoder: Hugging Face causal language model; put into evaluation mode.
        tokenizer: its tokenizer.
        sentences: generic text; at least ``code_size`` tokens of it, better ten times that.
        name: what the checkpoint calls its base model.
        code_size: C / P, numbers per memory slot.
        memory_slots: P, last tokens of a fact that are kept.
        key_gain, value_gain: see `LarimarSettings`; the defaults were chosen on SmolLM2-135M with the
            project's own edits.
        first_layer: what the first layer's states count for, of 1 for any other's.
        batch_size: sentences per decoder pass.
        seed: of the randomised PCA.
        progress: whether to show a progress bar.
        sentence_encoder: the external scope detector's, where it is loaded already.
        detector: checkpoint, by folder or name, whose external scope detector it gets, with its thresholds;
            None, or with another ``scope_encoder_name_or_path``: the sentence encoder as it is. A detector
            knows nothing of the decoder.
        settings: further settings of `LarimarSettings`; ``copying`` is on where it is not among them.

    Raises:
        ValueError: too few sentences for ``code_size``.
        FileNotFoundError: no such ``detector``.
    """
    weights, of_detector = external_detector_of(detector, settings)
    states = DecoderStates(decoder.eval(), tokenizer)
    code_size = min(code_size, states.shape.size)
    rows = _collect(states, sentences, memory_slots, code_size, batch_size, progress)
    mean, scale, basis, explained = principal_components(rows, _weights(states, first_layer), code_size, seed)
    config = LarimarConfig(
        base_model_name_or_path=name,
        decoder_signature=signature(decoder, states.shape),
        latent_size=code_size * memory_slots,
        memory_slots=memory_slots,
        key_gain=key_gain,
        value_gain=value_gain,
        **(FIT_COPYING | of_detector | settings),
    )
    model = LarimarForCausalLM(config, decoder, tokenizer, sentence_encoder)
    model.detectors.weights = weights
    for part in {model.projection, model.analysis}:  # one, or with tied_projection: false two
        _set(part, mean, scale, basis)
    _note(model, sentences, explained)
    return model


def refit(
    model: LarimarForCausalLM,
    texts: Sequence[str],
    *,
    first_layer: float = FIRST_LAYER,
    batch_size: int = 32,
    seed: int = 0,
    progress: bool = True,
) -> None:
    """Make the encoder of a trained Larimar anew, in place, and move its ``W_M`` onto the new codes.

    What training has changed in ``W_M`` is kept, of the old codes that least squares make of the new; to it
    comes what the new codes hold and the old did not. To be trained on from there. Weights of an internal
    scope detector are dropped: they are of the old codes.

    Args:
        model: nothing is written to it, and its encoder is its decoder's states.
        texts: sentences, and facts with their answers; see `fit`.
        first_layer, batch_size, seed, progress: as for `fit`.

    Raises:
        ValueError: another kind of encoder, a memory that is not empty, a scope detector that is of the
            encoder as it is, or too few texts.
    """
    if model.config.encoder_type != "decoder-states" or model.config.tied_projection:
        raise ValueError(
            "only the encoder of a trained checkpoint with encoder_type: decoder-states is made anew"
        )
    if not model.is_empty():
        raise ValueError("the facts in memory are codes of the encoder as it is: forget them first")
    if model.config.scope == "internal":
        raise ValueError(
            "scope: internal is of the encoder as it is: let the external detector decide first "
            "(`larimar-editor calibrate --checkpoint FOLDER --write`)"
        )
    states, old, w_m = model.states, model.analysis, model.projection
    rows = _collect(states, texts, w_m.slots, w_m.code_size, batch_size, progress)
    # On the CPU, where the rows are.
    old_mean, old_scale, old_basis = (each.detach().cpu() for each in (old.mean, old.scale, old.basis))
    its_scale, its_basis, its_mean = (each.detach().cpu() for each in (w_m.scale, w_m.basis, w_m.mean))
    before = torch.cat([((part - old_mean) / old_scale) @ old_basis for part in rows.split(_AT_ONCE)])
    mean, scale, basis, explained = principal_components(
        rows, _weights(states, first_layer), w_m.code_size, seed
    )
    after = rows @ basis
    after = torch.cat((after, torch.ones(len(after), 1)), dim=1)
    # gelsd: few texts, or alike, leave codes that no text moves, which the default driver must not be given.
    *to_old, offset = torch.linalg.lstsq(after, before, driver="gelsd").solution
    to_old = torch.stack(to_old)  # old codes are new ones @ to_old + offset
    # Of one new code, in units of the states: trained W_M of its old code, and new codes less old ones.
    trained = its_scale[:, None] * its_basis - old_scale[:, None] * old_basis
    moved = trained @ to_old.T + scale[:, None] * basis
    constant = trained @ offset + mean - old_mean
    gains = w_m.gain.detach().cpu().expand(w_m.shape).flatten()
    _set(w_m, its_mean + gains * constant, scale, moved / scale[:, None])
    _set(old, mean, scale, basis)
    model.detectors.weights = model.detectors.external_weights
    _note(model, texts, explained)


def principal_components(
    rows: Tensor, weights: Sequence[float], count: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, float]:
    """Mean, scale, orthonormal basis and share of variance kept, of states ``(n, len(weights) * m)``.

    ``scale`` is one number per group of ``m`` columns, the root mean square of what is left without the mean
    over the group's weight, repeated for each of its columns. ``basis`` is ``(len(weights) * m, count)``, of
    ``(rows - mean) / scale``, which is what ``rows`` holds afterwards: there may be no room for two of them.
    """
    mean, groups = rows.mean(dim=0), len(weights)
    rows -= mean
    of_groups = rows.view(len(rows), groups, -1)
    scale = torch.stack([of_groups[:, group].norm() for group in range(groups)])
    scale = (scale / math.sqrt(of_groups[:, 0].numel())).clamp_min(1e-6)
    scale = (scale / torch.tensor(weights)).repeat_interleave(rows.shape[1] // groups)
    rows /= scale
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _, singular, basis = torch.svd_lowrank(rows, q=min(count + 16, *rows.shape), niter=2)
    explained = float(singular[:count].square().sum() / rows.norm().square())
    return mean, scale, basis[:, :count], explained


def _weights(states: DecoderStates, first_layer: float) -> list[float]:
    """Of each layer's keys and values."""
    return [first_layer] * 2 + [1.0] * 2 * (states.shape.layers - 1)


def _set(part: KeyValueProjection, mean: Tensor, scale: Tensor, basis: Tensor) -> None:
    for parameter, value in ((part.mean, mean), (part.scale, scale), (part.basis, basis)):
        parameter.data.copy_(value)


def _note(model: LarimarForCausalLM, texts: Sequence[str], explained: float) -> None:
    sample = model.latent_encoder.encode(list(texts[: min(len(texts), 64)]))
    model.config.latent_norm = float(sample.norm(dim=1).mean())
    model.config.explained_variance = round(explained, 4)


def _collect(
    states: DecoderStates, sentences: Sequence[str], slots: int, count: int, batch_size: int, progress: bool
) -> Tensor:
    if len(sentences) * slots < count:
        raise ValueError(f"{len(sentences)} sentences of {slots} tokens are too few for {count} components")
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
