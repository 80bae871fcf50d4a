"""The HTTP server: which addresses it listens on, and how it treats a client that disconnects.

One process, one event loop and one set of services; each port has an application of its own.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.http.sockets import bind
from ingest.errors import Overloaded
from ingest.platform.processes import give_back
from ingest.platform.tasks import in_thread

Serves: TypeAlias = Callable[[str], bool]
"""Whether an application on the main port serves a path."""


@dataclass
class Listeners:
    """An ASGI application that routes every request to its application.

    Requests that neither `by_port` nor `on_main_port` matches go to the native API.
    """

    native: Starlette
    on_main_port: Sequence[tuple[Serves, Starlette]]
    by_port: Mapping[int, Starlette]

    def __post_init__(self) -> None:
        self._bodies = BodyBudget()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.native(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("//"):  # clients append to a base URL that ends in a slash
            path = "/" + path.lstrip("/")
            scope = {**scope, "path": path, "raw_path": path.encode()}
        server = scope.get("server")
        app = self.by_port.get(server[1]) if server else None
        if app is None:
            app = next((app for serves, app in self.on_main_port if serves(path)), self.native)
        await self._bodies.serve(app, scope, receive, send)


BACKLOG = 2048  # many hooks connect at once; the kernel refuses connections beyond this
# for requests in progress when the process is told to stop
STOP_WITHIN_S = 10
MAX_HEAD_BYTES = 64 << 10
LEAST_BODY_BYTES_PER_S = 1 << 10
TOO_MANY_CONNECTIONS = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 64\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\ntoo many connections from this address; see MNEMOLOG_CONNECTIONS"
)
CYCLE = "mnemolog.cycle"
"""Scope key of uvicorn's request and response, and of the seconds for the body."""
MAX_SOCKET_MESSAGE_BYTES = 64 << 10
"""The size limit of a WebSocket message; client messages are ignored."""


@dataclass
class ConnectionLimits:
    """What a client can occupy: `head_s` seconds for a request's headers, `body_s` for its body (plus a second for
    every LEAST_BODY_BYTES_PER_S bytes received), and `most` connections per address in this process; 0 is any number.
    """

    head_s: float = 10
    body_s: float = 30
    most: int = 0

    def __post_init__(self) -> None:
        self.open = Counter[str]()
        """Connections by address; an address without any has no entry."""


class DisconnectTolerantProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, except that a complete request is delivered even if the client has disconnected since.

    Coding agents' hooks close the connection as soon as the request is sent. uvicorn would report the disconnect to the
    application instead of the rest of the body, and the event would be lost. A client that exceeds the `limits` is
    disconnected, because it would occupy a connection for nothing.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0
    _address = ""
    """The counted address; empty if the connection is not counted."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._in_head = True
        self._start_head_timer()
        if self.client is not None:
            self._address, opened = self.client[0], self._limits.open
            opened[self._address] += 1
            if 0 < self._limits.most < opened[self._address]:
                transport.write(TOO_MANY_CONNECTIONS)
                self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
        self._uncount()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._uncount()  # the connection is another protocol's from now on
        super().handle_websocket_upgrade()

    def _uncount(self) -> None:
        if self._address:
            self._limits.open[self._address] -= 1
            if not self._limits.open[self._address]:
                del self._limits.open[self._address]
        self._address = ""

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        # Most headers arrive in one piece and need no timer. After a response, what arrives may be the rest of a body
        # or empty lines: uvicorn's own timer begins again with every byte of them.
        # After an upgrade, the connection is a WebSocket's, which has its own time limits.
        is_mine = self.transport.get_protocol() is self
        if is_mine and (self._in_head or getattr(self.cycle, "response_complete", False)):
            self._start_head_timer()
            if self._head_bytes > MAX_HEAD_BYTES:
                self._close()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._head_complete()
        super().on_headers_complete()
        cast(Scope, self.scope)[CYCLE] = self.cycle, self._limits.body_s

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._limits.head_s, self._close)

    def _head_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        self._head_complete()
        if not self.transport.is_closing():
            self.transport.close()


def receiving_whole_body(cycle: RequestResponseCycle, timeout_s: float, receive: Receive) -> Receive:
    """uvicorn's `receive` of a request, with the two guarantees of DisconnectTolerantProtocol about bodies."""
    read_whole = False

    async def receive_in_time() -> Message:
        """The client's next message; a disconnect if its body does not arrive in time."""
        nonlocal timeout_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout_s):
                message = await receive()
        except TimeoutError:
            cycle.transport.close()
            return {"type": "http.disconnect"}
        # only waiting counts: an application that reads slowly is not the client's fault
        timeout_s += len(message.get("body", b"")) / LEAST_BODY_BYTES_PER_S - (loop.time() - began)
        return message

    async def receive_whole() -> Message:
        nonlocal read_whole
        message: Message = {"type": "http.disconnect"}
        if cycle.more_body and not cycle.disconnected:
            message = await receive_in_time()
        elif read_whole or cycle.more_body or cycle.response_complete:
            return await receive()
        gone = message["type"] == "http.disconnect"
        if gone and not (read_whole or cycle.more_body or cycle.response_complete):
            # the body is complete; whether the client is still connected does not matter
            message = {"type": "http.request", "body": bytes(cycle.body), "more_body": False}
            cycle.body = bytearray()
            cycle.message_event.clear()
        read_whole = read_whole or not message.get("more_body", False)
        return message

    return receive_whole


class Served:
    """The application for uvicorn: it receives whole bodies, and errors during startup are stored, because uvicorn only
    logs the traceback and exits as if successful."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.error: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            timed: tuple[RequestResponseCycle, float] | None = scope.get(CYCLE)
            if timed is not None:
                receive = receiving_whole_body(*timed, receive)
            await self._app(scope, receive, send)
            return
        failed = False

        async def without_traceback(message: Message) -> None:
            nonlocal failed
            failed = failed or message["type"] == "lifespan.startup.failed"
            await send({"type": message["type"]} if failed else message)

        try:
            await self._app(scope, receive, without_traceback)
        except Exception as error:
            if failed:
                self.error = error
            raise


def serve(app: ASGIApp, host: str, ports: Iterable[int], limits: ConnectionLimits, *, shared: bool = False) -> None:
    """Serve until a signal arrives; returns after the last response was sent. `shared`: see `bind`.

    Raises ServerStartFailed, and what the application raises when it starts.
    """
    # access logs are off, but uvicorn logs WebSocket URLs, which can contain the secret
    logging.getLogger("uvicorn.error").addFilter(lambda record: '"WebSocket ' not in str(record.msg))
    served = Served(app)
    config = uvicorn.Config(
        served,
        http=partial(DisconnectTolerantProtocol, limits=limits),  # pyright: ignore[reportArgumentType]
        ws="websockets-sansio",
        ws_max_size=MAX_SOCKET_MESSAGE_BYTES,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        timeout_keep_alive=75,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
    )
    uvicorn.Server(config).run([bound for port in ports for bound in bind(host, port, shared=shared)])
    if served.error is not None:
        raise served.error


MAX_HELD_BYTES = 96 << 20  # six bodies of the largest size: parsed, each needs several times as much memory
# a body whose declared length is at most this is not counted: a connection's buffers need as much
SMALL_BYTES = 64 << 10
# memory of bodies that end within this time is released together: scanning the heap blocks other allocations
GIVE_BACK_AFTER_S = 5.0
BIG_BYTES = 1 << 20
_RELEASE = "mnemolog.release"
"""Scope key of the function that stops counting the request's body."""


class BodyBudget:
    """Counts the bytes of large bodies while their requests are in progress, and refuses bodies beyond
    MAX_HELD_BYTES."""

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self._limit = limit
        self._giving_back: asyncio.Task[None] | None = None
        self.held = 0

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request with `app`; reading the body raises Overloaded if there is no memory for it."""
        if scope["type"] != "http" or _is_small(scope):
            await app(scope, receive, send)
            return
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            more = len(message.get("body", b""))
            if self.held + more > self._limit:
                held_mib, limit_mib = self.held >> 20, self._limit >> 20
                raise Overloaded(f"{held_mib} MiB of request bodies are being processed; the limit is {limit_mib} MiB")
            self.held, size = self.held + more, size + more
            return message

        def release() -> int:
            nonlocal size
            released, size = size, 0
            self.held -= released
            return released

        scope[_RELEASE] = release
        try:
            await app(scope, receive_counted, send)
        finally:
            if release() >= BIG_BYTES and self._giving_back is None:
                self._giving_back = asyncio.create_task(self._give_back(), name="give memory back")

    async def _give_back(self) -> None:
        try:
            await asyncio.sleep(GIVE_BACK_AFTER_S)
            await in_thread(give_back)
        finally:
            self._giving_back = None


def release_body(scope: Scope) -> None:
    """Stop counting the bytes of a request's body: it is read as a stream, or counted elsewhere."""
    if (release := scope.get(_RELEASE)) is not None:
        release()


def _is_small(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return value.isdigit() and int(value) <= SMALL_BYTES
        if name == b"transfer-encoding":
            return False
    return True
