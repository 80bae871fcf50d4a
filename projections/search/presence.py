"""Which index replicas are up, and which snapshot each started from: so that a purge can tell that all have reloaded.

By the clock of the server, which all of them share.
"""

from ingest.log.keys import REPLICAS
from ingest.log.scripts import beat, heard_of
from ingest.platform.connections import Client

STALE_MS = 10_000
"""A replica that was not heard of for so long is gone; a live one beats its heart twenty times in it."""


async def announce(redis: Client, replica: str, snapshot: str) -> None:
    """A replica is up, and holds nothing older than `snapshot` ("" while it has none). Drops those that are gone."""
    await beat(redis, REPLICAS, f"{replica}|{snapshot}", STALE_MS, earlier=f"{replica}|")


async def sign_off(redis: Client, replica: str) -> None:
    """A replica is down, and has left no file."""
    found: list[bytes] = await redis.zrange(REPLICAS, 0, -1)
    if members := [raw.decode() for raw in found if _parts(raw.decode())[0] == replica]:
        await redis.zrem(REPLICAS, *members)


async def replicas(redis: Client) -> list[tuple[str, str]]:
    """The `(replica, snapshot)` of every live replica; the snapshot is "" for one that started from none."""
    return [_parts(member) for member in await heard_of(redis, REPLICAS, STALE_MS)]


def _parts(member: str) -> tuple[str, str]:
    replica, _, snapshot = member.rpartition("|")
    return replica, snapshot
