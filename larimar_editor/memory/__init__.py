"""The paper's algorithm, tensors only: the memory, and how an encoding becomes weights over its rows.

`write`, `Memory.generate` and `pseudoinverse_weights` are steps of its algorithm 1 that an edited model,
which has one memory and changes it, does without.
"""

from larimar_editor.memory.addressing import (
    Reference,
    gaussian_weights,
    pseudoinverse_weights,
    random_reference,
)
from larimar_editor.memory.memory import Memory, add_noise, write

__all__ = [
    "Memory",
    "Reference",
    "add_noise",
    "gaussian_weights",
    "pseudoinverse_weights",
    "random_reference",
    "write",
]
