"""Reading from a log's manifest what it was grown from, and whether it may be written to."""

from datetime import datetime

import msgspec

from ingest.errors import LogMoved
from ingest.log.history import Growth, LogHistory, Moved, refuse_unfinished
from ingest.log.keys import GROWN, MANIFEST, MOVED, RESTORING
from ingest.platform.connections import Client


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
