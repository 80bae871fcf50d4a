"""The records of a backup: a compressed file of msgpack values, each behind its length, written and read as a stream.

Nothing here knows Redis, and no more than one record is needed in memory at a time.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import zstandard
from msgspec import Struct

MAX_RECORD_BYTES = 64 << 20
"""An entry has at most 1 MiB; longer is no record of ours."""
_LENGTH_BYTES = 4


class LogEntry(Struct, frozen=True, array_like=True, tag="entry"):
    """An entry of the log, or the stub of an erased one, as stored."""

    partition: int
    position: str
    payload: bytes


class HashField(Struct, frozen=True, array_like=True, tag="field"):
    """A field of a hash that is for ever."""

    key: str
    field: str
    value: bytes


class Text(Struct, frozen=True, array_like=True, tag="text"):
    """A string that is for ever."""

    key: str
    value: bytes


class Member(Struct, frozen=True, array_like=True, tag="member"):
    """A member of a sorted set that is for ever; all of them score 0."""

    key: str
    value: bytes


Record = LogEntry | HashField | Text | Member


class Unreadable(Exception):
    """The bytes are not those of records; the message says where."""


class Writer:
    """Writes records to a new file. `sha256`, `bytes` and `records` tell of the file once it is closed."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self._compressor = zstandard.ZstdCompressor().compressobj()
        self._digest = hashlib.sha256()
        self.bytes = self.records = 0
        self.sha256 = ""

    def write(self, encoded: list[bytes]) -> None:
        """Append some records, each encoded by `encode`."""
        framed = b"".join(part for one in encoded for part in (len(one).to_bytes(_LENGTH_BYTES, "big"), one))
        self.records += len(encoded)
        self._put(self._compressor.compress(framed))

    def finish(self) -> None:
        """Complete the file; it is on disk then."""
        self._put(self._compressor.flush())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.sha256 = self._digest.hexdigest()

    def _put(self, block: bytes) -> None:
        self._digest.update(block)
        self.bytes += len(block)
        self._file.write(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in order; raises Unreadable where it stops being one."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        number = 0
        while True:
            number += 1
            try:
                head = _exactly(stream, _LENGTH_BYTES)
                if head is None:
                    return
                length = int.from_bytes(head, "big")
                body = _exactly(stream, length) if length <= MAX_RECORD_BYTES else None
                if body is None:
                    raise Unreadable(f"record {number} is cut off")
                yield _decode(body)
            except (zstandard.ZstdError, msgspec.MsgspecError) as error:
                raise Unreadable(f"record {number} cannot be read: {error}") from error


def _exactly(stream: zstandard.ZstdDecompressionReader, size: int) -> bytes | None:
    """So many bytes; None where the stream ends before the first one."""
    found = stream.read(size)
    while 0 < len(found) < size:
        more = stream.read(size - len(found))
        if not more:
            raise Unreadable("the file is cut off")
        found += more
    return found if found or not size else None


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
