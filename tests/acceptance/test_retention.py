"""Sessions that were silent for longer than they are kept: gone from what is searched, told of honestly, in the log."""

from collections.abc import Callable
from typing import Any

import httpx
from waiting import wait_until

from tests.acceptance.asking import read, recall, write
from tests.acceptance.running import Server

Client = httpx.AsyncClient
SECONDS = 1 / 86_400
PLACE = {"session_id": "s1", "project": "atlas"}


async def events(client: Client, kind: str) -> list[dict[str, Any]]:
    """The events of a type of the session, as the log shows them."""
    return (await read(client, "/v1/events", type=kind, session_id="s1", limit=1000))["events"]


async def retired(client: Client, *said: str) -> list[str]:
    """A session that said so and is retired; the ids of its observations."""
    found = [(await write(client, "/v1/observations", **PLACE, content=one))["id"] for one in said]
    await write(client, "/v1/sessions", **PLACE, status="ended")
    answer = await client.post("/v1/sessions/s1/summary", json={"project": "atlas"})
    assert answer.status_code in (200, 202), answer.text

    async def is_retired() -> bool:
        return (await read(client, "/v1/sessions/s1"))["retired"]

    await wait_until(is_retired, timeout_s=60)
    return found


async def test_a_retired_session_says_so_and_keeps_its_summary(private_server: Callable[..., Server]):
    """Never a silent nothing: pages say what is not there any more, and where it is."""
    server = private_server(retain_sessions_days=2 * SECONDS)
    async with server.client() as client:
        (first, _) = await retired(client, "We decided to use granite", "The walrus asked for ice")
        session = await read(client, "/v1/sessions/s1")
        assert (session["observation_count"], session["retired_observations"]) == (2, 2)
        assert session["retired_at"]
        page = await read(client, "/v1/sessions/s1/observations")
        assert (page["items"], page["retired_observations"]) == ([], 2)
        assert "log" in page["note"]
        line = await read(client, "/v1/timeline", project="atlas")
        assert line["items"] == []
        assert "log" in line["note"]
        assert (await client.get(f"/v1/observations/{first}")).status_code == 404
        found = await recall(client, "walrus granite ice", project="atlas")
        assert {one["kind"] for one in found["results"]} <= {"summary"}
        assert "granite" in (await read(client, "/v1/sessions/s1/summary"))["narrative"]
        said = [one["data"]["content"] for one in await events(client, "observation.recorded")]
        assert said == ["We decided to use granite", "The walrus asked for ice"]
        assert len(await events(client, "session.retired")) == 1


async def test_what_is_said_later_opens_it_again_and_a_repeat_does_not(private_server: Callable[..., Server]):
    server = private_server(retain_sessions_days=2 * SECONDS, dedup_window=1)
    async with server.client() as client:
        once = {**PLACE, "content": "Said once", "event_id": "once"}
        await write(client, "/v1/observations", **once)
        await retired(client, "Said with it")
        again = await write(client, "/v1/observations", **once)
        assert not again["duplicate"], "the window of a second is long over"
        session = await read(client, "/v1/sessions/s1", after=again["position"])
        assert (session["status"], session["observation_count"]) == ("ended", 2)
        later = await write(client, "/v1/observations", **PLACE, content="Said later")
        session = await read(client, "/v1/sessions/s1", after=later["position"])
        assert (session["status"], session["retired"], session["retired_observations"]) == ("active", False, 2)
        page = await read(client, "/v1/sessions/s1/observations")
        assert [one["content"] for one in page["items"]] == ["Said later"]


async def test_a_retired_session_is_forgotten_like_any_other(private_server: Callable[..., Server]):
    """Single observations, too. The log has nothing of them any more."""
    server = private_server(retain_sessions_days=2 * SECONDS)
    async with server.client() as client:
        (first, *_) = await retired(client, "The walrus asked for ice", "The heron wanted nothing")
        assert (await client.delete(f"/v1/observations/{first}")).status_code == 202

        async def is_gone() -> bool:
            return "walrus" not in str(await events(client, ""))

        await wait_until(is_gone)
        assert "heron" in str(await events(client, ""))
        gone = await client.delete("/v1/sessions/s1")
        assert gone.status_code == 202

        async def all_is_gone() -> bool:
            return "heron" not in str(await events(client, ""))

        await wait_until(all_is_gone)
        asked = {"after": gone.json()["position"]}  # the last tombstone may come behind what erased the log
        assert (await client.get("/v1/sessions/s1", params=asked)).status_code == 404


async def test_the_other_doors_go_on_with_shorter_lists(private_server: Callable[..., Server]):
    """MCP and agentmemory's clients see the session, and no observations of it."""
    server = private_server(retain_sessions_days=2 * SECONDS)
    async with server.client() as client:
        await retired(client, "The walrus asked for ice")
        told = await read(client, "/agentmemory/sessions")
        assert [one["id"] for one in told["sessions"]] == ["s1"]
        assert (await read(client, "/agentmemory/observations", sessionId="s1"))["observations"] == []
        call = {"name": "memory_recall", "arguments": {"query": "walrus"}}
        answer = await client.post(
            "/mcp?profile=agentmemory",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            headers={"Accept": "application/json, text/event-stream"},
        )
        assert answer.status_code == 200, answer.text
        assert not answer.json()["result"].get("isError"), answer.text
