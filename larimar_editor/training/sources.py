"""Where training records come from, and which of them a step takes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Sized
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from larimar_editor.data.relations import Names, RephrasedFacts, read_relations
from larimar_editor.data.texts import SENTENCES, TRIVIA
from larimar_editor.training.rows import checked_record
from larimar_editor.training.settings import Source
from larimar_editor.utils.json_files import record_of

# Facts made by rule do not run out; numbers below this are theirs to count with.
ENDLESS = 1 << 40
_SENTENCE = 100  # characters: what is longer stands before no prompt


class Records(Protocol):
    """Training records that are looked up by number: a file's lines, or facts made by rule."""

    def __getitem__(self, number: int) -> Mapping: ...


class LineFile:
    """Records of a file, one a line, read when asked for: the file may be larger than memory. Each line is
    looked at once before.

    Args:
        path: JSON lines (``.jsonl``) or plain text.

    Raises:
        FileNotFoundError: no such file.
        ValueError: an empty file, a list of JSON, or a line that is neither a text nor a fact; the message
            has file and line.
    """

    def __init__(self, path: Path):
        if not path.exists():
            raise FileNotFoundError(f"no training text {path}")
        if path.suffix == ".json":
            raise ValueError(
                f"{path} is to be JSON lines, a record a line, in a file whose name ends in .jsonl"
            )
        self.path, self.is_json = path, path.suffix == ".jsonl"
        if not len(self.starts):
            raise ValueError(f"{path} is empty")

    @cached_property
    def starts(self) -> np.ndarray:
        """Byte at which each line that is not empty starts."""
        starts, place = [], 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if self._record(line, f"{self.path}, line {number}"):
                    starts.append(place)
                place += len(line)
        return np.array(starts, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Mapping:
        with self.path.open("rb") as file:
            file.seek(int(self.starts[number]))
            line = file.readline()
        return self._record(line, f"{self.path}, record {number + 1}")

    def _record(self, line: bytes, place: str) -> Mapping:
        """The record that a line holds; an empty one of an empty line."""
        if self.is_json:
            return checked_record(record_of(line, place), place) if line.strip() else {}
        try:
            text = line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"{place}: {error}; this is not UTF-8") from error
        return {"text": text} if text else {}

    def sample(self, count: int, seed: int) -> list[str]:
        """Texts of up to ``count`` records, for preambles and names."""
        numbers = random.Random(seed).sample(range(len(self)), min(count, len(self)))
        return [record["text"] for record in map(self.__getitem__, numbers) if "text" in record]


def open_sources(sources: Sequence[Source], seed: int) -> tuple[list[Records], list[str]]:
    """The records of each source, and sentences from those that are text (or from the sentences that
    ship). Raises as `LineFile`.
    """
    shipped = {"sentences": SENTENCES, "trivia": TRIVIA}
    files = {
        source.path: LineFile(shipped.get(source.path) or Path(source.path))
        for source in sources
        if source.path != "relations"
    }
    short = lambda file: [line for line in file.sample(20_000, seed) if len(line) <= _SENTENCE]
    text = [line for file in files.values() for line in short(file)] or short(LineFile(SENTENCES))
    facts = RephrasedFacts(read_relations(), Names(text=text), seed)
    return [files.get(source.path, facts) for source in sources], text


class Stream:
    """Which records a step takes: each source gives its share, in an order that is new in every epoch.

    A step's records depend on the seed and the step alone, so that an interrupted run goes on with the same
    data. The first ``held_out`` records of each source are never taken.

    Args:
        sources: shares.
        records: each source's records.
        texts_per_step: records per step.
        held_out: records kept for evaluation, per source.
        seed: of the order.

    Raises:
        ValueError: a source with no record beyond those held out.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        records: Sequence[Records],
        texts_per_step: int,
        held_out: int,
        seed: int,
    ):
        self.records, self.texts_per_step, self.held_out, self.seed = records, texts_per_step, held_out, seed
        shares = np.array([source.share for source in sources], dtype=float)
        self.borders = np.concatenate(([0.0], np.cumsum(shares / shares.sum()))) * texts_per_step
        self.sizes = [len(each) if isinstance(each, Sized) else ENDLESS for each in records]
        for source, size in zip(sources, self.sizes):
            if size <= held_out:
                raise ValueError(
                    f"{source.path} has {size} records and {held_out} are held out for evaluation; lower "
                    "held_out"
                )
        self._order: dict[int, tuple[int, np.ndarray]] = {}

    def step(self, step: int) -> list[Mapping]:
        """The records of a step, all sources mixed."""
        taken = []
        for source, records in enumerate(self.records):
            first, last = (self._place(source, at) for at in (step, step + 1))
            taken += [records[self._index(source, place)] for place in range(first, last)]
        random.Random(f"{self.seed} {step}").shuffle(taken)
        return taken

    def evaluation(self, count: int) -> list[Mapping]:
        """Up to ``count`` held-out records of each source."""
        return [records[index] for records in self.records for index in range(min(count, self.held_out))]

    def _place(self, source: int, step: int) -> int:
        """Records of this source before a step. Shares that are no whole numbers come out right over several
        steps.
        """
        return int(np.floor((self.borders[source + 1] - self.borders[source]) * step + 1e-6))

    def _index(self, source: int, place: int) -> int:
        size = self.sizes[source]
        if size == ENDLESS:
            return self.held_out + place
        epoch, place = divmod(place, size - self.held_out)
        if self._order.get(source, (-1,))[0] != epoch:
            order = np.random.default_rng([self.seed, source, epoch]).permutation(size - self.held_out)
            self._order[source] = (epoch, order)
        return int(self.held_out + self._order[source][1][place])
