"""What becomes of a request whose client hangs up at once."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import uvicorn
from redis.exceptions import ConnectionError as RedisConnectionError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send
from waiting import wait_until

import api.http.serving
from api.dialects.application import at_the_gate
from api.http.http import HANDLERS, PROBLEM_JSON, TYPE_PREFIX, Problem, answer
from api.http.serving import (
    SMALL_BYTES,
    BodyBudget,
    ConnectionLimits,
    DisconnectTolerantProtocol,
    Served,
    release_body,
)
from api.http.sockets import bind
from ingest.errors import (
    CommandRejected,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    NotFound,
    Overloaded,
    ProjectionBehind,
    RebuildUnderWay,
    SlotFull,
)


class Reads:
    """An application that is busy for a moment before it reads, and keeps what it read."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.torn = 0
        self.began = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            await receive()
            return
        self.began.set()
        await asyncio.sleep(0.05)
        body, more = b"", scope["path"] != "/refused"
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
async def serving(app: Reads, limits: ConnectionLimits | None = None) -> AsyncGenerator[int]:
    """The port where the application is served."""
    protocol: Any = partial(DisconnectTolerantProtocol, limits=limits or ConnectionLimits())
    listening = bind("127.0.0.1", 0)
    config = uvicorn.Config(
        Served(app), http=protocol, lifespan="off", ws="websockets-sansio", log_config=None, access_log=False
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
async def test_a_client_that_does_not_get_to_the_end_of_its_head_is_cut_off(sent: bytes):
    async with serving(Reads(), ConnectionLimits(head_s=0.1)) as port:
        assert await asyncio.to_thread(cut_off, port, sent) == b""


async def test_a_client_that_does_not_get_to_the_end_of_its_body_is_cut_off():
    app = Reads()
    async with serving(app, ConnectionLimits(body_s=0.2)) as port:
        assert await asyncio.to_thread(cut_off, port, request(b"half", declared=8)) == b""
    assert app.torn == 1
    assert app.bodies == []


def trickle(port: int, first: bytes, more: bytes) -> bytes:
    """Send `first`, then `more` every 50 ms until the server closes the connection; return the response."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(first)
        connection.settimeout(0.05)
        received = b""
        for _ in range(200):
            try:
                if not (part := connection.recv(1024)):
                    return received
                received += part
            except TimeoutError:
                connection.sendall(more)
            except ConnectionResetError:
                return received
    raise AssertionError("the connection stayed open")


@pytest.mark.parametrize(
    ("first", "more"),
    [(b"GET /refused HTTP/1.1\r\nHost: here\r\nContent-Length: 9999\r\n\r\n", b"x"), (request(b""), b"\r\n")],
    ids=["the rest of a body", "empty lines"],
)
async def test_a_client_that_sends_a_byte_now_and_then_after_a_response_is_cut_off(first: bytes, more: bytes):
    async with serving(Reads(), ConnectionLimits(head_s=0.3)) as port:
        assert (await asyncio.to_thread(trickle, port, first, more)).startswith(b"HTTP/1.1 204")


async def test_a_websocket_on_a_connection_that_was_used_before_stays_open():
    async with serving(Reads(), ConnectionLimits(head_s=0.1)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(b"first"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        writer.write(
            b"GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)
        writer.close()


async def test_an_address_has_so_many_connections_and_the_next_one_is_refused():
    limits = ConnectionLimits(most=2)
    async with serving(Reads(), limits) as port:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await wait_until(lambda: limits.open == {"127.0.0.1": 2})
        refused = await asyncio.to_thread(cut_off, port, b"")
        assert refused.startswith(b"HTTP/1.1 429")
        assert b"see MNEMOLOG_CONNECTIONS" in refused
        opened[0][1].close()
        await wait_until(lambda: limits.open == {"127.0.0.1": 1})
        await asyncio.to_thread(send, port, request(b"again"))
        opened[1][1].close()
        await wait_until(lambda: not limits.open)


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


PART = 100 << 10


def scope(*headers: tuple[bytes, bytes]) -> Scope:
    """A request's."""
    return {"type": "http", "headers": list(headers)}


def body(parts: int) -> Receive:
    """A body of so many parts."""
    left = parts

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": b"x" * PART, "more_body": left > 0}

    return receive


async def nowhere(message: Message) -> None:
    """Nobody reads the answer."""


LONG = (b"content-length", b"1000000")


@pytest.mark.parametrize("header", [LONG, (b"transfer-encoding", b"chunked")])
async def test_a_body_over_the_limit_is_refused_and_what_was_read_is_let_go(header: tuple[bytes, bytes]):
    budget = BodyBudget(3 * PART)

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass

    await budget.serve(read, scope(header), body(3), nowhere)
    with pytest.raises(Overloaded) as refused:
        await budget.serve(read, scope(header), body(4), nowhere)
    assert refused.value.retry_after_s > 0
    assert budget.held == 0


async def test_bodies_are_held_until_their_requests_end():
    budget, ends = BodyBudget(3 * PART), asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await receive()
        await ends.wait()

    first = asyncio.create_task(budget.serve(work, scope(LONG), body(2), nowhere))
    await wait_until(lambda: budget.held == 2 * PART)
    with pytest.raises(Overloaded):
        await budget.serve(work, scope(LONG), body(2), nowhere)
    assert budget.held == 2 * PART
    ends.set()
    await first
    assert budget.held == 0


async def test_a_stream_is_held_as_far_as_it_is_not_handed_on():
    budget = BodyBudget(PART)

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            release_body(scope)

    await budget.serve(stream, scope(LONG), body(10), nowhere)
    assert budget.held == 0


async def test_a_small_body_is_not_counted():
    budget = BodyBudget(0)

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    await budget.serve(read, scope((b"content-length", str(SMALL_BYTES).encode())), body(1), nowhere)
    await budget.serve(read, scope(), body(1), nowhere)


REQUEST = Request({"type": "http", "method": "GET", "path": "/v1/memories", "headers": []})
AGAIN = "sending the same event_id again is safe"
UNKNOWN = f"the outcome is unknown; {AGAIN}"


@pytest.mark.parametrize(
    ("error", "status", "code", "members", "headers"),
    [
        (NotFound("there is none"), 404, "not_found", {}, {}),
        (CommandRejected("too long", "content"), 422, "invalid", {"field": "content"}, {}),
        (CommandRejected("nothing to change"), 422, "invalid", {}, {}),
        (SlotFull("persona", 12, 10), 413, "slot_full", {"size": 12, "limit": 10}, {}),
        (Overloaded("full", 7, "lag"), 429, "overloaded", {"reason": "lag"}, {"retry-after": "7"}),
        (LogFull("full"), 429, "overloaded", {"reason": "server", "retry": AGAIN}, {"retry-after": "5"}),
        (LogUnavailable("away"), 503, "log_unavailable", {"retry": UNKNOWN}, {"retry-after": "1"}),
        (ProjectionBehind(1.0, {3: 2}), 503, "projection_behind", {"lag": {"3": 2}}, {"retry-after": "1"}),
        (RebuildUnderWay("r1", "ready"), 409, "rebuild_under_way", {"rebuild": "r1"}, {}),
    ],
)
def test_an_error_is_a_problem_with_the_members_of_its_code(
    error: MnemologError, status: int, code: str, members: dict[str, Any], headers: dict[str, str]
):
    told = answer(error)
    assert (told.status_code, told.headers["content-type"]) == (status, PROBLEM_JSON)
    assert headers.items() <= dict(told.headers).items()
    title = code.replace("_", " ").capitalize()
    problem = {"type": f"urn:mnemolog:error:{code}", "title": title, "status": status, "detail": str(error)}
    assert msgspec.json.decode(bytes(told.body)) == {**problem, "code": code, **members}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (HTTPException(404), 404, "not_found"),
        (HTTPException(405, headers={"Allow": "GET"}), 405, "method_not_allowed"),
        (HTTPException(400), 400, "http_error"),
        (ClientDisconnect(), 400, "client_disconnected"),
        (RedisConnectionError("refused"), 503, "log_unavailable"),
        (ZeroDivisionError("a secret detail"), 500, "internal"),
    ],
)
async def test_whatever_else_fails_is_a_problem_too(error: Exception, status: int, code: str):
    handler = next(HANDLERS[kind] for kind in type(error).__mro__ if kind in HANDLERS)
    told = await handler(REQUEST, error)
    problem = msgspec.json.decode(bytes(told.body), type=Problem)
    assert (told.status_code, told.headers["content-type"]) == (status, PROBLEM_JSON)
    assert (problem.status, problem.code, problem.type) == (status, code, TYPE_PREFIX + code)
    assert "secret" not in problem.detail
    assert told.headers.get("allow") == ("GET" if status == 405 else None)


def test_the_gate_of_a_dialect_answers_what_its_clients_know():
    """The wire of imitated systems does not follow that of the native API."""
    told = at_the_gate(MalformedRequest("the request has more than one host header; send only one"))
    assert (told.status_code, told.headers["content-type"]) == (400, "application/json")
    assert (
        told.body
        == b'{"error":{"code":"malformed","message":"the request has more than one host header; send only one"}}'
    )
    assert at_the_gate(LogUnavailable("away")).headers["retry-after"] == "1"
