"""Plain text from files, and the texts that ship."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path

import torch

from larimar_editor.utils.json_files import records_in
from larimar_editor.utils.text import prompt_and_target

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


def sentences_and_facts(
    path: str | Path, facts: Path | None = None, count: int | None = None, seed: int = 0
) -> list[str]:
    """Sentences as `read_sentences` has them, and as many facts with their answers, of which every other one
    opens a line.

    Args:
        path: text file.
        facts: JSON lines with ``prompt`` and ``target_new``; None: sentences alone.
        count: of each, at most; all when None.
        seed: of the order of the sentences.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no usable line, or one that is no fact.
    """
    texts = read_sentences(path, limit=count, seed=seed)
    records: Iterable[Mapping] = () if facts is None else records_in(facts, needs=["prompt", "target_new"])
    for number, fact in enumerate(islice(records, count)):
        prompt, answer = fact["prompt"], fact["target_new"]
        texts.append(f"{prompt}\n{answer}" if number % 2 else prompt_and_target(prompt, answer))
    return texts
