"""Servers that were set up otherwise: a cap on a session's observations, and agents that see only their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.asking import ask, names, read, recall, refused, write
from tests.acceptance.running import Server, fault, running
from tests.acceptance.test_mcp_profiles import client_of

Client = httpx.AsyncClient


@pytest.fixture(scope="module")
def isolated(cache_dir: Path) -> Iterator[Server]:
    """A server set up for ada, who sees only her own."""
    with running(cache_dir, embedder="none", partitions=2, agent_id="ada", agent_scope="isolated") as started:
        yield started


# a session's observations


async def test_a_full_session_takes_no_more(small: Server, project: str):
    """The refusal says which session and what its limit is; other sessions and other writes go on."""
    async with small.client("ada") as client:
        said = {"project": project, "session_id": "s1"}
        for n in range(3):
            await write(client, "/v1/observations", **said, content=f"number {n}")
        answer = await client.post("/v1/observations", json={**said, "content": "one too many"})
        assert (answer.status_code, fault(answer)["code"], fault(answer)["field"]) == (
            409,
            "session_full",
            "session_id",
        )
        assert "3" in fault(answer)["detail"]
        await write(client, "/v1/observations", project=project, session_id="s2", content="elsewhere")
        await write(client, "/v1/memories", **said, content="a memory of the same session")
        ended = await write(client, "/v1/sessions", **said, status="ended")
        seen = await read(client, "/v1/sessions/s1", project=project, after=ended["position"])
        assert seen["observation_count"] == 3


async def test_in_a_batch_only_what_exceeds_the_cap_is_rejected(small: Server, project: str):
    async with small.client("ada") as client:
        batch = [
            {"type": "observe", "project": project, "session_id": "s1", "content": f"number {n}"} for n in range(5)
        ]
        batch.append({"type": "remember", "project": project, "content": "kept all the same"})
        told = (await client.post("/v1/events", json=batch)).json()
        assert told["accepted"] == 4
        assert [(one["index"], one["code"], one["field"]) for one in told["rejected"]] == [
            (3, "session_full", "session_id"),
            (4, "session_full", "session_id"),
        ]


@pytest.mark.parametrize("batched", [False, True])
async def test_a_retry_is_not_counted_twice(small: Server, project: str, batched: bool):
    said = {"project": project, "session_id": "s1"}
    async with small.client("ada") as client:

        async def observe(n: int) -> dict[str, Any]:
            one = {**said, "content": f"number {n}", "event_id": f"e{n}"}
            if not batched:
                return await write(client, "/v1/observations", **one)
            answer = await client.post("/v1/events", json=[{"type": "observe", **one}])
            told = answer.json()
            assert told["rejected"] == [], told
            return {"duplicate": bool(told["duplicates"])}

        for _ in range(4):
            await observe(0)
        await observe(1)
        assert (await observe(1))["duplicate"] is True
        assert (await observe(2))["duplicate"] is False
        wanted = {**said, "content": "one too many", "event_id": "e3"}
        assert (await refused(client, "POST", "/v1/observations", wanted))[:2] == (409, "session_full")


async def test_a_retry_in_a_full_session_is_acknowledged(small: Server, project: str):
    """What is stored is stored: the client that did not hear so may ask again."""
    async with small.client("ada") as client:
        said = [{"project": project, "session_id": "s1", "content": f"n {n}", "event_id": f"e{n}"} for n in range(3)]
        first = [await write(client, "/v1/observations", **one) for one in said]
        again = [await write(client, "/v1/observations", **one) for one in said]
        assert again == [{**one, "duplicate": True} for one in first]
        batch = [{"type": "observe", **one} for one in said]
        told = (await client.post("/v1/events", json=batch)).json()
        assert (told["accepted"], told["duplicates"], told["rejected"]) == (0, 3, [])


# an agent's own


async def write_as(server: Server, agent: str, project: str) -> str:
    """A memory, an observation, a lesson and an action by an agent; the position behind them."""
    async with server.client("" if agent == "ada" else agent) as client:
        tokens = [
            (await write(client, path, project=project, **said))["position"]
            for path, said in [
                ("/v1/memories", {"content": f"The kiwi of {agent} sleeps"}),
                ("/v1/observations", {"session_id": f"s-{agent}", "content": f"The kiwi of {agent} woke up"}),
                ("/v1/lessons", {"content": f"Feed the kiwi of {agent}"}),
                ("/v1/actions", {"title": f"Walk the kiwi of {agent}"}),
            ]
        ]
        return ",".join(tokens)


async def seen_by(client: Client, project: str, after: str) -> dict[str, set[str]]:
    """Whose documents every way of reading shows."""
    found = await recall(client, "kiwi", project=project, after=after)
    compiled = (await ask(client, "/v1/context", project=project, query="kiwi"))["context"]
    listed = {
        "recall": {one["agent_id"] for one in found["results"]},
        "context": {agent for agent in ("ada", "bob") if f"kiwi of {agent}" in compiled},
        "memories": {*names(await read(client, "/v1/memories", project=project), "agent_id")},
        "lessons": {*names(await read(client, "/v1/lessons", project=project), "agent_id")},
        "actions": {*names(await read(client, "/v1/actions", project=project), "agent_id")},
        "frontier": {*names(await read(client, "/v1/frontier", project=project), "agent_id")},
        "sessions": {*names(await read(client, "/v1/sessions", project=project), "agent_id")},
        "timeline": {*names(await read(client, "/v1/timeline", project=project), "agent_id")},
        "log": {one["agent_id"] for one in (await read(client, "/v1/events", project=project))["events"]},
        "audit": {one["agent_id"] for one in (await read(client, "/v1/audit", project=project))["entries"]},
    }
    searched = await ask(client, "/v1/lessons/search", query="kiwi", project=project)
    return {**listed, "search": {*names(searched, "agent_id")}}


async def test_an_isolated_agent_sees_its_own_everywhere(isolated: Server, project: str):
    """Without a header that is the agent the server was set up for; a header names another; `*` lifts it."""
    after = ",".join([await write_as(isolated, agent, project) for agent in ("ada", "bob")])
    expected = {"": ["ada"], "ada": ["ada"], "bob": ["bob"], "*": ["ada", "bob"], "cy": []}
    for header, agents in expected.items():
        async with isolated.client(header) as client:
            seen = await seen_by(client, project, after)
            assert seen == {way: {*agents} for way in seen}, header


async def test_agentmemorys_tools_show_an_isolated_agent_its_own_actions_only(isolated: Server, project: str):
    """What waits for another agent's action waits all the same."""
    async with isolated.client("bob") as bob:
        first = await write(bob, "/v1/actions", project=project, title="Walk the kiwi of bob")
    async with isolated.client() as ada:
        waiting = {"title": "Feed the kiwi of ada", "edges": [{"type": "requires", "target": first["id"]}]}
        await write(ada, "/v1/actions", project=project, **waiting)
        free = await write(ada, "/v1/actions", project=project, title="Call the kiwi of ada")
        seen = await write(ada, "/v1/observations", project=project, session_id=project, content="The kiwi woke up")
        after = ",".join([first["position"], free["position"], seen["position"]])
        native = await read(ada, "/v1/frontier", project=project, after=after)
        assert (names(native, "title"), native["open"]) == (["Call the kiwi of ada"], 2)
    async with client_of(isolated, "agentmemory") as client:
        told = (await client.call_tool("memory_frontier", {"project": project})).structured_content
        assert told is not None
        assert [one["title"] for one in told["frontier"]] == ["Call the kiwi of ada"]
        assert (told["total"], told["totalActions"], told["totalUnblocked"]) == (1, 2, 1)


async def test_an_isolated_agent_is_not_shown_somebody_elses_document_by_id(isolated: Server, project: str):
    async with isolated.client("bob") as bob:
        told = await write(bob, "/v1/memories", project=project, content="a memory of bob's")
        assert (await read(bob, f"/v1/memories/{told['id']}", after=told["position"]))["agent_id"] == "bob"
    async with isolated.client() as ada:
        assert (await refused(ada, "GET", f"/v1/memories/{told['id']}"))[:2] == (404, "not_found")
        assert (await refused(ada, "PATCH", f"/v1/memories/{told['id']}", {"content": "x"}))[:2] == (404, "not_found")
        assert (await refused(ada, "DELETE", f"/v1/memories/{told['id']}"))[:2] == (404, "not_found")
