"""Clients of the agent-memory door: its REST API, and its MCP server, which is a process."""

import json
import re
import socket
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.support.waiting import wait_until

PATIENT_S = 60
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
CROWD = 101


class Rest:
    """The API, by what its clients want of it."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def observe(self, project: str, title: str, session: str | None = None, **more: Any) -> dict[str, Any]:
        """Make an observation; its session has the project's name if nothing else is said."""
        body = {"session_id": session or project, "project": project, "title": title, **more}
        return done(await self.http.post("/api/observations", json=body))

    async def begin(self, session: str, project: str, **more: Any) -> dict[str, Any]:
        """Begin a session."""
        return done(await self.http.post("/api/sessions", json={"session_id": session, "project": project, **more}))

    async def learn(self, rule: str, **more: Any) -> dict[str, Any]:
        """State a lesson."""
        return done(await self.http.post("/api/lessons", json={"title": "Mind this", "rule": rule, **more}))

    async def queue(self, session: str, cwd: str | None, **more: Any) -> None:
        """Report the use of a tool as the hook does."""
        answer = await self.http.post("/api/queue", json=report(session, cwd, **more))
        assert (answer.status_code, answer.json()) == (200, {"status": "queued"})

    async def listed(self, what: str, **options: Any) -> list[dict[str, Any]]:
        """A list of observations, sessions or lessons; a bare array."""
        answer = await self.http.get(f"/api/{what}", params=options)
        assert answer.text.startswith("[")
        return done(answer)

    async def observed(self, project: str, count: int) -> list[dict[str, Any]]:
        """A project's observations, the newest first, once there are so many."""

        async def all_there() -> bool:
            return len(await self.listed("observations", project=project, limit=100)) >= count

        await wait_until(all_there, PATIENT_S)
        results = await self.listed("observations", project=project, limit=100)
        assert len(results) == count
        return results

    async def search(self, query: str, **options: Any) -> dict[str, Any]:
        """The answer to a search."""
        return done(await self.http.post("/api/observations/search", json={"query": query, **options}))

    async def hits(self, query: str, **options: Any) -> list[int]:
        """The ids that a search finds, the best first."""
        return [observation["id"] for observation in (await self.search(query, **options))["observations"]]

    async def matched(self, tool: str, preview: str | None = None, **options: Any) -> list[int]:
        """The ids of the lessons about the use of a tool."""
        options = {"tool_name": tool, **({} if preview is None else {"tool_input_preview": preview}), **options}
        return [lesson["id"] for lesson in done(await self.http.get("/api/lessons/match", params=options))]


async def well(http: httpx.AsyncClient, url: str = "/api/health") -> dict[str, Any]:
    """What the health says once all of its parts answered in time: on a busy machine one of them may not, at first."""
    entries: list[dict[str, Any]] = []

    async def all_parts() -> bool:
        entries.append(done(await http.get(url)))
        return entries[-1]["db"]["status"] == "ok" and min(entries[-1]["queue"].values()) >= 0

    await wait_until(all_parts, PATIENT_S)
    return entries[-1]


def done(answer: httpx.Response) -> Any:
    """The body of an answer that is 200: creations are, too."""
    assert answer.status_code == 200, (answer.status_code, answer.text)
    return answer.json()


def report(session: str, cwd: str | None, **more: Any) -> dict[str, Any]:
    """What the hook says after an edit."""
    return {
        "session_id": session, "tool_name": "Edit",
        "tool_input": {"file_path": "/home/ada/shop/app.py", "old_string": "a", "new_string": "b"},
        "tool_response_preview": '{"filePath":"/home/ada/shop/app.py"}', "cwd": cwd, "last_user_message": None, **more,
    }  # fmt: skip


def send_and_hang_up(url: str, path: str, body: bytes) -> None:
    """Write a whole request and close; nothing is read."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: keep-alive\r\n\r\n".encode() + body)


def leading(text: str) -> Any:
    """The JSON that a text begins with."""
    return json.JSONDecoder().raw_decode(text)[0]


@pytest.fixture
async def rest(doors: Doors) -> AsyncGenerator[Rest]:
    """The API."""
    async with httpx.AsyncClient(base_url=doors.agent_memory, timeout=PATIENT_S, trust_env=False) as http:
        yield Rest(http)


@pytest.fixture(scope="session")
def crowd(doors: Doors) -> str:
    """A project with 101 observations, `cormorant 0` to `cormorant 100`."""
    project = f"crowd{uuid4().hex[:12]}"

    with httpx.Client(base_url=doors.agent_memory, timeout=PATIENT_S, trust_env=False) as http:

        def observe(number: int) -> None:
            body = {"session_id": project, "project": project, "title": f"cormorant {number}"}
            done(http.post("/api/observations", json=body))

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(observe, range(CROWD)))
    return project
