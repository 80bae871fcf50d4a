"""The viewer: one page that needs nothing but this server, and may do nothing but ask it."""

import base64
import re
from hashlib import sha256
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from api.dialects.agentmemory.shapes import TEXT
from api.http.endpoint import Endpoint
from ingest.roles import ANY

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


ENDPOINTS = [
    Endpoint("GET", "/", ANY, viewer, "The viewer.", answer=TEXT, media="text/html", open=True),
    Endpoint("GET", "/viewer", ANY, viewer, "The viewer.", answer=TEXT, media="text/html", open=True),
    Endpoint("GET", "/agentmemory/viewer", ANY, viewer, "The viewer.", answer=TEXT, media="text/html"),
    Endpoint("GET", "/favicon.svg", ANY, icon, "The viewer's icon.", answer=TEXT, media="image/svg+xml", open=True),
]  # fmt: skip
