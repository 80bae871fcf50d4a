"""What clients get while there is too much already: a refusal that says why and when to come back, at every door; reads
and forgetting go on; writes are taken again without anybody doing anything.

Pressure is made where it comes from: a Valkey whose memory is full, a worker that stands still.
"""

import os
import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import types
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from waiting import wait_until

from ingest.log.event_log import Stored
from ingest.log.keys import PartitionKeys
from ingest.log.position import Position
from ingest.platform.clock import system_clock
from projections.dead_letters.records import letter_of, queue_letter
from tests.acceptance.running import (
    Doors,
    Server,
    Tenant,
    every_dialect,
    fault,
    frozen,
    new_tenant,
    redis_of,
    until_ready,
)
from tests.acceptance.test_agent_hooks import TIDY, Agent

LIMIT = 160 << 20
FULL = 112 << 20
"""Above the ceiling of 60 % and below the limit: there is room left for what is being projected and forgotten."""
PATIENCE_S = 30.0
LAG_CEILING = 40
"""Of the server with small limits."""


@pytest.fixture(scope="module")
def doors(cache_dir: Path) -> Iterator[Doors]:
    """A server without a secret, with every dialect's port."""
    with every_dialect(cache_dir, secret=None, embedder="none", partitions=2, memory_ceiling="60%") as started:
        yield started


async def degraded(client: httpx.AsyncClient) -> dict[str, str]:
    """What readiness says is not well, by code; the process is ready nevertheless."""
    answer = await client.get("/readyz")
    assert answer.status_code == 200, answer.text
    return {one["code"]: one["message"] for one in answer.json()["degraded"]}


@asynccontextmanager
async def full(server: Server) -> AsyncGenerator[Any]:
    """The log's server is over the ceiling meanwhile; yields a client of it."""
    async with redis_of(server) as redis, server.client() as client:
        await redis.config_set("maxmemory", LIMIT)
        await redis.setrange("filling", FULL, b"x")
        assert "overloaded" in await degraded(client)
        try:
            yield redis
        finally:
            await redis.delete("filling")
            await redis.config_set("maxmemory", 0)
            await wait_until(lambda: _well(client), PATIENCE_S)


async def _well(client: httpx.AsyncClient) -> bool:
    answer = await client.get("/readyz")
    return answer.status_code == 200 and answer.json()["status"] == "ready"


def refused(answer: httpx.Response, status: int = 429) -> str:
    """What a refusal says, which must say when to come back."""
    assert answer.status_code == status, answer.text
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    return answer.text


async def written_until_refused(client: httpx.AsyncClient, batch: list[dict[str, Any]]) -> tuple[int, httpx.Response]:
    """How many events went in before a batch was refused, and the refusal. The server looks before each batch."""
    stored = 0
    for _ in range(200):
        await client.get("/readyz")
        answer = await client.post("/v1/events", json=batch)
        if answer.status_code != 202:
            return stored, answer
        stored += answer.json()["accepted"]
    raise AssertionError(f"{stored} events were taken, and no batch was refused")


@asynccontextmanager
async def mcp(url: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(timeout=30) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether a tool failed, and its text."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return bool(result.is_error), content.text


# memory


async def test_a_server_that_fills_up_refuses_before_it_is_full_and_goes_on_when_its_limit_is_raised(
    doors: Doors, project: str
):
    async with doors.server.client() as client, redis_of(doors.server) as redis:
        used = (await redis.info("memory"))["used_memory"]
        await redis.config_set("maxmemory", used + (24 << 20))
        batch = [{"type": "observe", "session_id": "s", "project": project, "content": "x" * 4000}] * 100
        stored, answer = await written_until_refused(client, batch)
        assert "of memory; the ceiling is" in refused(answer)
        assert (fault(answer)["code"], fault(answer)["reason"]) == ("overloaded", "memory")
        assert stored >= 100
        assert (await redis.info("memory"))["used_memory"] < used + (24 << 20), "it was not full yet"
        await redis.config_set("maxmemory", used + (1 << 30))

        async def taken() -> bool:
            return (await client.post("/v1/events", json=batch[:1])).status_code == 202

        await wait_until(taken, PATIENCE_S)
        await redis.config_set("maxmemory", 0)


async def test_native_writes_are_refused_one_by_one_and_as_a_batch(doors: Doors, project: str):
    async with doors.server.client() as client, full(doors.server):
        memory = {"content": "tea at four", "project": project}
        for path, body in (
            ("/v1/memories", memory),
            ("/v1/lessons", memory),
            ("/v1/observations", {**memory, "session_id": "s"}),
            ("/v1/sessions", {"session_id": "s", "project": project, "status": "ended"}),
            ("/v1/slots", {"label": "plan", "content": "tea", "project": project}),
            ("/v1/events", [{"type": "remember", **memory}]),
        ):
            answer = await client.post(path, json=body)
            refused(answer)
            assert (fault(answer)["code"], fault(answer)["reason"]) == ("overloaded", "memory"), path
        wrong = await client.post("/v1/memories", json={"content": ""})
        assert wrong.status_code == 422, "what may not be stored is told as that: coming back would not help"


async def test_reads_and_forgetting_go_on_and_writes_by_themselves_when_memory_is_free(doors: Doors, project: str):
    async with doors.server.client() as client:
        memory = {"content": "the ferry leaves at noon", "project": project}
        kept = (await client.post("/v1/memories", json=memory)).json()
        await client.get(f"/v1/memories/{kept['id']}", params={"after": kept["position"]})
        async with full(doors.server) as redis:
            asked = {"query": "ferry", "project": project}
            found = await client.post("/v1/recall", json=asked)
            assert [one["id"] for one in found.json()["results"]] == [kept["id"]]
            assert (await client.get(f"/v1/memories/{kept['id']}")).status_code == 200
            assert (await client.post("/v1/context", json={"project": project})).status_code == 200
            assert (await client.get("/v1/events", params={"limit": 5})).status_code == 200
            refused(await client.post("/v1/memories", json=memory))
            forgotten = await client.delete(f"/v1/memories/{kept['id']}")
            assert forgotten.status_code == 202, forgotten.text
            after = {"after": forgotten.json()["position"]}
            assert (await client.get(f"/v1/memories/{kept['id']}", params=after)).status_code == 404
            receipt = await client.post("/v1/forget", json={"kind": "project", "subject": project})
            assert receipt.status_code == 202, receipt.text
            await redis.delete("filling")

            async def taken() -> bool:
                return (await client.post("/v1/memories", json=memory)).status_code == 202

            await wait_until(taken, PATIENCE_S)


async def test_each_dialects_clients_are_refused_in_their_own_words(doors: Doors, project: str):
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client, full(doors.server):
        agentmemory = doors.server.url
        told = refused(await client.post(f"{agentmemory}/agentmemory/remember", json={"content": "tea"}))
        assert "of memory; the ceiling is" in told
        observed: dict[str, Any] = {"hookType": "post_tool_use", "sessionId": "s", "project": project, "cwd": "/"}
        observed |= {"timestamp": "2026-01-01T00:00:00Z", "data": {"tool_name": "Read"}}
        refused(await client.post(f"{agentmemory}/agentmemory/observe", json=observed))
        memory = {"agent_id": "ada", "user_id": "u", "content": "tea"}
        memex = await client.post(f"{doors.memex}/v1/memories", json=memory)
        assert "of memory; the ceiling is" in refused(memex)
        assert isinstance(memex.json()["detail"], str)
        item = {"project": project, "session_id": "s", "type": "decision", "title": "tea", "content": "tea"}
        refused(await client.post(f"{doors.agent_memory}/api/observations", json=item))
        created = {"content": "tea", "type": "information", "created_by": "ada", "visibility": "public"}
        agentd = await client.post(f"{doors.agentd}/memories", json=created)
        refused(agentd, 503)
        assert agentd.json()["error"].startswith("service unavailable: Redis uses")


async def test_tools_say_that_nothing_was_stored_and_when_to_come_back(doors: Doors, project: str):
    async with full(doors.server):
        async with mcp(f"{doors.server.url}/mcp") as client:
            failed, told = await call(client, "remember", content="tea", project=project)
            assert failed
            assert "of memory; the ceiling is" in told
            assert "nothing was stored. A retry is safe: wait " in told
            assert (await call(client, "recall", query="tea", project=project))[0] is False
        async with mcp(f"{doors.memex_mcp}/mcp/") as client:
            failed, told = await call(client, "store_memory", agent_id="ada", user_id="u", content="tea")
            assert failed
            assert "of memory; the ceiling is" in told
            assert "try again in " in told


async def test_no_door_calls_itself_healthy_while_it_refuses_writes(doors: Doors):
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        paths = {
            "agentmemory": f"{doors.server.url}/agentmemory/health",
            "agentd": f"{doors.agentd}/health",
            "agent-memory": f"{doors.agent_memory}/api/health",
            "memex": f"{doors.memex}/health",
        }

        async def said() -> dict[str, str]:
            return {name: (await client.get(url)).json()["status"] for name, url in paths.items()}

        async def well() -> bool:
            return await said() == {"agentmemory": "healthy", "agentd": "ok", "agent-memory": "degraded", "memex": "ok"}

        await wait_until(well, PATIENCE_S)  # agent-memory's is never ok without an embedder
        async with full(doors.server):
            assert set((await said()).values()) == {"degraded"}
            told = {name: (await client.get(url)).text for name, url in paths.items()}
            assert all("writes are refused" in one for one in told.values()), told
            diagnosis = (await client.get(f"{doors.server.url}/v1/diagnose")).json()
            assert diagnosis["status"] == "degraded"
            assert "pressure" in [one["name"] for one in diagnosis["checks"] if one["status"] == "warn"]
        await wait_until(well, PATIENCE_S)


async def test_refusals_and_vital_signs_are_counted(doors: Doors, project: str):
    async with doors.server.client() as client:

        async def figure(name: str) -> float:
            text = (await client.get("/metrics")).text
            return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} "))

        refusals = 'mnemolog_writes_refused_total{reason="memory"}'
        before = await figure(refusals)
        assert await figure('mnemolog_write_pressure{reason="memory"}') == 0
        async with full(doors.server):
            refused(await client.post("/v1/events", json=[{"type": "remember", "content": "x"}] * 3))
            assert await figure(refusals) == before + 3
            assert await figure('mnemolog_write_pressure{reason="memory"}') == 1
            used = await figure("mnemolog_store_memory_used_bytes")
            assert await figure("mnemolog_store_memory_ceiling_bytes") < used
            assert used < await figure("mnemolog_store_memory_limit_bytes") == LIMIT
        assert await figure("mnemolog_workers") == 1
        assert await figure("mnemolog_ready") == 1
        assert await figure("mnemolog_disk_free_bytes") > 0


# the rate of a key


@pytest.mark.parametrize("path", ["/v1/events", "/v1/admin/import"])
async def test_a_write_of_several_events_counts_as_many_against_the_rate_of_its_key(
    tenants: tuple[Tenant, Tenant], project: str, path: str
):
    """Taken whole, and then no other one for as long as its events take: 60 events at 20 a minute."""
    batch = [{"type": "remember", "content": f"fact {n}", "project": project} for n in range(60)]
    there, here = tenants
    async with there.client() as admin:
        assert (await admin.post("/v1/events", json=batch)).status_code == 202
        exported = (await admin.get("/v1/admin/export", params={"project": project})).content
    async with here.client() as admin:
        grant = {"name": "slow", "roles": ["read", "write", "admin"], "writes_per_minute": 20}
        key = (await admin.post("/v1/admin/keys", json=grant)).json()["key"]
    async with here.server.client(secret=key) as client:
        await until_ready(client, PATIENCE_S)
        sent = client.post(path, json=batch) if path == "/v1/events" else client.post(path, content=exported)
        assert (await sent).status_code == 202
        answer = await client.post("/v1/memories", json={"content": "one more", "project": project})
        assert (answer.status_code, fault(answer)["reason"]) == (429, "limit")
        assert 60 <= int(answer.headers["retry-after"]) <= 125  # 40 are owed, one comes every 3 seconds


# what hooks report meanwhile


async def test_a_hook_that_is_refused_spools_and_its_report_arrives_later(doors: Doors, project: str, tmp_path: Path):
    folder = tmp_path / project
    (folder / ".git").mkdir(parents=True)
    environ = TIDY | {"MNEMOLOG_URL": doors.server.url, "MNEMOLOG_SPOOL": str(doors.server.supervisor.settings.spool)}
    agent = Agent(f"session-of-{project}", folder, environ)
    session = f"queued-{project}"
    queued = {"session_id": session, "tool_name": "Read", "tool_input": {"a": 1}, "cwd": str(folder)}
    async with doors.server.client() as client, full(doors.server):
        agent.hook("UserPromptSubmit", prompt="Why is the checkout slow?")
        assert len(agent.spooled()) == 1
        answer = await client.post(f"{doors.agent_memory}/api/queue", json=queued)
        assert answer.json() == {"status": "queued"}, "that hook reads no answer: the server keeps it"
        assert len(list(doors.agent_memory_spool.glob("*.json"))) == 1
    async with doors.server.client() as client:
        for name in (agent.session, session):

            async def arrived(name: str = name) -> bool:
                page = await client.get(f"/v1/sessions/{name}/observations", params={"project": project})
                return page.status_code == 200 and len(page.json()["items"]) == 1

            await wait_until(arrived, PATIENCE_S)
    await wait_until(lambda: not agent.spooled(), PATIENCE_S)


# lag, and who projects


@pytest.fixture
async def client(small: Server) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of it, once everything is well."""
    async with AsyncExitStack() as stack:
        made = await stack.enter_async_context(small.client())

        async def well() -> bool:
            small.supervisor.watch()
            return await _well(made)

        await wait_until(well, PATIENCE_S)
        yield made


async def test_lag_over_its_ceiling_refuses_writes_until_the_worker_has_caught_up(
    small: Server, client: httpx.AsyncClient, project: str
):
    worker = small.supervisor.worker.pid
    assert worker is not None
    batch = [{"type": "remember", "content": f"memory {n}", "project": project} for n in range(LAG_CEILING // 2)]
    with frozen(worker):
        accepted, answer = await written_until_refused(client, batch)
        assert accepted == LAG_CEILING
        assert f"{LAG_CEILING} events are pending; the ceiling is {LAG_CEILING}" in refused(answer)
        assert fault(answer)["reason"] == "lag"
        eventual = {"query": "memory", "project": project, "consistency": "eventual"}
        assert (await client.post("/v1/recall", json=eventual)).status_code == 200

    async def taken() -> bool:
        return (await client.post("/v1/events", json=batch)).status_code == 202

    await wait_until(taken, PATIENCE_S)


async def test_near_the_ceiling_a_flooding_tenant_is_refused_and_a_quiet_one_is_not(
    small: Server, client: httpx.AsyncClient, project: str
):
    flooding, quiet = await new_tenant(small, f"flooding-{project}"), await new_tenant(small, f"quiet-{project}")
    memory = {"content": "a memory", "project": project}
    remember = {"type": "remember", **memory}
    async with flooding.client() as flood, quiet.client() as other:
        assert (await other.post("/v1/events", json=[remember])).status_code == 202
        with frozen(small.supervisor.worker.pid):
            accepted, answer = await written_until_refused(flood, [remember] * 4)
            assert LAG_CEILING * 0.7 <= accepted < LAG_CEILING
            assert "this tenant has recently written more than its fair share" in refused(answer)
            assert fault(answer)["reason"] == "lag"
            assert (await degraded(client)).keys() & {"overloaded", "fair_share"} == {"fair_share"}
            for _ in range(3):
                assert (await other.post("/v1/memories", json=memory)).status_code == 202
            _, answer = await written_until_refused(other, [remember] * 2)
            assert "the ceiling is 40" in refused(answer)
            assert "overloaded" in await degraded(client)


async def test_readiness_says_that_nobody_projects_first_as_a_limit_then_as_a_stop(
    small: Server, client: httpx.AsyncClient, project: str
):
    worker = small.supervisor.worker.pid
    assert worker is not None
    os.kill(worker, signal.SIGKILL)

    async def noticed() -> bool:
        return "no_worker" in await degraded(client)

    await wait_until(noticed, PATIENCE_S)
    assert (await client.post("/v1/memories", json={"content": "tea", "project": project})).status_code == 202

    async def stopped() -> bool:
        answer = await client.get("/readyz")
        if answer.status_code == 200:
            assert answer.json()["status"] == "degraded"
            return False
        assert (fault(answer)["code"], fault(answer)["reason"]) == ("unavailable", "stalled")
        assert "no worker is running, and events have been pending for" in fault(answer)["detail"]
        assert fault(answer)["vitals"]["workers"] == 0
        return True

    await wait_until(stopped, PATIENCE_S)
    health = await client.get("/agentmemory/health")
    assert (health.status_code, health.json()["status"]) == (503, "critical")
    assert (await client.get("/livez")).status_code == 200


async def test_a_dead_letter_is_named_and_stops_nothing(small: Server, client: httpx.AsyncClient):
    live = PartitionKeys(1).of_generation(1)
    letter = letter_of(Stored(Position(1, 0), b""), "internal", "no", 5, system_clock())
    async with redis_of(small) as redis:
        async with redis.pipeline() as pipe:
            queue_letter(pipe, live, letter)
            await pipe.execute()
        assert await degraded(client) == {"dead_letters": "1 events could not be applied"}
        shown = await client.get("/agentmemory/health")  # what the viewer shows
        assert (shown.status_code, shown.json()["status"]) == (200, "degraded")
        assert shown.json()["health"]["notes"] == ["1 events could not be applied"]
        await redis.delete(live.dead)
    assert await degraded(client) == {}
