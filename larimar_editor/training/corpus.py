"""Text files into training chunks, and text sampled from the decoder itself; both write JSON lines as they
go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch
from tqdm.auto import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from larimar_editor.model.tokenizer import opening_token
from larimar_editor.utils.json_files import records_in, write_records
from larimar_editor.utils.sampling import nucleus
from larimar_editor.utils.sentences import sentences
from larimar_editor.utils.text import prompt_and_target


@dataclass
class Counts:
    """What became of a corpus.

    Attributes:
        written: chunks written.
        dropped: pieces left out, by reason.
        tokens: tokens written.
    """

    written: int = 0
    dropped: Counter = field(default_factory=Counter)
    tokens: int = 0

    def to_dict(self) -> dict:
        """As plain numbers, which JSON can hold."""
        return {"written": self.written, "dropped": dict(self.dropped), "tokens": self.tokens}


def paragraphs(paths: Sequence[Path]) -> Iterator[str]:
    """Lines of text files, and the ``text`` of JSON lines, one at a time.

    Raises:
        FileNotFoundError: a file that is not there.
        ValueError: a JSON line without ``text``.
    """
    for path in paths:  # before the first is read, which may take long
        if not path.exists():
            raise FileNotFoundError(f"no text file {path}")
    for path in paths:
        if path.suffix == ".jsonl":
            yield from (record["text"] for record in records_in(path, needs=["text"]))
        else:
            with path.open(encoding="utf-8") as file:
                yield from file


def sentence_chunks(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, counts: Counts, least: int = 5, most: int = 64
) -> Iterator[str]:
    """Sentences of ``least`` to ``most`` tokens; others are counted in ``counts.dropped``."""
    for text in texts:
        for sentence in sentences(text) if text.strip() else ():
            tokens = len(tokenizer(sentence, add_special_tokens=False).input_ids)
            if tokens < least:
                counts.dropped["too short"] += 1
            elif tokens > most:
                counts.dropped["too long"] += 1
            else:
                counts.tokens += tokens
                yield sentence


def block_chunks(
    texts: Iterable[str], tokenizer: PreTrainedTokenizerBase, counts: Counts, size: int = 64, least: int = 5
) -> Iterator[str]:
    """Blocks of ``size`` tokens (paper: 64), paragraph by paragraph; its shorter rest is kept from ``least``
    tokens on.
    """
    for text in texts:
        ids = tokenizer(text.strip(), add_special_tokens=False).input_ids if text.strip() else []
        for start in range(0, len(ids), size):
            block = ids[start : start + size]
            if len(block) < least:
                counts.dropped["too short"] += 1
                continue
            counts.tokens += len(block)
            yield str(tokenizer.decode(block)).strip()


def write_chunks(chunks: Iterable[str], out: Path, counts: Counts, progress: bool = True) -> Counts:
    """Write one ``{"text": ...}`` a line; ``out`` appears when it is whole."""
    shown = tqdm(chunks, desc="chunks", unit="chunk", disable=not progress)
    counts.written += write_records(out, ({"text": chunk} for chunk in shown))
    return counts


def sampled_texts(
    decoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    count: int,
    counts: Counts,
    *,
    batch_size: int = 64,
    max_new_tokens: int = 48,
    temperature: float = 1.0,
    top_p: float = 0.95,
    least: int = 5,
    seed: int = 0,
) -> Iterator[str]:
    """First sentences of what the decoder says unprompted, ``count`` different ones.

    Unfinished sentences, short ones and repetitions are counted in ``counts.dropped``. A decoder that has
    little to say ends the search after ten times ``count`` samples.
    """
    start = opening_token(tokenizer, decoder.config)
    prompt = torch.full((batch_size, 1), start, device=next(decoder.parameters()).device)
    seen: set[str] = set()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for _ in range(-(-10 * count // batch_size)):
            with torch.no_grad():
                ids = decoder.generate(  # type: ignore[operator]
                    prompt,
                    attention_mask=torch.ones_like(prompt),
                    **nucleus(top_p, temperature),
                    max_new_tokens=max_new_tokens,
                    pad_token_id=tokenizer.eos_token_id,
                )
            for text in tokenizer.batch_decode(ids[:, 1:], skip_special_tokens=True):
                sentence = _first_sentence(text, tokenizer, least, seen, counts)
                if sentence is not None:
                    seen.add(sentence)
                    yield sentence
                    if len(seen) == count:
                        return


@torch.no_grad()
def continued_facts(
    decoder: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    facts: Iterable[Mapping],
    *,
    batch_size: int = 64,
    tokens: int = 18,
    top_p: float = 0.9,
    seed: int = 0,
) -> Iterator[dict]:
    """Facts with their ``continuation``: what the decoder, without a memory, says after prompt and answer."""
    options = nucleus(top_p) | {"pad_token_id": tokenizer.eos_token_id}
    options |= {"max_new_tokens": tokens, "min_new_tokens": tokens}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        left = iter(facts)
        while part := list(islice(left, batch_size)):
            said = [f"{prompt_and_target(fact['prompt'], fact['target_new'])}." for fact in part]
            inputs = tokenizer(said, return_tensors="pt", padding=True, padding_side="left")
            made = decoder.generate(**inputs.to(decoder.device), **options)  # type: ignore[operator]
            texts = tokenizer.batch_decode(made[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            yield from ({**fact, "continuation": text} for fact, text in zip(part, texts))


def _first_sentence(
    text: str, tokenizer: PreTrainedTokenizerBase, least: int, seen: set[str], counts: Counts
) -> str | None:
    line = text.strip().split("\n")[0].strip()
    first = sentences(line)[0] if line else ""
    tokens = len(tokenizer(first, add_special_tokens=False).input_ids)
    reason = (
        "too short"
        if tokens < least
        else "unfinished"
        if first[-1] not in ".?!"
        else "repeated"
        if first in seen
        else None
    )
    if reason:
        counts.dropped[reason] += 1
        return None
    counts.tokens += tokens
    return first
