"""Who gets in: bearer authentication, and for a server without a secret the guard against web pages."""

import hmac
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import Json

OPEN_PATHS = frozenset({"/livez"})


class BearerAuth:
    """ASGI middleware: one secret, compared in constant time, asked of every route but /livez."""

    def __init__(self, app: ASGIApp, secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if hmac.compare_digest(given, self._expected):
            await self._app(scope, receive, send)
            return
        message = "send `Authorization: Bearer <secret>`; the secret is the server's MNEMOLOG_SECRET"
        refused = Json({"error": {"code": "unauthorized", "message": message}}, 401, {"WWW-Authenticate": "Bearer"})
        await refused(scope, receive, send)


class SameOrigin:
    """ASGI middleware for a server without a secret: refuses what a web page of somebody else sends.

    A browser names the page's origin, which must be this server; and a server bound to loopback must be called by a
    loopback name, or a page could reach it under a name of its own that it points here (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._only_loopback = host in _LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = origin = b""
            for name, value in scope["headers"]:
                if name == b"host":
                    host = value
                elif name == b"origin":
                    origin = value
            if not _allowed(host, origin, self._only_loopback):
                message = "this server has no secret and takes no requests from web pages of other origins"
                await Json({"error": {"code": "forbidden", "message": message}}, 403)(scope, receive, send)
                return
        await self._app(scope, receive, send)


_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@lru_cache(maxsize=256)
def _allowed(host: bytes, origin: bytes, only_loopback: bool) -> bool:
    name = host.decode("latin-1")
    if only_loopback and urlsplit(f"//{name}").hostname not in _LOOPBACK:
        return False
    return not origin or urlsplit(origin.decode("latin-1")).netloc == name
