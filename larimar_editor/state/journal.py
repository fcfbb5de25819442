"""A file of operations: each is on the disk before it takes effect, and a torn last one is told from damage.

``LARIMARJ``, then records. A record is a header, magic, place, length and CRC-32 of what follows, and the
header's own CRC-32, little-endian; then a safetensors file's bytes, whose metadata holds the operation's name
and description as JSON.
"""

from __future__ import annotations

import json
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from larimar_editor.state.operations import Operation, operation

_START = b"LARIMARJ"
_MAGIC = b"LJR1"
_HEADER = struct.Struct("<4sQQI")
_CHECK = struct.Struct("<I")
_HEADER_SIZE = _HEADER.size + _CHECK.size


class TornRecordWarning(UserWarning):
    """The last record of a journal was cut short, as a crash while it was written does; that edit was never
    reported as done.
    """


class Journal:
    """A journal that is appended to.

    Args:
        path: of a journal; made when it does not exist.
    """

    def __init__(self, path: Path):
        self.path = path
        self._file = open(path, "a+b", buffering=0)
        self._broken = False
        try:
            self.records, self.size = _measured(path)
            self._cut()
            if not self.size:
                self._write(_START)
        except BaseException:
            self._file.close()
            raise

    def append(self, done: Operation) -> None:
        """Put an operation at the end, on the disk when this returns.

        Raises:
            OSError: it could not be written; the journal is as it was.
        """
        if self._broken:
            raise OSError(
                f"{self.path} has the rest of a record that could not be written; save the state elsewhere"
            )
        body = save(
            {name: tensor.detach().cpu().contiguous() for name, tensor in done.tensors().items()},
            {"name": done.name, "description": json.dumps(done.description(), ensure_ascii=False)},
        )
        self._write(_header(self.records, body) + body)
        self.records += 1

    def close(self) -> None:
        """Nothing is appended any more."""
        self._file.close()

    def _write(self, data: bytes) -> None:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException:
            self._cut()
            raise
        self.size += len(data)

    def _cut(self) -> None:
        self._broken = True
        os.ftruncate(self._file.fileno(), self.size)
        os.fsync(self._file.fileno())
        self._broken = False


def read_journal(path: Path, device: torch.device | str = "cpu") -> Iterator[Operation]:
    """The operations of a journal, first to last, tensors on ``device``.

    A last record that is not whole is left out, with a `TornRecordWarning`.

    Raises:
        ValueError: a damaged record before the last; the message has its place.
    """
    for number, body in _bodies(path.read_bytes(), path):
        try:
            length = int.from_bytes(body[:8], "little")
            metadata = json.loads(body[8 : 8 + length])["__metadata__"]
            yield operation(metadata["name"], json.loads(metadata["description"]), load(body), device)
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            raise ValueError(f"record {number} of {path} is not an operation: {error}") from error


def _measured(path: Path) -> tuple[int, int]:
    """Whole records of a journal, and the bytes up to the end of the last."""
    data = path.read_bytes()
    if len(data) < len(_START):
        return 0, 0
    sizes = [len(body) for _, body in _bodies(data, path)]
    return len(sizes), len(_START) + sum(sizes) + _HEADER_SIZE * len(sizes)


def _bodies(data: bytes, path: Path) -> Iterator[tuple[int, bytes]]:
    if not data.startswith(_START):
        if _START.startswith(data):
            return  # made, and nothing more
        raise ValueError(f"{path} is no journal of larimar_editor, or its start is damaged")
    place, number = len(_START), 0
    while place < len(data):
        length = _length(data, place, number)
        body = data[place + _HEADER_SIZE : place + _HEADER_SIZE + (length or 0)]
        if length is None or len(body) < length or zlib.crc32(body) != _HEADER.unpack_from(data, place)[3]:
            # A record is begun only when the one before it is on the disk.
            ended = (
                _a_record_from(data, place + 1)
                if length is None
                else len(data) > place + _HEADER_SIZE + length
            )
            if ended:
                raise ValueError(
                    f"record {number} of {path} is damaged, and others come after it; nothing was loaded"
                )
            warnings.warn(
                f"the last record of {path}, number {number}, is torn and was left out: its writing was "
                "cut short",
                TornRecordWarning,
                stacklevel=2,
            )
            return
        yield number, body
        place, number = place + _HEADER_SIZE + length, number + 1


def _header(number: int, body: bytes) -> bytes:
    header = _HEADER.pack(_MAGIC, number, len(body), zlib.crc32(body))
    return header + _CHECK.pack(zlib.crc32(header))


def _length(data: bytes, place: int, number: int | None) -> int | None:
    """Length of the record's body that a header says, if it is a header, and of that record."""
    if len(data) < place + _HEADER_SIZE:
        return None
    header = data[place : place + _HEADER.size]
    magic, place_of, length, _ = _HEADER.unpack(header)
    if (
        magic != _MAGIC
        or number not in (None, place_of)
        or zlib.crc32(header) != _CHECK.unpack_from(data, place + _HEADER.size)[0]
    ):
        return None
    return length


def _a_record_from(data: bytes, start: int) -> bool:
    """Whether a record begins anywhere from here on: then what is before was not the last."""
    place = data.find(_MAGIC, start)
    while place >= 0:
        if _length(data, place, None) is not None:
            return True
        place = data.find(_MAGIC, place + 1)
    return False
