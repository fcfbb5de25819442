"""Trained changes of low rank to a transformer's linear layers, put into a copy of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

SCALE = ".scale"
# Relative; wide enough for weights and norms in bfloat16.
_NORM_TOLERANCE = 0.02

Network = TypeVar("Network", bound=nn.Module)


def changes(layer: str, weight: Tensor, low: Tensor, high: Tensor) -> dict[str, Tensor]:
    """The change ``B A`` of one layer as a checkpoint holds it.

    Args:
        layer: its name in the network.
        weight: ``(out, in)``, as it is without the change; its norm tells the network apart from others.
        low, high: A ``(r, in)`` and B ``(out, r)``.
    """
    return {f"{layer}.A": low, f"{layer}.B": high, f"{layer}.norm": weight.detach().float().norm()}


def shortened(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights with their changes of low rank in eight bits: whole numbers of -127 to 127, int8, and for each
    row, as ``LAYER.A.scale`` ``(r, 1)`` and ``LAYER.B.scale`` ``(out, 1)``, float32, what they are multiplied
    by. It is off by less than a hundredth of a change (by its Frobenius norm), where these were trained.

    Args:
        weights: as `changes` gives them, of one stage or, with their names in front, of several; what is in
            eight bits already stays as it is, and so does all else.
    """
    result: dict[str, Tensor] = {}
    for name, value in weights.items():
        result[name] = value
        if name.endswith((".A", ".B")) and value.is_floating_point():
            rows = value.detach().float()
            scale = rows.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny) / 127
            result |= {name: (rows / scale).round().to(torch.int8), f"{name}{SCALE}": scale}
    return result


def restored(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights with the changes that are in eight bits as float32, which `shortened` shortens to the same."""
    scales = {name.removesuffix(SCALE): value for name, value in weights.items() if name.endswith(SCALE)}
    return {
        name: value * scales[name].to(value.device) if name in scales else value
        for name, value in weights.items()
        if not name.endswith(SCALE)
    }


def mixed(one: Mapping[str, Tensor], other: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """A mean of two trained stages, cut back to the rank that they have.

    Args:
        one, other: the same layers' changes, as `changes` gives them, and what else is of the stage; of the
            same shapes. A mark, which is of no layer, may be missing in one of them.
        share: of ``one``, in [0, 1].

    Returns:
        bfloat16, as a checkpoint has it.

    Raises:
        ValueError: stages of other layers or shapes.
    """
    marks = {name: value.float() for each in (other, one) for name, value in each.items() if "." not in name}
    names = (one.keys() | other.keys()) - marks.keys()
    if shapes := [name for name in names if _shape(one, name) != _shape(other, name)]:
        raise ValueError(f"the two are of other layers or ranks: they differ in {sorted(shapes)[0]}")
    result = dict(marks)
    for name in sorted(names):
        layer, _, part = name.rpartition(".")
        if part == "A" and f"{layer}.B" in one:
            continue
        if part != "B":
            result[name] = torch.lerp(other[name].float(), one[name].float(), share)
            continue
        whole, rest = (each[name].float() @ each[f"{layer}.A"].float() for each in (one, other))
        left, strengths, right = torch.linalg.svd(torch.lerp(rest, whole, share), full_matrices=False)
        rank = one[name].shape[1]
        root = strengths[:rank].sqrt()
        result |= {name: left[:, :rank] * root, f"{layer}.A": root[:, None] * right[:rank]}
    return {name: value.to(torch.bfloat16).contiguous() for name, value in result.items()}


def _shape(weights: Mapping[str, Tensor], name: str) -> torch.Size | None:
    return weights[name].shape if name in weights else None


def changed_copy(network: Network, changed: Mapping[str, Tensor], part: nn.Module | None = None) -> Network:
    """A copy of a network with ``W + B A`` in place of some of its weights, without gradients.

    What stays as it is (embeddings, norms, biases) is shared with the original, not copied.

    Args:
        network: in evaluation mode.
        changed: of each layer that changes, what `changes` gives.
        part: of the network, in which layers are named; all of it when None.

    Raises:
        ValueError: a layer that the network lacks, or one of another shape or norm.
    """
    modules = dict((part or network).named_modules())
    new: dict[int, nn.Parameter] = {}
    for layer in sorted({name.rpartition(".")[0] for name in changed}):
        weight = getattr(modules.get(layer), "weight", None)
        parts = [changed[name] for part in ("A", "B", "norm") if (name := f"{layer}.{part}") in changed]
        if weight is None or len(parts) < 3 or not fits(weight, *parts):
            raise ValueError(
                "the scope detector's trained weights were made for another sentence encoder than "
                f"{getattr(network, 'name_or_path', None) or type(network).__name__}: its {layer} "
                f"{'is missing' if weight is None else 'is another'}. Set scope_encoder_name_or_path, or "
                "scope_reader_name_or_path of the third stage, to the encoder that they were trained with"
            )
        low, high, _ = parts
        changed_weight = weight.detach().float() + (high.float() @ low.float()).to(weight.device)
        new[id(weight)] = nn.Parameter(changed_weight.to(weight.dtype), requires_grad=False)
    # Deepcopy takes what is in its memo for the copy.
    memo = {id(parameter): new.get(id(parameter), parameter) for parameter in network.parameters()}
    with torch.no_grad():
        return copy.deepcopy(network, memo).eval()


def fits(weight: Tensor, low: Tensor, high: Tensor, norm: Tensor) -> bool:
    """Whether a change of low rank is one of a layer's weight: by shapes, and by the weight's own norm."""
    same_shape = (high.shape[0], low.shape[1]) == tuple(weight.shape) and high.shape[1] == low.shape[0]
    own = float(weight.detach().float().norm())
    return same_shape and abs(own - float(norm)) <= _NORM_TOLERANCE * own
