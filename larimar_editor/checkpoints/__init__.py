"""The Larimar checkpoints that ship with the package, by their own names and by decoder."""

from __future__ import annotations

from pathlib import Path

CHECKPOINTS = {"smollm2-135m": Path(__file__).parent / "smollm2-135m"}
DETECTOR = "smollm2-135m"  # whose scope detector others get, where none is named

_OF_DECODER = {"llama-smollm2-135m": "smollm2-135m"}


def shipped(decoder: str) -> Path:
    """Folder of the checkpoint for a decoder, by the decoder's name or a path that ends in it.

    Raises:
        FileNotFoundError: none ships for it; the message says how to make one.
    """
    name = Path(decoder).name
    if name not in _OF_DECODER:
        raise FileNotFoundError(
            f"no Larimar checkpoint ships for {decoder!r} (there is one for {', '.join(_OF_DECODER)}). "
            "Make one with "
            f"`larimar-editor fit --model {decoder} --out FOLDER` and name the folder as larimar_checkpoint."
        )
    return CHECKPOINTS[_OF_DECODER[name]]
