"""Sessions that were silent for longer than they are kept: gone from what is searched, told of honestly, in the log."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.asking import read, recall, write
from tests.acceptance.running import Server, running

SECONDS = 1 / 86_400


@pytest.fixture(scope="module")
def forgetful(cache_dir: Path) -> Iterator[Server]:
    """A server that retires sessions after two seconds and knows an event id for one."""
    changes: dict[str, Any] = {"retain_sessions_days": 2 * SECONDS, "dedup_window": 1}
    with running(cache_dir, embedder="none", partitions=4, **changes) as started:
        yield started


class Session:
    """A session of the test's own project; it has the project's name."""

    def __init__(self, client: httpx.AsyncClient, project: str) -> None:
        self.client, self.name, self.project = client, project, project

    @property
    def place(self) -> dict[str, str]:
        """Where its observations are written to."""
        return {"session_id": self.name, "project": self.project}

    async def observe(self, content: str, **more: Any) -> dict[str, Any]:
        """The acknowledgement of an observation."""
        return await write(self.client, "/v1/observations", **self.place, content=content, **more)

    async def read(self, below: str = "", **query: Any) -> dict[str, Any]:
        """The session, or a page below it."""
        return await read(self.client, f"/v1/sessions/{self.name}{below}", project=self.project, **query)

    async def events(self, kind: str) -> list[dict[str, Any]]:
        """Its events of a type, as the log shows them."""
        return (await read(self.client, "/v1/events", type=kind, session_id=self.name, limit=1000))["events"]

    async def retire(self, *contents: str) -> list[str]:
        """Write observations and wait until the session is retired; the ids of the observations."""
        written = [(await self.observe(content))["id"] for content in contents]
        await write(self.client, "/v1/sessions", **self.place, status="ended")
        answer = await self.client.post(f"/v1/sessions/{self.name}/summary", json={"project": self.project})
        assert answer.status_code in (200, 202), answer.text

        async def is_retired() -> bool:
            return (await self.read())["retired"]

        await wait_until(is_retired, timeout_s=60)
        return written


@pytest.fixture
async def session(forgetful: Server, project: str) -> AsyncGenerator[Session]:
    """A session that is retired soon after it ends."""
    async with forgetful.client() as client:
        yield Session(client, project)


async def test_a_retired_session_says_so_and_keeps_its_summary(session: Session):
    """Pages say what they do not show any more, and where it is."""
    (first, _) = await session.retire("We decided to use granite", "The walrus asked for ice")
    shown = await session.read()
    assert (shown["observation_count"], shown["retired_observations"]) == (2, 2)
    assert shown["retired_at"]
    page = await session.read("/observations")
    assert (page["items"], page["retired_observations"]) == ([], 2)
    assert "log" in page["note"]
    line = await read(session.client, "/v1/timeline", project=session.project)
    assert line["items"] == []
    assert "log" in line["note"]
    assert (await session.client.get(f"/v1/observations/{first}")).status_code == 404
    found = await recall(session.client, "walrus granite ice", project=session.project)
    assert {one["kind"] for one in found["results"]} <= {"summary"}
    summary = await session.read("/summary")
    assert "granite" in " ".join([summary["narrative"], *summary["decisions"]])
    contents = [event["data"]["content"] for event in await session.events("observation.recorded")]
    assert contents == ["We decided to use granite", "The walrus asked for ice"]
    assert len(await session.events("session.retired")) == 1


async def test_a_new_observation_reopens_a_retired_session_and_a_repeat_does_not(session: Session):
    once = {"content": "Said once", "event_id": f"once-{session.name}"}
    await session.observe(**once)
    await session.retire("Said with it")
    again = await session.observe(**once)
    assert not again["duplicate"], "the window of a second is long over"
    shown = await session.read(after=again["position"])
    assert (shown["status"], shown["observation_count"]) == ("ended", 2)
    later = await session.observe("Said later")
    shown = await session.read(after=later["position"])
    assert (shown["status"], shown["retired"], shown["retired_observations"]) == ("active", False, 2)
    page = await session.read("/observations")
    assert [one["content"] for one in page["items"]] == ["Said later"]


async def test_a_retired_session_is_forgotten_like_any_other(session: Session):
    """Single observations, too. The log has nothing of them any more."""
    (first, *_) = await session.retire("The walrus asked for ice", "The heron wanted nothing")
    assert (await session.client.delete(f"/v1/observations/{first}")).status_code == 202

    async def is_gone() -> bool:
        return "walrus" not in str(await session.events(""))

    await wait_until(is_gone)
    assert "heron" in str(await session.events(""))
    gone = await session.client.delete(f"/v1/sessions/{session.name}", params={"project": session.project})
    assert gone.status_code == 202

    async def all_is_gone() -> bool:
        return "heron" not in str(await session.events(""))

    await wait_until(all_is_gone)
    asked = {"project": session.project, "after": gone.json()["position"]}  # the last tombstone may come later
    assert (await session.client.get(f"/v1/sessions/{session.name}", params=asked)).status_code == 404


async def test_agentmemory_lists_a_retired_session_without_observations(session: Session):
    """Over REST and MCP."""
    await session.retire("The walrus asked for ice")
    listed = await read(session.client, "/agentmemory/sessions")
    assert session.name in [one["id"] for one in listed["sessions"]]
    page = await read(session.client, "/agentmemory/observations", sessionId=session.name)
    assert page["observations"] == []
    call = {"name": "memory_recall", "arguments": {"query": "walrus"}}
    answer = await session.client.post(
        "/mcp?profile=agentmemory",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
        headers={"Accept": "application/json, text/event-stream"},
    )
    assert answer.status_code == 200, answer.text
    assert not answer.json()["result"].get("isError"), answer.text
