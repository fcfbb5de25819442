"""LoRA adapters on a decoder that act only when they are told to, whoever else uses the decoder."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D


class DecoderAdapters(nn.Module):
    """One set of PEFT's LoRA adapters that is in the decoder only while it is in use; else its modules are
    those it had.

    Several sets fit on one decoder, and so does a set on a decoder that has adapters of its own. Without
    gradients, layers with the adapters merged into a copy of their weight are put in: a generated token then
    costs what the bare decoder's does.

    Args:
        decoder: gets a LoRA layer in place of each linear layer that is targeted.
        rank: of the adapters; their scale is 1.
        targets: last parts of the names of linear layers; all but the output embedding's when None or
            "all-linear".
        merge: whether to keep merged copies, as large as the weights that are targeted.

    Attributes:
        name: of the set, in PEFT's layers.
        layers: PEFT's layers, in the decoder's order.
        lora_A, lora_B: their adapters, ``(rank, in)`` and ``(out, rank)``.
    """

    def __init__(
        self,
        decoder: PreTrainedModel,
        rank: int,
        targets: str | Sequence[str] | None = None,
        merge: bool = True,
    ) -> None:
        super().__init__()
        foreign: list[Any] = [layer for layer in decoder.modules() if isinstance(layer, LoraLayer)]
        others = {id(layer): _switches(layer) for layer in foreign}
        self.name = _free_name(foreign)
        before = {(id(parent), name): child for parent, name, child in _children(decoder)}
        _inject(decoder, self.name, rank, targets)
        self.layers: list[Any] = [
            layer for layer in decoder.modules() if isinstance(layer, LoraLayer) and self.name in layer.lora_A
        ]
        places = {id(child): (parent, name) for parent, name, child in _children(decoder)}
        self._places = [places[id(layer)] for layer in self.layers]
        self._found = [before[id(parent), name] for parent, name in self._places]
        self.lora_A = nn.ModuleList([layer.lora_A[self.name] for layer in self.layers])
        self.lora_B = nn.ModuleList([layer.lora_B[self.name] for layer in self.layers])
        # Layers that are another's too are switched; those that are ours alone act whenever they are put in.
        self._shared = [layer for layer in self.layers if id(layer) in others]
        for layer in self.layers:
            layer._active_adapter, layer._disable_adapters = others.get(id(layer), ([self.name], False))
        self._others: list | None = None
        bases = [layer.get_base_layer() for layer in self.layers]
        parts = zip(bases, self.lora_A, self.lora_B)
        # The dicts themselves, past nn.Module's look-ups: they are looked at for each generated token.
        self._holders = [part._parameters for each in parts for part in each]
        self._merge = merge and all(map(_may_be_merged, bases))
        self._merged: list[nn.Module] = list(self.layers)  # until they are needed
        self._stamps: tuple[list[int], list[int]] = [], []
        self._put(self._found)

    @contextmanager
    def at_work(self, on: bool = True) -> Iterator[None]:
        """Within this block the adapters act alone, or not at all; then what was before is back, whatever
        happened.
        """
        before = self._others is not None
        try:
            self.use(on)
            yield
        finally:
            self.use(before)

    def use(self, on: bool) -> None:
        """Let the adapters act alone, or put back what was before."""
        if on == (self._others is not None):
            return
        if on:
            # Whoever else uses the decoder may have put other modules there meanwhile; past nn.Module's
            # look-ups, as in `_up_to_date`.
            self._found = [cast(nn.Module, parent._modules[name]) for parent, name in self._places]
            self._others = [_switches(layer) for layer in self._shared]
            if self._merge and not torch.is_grad_enabled():
                self._put(self._up_to_date())
            else:
                # Not PEFT's enable_adapters: it freezes what it switches off, even before the backward pass.
                for layer in self._shared:
                    layer._active_adapter, layer._disable_adapters = [self.name], False
                self._put(self.layers)
        else:
            self._put(self._found)
            for layer, switches in zip(self._shared, self._others or []):
                layer._active_adapter, layer._disable_adapters = switches
            self._others = None

    def _put(self, layers: Sequence[nn.Module]) -> None:
        for (parent, name), layer in zip(self._places, layers, strict=True):
            parent._modules[name] = layer

    def _up_to_date(self) -> list[nn.Module]:
        """The merged layers; one is made anew when a weight that it was made from is not the same any
        more. What is added in place to a weight's ``.data`` cannot be seen here, as autograd cannot see it.
        """
        weights = [cast(Tensor, holder["weight"]) for holder in self._holders]
        places = [*map(Tensor.data_ptr, weights)]  # new data bumps no version
        try:
            versions = [*map(_VERSION, weights)]
        except RuntimeError:  # one was loaded in inference mode
            versions = [*map(_version, weights)]
        if (places, versions) != self._stamps:
            old_places, old_versions = self._stamps
            for place, layer in enumerate(self.layers):
                own = slice(3 * place, 3 * place + 3)
                if places[own] != old_places[own] or versions[own] != old_versions[own]:
                    self._merged[place] = _merged_layer(layer, self.name)
            self._stamps = places, versions
        return self._merged

    def weights(self) -> dict[str, nn.Parameter]:
        """``INDEX.lora_A`` of shape ``(rank, in)`` and ``INDEX.lora_B`` of shape ``(out, rank)``, by a
        layer's place.
        """
        result = {}
        for name, parameter in self.named_parameters():
            part, index, _ = name.split(".")
            result[f"{index}.{part}"] = parameter
        return result


def _free_name(foreign: Sequence[Any]) -> str:
    """For a set of adapters beside those that are in the decoder's LoRA layers already."""
    taken = {name for layer in foreign for name in layer.lora_A}
    names = ("default", *map("larimar_{}".format, range(2, 2 + len(taken))))
    return next(name for name in names if name not in taken)


def _children(decoder: PreTrainedModel) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Every module but the decoder itself, behind what it is in and its name there."""
    for parent in decoder.modules():
        for name, child in parent.named_children():
            yield parent, name, child


def _inject(decoder: PreTrainedModel, name: str, rank: int, targets: str | Sequence[str] | None) -> None:
    """Put PEFT's layers in. What PEFT does to the decoder besides is undone: that is its owner's."""
    if targets is None or targets == "all-linear":
        targets = _linear_layers(decoder, LoraLayer)
    transposed = any(isinstance(module, Conv1D) for module in decoder.modules())  # GPT-2's linear layers
    modules = targets if isinstance(targets, str) else list(targets)
    config = LoraConfig(r=rank, lora_alpha=rank, target_modules=modules, fan_in_fan_out=transposed)
    peft_config_before = vars(decoder).get("peft_config")
    trainable = [each for each in decoder.parameters() if each.requires_grad and not each.is_inference()]
    inject_adapter_in_model(config, decoder, adapter_name=name)
    for parameter in trainable:  # PEFT freezes them
        parameter.requires_grad_(True)
    vars(decoder).pop("peft_config", None)
    if peft_config_before is not None:
        decoder.peft_config = peft_config_before


def _may_be_merged(base: nn.Module) -> bool:
    """Quantised layers, and those that accelerate moves about, are left to PEFT."""
    return (
        type(base) in (nn.Linear, Conv1D)
        and not hasattr(base, "_hf_hook")
        and not is_traceable_wrapper_subclass(base.weight)  # as torchao quantises
    )


@torch.no_grad()
def _merged_layer(layer: Any, adapter: str) -> nn.Module:
    base = layer.get_base_layer()
    merged = copy.copy(base)
    weight = base.weight.float() + layer.get_delta_weight(adapter).float()
    merged._parameters = dict(base._parameters) | {
        "weight": nn.Parameter(weight.to(base.weight.dtype), requires_grad=False)
    }
    return merged


_VERSION = operator.attrgetter("_version")


def _version(weight: Tensor) -> int:
    return 0 if weight.is_inference() else weight._version  # one that was loaded in inference mode stays


def _switches(layer) -> tuple:
    return layer._active_adapter, layer._disable_adapters


def _linear_layers(decoder: PreTrainedModel, lora_layer: type) -> list[str]:
    """Names of the linear layers, less what is inside a LoRA layer already, and the output embedding."""
    head, names = decoder.get_output_embeddings(), set()
    inside: tuple[str, ...] = ()
    for name, module in decoder.named_modules():
        if inside and name.startswith(inside):
            continue
        if isinstance(module, lora_layer):
            inside = (*inside, f"{name}.")
            names.add(name.rsplit(".")[-1])
        elif isinstance(module, (nn.Linear, Conv1D)) and module is not head:
            names.add(name.rsplit(".")[-1])
    return sorted(names)
