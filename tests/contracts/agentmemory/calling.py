"""A client of the door that says what it wants and checks how it was answered."""

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx

PATIENT_S = 30
WHEN = "2026-01-31T12:00:00.000Z"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

Json = dict[str, Any]


class Api(NamedTuple):
    """agentmemory's REST surface; paths are given without the prefix and the first slash."""

    http: httpx.Client

    def get(self, path: str, /, **query: Any) -> httpx.Response:
        return self.http.get(f"/agentmemory/{path}", params=query)

    def post(self, path: str, /, **body: Any) -> httpx.Response:
        return self.http.post(f"/agentmemory/{path}", json=body)

    def observe(self, session: str, /, **data: Any) -> str:
        """The id of an observation of a tool's use."""
        return self.hook(session, "post_tool_use", data=data)

    def hook(self, session: str, kind: str, /, **fields: Any) -> str:
        """The id of what a hook of this kind told."""
        body = {"timestamp": WHEN, "project": f"p-{session}", "cwd": "/w", **fields}
        return ok(self.post("observe", sessionId=session, hookType=kind, **body), 201)["observationId"]

    def observations(self, session: str) -> list[Json]:
        return ok(self.get("observations", sessionId=session))["observations"]

    def seen(self, session: str) -> Json:
        """The only observation of a session."""
        (observation,) = self.observations(session)
        return observation

    def session(self, session: str) -> Json:
        """The row of a session."""
        (row,) = [item for item in ok(self.get("sessions"))["sessions"] if item["id"] == session]
        return row

    def start(self, session: str, /, **fields: Any) -> Json:
        body = {"project": f"p-{session}", "cwd": "/w", **fields}
        return ok(self.post("session/start", sessionId=session, **body))["session"]

    def remember(self, content: str, /, **fields: Any) -> Json:
        """The memory that was stored."""
        return ok(self.post("remember", content=content, **fields), 201)["memory"]

    def search(self, query: str, /, **fields: Any) -> list[Json]:
        return ok(self.post("search", query=query, **fields))["results"]

    def memories(self, **query: Any) -> list[Json]:
        return ok(self.get("memories", **query))["memories"]

    def tool(self, name: str, /, **arguments: Any) -> Json:
        """What a tool answers, read from its text."""
        (content,) = ok(self.post("mcp/call", name=name, arguments=arguments))["content"]
        assert content["type"] == "text"
        return json.loads(content["text"])


def at_last(ask: Callable[[], Json], holds: Callable[[Json], bool]) -> Json:
    """The first answer of which that holds: on a busy machine what ought to be may take a moment."""
    deadline = time.monotonic() + PATIENT_S
    while not holds(answer := ask()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.01)
    return answer


def ok(answer: httpx.Response, status: int = 200) -> Json:
    """The body of an answer that has to have this status."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    return answer.json()


def refused(answer: httpx.Response, status: int = 400) -> str:
    """What a refusal says; every one is an object with a text."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert isinstance(error, str)
    assert error
    return error


def failed(answer: httpx.Response) -> str:
    """What a function says that failed, though the request was fine."""
    body = ok(answer)
    assert body["success"] is False
    assert isinstance(body["error"], str)
    return body["error"]
