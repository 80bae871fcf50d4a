"""What becomes of a request whose client hangs up at once."""

import asyncio
import inspect
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import api.http.serving
from api.http.serving import DisconnectTolerantProtocol, bind
from tests.support.waiting import wait_until


class Reads:
    """An application that is busy for a moment before it reads, and keeps what it read."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.torn = 0
        self.began = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began.set()
        await asyncio.sleep(0.05)
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.torn += 1
                return
            body += message["body"]
            more = message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})


@asynccontextmanager
async def serving(app: Reads) -> AsyncGenerator[int]:
    """The port where the application is served."""
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        app, http=DisconnectTolerantProtocol, lifespan="off", ws="none", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(listening))
    await wait_until(lambda: server.started)
    try:
        yield listening[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


def request(body: bytes, declared: int | None = None) -> bytes:
    """A request on the wire."""
    return b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (declared or len(body)) + body


def send(port: int, sent: bytes) -> None:
    """Send it and hang up."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)


@pytest.mark.parametrize("size", [10, 3_000_000])
async def test_what_was_sent_whole_is_read_whole(size: int):
    """Given a client that is gone when the application gets to reading, then the body is there all the same."""
    app = Reads()
    body = b"x" * size
    async with serving(app) as port:
        for _ in range(5):
            await asyncio.to_thread(send, port, request(body))
        await wait_until(lambda: len(app.bodies) == 5)
    assert app.bodies == [body] * 5


async def test_an_incomplete_request_is_not_handled():
    app = Reads()
    async with serving(app) as port:
        await asyncio.to_thread(send, port, request(b"half", declared=8))
        await wait_until(lambda: app.torn == 1)
    assert app.bodies == []


def cut_off(port: int, sent: bytes) -> bytes:
    """Send something and wait until the server hangs up; what it said before."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        said = b""
        while part := connection.recv(1024):
            said += part
        return said


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost: he"])
async def test_a_client_that_does_not_get_to_the_end_of_its_head_is_cut_off(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(api.http.serving, "HEAD_WITHIN_S", 0.1)
    async with serving(Reads()) as port:
        assert await asyncio.to_thread(cut_off, port, sent) == b""


async def test_a_client_that_does_not_get_to_the_end_of_its_body_is_cut_off(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api.http.serving, "BODY_WITHIN_S", 0.2)
    app = Reads()
    async with serving(app) as port:
        assert await asyncio.to_thread(cut_off, port, request(b"half", declared=8)) == b""
    assert app.torn == 1
    assert app.bodies == []


async def test_a_head_without_end_is_cut_off():
    async with serving(Reads()) as port:
        head = b"POST / HTTP/1.1\r\nHost: here\r\nX-Long: " + b"x" * (api.http.serving.MAX_HEAD_BYTES + 1)
        said = await asyncio.to_thread(cut_off, port, head)
    assert b" 2" not in said.split(b"\r\n")[0]


def test_a_loopback_name_listens_on_both_loopbacks():
    taken = bind("localhost", 0)
    assert taken[0].getsockname()[0] == "127.0.0.1"
    assert all(one.getsockname()[0] in ("127.0.0.1", "::1") for one in taken)
    for one in taken:
        one.close()


def test_uvicorn_still_has_the_private_method_that_is_overridden():
    method = inspect.signature(HttpToolsProtocol._start_asgi_task)  # pyright: ignore[reportPrivateUsage]
    assert list(method.parameters) == ["self", "cycle", "app"]
