"""A checksum of each entry, kept beside the event: a byte that changes on disk is noticed where the entry is read.

It covers the key of the stream (and so the partition), the position, the event and its trace: the CRC-32 of what the
writer sends, to which the script adds the position, which it alone knows (docs/decisions/0055). No flipped byte of a
position leaves the sum as it was.

What was read and differs is marked: ALTERED in front of its bytes. No release reads marked bytes as an event, wherever
they are copied to.
"""

from collections.abc import Mapping
from functools import cache
from zlib import crc32

from ingest.log.position import Position

EVENT, TRACE, CHECKSUM = b"e", b"t", b"c"
"""Fields of an entry. Entries of releases before this have no checksum."""
ALTERED = b"\xc1altered:"
"""0xc1 is the one byte that msgpack never writes."""


def written(key: str, payload: bytes, trace: bytes = b"") -> int:
    """The CRC-32 of what a writer sends, which `append.lua` adds the position to."""
    return crc32(trace, crc32(payload, _of_key(key)))


def checksum(key: str, position: Position, payload: bytes, trace: bytes = b"") -> bytes:
    """The eight bytes that an entry at a position has for its checksum."""
    return b"%08x" % ((written(key, payload, trace) + position.ms + position.seq) % (1 << 32))


def payload_of(key: str, position: Position, fields: Mapping[bytes, bytes]) -> bytes:
    """The event of a stream's entry as it was written, or its bytes behind ALTERED."""
    payload, found = fields.get(EVENT, b""), fields.get(CHECKSUM)
    if found is None:
        whole = EVENT in fields and fields.keys() <= {EVENT, TRACE}
    else:
        whole = found == checksum(key, position, payload, fields.get(TRACE, b""))
    return payload if whole else ALTERED + payload


@cache
def _of_key(key: str) -> int:
    return crc32(key.encode())
