"""The HTTP server: which addresses it listens on, and how it treats a client that hangs up.

One process, one event loop and one set of services; each port has an application of its own.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.dialects.dialect import MainPort
from api.http.body_budget import BodyBudget
from api.http.listening import bind


class Listeners:
    """An ASGI application that hands every request to the application that it is for.

    What none of `by_port` and `on_main_port` takes is the native API's.
    """

    def __init__(
        self, native: Starlette, on_main_port: Sequence[tuple[MainPort, Starlette]], by_port: Mapping[int, Starlette]
    ) -> None:
        self.native, self.on_main_port, self.by_port = native, on_main_port, by_port
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
            app = next((app for paths, app in self.on_main_port if paths.serves(path)), self.native)
        await self._bodies.serve(app, scope, receive, send)


BACKLOG = 2048
STOP_WITHIN_S = 10
"""That requests under way get when the process is asked to end."""
HEAD_WITHIN_S = 20.0
"""From the first byte of a connection, or of a further request on it, to the end of its head."""
MAX_HEAD_BYTES = 64 << 10
BODY_WITHIN_S = 30.0
LEAST_BODY_BYTES_PER_S = 1 << 10
"""A body is waited for BODY_WITHIN_S, and a second longer for every so many bytes that have come."""
MAX_SOCKET_MESSAGE_BYTES = 64 << 10
"""Of a message from a WebSocket; nothing that clients send there is used."""


class DisconnectTolerantProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, but what a client sent whole is handed on, also when it has hung up since.

    Hooks of coding agents close the connection as soon as the request is out. uvicorn tells the application of the
    disconnect in the place of what is left of the body, and the event would be lost. A client that does not get to the
    end of a head or a body in time is cut off: it would hold a connection for nothing.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._in_head = True
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head:  # most heads come in one piece, and need no timer
            self._start_head_timer()
            if self._head_bytes > MAX_HEAD_BYTES:
                self._close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._head_complete()
        super().on_headers_complete()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_WITHIN_S, self._close)

    def _head_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        self._head_complete()
        if not self.transport.is_closing():
            self.transport.close()

    # private: uvicorn has no public hook between a parsed request and its application; the bound in pyproject.toml
    # and a test keep a change of it from going unnoticed
    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, _receiving_whole_bodies(cycle, app))


def _receiving_whole_bodies(cycle: RequestResponseCycle, app: ASGIApp) -> Any:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        read_whole = False
        loop = asyncio.get_running_loop()
        timeout_s = BODY_WITHIN_S

        async def receive_in_time() -> Message:
            """What the client says next; that it is gone, when its body does not come in time."""
            nonlocal timeout_s
            if not cycle.more_body or cycle.disconnected:
                return await receive()
            began = loop.time()
            try:
                async with asyncio.timeout(timeout_s):
                    message = await receive()
            except TimeoutError:
                cycle.transport.close()
                return {"type": "http.disconnect"}
            # only waiting counts: an application that reads slowly is no fault of the client's
            timeout_s += len(message.get("body", b"")) / LEAST_BODY_BYTES_PER_S - (loop.time() - began)
            return message

        async def receive_whole() -> Message:
            nonlocal read_whole
            message = await receive_in_time()
            gone = message["type"] == "http.disconnect"
            if gone and not (read_whole or cycle.more_body or cycle.response_complete):
                message = {"type": "http.request", "body": bytes(cycle.body), "more_body": False}
                cycle.body = bytearray()
            read_whole = read_whole or not message.get("more_body", False)
            return message

        await app(scope, receive_whole, send)

    return serve


class _Starting:
    """The application, and what it raises when it starts: uvicorn logs the traceback and ends as if all were well."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.fault: Exception | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
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
                self.fault = error
            raise


def _is_not_access(record: logging.LogRecord) -> bool:
    """Access is not logged. uvicorn does that for WebSockets, whose addresses may hold the secret."""
    return '"WebSocket ' not in str(record.msg)


def serve(app: ASGIApp, host: str, ports: Iterable[int], *, shared: bool = False) -> None:
    """Serve until a signal ends it; returns when the last response is out. `shared`: see `bind`.

    Raises ServerStartFailed, and what the application raises when it starts.
    """
    logging.getLogger("uvicorn.error").addFilter(_is_not_access)
    starting = _Starting(app)
    config = uvicorn.Config(
        starting,
        http=DisconnectTolerantProtocol,
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
    if starting.fault is not None:
        raise starting.fault
