"""The machine that something runs on, or is measured on."""

from __future__ import annotations

import importlib
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers


def environment(device: str = "cpu") -> dict:
    """Hardware and versions, for the record of a measurement.

    Args:
        device: cpu, cuda or cuda:N.
    """
    cuda = device.startswith("cuda")
    return {
        "hardware": torch.cuda.get_device_name(device) if cuda else _processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def _processor() -> str:
    """Its model, where the system says it: seconds of two processors of one architecture are not the same."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return " ".join(filter(None, (model, f"{platform.machine()} CPU")))


def bfloat16_is_fast(device: str | torch.device) -> bool:
    """Whether a matrix product in bfloat16 takes less time there than one in float32."""
    device = torch.device(device)
    if device.type == "cuda":
        return not torch.cuda.is_available() or torch.cuda.get_device_capability(device)[0] >= 8
    if device.type == "cpu" and torch.backends.mkldnn.is_available():
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return False


def synchronise() -> None:
    """Wait for the GPU, where there is one: only then is what was begun done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed_call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, float]:
    """The function's result and its seconds, CUDA synchronised before and after."""
    synchronise()
    start = time.perf_counter()
    result = function(*args, **kwargs)
    synchronise()
    return result, time.perf_counter() - start


def peak_memory_mb() -> float:
    """Peak of the process: on the GPU where one is used, else resident memory; in MiB."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    # `getrusage` tells no less than the peak of the process that began this one.
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    for line in lines:
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 2**10, 1)
    # No such module on Windows, where none of this is measured.
    resource = importlib.import_module("resource")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def is_here(device: str) -> bool:
    """Whether torch finds a device here, by its name; what is no CUDA device always is."""
    wanted = torch.device(device)
    return wanted.type != "cuda" or (wanted.index or 0) < torch.cuda.device_count()
