"""What a log is like now, as far as backups care, and what is noted of the last look at them."""

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from ingest.log.archive.archive import count_erased
from ingest.log.event_log import EventLog
from ingest.log.keys import BACKUP_STATUS, FORGOTTEN_BEFORE, MANIFEST
from ingest.platform.connections import Client
from projections.maintenance.backup.manifest import Manifest, State
from projections.maintenance.receipts import all_receipts

LATE_AFTER = timedelta(minutes=5)
"""A job may be this late: others run before it, and a big log takes its time."""


class Status(Struct, frozen=True, kw_only=True):
    """How backups go: the newest in `target`, when that was last seen to be new enough, and what failed since."""

    target: str
    newest: Manifest | None = None
    listed_at: datetime | None = None
    error: str = ""


async def measure(redis: Client, log: EventLog) -> State:
    """The state of a log. What is read of the log afterwards is at least as new."""
    created, before = await redis.hmget(MANIFEST, ["created_at", FORGOTTEN_BEFORE])
    return State(
        log=(created or b"").decode(),
        forgotten=int(before or 0) + await count_forgotten(redis, log.partitions),
        heads={partition: str(await log.head(partition)) for partition in range(log.partitions)},
    )


async def count_forgotten(redis: Client, partitions: int) -> int:
    """Entries that this log erased, and requests to forget that are done."""
    erased = await count_erased(redis, partitions)
    return erased + sum(receipt.status == "done" for receipt in await all_receipts(redis))


def trouble(status: Status | None, now: datetime, every: timedelta) -> str:
    """What is wrong with the backups of a log, if anything; nobody has looked yet where there is no status."""
    if status is None:
        return ""
    if status.error:
        return f"the newest backup failed: {status.error}"
    if status.listed_at is not None and now - status.listed_at > max(3 * every, LATE_AFTER):
        return f"nobody has looked after the backups since {status.listed_at:%Y-%m-%d %H:%M} UTC; does a worker run?"
    return ""


async def load_status(redis: Client) -> Status | None:
    """What was noted last; None when nothing was."""
    raw = await redis.get(BACKUP_STATUS)
    return msgspec.json.decode(raw, type=Status) if raw else None


async def save_status(redis: Client, status: Status) -> None:
    """Note how it went."""
    await redis.set(BACKUP_STATUS, msgspec.json.encode(status))
