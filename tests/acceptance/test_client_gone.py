"""A client that hangs up as soon as it has sent its request: the event is stored all the same."""

import json
import socket
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.running import Server
from tests.support.waiting import wait_until


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
