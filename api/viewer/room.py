"""The viewer's page and the files that it loads. They are public and contain no data: the page reads all data from the
native API with the user's key.

The policy that comes with the page allows its own files and this server. There is no inline script or style, and no
text can become markup: with Trusted Types and no policy for them, a browser refuses to parse any.
"""

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from api.http.endpoint import Endpoint
from api.http.openapi import TEXT
from ingest.errors import NotFound
from ingest.roles import ANY

_MEDIA = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = {one.name: one.read_bytes() for one in files("api.viewer").iterdir() if one.name.rpartition(".")[2] in _MEDIA}
"""By name."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def _answer(name: str) -> Response:
    return Response(FILES[name], media_type=_MEDIA[name.rpartition(".")[2]], headers=HEADERS)


async def page(request: Request) -> Response:
    """The viewer's page. It uses only this API, contains no data, and needs no key."""
    return _answer("page.html")


async def icon(request: Request) -> Response:
    """The viewer's icon."""
    return _answer("favicon.svg")


async def file(request: Request) -> Response:
    """A script, style or image that the page loads. It needs no key."""
    name = request.path_params["name"]
    if name not in FILES:
        raise NotFound(f"the viewer has no file {name!r}")
    return _answer(name)


OPEN_PATHS = frozenset(f"/viewer/{name}" for name in FILES)
"""Files that need no key. For other names the answer does not say whether a file exists."""
ENDPOINTS = [
    Endpoint("GET", "/viewer", ANY, page, "The viewer.", answer=TEXT, media="text/html", open=True),
    Endpoint("GET", "/viewer/{name}", ANY, file, "A file that the viewer's page loads.", "S", answer=TEXT,
        media="*/*", open=True, faults={404: "The viewer has no such file."}),
]  # fmt: skip
