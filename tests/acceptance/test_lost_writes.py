"""A failover of a cluster that loses writes, with real processes: recall heals by itself, in every API process.

The primary takes writes that its replica is refused, a snapshot of the index is made of them, and the primary dies.
What the indexes have read, and what the newest snapshot says, is of another log than the one that there is then; the
feeds are trimmed behind it.
"""

import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from msgspec.structs import replace
from servers import Cluster, Process
from waiting import wait_until

from api.cli.supervisor import Child, Supervisor, local_url
from ingest.embedded.valkey import EmbeddedValkey
from ingest.platform.settings import Settings
from tests.acceptance.asking import write
from tests.acceptance.running import SECRET, Server, settings
from tests.support.ports import free_port

PARTITIONS = 6
PROJECTS = 24
HEALED_WITHIN_S = 120.0


class Stack(NamedTuple):
    """What runs, and how to reach it."""

    cluster: Cluster
    settings: Settings
    server: Server
    second: str
    opened: ExitStack


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[Stack]:
    """Three primaries with a replica each, a worker, two API processes, arq on a server of its own."""
    folder = tmp_path_factory.mktemp("lost")
    cluster, jobs = Cluster(folder / "cluster", replicas=True), EmbeddedValkey(folder / "jobs")
    with ExitStack() as opened:
        opened.callback(cluster.stop)
        cluster.start()
        opened.callback(jobs.stop)
        jobs.start()
        chosen = settings(
            folder / "data", cache_dir, redis_url=cluster.url, jobs_redis_url=jobs.url, embedder="none",
            partitions=PARTITIONS,
        )  # fmt: skip
        supervisor = Supervisor(chosen, worker_niceness=0)
        server = Server.of(supervisor)
        opened.callback(server.stop)
        supervisor.start()
        yield Stack(cluster, chosen, server, another_api(chosen, opened), opened)


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


async def snapshot(stack: Stack, client: httpx.AsyncClient) -> None:
    """Return once a new snapshot was written."""
    before = {path.name for path in stack.settings.snapshots.glob("[!.]*")}
    assert (await client.post("/v1/admin/snapshots")).status_code == 202
    await wait_until(lambda: bool({path.name for path in stack.settings.snapshots.glob("[!.]*")} - before))


def refuse_its_replica(primary: Process) -> None:
    """From here on the primary's writes stay its own."""
    primary.ask("ACL", "SETUSER", "default", "-psync", "-sync", "-replconf")
    primary.ask("CLIENT", "KILL", "TYPE", "replica")


@pytest.mark.nightly
async def test_recall_heals_by_itself_after_a_failover_that_lost_writes(stack: Stack):
    async with client_of(stack.server.url) as first, client_of(stack.second) as second:
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
        await snapshot(stack, first)

        victim = stack.cluster.primary_of(0)
        hit = {number for number in range(PARTITIONS) if stack.cluster.primary_of(number) is victim}
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
        await snapshot(stack, first)
        victim.kill()

        served, until = 0, time.monotonic() + HEALED_WITHIN_S
        while not (await is_ready(first) and await is_ready(second)) or stack.cluster.primary_of(0) is victim:
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

        async with client_of(another_api(stack.settings, stack.opened)) as third:
            await wait_until(lambda: is_ready(third), 60)
            for name, content in kept(partition_of):
                assert await found(third, name, "heron") == sorted([content, "The heron came back"])


def kept(projects: dict[str, int]) -> list[tuple[str, str]]:
    """What was not lost, by project."""
    return [(name, f"The heron kept {name[1:]}") for name in projects]


async def has(client: httpx.AsyncClient, project: str, expected: list[str]) -> bool:
    return await found(client, project, "heron") == expected
