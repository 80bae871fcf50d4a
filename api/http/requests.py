"""A request's id, in responses and logs; and its span, following OpenTelemetry's conventions for HTTP."""

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import getrandbits

from starlette.types import Scope

from ingest.platform import tracing
from ingest.platform.tracing import Span

REQUEST_ID = b"x-request-id"
_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_METHODS = frozenset(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
_PROBES = frozenset(("/livez", "/readyz", "/metrics"))
"""They are requested every few seconds, so they start no traces."""


def header_of(headers: Iterable[tuple[bytes, bytes]], name: bytes, default: bytes = b"") -> bytes:
    """The value of a header, by its name in lowercase."""
    return next((value for key, value in headers if key == name), default)


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The id in a request's headers if it is valid; otherwise a new id."""
    stated = header_of(headers, REQUEST_ID)
    return stated if _ID.fullmatch(stated) else b"%016x" % getrandbits(64)  # os.urandom would be a system call


def request_span(scope: Scope, call: str) -> AbstractContextManager[Span]:
    """The span of a request to one of the APIs. It does not include the URL: a path can contain a session id or a
    label, and a query string a key. `answered` adds the route's pattern."""
    if not tracing.is_on() or scope["path"] in _PROBES:
        return tracing.NO_SPAN
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
    attributes = {"http.request.method": method, "url.scheme": scope.get("scheme", "http"), "mnemolog.api": call}
    return tracing.server(_verb(method), attributes, scope["headers"])


def route_of(scope: Scope) -> str:
    """The pattern that a request's path matched, `unmatched` for none: what metrics, logs and spans call a request."""
    return getattr(scope.get("route"), "path", "unmatched")


def answered(span: Span, method: str, route: str, status: int) -> None:
    """Add a request's result to its span; `route` is the pattern that it matched, `unmatched` for none."""
    if not tracing.is_on():
        return
    verb = _verb(method)
    matched = route != "unmatched"
    about: dict[str, str | int] = {"http.response.status_code": status, **({"http.route": route} if matched else {})}
    span.set(about, f"{verb} {route}" if matched else verb)
    if status >= 500:
        span.fail(str(status))


def _verb(method: str) -> str:
    # the prefix of the span's name: there are few such names, whatever clients send
    return method if method in _METHODS else "HTTP"
