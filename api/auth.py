"""Bearer authentication: one secret, compared in constant time, asked of every route but /livez."""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import Json

OPEN_PATHS = frozenset({"/livez"})


class BearerAuth:
    """ASGI middleware."""

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
