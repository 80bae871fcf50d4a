"""Positions: where an event stands in its partition, and the read-your-writes token made of them."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

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


class Token(dict[int, Position]):
    """What a write hands out and a read may wait for: at most one position a partition.

    On the wire `<partition>:<ms>-<seq>`, joined by commas.
    """

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
            raise CommandRejected(
                f"{text[:80]!r} is not a position; pass on the one that a write answered", "after"
            ) from None
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
            raise CommandRejected(f"there is no partition {unknown[0]}; this position is of another log", "after")
        return self

    def covered_by(self, applied: Mapping[int, Position]) -> bool:
        """True when every position asked for has been applied."""
        return all(applied.get(partition, START) >= position for partition, position in self.items())

    def __str__(self) -> str:
        return ",".join(f"{partition}:{position}" for partition, position in sorted(self.items()))
