"""What a request is known by: its id, in answers and logs; and its span, by OpenTelemetry's conventions for HTTP."""

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
"""They are asked for every few seconds: no trace begins with them."""


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The id that a request's headers give it, if it is one; else a new one."""
    stated = next((value for name, value in headers if name == REQUEST_ID), b"")
    return stated if _ID.fullmatch(stated) else b"%016x" % getrandbits(64)  # os.urandom would be a system call


def request_span(scope: Scope, call: str) -> AbstractContextManager[Span]:
    """The span of a request to one of the APIs. Its address is not in it: a path may have a session's id or a label, a
    query a key. `answered` adds the route's pattern."""
    if not tracing.is_on() or scope["path"] in _PROBES:
        return tracing.NO_SPAN
    method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
    attributes = {"http.request.method": method, "url.scheme": scope.get("scheme", "http"), "mnemolog.api": call}
    return tracing.server(_verb(method), attributes, scope["headers"])


def route_of(scope: Scope) -> str:
    """The pattern that a request's path matched, `unmatched` for none: what metrics, logs and spans call a request."""
    return getattr(scope.get("route"), "path", "unmatched")


def answered(span: Span, method: str, route: str, status: int) -> None:
    """Say what became of a request; `route` is the pattern that it matched, `unmatched` for none."""
    if not tracing.is_on():
        return
    verb = _verb(method)
    matched = route != "unmatched"
    about: dict[str, str | int] = {"http.response.status_code": status, **({"http.route": route} if matched else {})}
    span.set(about, f"{verb} {route}" if matched else verb)
    if status >= 500:
        span.fail(str(status))


def _verb(method: str) -> str:
    # how the name of a span begins: there are few such names, whatever is sent
    return method if method in _METHODS else "HTTP"
