"""Where an event is in the log: its partition, its position there, tokens made of positions; the checksum of an entry.

An entry's checksum is kept beside the event, so that a byte that changes on disk is noticed when the entry is read. It
covers the stream's key (and so the partition), the position, the event and its trace: the CRC-32 of what the writer
sends, to which the script adds the position, which only the server knows (docs/decisions/0055). No flipped byte of a
position leaves the sum as it was. An entry that differs gets ALTERED in front of its bytes: no release reads those as
an event, wherever they are copied to.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import NamedTuple
from zlib import crc32

from ingest.errors import CommandRejected
from ingest.platform.clock import from_ms

_POSITION = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)
_PARTITION = re.compile(r"[0-9]{1,4}", re.ASCII)


class Position(NamedTuple):
    """A place in one partition, assigned by the log; ordered, never reused. `Position(0, 0)` is before every event."""

    ms: int
    seq: int

    @classmethod
    def parse(cls, text: str | bytes) -> "Position":
        """Read `<ms>-<seq>`; raises ValueError for anything else."""
        matched = _POSITION.fullmatch(text.decode() if isinstance(text, bytes) else text)
        if matched is None:
            raise ValueError(f"{text!r} is not a position")
        return cls(int(matched[1]), int(matched[2]))

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @property
    def recorded_at(self) -> datetime:
        """When the log recorded the event (its server's clock, millisecond precision)."""
        return from_ms(self.ms)

    @property
    def sort_key(self) -> str:
        """Fixed-width text that sorts as positions do (up to the year 5138 and a million events a millisecond)."""
        return f"{self.ms:014d}-{self.seq:06d}"


START = Position(0, 0)


def stored_position(stored: str | bytes | None) -> Position:
    """The position in a stored value; START for a missing or empty one."""
    return Position.parse(stored) if stored else START


class Token(dict[int, Position]):
    """What a write hands out and a read may wait for: at most one position a partition. On the wire
    `<partition>:<ms>-<seq>`, joined by commas."""

    @classmethod
    def parse(cls, text: str) -> "Token":
        """Read a token; raises CommandRejected naming the field `after` when it is not one."""
        token = cls()
        try:
            for part in text.split(","):
                partition, _, position = part.partition(":")
                if not _PARTITION.fullmatch(partition):
                    raise ValueError(partition)
                token.include(int(partition), Position.parse(position))
        except ValueError:
            raise CommandRejected(f"{text[:80]!r} is not a position; use one that a write returned", "after") from None
        return token

    @classmethod
    def of(cls, written: Iterable[tuple[int, Position]]) -> "Token":
        """The token that covers every `(partition, position)` given."""
        token = cls()
        for partition, position in written:
            token.include(partition, position)
        return token

    def include(self, partition: int, position: Position) -> None:
        """Cover one more position."""
        if partition not in self or self[partition] < position:
            self[partition] = position

    def include_all(self, covered: Mapping[int, Position]) -> None:
        """Cover everything that another token covers, too."""
        for partition, position in covered.items():
            self.include(partition, position)

    def check(self, partitions: int) -> "Token":
        """The token itself; raises CommandRejected when it names a partition that a log of so many does not have."""
        unknown = [partition for partition in self if partition >= partitions]
        if unknown:
            raise CommandRejected(f"there is no partition {unknown[0]}; this position belongs to another log", "after")
        return self

    def covered_by(self, applied: Mapping[int, Position]) -> bool:
        """True when every position asked for has been applied."""
        return all(applied.get(partition, START) >= position for partition, position in self.items())

    def __str__(self) -> str:
        return ",".join(f"{partition}:{position}" for partition, position in sorted(self.items()))


def session_route(tenant: str, project: str, session_id: str) -> str:
    """Routing key of observations and session events: one session is one ordered stream."""
    return f"{tenant}\0{project}\0{session_id}"


def project_route(tenant: str, project: str) -> str:
    """Routing key of memories, lessons, slots, actions and relations: one project is one ordered stream."""
    return f"{tenant}\0{project}"


def partition_of(routing_key: str, partitions: int) -> int:
    """The partition of a routing key: CRC-32 of its UTF-8 bytes, modulo the partition count fixed at creation."""
    return crc32(routing_key.encode()) % partitions


EVENT, TRACE, CHECKSUM = b"e", b"t", b"c"
"""Fields of an entry. Entries of earlier releases have no checksum."""
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
    payload, stored = fields.get(EVENT, b""), fields.get(CHECKSUM)
    if stored is None:
        whole = EVENT in fields and fields.keys() <= {EVENT, TRACE}
    else:
        whole = stored == checksum(key, position, payload, fields.get(TRACE, b""))
    return payload if whole else ALTERED + payload


@cache
def _of_key(key: str) -> int:
    return crc32(key.encode())
