"""A segment: consecutive entries of one partition as bytes, and back. Pure.

The bytes are a zstd frame of msgpack `["mnemolog-segment", 1, partition, [[ms, seq, payload], …]]`. Whether they are
what was sealed is told by the SHA-256 that the manifest has; whatever else is wrong with them is found, too.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from itertools import pairwise

import msgspec
import zstandard
from msgspec import Struct

from ingest.log.archive.manifest import Content, DamagedSegment, Sealed
from ingest.log.event_log import MAX_ENTRY_BYTES, Stored
from ingest.log.position import Position

SEGMENT_ENTRIES = 10_000
"""A segment is unpacked as a whole to read any of it: so many entries take some 20 ms."""
SEGMENT_BYTES = 8 << 20
"""Of payloads, before compression: what a reader keeps in memory for one segment. The last entry may go beyond."""
MAX_UNPACKED_BYTES = SEGMENT_BYTES + MAX_ENTRY_BYTES + 64 * SEGMENT_ENTRIES
"""A frame that claims more is none of ours: it is not unpacked."""

FORMAT, FORMAT_VERSION = "mnemolog-segment", 1


class _Body(Struct, frozen=True, array_like=True):
    format: str
    version: int
    partition: int
    entries: list[tuple[int, int, bytes]]


def is_full(entries: Sequence[Stored]) -> bool:
    """Whether a segment takes no more than these."""
    return len(entries) >= SEGMENT_ENTRIES or sum(len(entry.payload) for entry in entries) >= SEGMENT_BYTES


async def filled(pages: AsyncIterator[Sequence[Stored]]) -> AsyncGenerator[list[Stored]]:
    """The entries again, as many at a time as a segment takes; the last of them may be fewer."""
    found: list[Stored] = []
    size = 0
    async for page in pages:
        for entry in page:
            found.append(entry)
            size += len(entry.payload)
            if len(found) >= SEGMENT_ENTRIES or size >= SEGMENT_BYTES:
                yield found
                found, size = [], 0
    if found:
        yield found


def pack(partition: int, entries: Sequence[Stored]) -> bytes:
    """The bytes of a segment. The same entries always give the same bytes with one release of zstd.

    Raises ValueError for more than `unpack` takes: no entry of the log is as big as that.
    """
    rows = [(position.ms, position.seq, payload) for position, payload in entries]
    body = _encode(_Body(FORMAT, FORMAT_VERSION, partition, rows))
    if len(body) > MAX_UNPACKED_BYTES:
        raise ValueError(f"a segment of {len(body):,} bytes could not be unpacked; the limit is {MAX_UNPACKED_BYTES:,}")
    return zstandard.ZstdCompressor().compress(body)


def content_of(data: bytes, entries: Sequence[Stored]) -> Content:
    """What a manifest says of a segment of these bytes; `entries` are what is in it, at least one."""
    return Content(
        first=str(entries[0].position),
        last=str(entries[-1].position),
        entries=len(entries),
        bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def unpack(data: bytes, partition: int, sealed: Sealed) -> list[Stored]:
    """The entries of a segment, oldest first; raises DamagedSegment unless it is exactly what was sealed."""

    def damaged(trouble: str) -> DamagedSegment:
        return DamagedSegment(partition, sealed.name, trouble)

    content = sealed.content
    if len(data) != content.bytes:
        raise damaged(f"it has {len(data):,} bytes, and {content.bytes:,} were sealed")
    if hashlib.sha256(data).hexdigest() != content.sha256:
        raise damaged("its SHA-256 is not that of what was sealed")
    try:
        body = _decode(_decompressed(data))
    except (zstandard.ZstdError, msgspec.MsgspecError, ValueError) as error:
        raise damaged(f"it cannot be unpacked: {error}") from None
    if (body.format, body.version) != (FORMAT, FORMAT_VERSION):
        raise damaged(f"this release reads version {FORMAT_VERSION} of {FORMAT}, and it is {body.version}")
    if body.partition != partition:
        raise damaged(f"it is of partition {body.partition}")
    entries = [Stored(Position(ms, seq), payload) for ms, seq, payload in body.entries]
    if not entries or len(entries) != content.entries:
        raise damaged(f"it has {len(entries):,} entries, and {content.entries:,} were sealed")
    if (str(entries[0].position), str(entries[-1].position)) != (content.first, content.last):
        raise damaged(f"it holds {entries[0].position} to {entries[-1].position}")
    if any(earlier.position >= later.position for earlier, later in pairwise(entries)):
        raise damaged("its entries are out of order")
    return entries


def overlaid(entries: Sequence[Stored], stubs: Mapping[Position, bytes]) -> list[Stored]:
    """The entries, with stubs in the place of those that were erased since they were sealed."""
    if not stubs:
        return list(entries)
    return [Stored(position, stubs.get(position, payload)) for position, payload in entries]


def _decompressed(frame: bytes) -> bytes:
    size = zstandard.frame_content_size(frame)
    if not 0 <= size <= MAX_UNPACKED_BYTES:
        raise ValueError(f"it claims {size:,} bytes")
    return zstandard.ZstdDecompressor().decompress(frame, max_output_size=MAX_UNPACKED_BYTES, allow_extra_data=False)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode
