"""Plain text from files, and the texts that ship."""

from __future__ import annotations

from pathlib import Path

import torch

SENTENCES = Path(__file__).parent / "sentences.txt"
TRIVIA = Path(__file__).parent / "trivia.txt"


def read_sentences(
    path: str | Path, limit: int | None = None, min_chars: int = 12, max_chars: int = 200, seed: int = 0
) -> list[str]:
    """Sentences of a UTF-8 text file, one per line, in a random order.

    Args:
        path: text file; lines shorter or longer than the limits are left out.
        limit: how many to return; all when None.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no usable line.
    """
    lines = [line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines()]
    lines = list(dict.fromkeys(line for line in lines if min_chars <= len(line) <= max_chars))
    if not lines:
        raise ValueError(
            f"{path} has no line of {min_chars} to {max_chars} characters: it should hold one sentence per "
            "line"
        )
    order = torch.randperm(len(lines), generator=torch.Generator().manual_seed(seed)).tolist()
    return [lines[i] for i in order[:limit]]
