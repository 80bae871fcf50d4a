"""The stream of the viewer: what it says of an observation, to whom, and that nobody can hold it up."""

import asyncio
import json
import random
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.acceptance.running import Doors

STREAM = "/stream/mem-live/viewer"
PATIENT_S = 60.0
AT_ONCE = 20


@asynccontextmanager
async def watching(url: str, path: str = STREAM, **options: Any) -> AsyncGenerator[ClientConnection]:
    """A viewer that is connected and sees what happens from now on."""
    address = url.replace("http://", "ws://") + path
    async with connect(address, open_timeout=PATIENT_S, proxy=None, max_size=None, **options) as stream:
        yield stream


async def observe(client: httpx.AsyncClient, session: str, output: str = "done") -> str:
    fields = {
        "sessionId": session,
        "project": f"project-{session}",
        "hookType": "post_tool_use",
        "timestamp": "2026-01-31T12:00:00.000Z",
        "data": {"tool_name": "Edit", "tool_input": {"file_path": "src/pool.ts"}, "tool_output": output},
    }
    answer = await client.post("/agentmemory/observe", json=fields)
    assert answer.status_code == 201, answer.text
    return answer.json()["observationId"]


async def frames_of(stream: ClientConnection, session: str, count: int) -> list[dict[str, Any]]:
    """The next frames of a session; others are passed over."""
    results: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENT_S):
        while len(results) < count:
            frame = json.loads(await stream.recv())
            results += [frame] if frame["sessionId"] == session else []
    return results


async def until_closed(stream: ClientConnection) -> int:
    """How many frames still come before the connection is closed, in whichever way."""
    received = 0
    async with asyncio.timeout(PATIENT_S):
        try:
            while await stream.recv():
                received += 1
        except ConnectionClosed:
            return received
    raise AssertionError("an empty frame")


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=PATIENT_S, trust_env=False)


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("path", [STREAM, "/", f"/{STREAM}"])
async def test_an_observation_is_told_as_it_came_and_then_compressed(doors: Doors, name: str, path: str):
    """At the root, too, where older pages join a stream; what they say is passed over."""
    async with watching(doors.agentmemory, path) as stream, client_of(doors.agentmemory) as client:
        await stream.send(json.dumps({"type": "join", "data": {"streamName": "mem-live", "groupId": "viewer"}}))
        observation = await observe(client, name)
        raw, compressed = await frames_of(stream, name, 2)
    assert [raw["type"], compressed["type"]] == ["raw_observation", "compressed_observation"]
    for frame, form in ((raw, "raw"), (compressed, "compressed")):
        assert frame["event_type"] == "observation"
        assert (frame["data"]["type"], frame["data"]["sessionId"]) == (form, name)
        answer = frame["data"]["observation"]
        assert (answer["id"], answer["timestamp"]) == (observation, "2026-01-31T12:00:00.000Z")
    assert raw["data"]["observation"]["toolOutput"] == "done"
    assert compressed["data"]["observation"]["files"] == ["src/pool.ts"]
    assert "raw" not in compressed["data"]["observation"]


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_secret_is_kept_out_of_the_stream(doors: Doors, name: str):
    async with watching(doors.agentmemory) as stream, client_of(doors.agentmemory) as client:
        await observe(client, name, f"token: ghp_{'a' * 36} and <private>my diary</private>")
        answer = json.dumps(await frames_of(stream, name, 2))
    assert "ghp_" not in answer
    assert "diary" not in answer


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_page_of_a_stranger_is_not_connected(doors: Doors):
    with pytest.raises(InvalidStatus) as refused:
        async with watching(doors.agentmemory, origin="https://evil.example"):
            pass
    assert refused.value.response.status_code == 403


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_a_viewer_that_takes_nothing_is_let_go_and_holds_up_nobody(doors: Doors, name: str):
    """It is sent more than its share and the kernel's buffers together; another viewer sees everything meanwhile."""
    fields, count = random.Random(1), 8 * AT_ONCE
    output = fields.randbytes(25_000).hex()  # hardly any of it can be compressed away
    where = urlsplit(doors.agentmemory)
    asleep = socket.socket()
    asleep.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    asleep.connect((where.hostname, where.port))
    asleep.setblocking(False)
    quiet = watching(doors.agentmemory, sock=asleep, compression=None, max_queue=1, ping_interval=None)
    watched = watching(doors.agentmemory, compression=None)
    async with quiet as slow, watched as stream, client_of(doors.agentmemory) as client:
        pages: list[str] = []
        frames: list[Any] = []
        for _ in range(count // AT_ONCE):
            answer = asyncio.create_task(frames_of(stream, name, 2 * AT_ONCE))
            pages += [await observe(client, name, output) for _ in range(AT_ONCE)]
            frames += await answer
        assert {frame["data"]["observation"]["id"] for frame in frames} == set(pages)
        assert await until_closed(slow) < 2 * count


@pytest.mark.covers("WS /stream/mem-live/viewer")
async def test_what_is_too_big_for_the_stream_is_left_out_of_it(doors: Doors, name: str):
    async with watching(doors.agentmemory) as stream, client_of(doors.agentmemory) as client:
        await observe(client, name, "long line\n" * 40_000)
        raw, compressed = await frames_of(stream, name, 2)
    assert raw["data"]["observation"]["truncated"] is True
    assert raw["data"]["observation"]["raw"] == {}
    assert compressed["data"]["observation"]["title"] == "Edit"
