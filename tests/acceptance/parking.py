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

from ingest.log.keys import WORKERS, PartitionKeys
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
    """A worker of a later release in the place of the server's own, once it has started."""
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
        _wait_for_worker(server)  # the viewer waits 25 s for a retry, and a start takes as long on a busy machine
        yield
    finally:
        process.terminate()
        process.wait(30)
        server.supervisor.worker.start()


def _wait_for_worker(server: Server) -> None:
    """Return once a worker is registered; a stopped one no longer is."""
    deadline = time.monotonic() + 120
    with Redis.from_url(server.redis_url) as redis:
        while not redis.zcard(WORKERS):
            assert time.monotonic() < deadline, "the worker of a later release does not start"
            time.sleep(0.1)
