"""Dead letters to order: events of a later release put into the log of a server, and the worker that can apply them."""

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx
import msgspec
from commands import ROOT, environment
from redis import Redis
from waiting import wait_until

from ingest.log.keys import PartitionKeys
from ingest.log.position import partition_of, session_route
from ingest.platform.connections import connect
from tests.acceptance.running import Server

PARTITIONS = 2
LETTERS = "/v1/admin/dead-letters"


def dream(of: str, project: str, session: str = "s1") -> bytes:
    """An event of a type that only a later release knows."""
    fields = {"event_id": f"dream-of-{of}", "type": "dream.dreamt", "version": 1, "tenant": "default"}
    return msgspec.msgpack.encode({**fields, "project": project, "session_id": session, "data": {"of": of}})


def home(project: str) -> int:
    """The partition of the project's session."""
    return partition_of(session_route("default", project, "s1"), PARTITIONS)


async def parked(server: Server, client: httpx.AsyncClient, project: str, *payloads: bytes) -> list[str]:
    """Put entries into the log and wait until they are dead letters; returns their positions."""
    redis = connect(server.redis_url)
    try:
        raw = [await redis.xadd(PartitionKeys(home(project)).log, {"e": payload}) for payload in payloads]
    finally:
        await redis.aclose()
    places = [f"{home(project)}:{one.decode()}" for one in raw]

    async def all_there() -> bool:
        shown = (await client.get(LETTERS)).json()["dead_letters"]
        return set(places) <= {one["position"] for one in shown}

    await wait_until(all_there)
    return places


@contextmanager
def newer_worker(server: Server) -> Generator[None]:
    """A worker of a later release in the place of the server's own, once it has all partitions."""
    before = _holders(server)
    server.supervisor.worker.stop()
    settings = server.supervisor.settings
    variables = {
        "REDIS_URL": server.redis_url,
        "MNEMOLOG_DATA_DIR": str(settings.data_dir),
        "MNEMOLOG_CACHE_DIR": str(settings.cache_dir),
        "MNEMOLOG_PARTITIONS": str(PARTITIONS),
        "MNEMOLOG_EMBEDDER": "none",
        "PYTHONPATH": str(ROOT),
    }
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/support/newer_worker.py")], env=environment(**variables), cwd=ROOT
    )
    try:
        # the viewer waits 25 s for a retry; on a busy machine a start, and the leases of a killed worker, take longer
        deadline = time.monotonic() + 120
        while not all(holder and holder not in before for holder in _holders(server)):
            assert time.monotonic() < deadline, "the worker of a later release does not get the partitions"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(30)
        server.supervisor.worker.start()


def _holders(server: Server) -> list[bytes | None]:
    """Who holds the lease of each partition."""
    with Redis.from_url(server.redis_url) as redis:
        return [redis.get(PartitionKeys(partition).lease) for partition in range(PARTITIONS)]
