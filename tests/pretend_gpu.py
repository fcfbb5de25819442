"""A GPU that is none: tensors that say they are on it, whose numbers are on the CPU.

torch's own fake tensors have no numbers, and reading a memory decides by numbers; these have. What mixes
devices fails as on a GPU: an operation on a tensor here and one there, a mask of another device.
What it does not cover: kernels of CUDA's own, streams, graphs, how fast anything is.
"""

from __future__ import annotations

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

GPU = torch.device("cuda:0")
_MOVES = {"aten::_to_copy", "aten::copy_", "aten::to"}
_ON_THE_HOST = {  # indices may be on the CPU, as for a GPU
    "__getitem__",
    "__setitem__",
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_index_put_impl_",
    "aten::_unsafe_index",
}


class Mixed(RuntimeError):
    """An operation on tensors of two devices."""


class OnGpu(torch.Tensor):
    """A tensor that says it is on `GPU`.

    Attributes:
        numbers: on the CPU.
    """

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor):
        wrapped = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=GPU,
            requires_grad=False,
        )
        wrapped.numbers = inner
        return wrapped

    def __repr__(self):
        return f"OnGpu({self.numbers})"

    def __deepcopy__(self, memo):
        return OnGpu(self.numbers.clone())

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.tolist:
            return args[0].numbers.tolist()
        try:
            with torch._C.DisableTorchFunctionSubclass():  # or what comes to the CPU would be an OnGpu again
                return func(*args, **kwargs)
        except RuntimeError as error:
            # Some of Python's operators ask for a device's guard, which a torch without CUDA lacks.
            if "not linked with support for cuda" not in str(error):
                raise
        _check(func.__name__, _tensors((args, kwargs)), args)
        result = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        return OnGpu(result) if isinstance(result, torch.Tensor) else result

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class PretendGpu(TorchDispatchMode):
    """Within it, what is made or moved to `GPU` is an `OnGpu`.

    Attributes:
        operations: names of those that ran on it.
    """

    def __init__(self):
        super().__init__()
        self.operations: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = _run(func, args, kwargs or {})
        if any(isinstance(each, OnGpu) for each in tree_flatten(result)[0]):
            self.operations.add(func._schema.name)
        return result


@contextmanager
def pretend_gpu():
    """A `PretendGpu` at work; ``torch.tensor(..., device="cuda:0")`` is made on the CPU and moved."""
    # As torch's own fake tensors do on a machine without a GPU.
    lifted, torch_cuda_start = torch._C._only_lift_cpu_tensors(), torch.cuda._lazy_init
    torch._C._set_only_lift_cpu_tensors(True)
    torch.cuda._lazy_init = lambda: None
    try:
        with PretendGpu() as mode:
            yield mode
    finally:
        torch.cuda._lazy_init = torch_cuda_start
        torch._C._set_only_lift_cpu_tensors(lifted)


def moved(module: torch.nn.Module) -> torch.nn.Module:
    """A module with every parameter and buffer on `GPU`, in place."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None and not isinstance(value, OnGpu):
                part._parameters[name] = torch.nn.Parameter(OnGpu(value.detach()), requires_grad=False)
        for name, value in part._buffers.items():
            if value is not None and not isinstance(value, OnGpu):
                part._buffers[name] = OnGpu(value)
    return module


def _run(func, args, kwargs):
    name = func._schema.name
    tensors = _tensors((args, kwargs))
    here = [each for each in tensors if isinstance(each, OnGpu)]
    _check(name, tensors, args)
    to_gpu = bool(here)
    asked = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.device)]
    if asked:
        to_gpu = asked[0].type == "cuda"
        args, kwargs = tree_map(
            lambda each: torch.device("cpu") if isinstance(each, torch.device) else each, (args, kwargs)
        )
    if name == "aten::copy_":
        to_gpu = isinstance(args[0], OnGpu)
    if name in ("aten::_pin_memory", "aten::is_pinned"):
        to_gpu = False
    result = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    written = [
        value
        for argument, value in (*zip(func._schema.arguments, args), *_named(func, kwargs))
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    if written and isinstance(result, torch.Tensor):
        return written[0]
    if name == "aten::_to_copy" and not to_gpu and result is not None:
        return result
    return tree_map(lambda each: OnGpu(each) if to_gpu and isinstance(each, torch.Tensor) else each, result)


def _tensors(values) -> list[torch.Tensor]:
    return [each for each in tree_flatten(values)[0] if isinstance(each, torch.Tensor)]


def _inner(value):
    return value.numbers if isinstance(value, OnGpu) else value


def _named(func, kwargs):
    arguments = {argument.name: argument for argument in func._schema.arguments}
    return [(arguments[name], value) for name, value in kwargs.items() if name in arguments]


def _check(name, tensors, args) -> None:
    if name in _MOVES:
        return
    if name in _ON_THE_HOST and isinstance(args[0], OnGpu):
        tensors = [args[0], *(each for each in args[2:3] if isinstance(each, torch.Tensor))]
    # A number of the CPU may stand beside tensors of a GPU, not the other way round.
    gpu = [each for each in tensors if isinstance(each, OnGpu)]
    cpu = [each for each in tensors if not isinstance(each, OnGpu) and each.dim() > 0]
    if gpu and cpu:
        shapes = [f"{'GPU' if isinstance(each, OnGpu) else 'CPU'} {tuple(each.shape)}" for each in tensors]
        raise Mixed(f"{name} on {', '.join(shapes)}")
