"""The edited state that a model begins with, by its configuration: a memory that nothing is written to."""

from __future__ import annotations

import torch
from torch import Tensor

from larimar_editor.memory.addressing import Reference, random_reference
from larimar_editor.memory.memory import Memory
from larimar_editor.memory.rest import Rest
from larimar_editor.memory.slots import SlotLayout
from larimar_editor.model.configuration import LarimarConfig
from larimar_editor.model.queries import QueryEncoder
from larimar_editor.model.scoping import ScopeDetectors
from larimar_editor.state.edited import EditedState
from larimar_editor.state.facts import FactStore
from larimar_editor.state.fixed import Fixed
from larimar_editor.state.paged import Pages


def empty_state(
    config: LarimarConfig, queries: QueryEncoder, detectors: ScopeDetectors, prior: Tensor | None
) -> EditedState:
    """Pages, or the paper's memory of K rows.

    Args:
        config: of the model.
        queries: whose latents are written, and on whose device.
        detectors: whose embeddings may be the keys.
        prior: trained prior memory ``(K, C)``, or None.

    Raises:
        ValueError: ``reference: prior``, and none of that shape.
    """
    device, layout = queries.device, queries.encoder.layout or SlotLayout(1, config.latent_size)
    if config.has_pages:
        rest = Rest(layout, config.rest_dtype)
        return EditedState(Pages(config.memory_rows, config.addressing_alpha, rest, device), FactStore())
    memory = Memory.empty(config.memory_rows, config.latent_size, device=device)
    key_size = detectors.external.embedding_size if config.key_encoding == "scope" else config.latent_size
    reference = _reference(config, key_size, prior, device)
    return EditedState(Fixed(memory, reference, Rest(layout, "float32")), FactStore())


def _reference(config: LarimarConfig, size: int, prior: Tensor | None, device: torch.device) -> Reference:
    """What turns keys of this size into weights over the memory's rows."""
    if config.reference == "prompts":
        return Reference.from_prompts(
            config.memory_rows, size, config.addressing, config.addressing_alpha, device
        )
    if config.reference == "random":
        rows = random_reference(config.memory_rows, size)
    else:
        rows = _prior_rows(config, size, prior)
    return Reference.fixed(rows.to(device), config.addressing, config.addressing_alpha)


def _prior_rows(config: LarimarConfig, size: int, prior: Tensor | None) -> Tensor:
    if prior is None or prior.shape != (config.memory_rows, size):
        raise ValueError(
            "reference: prior needs a trained prior memory of shape "
            f"{(config.memory_rows, size)}; the checkpoint has "
            f"{None if prior is None else tuple(prior.shape)}. Use reference: prompts or "
            "random."
        )
    return prior
