"""A node of a cluster without replicas is away: what starts meanwhile serves the partitions of the other nodes."""

import os
import signal
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from redis.crc import key_slot
from servers import Cluster, Process
from waiting import wait_until

from api.cli.supervisor import Supervisor
from ingest.embedded.valkey import EmbeddedValkey
from ingest.log.keys import ACCESS_KEYS, EMBEDDER, MANIFEST, WORKERS
from ingest.log.position import partition_of, session_route
from tests.acceptance.running import Server, settings

PARTITIONS = 12
PATIENCE_S = 60.0
OF_THE_SERVER = (MANIFEST, EMBEDDER, ACCESS_KEYS, WORKERS)
"""Keys without which nothing starts; they are in fixed slots."""


class Stack(NamedTuple):
    """What runs."""

    cluster: Cluster
    server: Server

    def node_of(self, key: str) -> Process:
        """The primary of a key, of three that share the slots evenly."""
        return self.cluster.nodes[int(key_slot(key.encode())) * 3 // 16384]

    def partitions_of(self, node: Process) -> set[int]:
        """The partitions on a node; every node is up."""
        return {one for one in range(PARTITIONS) if self.cluster.primary_of(one) is node}


@contextmanager
def stack_in(folder: Path, cache_dir: Path) -> Generator[Stack]:
    """A cluster of three primaries and one of each process."""
    cluster, jobs = Cluster(folder / "cluster"), EmbeddedValkey(folder / "jobs")
    with ExitStack() as opened:
        opened.callback(cluster.stop)
        cluster.start()
        opened.callback(jobs.stop)
        jobs.start()
        chosen = settings(
            folder / "data", cache_dir, redis_url=cluster.url, jobs_redis_url=jobs.url, embedder="none",
            partitions=PARTITIONS,
        )  # fmt: skip
        server = Server.of(Supervisor(chosen, worker_niceness=0))
        opened.callback(server.stop)
        server.supervisor.start()
        yield Stack(cluster, server)


@pytest.fixture
def stack(tmp_path: Path, cache_dir: Path) -> Generator[Stack]:
    """An installation of its own: its nodes are killed."""
    with stack_in(tmp_path, cache_dir) as stack:
        yield stack


async def answered(client: httpx.AsyncClient, partition: int) -> httpx.Response:
    """What a write to a partition is answered."""
    session = next(
        name
        for name in (f"s{n}" for n in range(10_000))
        if partition_of(session_route("default", "atlas", name), PARTITIONS) == partition
    )
    return await client.post(
        "/v1/observations", json={"session_id": session, "project": "atlas", "content": f"stored {partition}"}
    )


def restart(stack: Stack) -> Callable[[], str]:
    """End the API and the worker, and start them anew; returns what reads what they have written since."""
    children = (stack.server.supervisor.api, stack.server.supervisor.worker)
    for child in children:
        child.stop()
    begins = [child.log.stat().st_size for child in children]
    for child in children:
        child.start()
    logs = [child.log for child in children]
    return lambda: "".join(log.read_bytes()[begin:].decode() for log, begin in zip(logs, begins, strict=True))


async def listening(client: httpx.AsyncClient) -> bool:
    """Whether the API answers."""
    try:
        return (await client.get("/livez")).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.nightly
async def test_processes_that_start_while_a_node_is_away_serve_the_partitions_of_the_others(stack: Stack):
    needed = [stack.node_of(key) for key in OF_THE_SERVER]
    away = next((node for node in stack.cluster.nodes if node not in needed), None)
    assert away is not None, "every node has a key of the server"
    lost = stack.partitions_of(away)
    away.kill()
    restart(stack)
    started = (stack.server.supervisor.api.pid, stack.server.supervisor.worker.pid)
    async with stack.server.client() as client:
        await wait_until(lambda: listening(client), PATIENCE_S)
        for partition in sorted(set(range(PARTITIONS)) - lost):
            answer = await answered(client, partition)
            assert answer.status_code == 202, (partition, answer.text)
            assert answer.json()["durability"] == "memory"
        assert (await answered(client, min(lost))).status_code == 503
    assert (stack.server.supervisor.api.pid, stack.server.supervisor.worker.pid) == started, "one has ended meanwhile"


@pytest.mark.nightly
async def test_processes_that_start_while_the_node_of_the_servers_own_keys_is_away_wait_for_it(stack: Stack):
    away = stack.node_of(MANIFEST)
    away.kill()
    written = restart(stack)

    def waits() -> bool:
        return written().count("a node of the cluster is away; waiting for it") >= 2

    await wait_until(waits, PATIENCE_S)
    assert stack.server.supervisor.api.pid is not None
    assert stack.server.supervisor.worker.pid is not None
    away.launch()
    away.wait()
    async with stack.server.client() as client:
        await wait_until(lambda: listening(client), PATIENCE_S)

        async def all_taken() -> bool:
            return all([(await answered(client, one)).status_code == 202 for one in range(PARTITIONS)])

        await wait_until(all_taken, PATIENCE_S)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["killed", "stopped"])
async def test_reads_leave_out_what_is_on_a_node_that_is_away_and_say_so(stack: Stack, fault: str):
    needed = [stack.node_of(key) for key in OF_THE_SERVER]
    away = next(node for node in stack.cluster.nodes if node not in needed)
    lost = stack.partitions_of(away)
    named = f"left out: partitions {', '.join(map(str, sorted(lost)))}, on a node of the cluster that is away"
    async with stack.server.client() as client:
        written = [(await answered(client, one)).json()["position"] for one in range(PARTITIONS)]
        everything = {"query": "stored", "after": ",".join(written), "limit": 50}
        assert len((await client.post("/v1/recall", json=everything)).json()["results"]) == PARTITIONS
        assert away.pid is not None
        if fault == "killed":
            away.kill()
        else:
            os.kill(away.pid, signal.SIGSTOP)
        try:
            for path in ("/metrics", "/v1/diagnose", "/v1/sessions", "/v1/events", "/v1/audit"):
                answer = await client.get(path)
                assert (answer.status_code, answer.headers.get("mnemolog-degraded")) == (200, named), path
            found = await client.post("/v1/recall", json={"query": "stored", "limit": 50})
            assert len(found.json()["results"]) == PARTITIONS - len(lost)
            assert any(one.startswith("left out") for one in found.json()["degraded"])
            export = await client.get(f"http://127.0.0.1:{client.base_url.port}/agentmemory/export")
            assert export.status_code == 503, "one that lacks partitions would be taken for all there is"
            ready = await client.get("/readyz")
            assert ready.status_code == 200
            assert "store_partial" in [one["code"] for one in ready.json()["degraded"]]
        finally:
            if fault == "killed":
                away.launch()
                away.wait()
            else:
                os.kill(away.pid, signal.SIGCONT)

        async def whole() -> bool:
            return len((await client.post("/v1/recall", json=everything)).json().get("results", ())) == PARTITIONS

        await wait_until(whole, PATIENCE_S)
