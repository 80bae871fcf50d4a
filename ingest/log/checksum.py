"""A checksum of each entry, kept beside the event: a byte that changes on disk is noticed where the entry is read.

It covers the key of the stream (and so the partition), the position, the event and its trace. The writer computes a
CRC-32 of what it sends; the script adds the position, which it alone knows, with SHA-1, which is what Lua has
([decision 55](docs/decisions/0055-every-entry-has-a-checksum.md)).

What was read and differs is marked: ALTERED in front of its bytes. No release reads marked bytes as an event, wherever
they are copied to.
"""

from collections.abc import Mapping
from hashlib import sha1
from zlib import crc32

EVENT, TRACE, CHECKSUM = b"e", b"t", b"c"
"""Fields of an entry. Entries of releases before this have no checksum."""
ALTERED = b"\xc1altered:"
"""0xc1 is the one byte that msgpack never writes."""


def written(key: str, payload: bytes, trace: bytes = b"") -> str:
    """The CRC-32 of what a writer sends, which `append.lua` adds the position to."""
    return f"{crc32(trace, crc32(payload, crc32(key.encode()))):08x}"


def checksum(key: str, position: str, payload: bytes, trace: bytes = b"") -> bytes:
    """The eight bytes that an entry at a position has for its checksum."""
    return sha1(f"{written(key, payload, trace)}{position}".encode(), usedforsecurity=False).hexdigest()[:8].encode()


def payload_of(key: str, position: bytes, fields: Mapping[bytes, bytes]) -> bytes:
    """The event of a stream's entry as it was written, or its bytes behind ALTERED."""
    payload, found = fields.get(EVENT, b""), fields.get(CHECKSUM)
    if found is None:
        whole = EVENT in fields and fields.keys() <= {EVENT, TRACE}
    else:
        whole = found == checksum(key, position.decode(), payload, fields.get(TRACE, b""))
    return payload if whole else ALTERED + payload
