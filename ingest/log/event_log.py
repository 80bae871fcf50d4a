"""The log's interface: append idempotently, read in order. Back ends: Redis, memory.

Also the log's manifest: when it was created, and whether writes are allowed.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ingest.durability import Durability
from ingest.errors import CommandRejected, RestoreUnfinished
from ingest.log.keys import MANIFEST, RESTORING
from ingest.log.position import START, Position, Token
from ingest.platform.clock import to_ms

if TYPE_CHECKING:  # the MCP bridge imports this module and must not load a client of Redis
    from ingest.platform.connections import Client

CLOCKS_DIFFER_BY = timedelta(seconds=10)
"""Allowed clock difference: a log's creation time is from one cluster node's clock, positions are from several
nodes."""
FIRST_MS = 10**12
"""In 2001; no log is older. Clients use smaller positions, such as `3:1-0`, to mean "from the beginning"."""


class LogHistory(NamedTuple):
    """How many partitions a log has, and when it was created (None: unknown)."""

    partitions: int
    began_at: datetime | None = None

    def check(self, token: Token) -> Token:
        """The token itself; raises CommandRejected for a partition that does not exist, or a position from before the
        log was created."""
        token.check(self.partitions)
        first_ms = 0 if self.began_at is None else to_ms(self.began_at - CLOCKS_DIFFER_BY)
        for partition, position in token.items():
            if FIRST_MS <= position.ms < first_ms:
                raise CommandRejected(
                    f"{partition}:{position} is a position of another log; this log was created later, at "
                    f"{self.began_at:%Y-%m-%dT%H:%M:%SZ}; leave it out, and pass on positions from this server",
                    "after",
                )
        return token


MAX_ENTRY_BYTES = 1 << 20
"""The size limit of an encoded event. Larger content belongs in a file store, not in a stream node."""
PAGE = 100
"""Entries that are in memory at once while a whole log is read."""


class Entry(NamedTuple):
    """One encoded event on its way to the log; `dedup_id` is what a repeat of it is recognised by. `context` is the
    trace that it was written in ("" for none): beside the event, and no part of it."""

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
    rows = await log.read_back(partition, Position(position.ms, position.seq + 1), 1)
    return rows[0] if rows and rows[0].position == position else None


async def pages(
    log: "EventLog", partition: int, up_to: Position | None = None, after: Position = START, limit: int = PAGE
) -> AsyncGenerator[list[Stored]]:
    """The entries of a partition behind `after` and up to a position (None: to its end), some at a time."""
    while (up_to is None or after < up_to) and (rows := await log.read(partition, after, limit)):
        after = rows[-1].position
        if page := rows if up_to is None or after <= up_to else [row for row in rows if row.position <= up_to]:
            yield page


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
        """Which server has a partition, as far as is known; the partitions of one fail or wait together."""
        ...

    async def append(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """Append to each partition in the order given; answers in the same order. A dedup id seen within the window
        (also earlier in this call) is not appended again. Raises LogUnavailable when the log did not acknowledge: some
        of it may then be stored, and repeating the call is safe."""
        ...

    async def append_past_limit(self, batches: Mapping[int, Sequence[Entry]]) -> dict[int, list[Appended]]:
        """The same, also where the log's server has no memory left for others: for what frees memory."""
        ...

    async def standing_durability(self) -> Durability:
        """The durability that every acknowledged append has, without waiting."""
        ...

    async def why_never(self, requested: Durability) -> str:
        """Why no append can become `requested` durable, and what to do; empty where it can, or the log does not say.
        Raises LogUnavailable."""
        ...

    async def confirm(self, newest: Mapping[int, Position], requested: Durability) -> Durability:
        """Wait, some seconds at most, until what was appended to partitions up to a position is `requested` durable.
        Returns the level reached, which may be less. Raises DurabilityUnavailable where the log can never reach it, and
        LogUnavailable if the log does not answer, or has lost what was appended."""
        ...

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        """Up to `limit` entries behind `after`, oldest first; empty at the head. In the place of an erased entry there
        is its stub (an `event.erased`): positions stay, payloads do not."""
        ...

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        """Up to `limit` entries ahead of `before` (None: all there are), newest first; stubs as in `read`."""
        ...

    async def head(self, partition: int) -> Position:
        """The newest position ever assigned in the partition; START when none was."""
        ...


def refuse_unfinished(mark: bytes | None) -> None:
    """Raise RestoreUnfinished for a log that has only part of a backup. `mark` is the manifest's field `restoring`."""
    if mark:
        raise RestoreUnfinished(mark.decode())


async def read_history(redis: "Client", partitions: int) -> LogHistory:
    """The history of a log as its manifest has it."""
    created_at: bytes | None = await redis.hget(MANIFEST, "created_at")
    return LogHistory(partitions, datetime.fromisoformat(created_at.decode()) if created_at else None)


async def refuse_if_closed(redis: "Client") -> None:
    """Raise as `refuse_unfinished` for an incomplete log."""
    refuse_unfinished(await redis.hget(MANIFEST, RESTORING))
