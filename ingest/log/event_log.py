"""The log as the rest of the code sees it: append idempotently, read in order. Back ends: Redis, memory."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple, Protocol

from ingest.durability import Durability
from ingest.log.history import LogHistory
from ingest.log.position import START, Position

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
