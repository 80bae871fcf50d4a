"""The log as the rest of the code sees it: append idempotently, read in order. Back ends: Redis, memory.

Also what a log's manifest says about the log: since when it exists, what it was grown from, and whether it may be
written to.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from ingest.durability import Durability
from ingest.errors import CommandRejected, GrowthUnfinished, LogMoved, RestoreUnfinished
from ingest.log.keys import GROWING, GROWN, MANIFEST, MOVED, RESTORING
from ingest.log.position import START, Position, Token
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client

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


MAX_ENTRY_BYTES = 1 << 20
"""One encoded event. Bigger ones belong in a file store; a stream node should not hold them."""
PAGE = 100
"""Entries that are in memory at once where a whole log is read."""


class Entry(NamedTuple):
    """One encoded event on its way to the log; `dedup_id` is what a repeat of it is recognised by.

    `context` is the trace that it was written in ("" for none): beside the event, and no part of it.
    """

    dedup_id: str
    payload: bytes
    context: str = ""


class Appended(NamedTuple):
    """What became of an entry: its position, and whether it was there already (then the first one's position)."""

    position: Position
    duplicate: bool


class Stored(NamedTuple):
    """One log entry as read back."""

    position: Position
    payload: bytes


async def entry_at(log: "EventLog", partition: int, position: Position) -> Stored | None:
    """The entry at one position, or the stub of an erased one; None when the log has neither."""
    found = await log.read_back(partition, Position(position.ms, position.seq + 1), 1)
    return found[0] if found and found[0].position == position else None


async def pages(
    log: "EventLog", partition: int, up_to: Position | None = None, after: Position = START, limit: int = PAGE
) -> AsyncGenerator[list[Stored]]:
    """The entries of a partition behind `after` and up to a position (None: to its end), some at a time."""
    while (up_to is None or after < up_to) and (rows := await log.read(partition, after, limit)):
        after = rows[-1].position
        if found := rows if up_to is None or after <= up_to else [row for row in rows if row.position <= up_to]:
            yield found


class EventLog(Protocol):
    """A partitioned, ordered, append-only log with an idempotence window per partition."""

    @property
    def partitions(self) -> int:
        """How many partitions there are, numbered from 0."""
        ...

    @property
    def history(self) -> LogHistory:
        """What tokens mean here."""
        ...

    def server_of(self, partition: int) -> str:
        """Which server has a partition, as far as is known just now: the partitions of one fail or wait together."""
        ...

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """Append to each partition in the order given; answers in the same order.

        A dedup id seen within the window (also earlier in this call) is not appended again. Raises LogUnavailable when
        the log did not acknowledge: some of it may then be stored, and repeating the call is safe.
        """
        ...

    async def append_past_limit(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """The same, also where the log's server has no memory left for others: for what frees memory."""
        ...

    async def standing_durability(self) -> Durability:
        """What an answer of `append` means: what was appended has this durability, whatever happens next."""
        ...

    async def why_never(self, wanted: Durability) -> str:
        """Why nothing that is appended can become as durable as `wanted`, and what to do; empty where it can, or where
        the log does not say. Raises LogUnavailable."""
        ...

    async def confirm(self, newest: Mapping[int, Position], wanted: Durability) -> Durability:
        """Wait, some seconds at most, until what was appended to partitions up to a position is as durable as `wanted`.

        Returns what it has reached, which may be less. Raises DurabilityUnavailable where the log can never reach it,
        and LogUnavailable when the log does not answer, or has lost since what was appended.
        """
        ...

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        """Up to `limit` entries behind `after`, oldest first; empty at the head.

        In the place of an erased entry there is its stub (an `event.erased`): positions stay, payloads do not.
        """
        ...

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        """Up to `limit` entries ahead of `before` (None: all there are), newest first; stubs as in `read`."""
        ...

    async def head(self, partition: int) -> Position:
        """The newest position ever assigned in the partition; START when none was."""
        ...


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


async def read_history(redis: Client, partitions: int) -> LogHistory:
    """The history of a log as its manifest has it."""
    created_at, grown = await redis.hmget(MANIFEST, ["created_at", GROWN])
    return LogHistory(
        partitions,
        datetime.fromisoformat(created_at.decode()) if created_at else None,
        msgspec.json.decode(grown, type=list[Growth]) if grown else (),
    )


async def refuse_if_closed(redis: Client) -> None:
    """Raise LogMoved for a log that is or was grown into another one: what is written to it would be left behind.

    Raises as `refuse_unfinished` for one that is not whole.
    """
    moved, unfinished = await redis.hmget(MANIFEST, [MOVED, RESTORING])
    if moved is not None:
        note = msgspec.json.decode(moved, type=Moved)
        raise LogMoved(note.partitions, note.at)
    refuse_unfinished(unfinished)
