"""What the positions of a log may mean: since when it exists, and with how many partitions it began.

A log that was grown into more partitions has every event at the position that it had, in a partition whose number
leaves the old one's when it is divided by how many there were: what was in partition 7 of 16 is in 7, 23, 39 or 55 of
64. So a token of before names all that it named, in more partitions.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from ingest.errors import CommandRejected, GrowthUnfinished, RestoreUnfinished
from ingest.log.keys import GROWING
from ingest.log.position import START, Position, Token
from ingest.platform.clock import to_ms

CLOCKS_DIFFER_BY = timedelta(seconds=10)
"""At most: the time a log began at is by the clock of one node of a cluster, positions are by those of others, too."""

FIRST_MS = 10**12
"""In 2001: no log is older. With smaller positions clients say "from the beginning", such as `3:1-0`."""


class Growth(Struct, frozen=True):
    """One growth: how many partitions there were, the newest position of all of them, and the newest that came into
    each partition that there was then. What was written since is newer than all of before."""

    partitions: int
    newest: str
    copied: list[str]

    def spread(self, token: Mapping[int, Position]) -> Token:
        """A token with each position of before in all partitions that have what was in its own."""
        return Token.of(
            (part, position)
            for partition, position in token.items()
            for part in (self._parts(partition) if self._is_of_before(position) else (partition,))
        )

    def with_siblings(self, token: Mapping[int, Position]) -> Token:
        """A token that also covers what it may have covered of before, where a position of since took its place.

        Of two positions in a partition clients keep the greater one, and what the smaller one named may be in another
        partition by now.
        """
        return Token.of(
            (part, position if part == partition else Position.parse(self.copied[part]))
            for partition, position in token.items()
            for part in ((partition,) if self._is_of_before(position) else self._parts(partition))
        )

    def reached(self, token: Mapping[int, Position]) -> Token:
        """A token to wait for: of what came with the growth, no further than a partition has any of it."""
        return Token(
            {
                partition: min(position, Position.parse(self.copied[partition]))
                if self._is_of_before(position)
                else position
                for partition, position in token.items()
            }
        )

    def _is_of_before(self, position: Position) -> bool:
        return position <= Position.parse(self.newest)

    def _parts(self, partition: int) -> range:
        """The partitions that have what was in one of the smaller log; of another partition itself."""
        return range(partition, len(self.copied) if partition < self.partitions else partition + 1, self.partitions)


class LogHistory(NamedTuple):
    """How many partitions a log has, since when it exists (None: nobody knows), and its growths, the first one first.

    Its methods return a token as it is to be understood in this log. They raise CommandRejected for one that names a
    partition which there is not, or is older than the log.
    """

    partitions: int
    began_at: datetime | None = None
    growths: Sequence[Growth] = ()

    def to_wait_for(self, token: Token) -> Token:
        """What must be applied before a read has seen all that the token covers."""
        found = self._own(token)
        for growth in self.growths:
            found = growth.with_siblings(growth.spread(found))
        return self.growths[-1].reached(found) if self.growths else found

    def to_read_on(self, token: Token) -> Token:
        """Where to go on behind what the token covers: what was not read is not passed over, and nothing comes twice.

        A token that names a partition which the smaller log did not have is one of since; see `as_cursor`.
        """
        found = self._own(token)
        for growth in self.growths:
            if all(partition < growth.partitions for partition in found):
                found = growth.spread(found)
        return found

    def as_cursor(self, token: Token) -> Token:
        """The token, to be handed out as a place to read on from: not to be taken for one of before a growth."""
        last = self.partitions - 1
        return Token({**token, last: token.get(last, START)}) if self.growths else token

    def _own(self, token: Token) -> Token:
        token.check(self.partitions)
        first_ms = 0 if self.began_at is None else to_ms(self.began_at - CLOCKS_DIFFER_BY)
        for partition, position in token.items():
            if FIRST_MS <= position.ms < first_ms:
                raise CommandRejected(
                    f"{partition}:{position} is a position of another log, this one began later, at "
                    f"{self.began_at:%Y-%m-%dT%H:%M:%SZ}; leave it out, and pass on what this server answers",
                    "after",
                )
        return token


class Moved(Struct, frozen=True):
    """What an old log says of itself while it is grown and afterwards: into how many partitions, since when."""

    partitions: int
    at: datetime


def refuse_unfinished(mark: bytes | None) -> None:
    """Raise RestoreUnfinished for a log that has only a part of a backup, GrowthUnfinished of a smaller log.

    `mark` is the manifest's field `restoring`.
    """
    if mark:
        name = mark.decode()
        raise GrowthUnfinished if name.startswith(GROWING) else RestoreUnfinished(name)
