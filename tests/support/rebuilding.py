"""Rebuilding one partition at once: fill the next generation, switch when it is level."""

import time

from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.rebuilding.documents import fill, switch


async def rebuild(redis: Client, log: EventLog, partition: int, slice_s: float) -> int | None:
    """The generation that was live before; None when `slice_s` seconds were not enough."""
    until = time.monotonic() + slice_s
    keys = PartitionKeys(partition)
    live = int(await redis.get(keys.generation) or 1)
    while time.monotonic() < until:
        filled = await fill(redis, log, partition, live + 1, until - time.monotonic())
        if filled.level and await switch(redis, partition, live, live + 1):
            return live
    return None
