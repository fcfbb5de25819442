"""How text is drawn from a decoder."""

from __future__ import annotations

from typing import Any


def nucleus(top_p: float, temperature: float = 1.0) -> dict[str, Any]:
    """Options of `generate` that draw from the likeliest tokens, which together have a share ``top_p`` of the
    probability (Holtzman et al. 2020): what a decoder's own generation_config says of this, and transformers'
    default of at most 50 tokens, do not count.
    """
    return {
        "do_sample": True,
        "top_p": top_p,
        "top_k": 0,
        "min_p": 0.0,
        "typical_p": 1.0,
        "temperature": temperature,
        "repetition_penalty": 1.0,
    }
