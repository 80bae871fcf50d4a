"""The viewer, a page that needs nothing but this server; and the pages on which the API describes itself."""

import base64
import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from api.dialects.agentmemory.shapes import TEXT
from api.http.endpoint import Endpoint
from ingest.roles import ANY

MARKDOWN = "text/markdown"
_HOST = re.compile(r"[\w.:\[\]-]{1,255}")
_FOLDER = files("api.dialects.agentmemory") / "viewer"


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _source(text: str) -> str:
    """What a Content-Security-Policy calls an inline text."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


_STYLE, _SCRIPT, _ICON = _text("style.css"), _text("script.js"), _text("favicon.svg")
_PAGE = _text("page.html").replace("{style}", _STYLE).replace("{script}", _SCRIPT)
_POLICY = (
    f"default-src 'none'; script-src {_source(_SCRIPT)}; style-src {_source(_STYLE)}; img-src 'self'; "
    "connect-src 'self'{stream}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def viewer(request: Request) -> Response:
    """The page."""
    host = request.headers.get("host", "")
    # browsers differ in whether 'self' covers a WebSocket
    stream = f" ws://{host} wss://{host}" if _HOST.fullmatch(host) else ""
    headers = {
        "Content-Security-Policy": _POLICY.format(stream=stream),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
    return HTMLResponse(_PAGE, headers=headers)


async def icon(request: Request) -> Response:
    """The page's icon."""
    return Response(_ICON, media_type="image/svg+xml", headers={"Cache-Control": "max-age=86400"})


def descriptions(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """The pages on which the API describes itself, and these endpoints."""
    listed = "\n".join(f"- `{one.method} {one.path}`: {one.summary}" for one in endpoints)

    async def agent(request: Request) -> Response:
        return PlainTextResponse(_AGENT.format(listed=listed), media_type=MARKDOWN)

    async def auth(request: Request) -> Response:
        return PlainTextResponse(_AUTH, media_type=MARKDOWN)

    return [
        Endpoint("GET", "/agent.md", ANY, agent, "What this API offers to an agent, as Markdown.", "S", answer=TEXT,
            media=MARKDOWN),
        Endpoint("GET", "/auth.md", ANY, auth, "How to authenticate, as Markdown.", "S", answer=TEXT, media=MARKDOWN),
    ]  # fmt: skip


_AGENT = """# mnemolog, as an agentmemory server

Shared memory for coding agents: what was observed in sessions, memories kept on purpose, lessons, slots, actions.
Bodies are JSON; a fault is `{{"error": "..."}}`. Start with `POST /agentmemory/session/start`, send what happens to
`POST /agentmemory/observe`, ask `POST /agentmemory/search`, keep what should last with `POST /agentmemory/remember`.

## Endpoints

{listed}
"""
_AUTH = """# Authentication

A server with a secret asks for `Authorization: Bearer <secret>` with every request but `GET /agentmemory/livez`; the
WebSocket takes it as `?token=<secret>`. Without it the answer is 401 `{"error": "unauthorized"}`. A server without a
secret takes requests from this machine only, unless it was told to listen elsewhere, and none from pages of other
origins.
"""
