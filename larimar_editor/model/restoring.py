"""A model as it was, if what is done to it fails half-way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def unchanged_on_failure(model: nn.Module) -> Iterator[None]:
    """If the block raises, ``model`` has the modules, attributes, flags and weights that it had.

    Costs a look at every module, and no memory: weights come back if they were replaced, not if they were
    written over.
    """
    before = [
        (container, container.copy()) for module in model.modules() for container in _containers_of(module)
    ]
    parameters = [(parameter, parameter.data, parameter.requires_grad) for parameter in model.parameters()]
    try:
        yield
    except BaseException:
        for container, values in before:
            container.clear()
            container.extend(values) if isinstance(container, list) else container.update(values)
        for parameter, data, requires_grad in parameters:
            parameter.data = data
            if parameter.requires_grad != requires_grad and not parameter.is_inference():
                parameter.requires_grad = requires_grad
        raise


def _containers_of(module: nn.Module) -> Iterator[dict | list | set]:
    """A module's attributes, and those of them that hold others and may be changed in place."""
    yield vars(module)
    yield from (value for value in vars(module).values() if type(value) in (dict, OrderedDict, list, set))
