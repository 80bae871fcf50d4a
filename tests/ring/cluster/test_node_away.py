"""Nodes of a cluster die: the others are served, and recall heals after a failover that lost writes."""

import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import replace
from ports import free_port
from redis.crc import key_slot
from servers import Process
from waiting import wait_until

from api.cli.supervisor import Child, local_url
from ingest.log.keys import ACCESS_KEYS, EMBEDDER, MANIFEST, WORKERS
from ingest.log.position import partition_of, session_route
from ingest.platform.settings import Settings
from tests.acceptance.asking import write
from tests.acceptance.running import SECRET, Installation, on_cluster

PARTITIONS = 12
PATIENCE_S = 60.0
OF_THE_SERVER = (MANIFEST, EMBEDDER, ACCESS_KEYS, WORKERS)
"""Keys without which nothing starts; they are in fixed slots."""


@pytest.fixture
def stack(tmp_path: Path, cache_dir: Path) -> Iterator[Installation]:
    """Its nodes are killed."""
    with on_cluster(tmp_path, cache_dir, partitions=PARTITIONS) as stack:
        yield stack


def node_of(stack: Installation, key: str) -> Process:
    """The primary of a key, of three that share the slots evenly."""
    return stack.cluster.nodes[int(key_slot(key.encode())) * 3 // 16384]


def partitions_of(stack: Installation, node: Process) -> set[int]:
    """The partitions on a node; every node is up."""
    return {partition for partition in range(PARTITIONS) if stack.cluster.primary_of(partition) is node}


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


def restart(stack: Installation) -> Callable[[], str]:
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
async def test_processes_that_start_while_a_node_is_away_serve_the_partitions_of_the_others(stack: Installation):
    needed = [node_of(stack, key) for key in OF_THE_SERVER]
    away = next((node for node in stack.cluster.nodes if node not in needed), None)
    assert away is not None, "every node has a key of the server"
    lost = partitions_of(stack, away)
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
async def test_processes_that_start_while_the_node_of_the_servers_own_keys_is_away_wait_for_it(stack: Installation):
    away = node_of(stack, MANIFEST)
    away.kill()
    written = restart(stack)

    def waits() -> bool:
        return written().count("a cluster node is unreachable; waiting for it") >= 2

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
async def test_reads_leave_out_what_is_on_a_node_that_is_away_and_say_so(stack: Installation, fault: str):
    needed = [node_of(stack, key) for key in OF_THE_SERVER]
    away = next(node for node in stack.cluster.nodes if node not in needed)
    lost = partitions_of(stack, away)
    named = f"left out: partitions {', '.join(map(str, sorted(lost)))}, on an unreachable cluster node"
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


PROJECTS = 24
HEALED_WITHIN_S = 120.0


@pytest.fixture
def replicated(tmp_path: Path, cache_dir: Path) -> Iterator[Installation]:
    """Its primaries are killed."""
    with on_cluster(tmp_path, cache_dir, replicas=True, partitions=PARTITIONS) as replicated:
        yield replicated


def another_api(chosen: Settings, opened: ExitStack) -> str:
    """The URL of one more API process."""
    other = replace(chosen, port=free_port())
    child = Child("api", other)
    opened.callback(child.stop)
    child.start()
    return local_url(other)


@asynccontextmanager
async def client_of(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of one API process."""
    headers = {"Authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


async def is_ready(client: httpx.AsyncClient) -> bool:
    try:
        answer = await client.get("/readyz")
    except httpx.TransportError:
        return False
    codes = {one["code"] for one in answer.json().get("degraded", [])}
    return answer.status_code == 200 and "index_partial" not in codes


async def found(client: httpx.AsyncClient, project: str, query: str) -> list[str]:
    """What a project's memories say that recall finds. Reads without `after`, so nothing waits."""
    answer = await client.post("/v1/recall", json={"query": query, "project": project, "limit": 50})
    assert answer.status_code == 200, answer.text
    return sorted(one["content"] for one in answer.json()["results"])


async def snapshot(replicated: Installation, client: httpx.AsyncClient) -> None:
    """Return once a new snapshot was written."""
    before = {path.name for path in replicated.settings.snapshots.glob("[!.]*")}
    assert (await client.post("/v1/admin/snapshots")).status_code == 202
    await wait_until(lambda: bool({path.name for path in replicated.settings.snapshots.glob("[!.]*")} - before))


def refuse_its_replica(primary: Process) -> None:
    """From here on the primary's writes stay its own."""
    primary.ask("ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    primary.ask("CLIENT", "KILL", "TYPE", "replica")


@pytest.mark.nightly
async def test_recall_heals_by_itself_after_a_failover_that_lost_writes(replicated: Installation):
    second_url = another_api(replicated.settings, replicated.opened)
    async with client_of(replicated.server.url) as first, client_of(second_url) as second:
        await wait_until(lambda: is_ready(second), 60)
        partition_of: dict[str, int] = {}
        after: list[str] = []
        for n in range(PROJECTS):
            told = await write(first, "/v1/memories", project=f"p{n}", content=f"The heron kept {n}")
            partition_of[f"p{n}"] = int(told["position"].partition(":")[0])
            after.append(told["position"])
        for client in (first, second):
            for n in range(PROJECTS):
                await wait_until(lambda client=client, n=n: has(client, f"p{n}", [f"The heron kept {n}"]))
        await snapshot(replicated, first)

        victim = replicated.cluster.primary_of(0)
        hit = {number for number in range(PARTITIONS) if replicated.cluster.primary_of(number) is victim}
        whole = sorted(name for name, number in partition_of.items() if number not in hit)
        lossy = sorted(name for name, number in partition_of.items() if number in hit)
        assert whole
        assert lossy
        refuse_its_replica(victim)
        for name in lossy:
            await write(first, "/v1/memories", project=name, content="The heron was lost")
        for client in (first, second):
            for name in lossy:
                expected = sorted([f"The heron kept {name[1:]}", "The heron was lost"])
                await wait_until(lambda client=client, name=name, expected=expected: has(client, name, expected))
        await snapshot(replicated, first)
        victim.kill()

        served, until = 0, time.monotonic() + HEALED_WITHIN_S
        while not (await is_ready(first) and await is_ready(second)) or replicated.cluster.primary_of(0) is victim:
            for client in (first, second):
                for name in whole:
                    assert await found(client, name, "heron") == [f"The heron kept {name[1:]}"]
                    served += 1
            assert time.monotonic() < until, "it does not heal"
        for client in (first, second):
            for name, content in kept(partition_of):
                await wait_until(lambda client=client, name=name, content=content: has(client, name, [content]))
        assert served > 0
        for name in partition_of:
            told = await write(first, "/v1/memories", project=name, content="The heron came back")
            for client in (first, second):
                body: dict[str, Any] = {"query": "back", "project": name, "limit": 1, "after": told["position"]}
                answer = await client.post("/v1/recall", json=body)
                assert answer.status_code == 200, answer.text
                assert answer.json()["results"][0]["content"] == "The heron came back"
                assert answer.json()["degraded"] == ["no embedder is configured: words only"]

        async with client_of(another_api(replicated.settings, replicated.opened)) as third:
            await wait_until(lambda: is_ready(third), 60)
            for name, content in kept(partition_of):
                assert await found(third, name, "heron") == sorted([content, "The heron came back"])


def kept(projects: dict[str, int]) -> list[tuple[str, str]]:
    """What was not lost, by project."""
    return [(name, f"The heron kept {name[1:]}") for name in projects]


async def has(client: httpx.AsyncClient, project: str, expected: list[str]) -> bool:
    return await found(client, project, "heron") == expected
