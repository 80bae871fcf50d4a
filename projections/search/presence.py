"""Which index replicas are up, the snapshot each started from, and the folder each works in.

A purge waits until every replica that is up has reloaded. Times are by the clock of the server, which all share."""

import os
import shutil
import socket
from pathlib import Path

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


def work_folder(parent: Path) -> Path:
    """A folder below `parent` for this process alone (not made yet); removes those of dead processes of this host.

    The host is part of the name: containers that share a volume have the same process ids.
    """
    host = socket.gethostname()
    for path in parent.glob(f"{host}-*"):
        pid = path.name.removeprefix(f"{host}-")
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)
    return parent / f"{host}-{os.getpid()}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
