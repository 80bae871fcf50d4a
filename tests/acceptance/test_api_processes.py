"""Several API processes on one port: clients notice neither which process answers, nor that one is killed."""

import asyncio
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from waiting import wait_until

from tests.acceptance.running import Doors, Server, every_dialect

PROCESSES = 2


@pytest.fixture(scope="module")
def doors(cache_dir: Path) -> Iterator[Doors]:
    """A server with two API processes and every dialect's port, whose memex does not count requests."""
    unlimited = 1_000_000
    changes: dict[str, Any] = {"memex_writes_per_minute": unlimited, "memex_searches_per_minute": unlimited}
    with every_dialect(cache_dir, embedder="none", partitions=2, api_processes=PROCESSES, **changes) as started:
        yield started


@pytest.fixture
async def two(doors: Doors) -> Doors:
    """The server, when both processes answer."""

    async def both() -> bool:
        return await _processes(doors.server) == {"0", "1"}

    await wait_until(both)
    return doors


async def _processes(server: Server) -> set[str]:
    """Those that tell of themselves in the metrics of the one that is asked."""
    async with server.client() as client:
        text = (await client.get("/metrics")).text
    return set(re.findall(r'mnemolog_index_ready\{process="(\d)"\} 1.0', text))


def _pids(server: Server) -> list[int]:
    parent = server.supervisor.api.pid
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in listed.split()]


async def _answering(server: Server, asks: int) -> set[str]:
    """The process numbers that count the requests of so many connections."""
    for _ in range(asks):
        async with server.client() as client:  # a connection of its own, which may reach either
            assert (await client.get("/livez")).status_code == 200
    await asyncio.sleep(2.5)  # until what they counted is left for the others
    async with server.client() as client:
        text = (await client.get("/metrics")).text
    return set(re.findall(r'mnemolog_http_requests_total\{process="(\d)",[^}]*route="/livez"', text))


async def test_connections_are_dealt_out_among_the_processes(two: Doors):
    """Both answer, and the metrics of either tell of both; what is of the log is told once."""
    assert await _answering(two.server, 40) == {"0", "1"}
    async with two.server.client() as client:
        text = (await client.get("/metrics")).text
    assert len(re.findall(r"^mnemolog_workers ", text, re.MULTILINE)) == 1


async def test_an_agent_reads_its_own_writes_whichever_process_it_reaches(two: Doors):
    """memex's clients send no position: the processes tell each other what an agent wrote."""
    pair = {"agent_id": "ada", "user_id": "bob"}
    for number in range(20):
        text = f"the number is {number}"
        async with httpx.AsyncClient(base_url=two.memex, headers=_key(two), trust_env=False) as client:
            kept = await client.post("/v1/memories", json={**pair, "content": text})
            assert kept.status_code == 201
        async with httpx.AsyncClient(base_url=two.memex, headers=_key(two), trust_env=False) as client:
            found = await client.post("/v1/memories/search", json={**pair, "query": text, "top_k": 50})
        assert text in [one["content"] for one in found.json()["results"]]


async def test_a_session_stays_in_its_project_whichever_process_hears_of_it(two: Doors):
    """agentmemory's hooks may leave the project out once the session has started."""
    for number in range(10):
        session = f"session-{number}"
        for path, body in (
            ("session/start", {"sessionId": session, "project": "shop", "cwd": "/src/shop"}),
            ("observe", _observation(session)),
        ):
            async with two.server.client() as client:
                answer = await client.post(f"/agentmemory/{path}", json=body)
                assert answer.status_code < 300, answer.text
    async with two.server.client() as client:
        listed = (await client.get("/agentmemory/sessions")).json()["sessions"]
    projects = {one["project"] for one in listed if one["id"].startswith("session-")}
    assert projects == {"shop"}


async def test_a_killed_process_is_started_again_while_the_other_serves(two: Doors):
    """Connections of the killed one break; every new one is served, and soon there are two processes again."""
    before = _pids(two.server)
    assert len(before) == PROCESSES
    os.kill(before[1], signal.SIGKILL)

    async def gone() -> bool:
        return before[1] not in _pids(two.server)

    await wait_until(gone)
    for _ in range(20):
        async with two.server.client() as client:
            answer = await client.post("/v1/observations", json={"project": "p", "session_id": "s", "content": "x"})
            assert answer.status_code == 202

    async def again() -> bool:
        return len(_pids(two.server)) == PROCESSES and await _processes(two.server) == {"0", "1"}

    await wait_until(again)
    assert before[0] in _pids(two.server)


async def test_a_killed_process_without_others_is_replaced_at_once(server: Server):
    parent, (serving,) = server.supervisor.api.pid, _pids(server)
    os.kill(serving, signal.SIGKILL)

    async def replaced() -> bool:
        return len(_pids(server)) == 1 and _pids(server) != [serving] and server.supervisor.ready()

    await wait_until(replaced)
    assert server.supervisor.api.pid == parent


def _key(doors: Doors) -> dict[str, str]:
    return {"Authorization": f"Bearer {doors.server.secret}"}


def _observation(session: str) -> dict[str, Any]:
    return {
        "hookType": "post_tool_use",
        "sessionId": session,
        "timestamp": "2026-01-31T12:00:00.000Z",
        "data": {"tool_name": "Bash", "tool_input": {"command": "make"}, "tool_output": "done"},
    }


def request(server: Server, body: bytes) -> bytes:
    """An observation as bytes on the wire."""
    head = [
        "POST /v1/observations HTTP/1.1",
        f"Host: {server.url.removeprefix('http://')}",
        f"Authorization: Bearer {server.secret}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def send_and_hang_up(server: Server, sent: bytes) -> None:
    """Send all of it, read nothing, close."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)


@pytest.mark.parametrize("size", [100, 200_000])
async def test_what_was_sent_whole_is_stored(server: Server, client: httpx.AsyncClient, project: str, size: int):
    session = uuid4().hex
    count = 60
    for number in range(count):
        observation = {"content": f"{number} " + "x" * size, "session_id": session, "project": project}
        send_and_hang_up(server, request(server, json.dumps(observation).encode()))

    async def all_stored() -> bool:
        answer = await client.get(f"/v1/sessions/{session}/observations", params={"project": project, "limit": 1000})
        return answer.is_success and len(answer.json()["items"]) == count

    await wait_until(all_stored)
