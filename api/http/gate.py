"""The gate: the one layer before an API's routes, or its router where a path has parameters. It counts, times and
traces requests, and identifies the caller. A request that passes it has a principal on its scope.

With and without keys, it refuses requests from web pages of other origins before anything is read: a page must be this
server's own, or its origin must be in MNEMOLOG_ALLOWED_ORIGINS. A server on loopback must be called by a loopback name:
otherwise a page could reach it through its own domain name (DNS rebinding).
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.admission import DENIED, POLICY_VIOLATION, close
from api.access.keys import Keyring
from api.access.principal import SCOPE_KEY, Principal, TokenRefused, open_caller
from api.http.endpoint import DirectRoutes
from api.http.http import HANDLERS, ProblemAnswer, answer
from api.http.requests import REQUEST_ID, answered, request_id_of, request_span, route_of
from ingest.errors import (
    IssuerUnavailable,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    RoleMissing,
)
from ingest.names import nfc
from ingest.platform import tracing
from ingest.platform.addresses import LOOPBACK
from ingest.platform.settings import Settings

if TYPE_CHECKING:
    from api.access.oauth.rules import Resource
    from api.access.oauth.verifier import AccessTokens

_MESSAGE = (
    "send `Authorization: Bearer <key>`: an API key (`mnemolog admin keys create`), or the server's MNEMOLOG_SECRET"
)
UNAUTHORIZED = ProblemAnswer(401, "unauthorized", _MESSAGE, {"WWW-Authenticate": "Bearer"})
OTHER_ORIGIN = (
    "this server rejects requests from web pages of other origins and under unknown host names; set "
    "MNEMOLOG_ALLOWED_ORIGINS and MNEMOLOG_HOSTS to allow them"
)
PAGE_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
PAGE_READS = ("Mcp-Session-Id", "Retry-After", "X-Request-Id")
"""What pages of allowed origins can send, and the headers that they can read."""
SINGLE = frozenset((b"host", b"origin", b"authorization", b"x-agent-id", b"x-durability"))
"""Headers that must not be repeated: otherwise a proxy would decide which one applies."""
SOCKET_PARAMETERS = ("token", "secret")
"""The query parameter for the key of a WebSocket, because browsers cannot send headers with one."""


class Gate:
    """Measures a request, identifies the caller, and passes the request on. `unauthorized`, `forbidden` and `refusal`
    (for other errors) make a dialect's error responses; `unknown_host` replaces `forbidden` for an unknown host name.

    Requests are counted by the route's pattern, never by the raw path. A native API request has an id, the caller's or
    a new one, which the response and the log lines include.
    """

    def __init__(
        self,
        app: ASGIApp,
        name: str,
        settings: Settings,
        unauthorized: ASGIApp = UNAUTHORIZED,
        forbidden: ASGIApp = ProblemAnswer(403, "forbidden", OTHER_ORIGIN),
        *,
        refusal: Callable[[MnemologError], ASGIApp] = answer,
        open_paths: Collection[str] = (),
        hosts: Collection[str] | None = None,
        unknown_host: ASGIApp | None = None,
        resource: "Resource | None" = None,
        before: Sequence[Middleware] = (),
        direct: DirectRoutes = MappingProxyType({}),
        handlers: Mapping[Any, Any] = HANDLERS,
    ) -> None:
        """`hosts` replaces MNEMOLOG_HOSTS. `resource`: what a 401 tells clients that can request tokens; None for an
        API whose clients cannot. `before` is middleware whose responses need no key. `direct` routes bypass the router
        of `app`, and `handlers` answer their errors."""
        self._app, self._unauthorized, self._forbidden, self._refusal = app, unauthorized, forbidden, refusal
        self._name, self._direct, self._handlers = name, direct, handlers
        self._open_paths, self._resource = open_paths, resource
        self._open_caller = open_caller(settings.tenant)
        self._unknown_host = unknown_host or forbidden
        names = frozenset(settings.hosts if hosts is None else hosts)
        # on another address, only the operator knows the server's host names
        self._any_host = "*" in names or (settings.host not in LOOPBACK and not names)
        self._allowed = Allowed(names | LOOPBACK, frozenset(settings.allowed_origins))
        self._known: ASGIApp = self._identified
        if settings.allowed_origins:
            # a preflight request has no key, so it is answered before the caller is identified
            self._known = CORSMiddleware(
                self._identified, settings.allowed_origins, PAGE_METHODS, ("*",), True, expose_headers=PAGE_READS
            )
        self._measured: ASGIApp = self._let_in
        for cls, args, kwargs in reversed(before):
            self._measured = cls(self._measured, *args, **kwargs)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await (self._measured if scope["type"] == "websocket" else self._app)(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        request_id = request_id_of(scope["headers"]) if self._name == "native" else b""
        tracing.request_id.set(request_id.decode())

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if request_id:
                    message["headers"] = [*message.get("headers", ()), (REQUEST_ID, request_id)]
            await send(message)

        with request_span(scope, self._name) as span:
            try:
                await self._measured(scope, receive, note)
            finally:
                route = route_of(scope)
                count = scope["app"].state.metrics.requests.count
                count(self._name, scope["method"], route, status, time.perf_counter() - started)
                answered(span, scope["method"], route, status)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if (refused := self._strange(scope, headers)) is not None:
            await refused(scope, receive, send)
        else:
            await self._known(scope, receive, send)

    async def _identified(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["type"] == "http" and scope["path"] in self._open_paths:
            scope[SCOPE_KEY] = self._open_caller
        elif (principal := await self._identify(scope, receive, send, headers.get(b"authorization", b""))) is None:
            return
        else:
            scope[SCOPE_KEY] = principal
            if self._resource is not None and principal.expires_ms and scope["type"] == "http":
                denied: list[RoleMissing] = []
                scope[DENIED] = denied
                send = self._resource.stepping_up(send, principal, denied)
        route = self._direct.get((scope.get("method", ""), scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = route, {}
        try:
            await route.app(scope, receive, send)
        except Exception as error:  # once a response has started, the server rejects another one
            kind = next(kind for kind in type(error).__mro__ if kind in self._handlers)
            await (await self._handlers[kind](Request(scope, receive), error))(scope, receive, send)
            if kind is Exception:
                raise

    def _strange(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ASGIApp | None:
        """The error response for a request with repeated headers, or from another site's page; None for any other."""
        if not scope["path"].isascii():
            scope["path"] = nfc(scope["path"])
        if len(headers) < len(scope["headers"]):
            single = [name for name, _ in scope["headers"] if name in SINGLE]
            if repeated := next((name.decode() for n, name in enumerate(single) if name in single[:n]), ""):
                error = MalformedRequest(f"the request has more than one {repeated} header; send only one")
                return partial(self._refuse, self._refusal(error), reason=f"more than one {repeated}")
        host = headers.get(b"host", b"")
        if not self._any_host and not is_known(host, self._allowed):
            refused = self._unknown_host
        elif not may_call(host, headers.get(b"origin", b""), headers.get(b"sec-fetch-site", b""), self._allowed):
            refused = self._forbidden
        else:
            return None
        # for a WebSocket the handshake fails: another site's page learns nothing
        return refused if scope["type"] == "http" else _fail_handshake

    async def _identify(self, scope: Scope, receive: Receive, send: Send, authorization: bytes) -> Principal | None:
        """The caller of a request; None if it was refused."""
        keyring: Keyring = scope["app"].state.keyring
        tokens: AccessTokens | None = scope["app"].state.tokens
        credential, reason = _credential(scope, authorization), ""
        try:
            principal = await keyring.identify(credential)
            if principal is None and tokens is not None:
                principal = await tokens.identify(credential)
            if principal is not None:
                return principal
        except (LogUnavailable, IssuerUnavailable) as error:
            await self._refuse(self._refusal(error), scope, receive, send, str(error))
            return None
        except TokenRefused as refused:
            reason = str(refused)
        refusal = self._unauthorized if self._resource is None else unauthorized(self._resource, reason)
        message = reason or "pass a key, or the server's secret, as ?token="
        await self._refuse(refusal, scope, receive, send, message)
        return None

    @staticmethod
    async def _refuse(refusal: ASGIApp, scope: Scope, receive: Receive, send: Send, reason: str) -> None:
        if scope["type"] == "websocket":
            await close(receive, send, POLICY_VIOLATION, reason)
        else:
            await refusal(scope, receive, send)


async def _fail_handshake(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "websocket.close", "code": POLICY_VIOLATION})


class Application(Starlette):
    """A Starlette application behind a gate; the gate wraps the application's error handling."""

    def __init__(self, gate: Callable[[ASGIApp], ASGIApp], **options: Any) -> None:
        super().__init__(**options)
        self._gate = gate

    def build_middleware_stack(self) -> ASGIApp:
        return self._gate(super().build_middleware_stack())


class Allowed(NamedTuple):
    """The server's host names, and the origins whose pages can call it besides its own."""

    hosts: frozenset[str]
    origins: frozenset[str]


@lru_cache(maxsize=1024)
def is_known(host: bytes, allowed: Allowed) -> bool:
    """Return whether a `Host` header has one of the server's names."""
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname in allowed.hosts
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def may_call(host: bytes, origin: bytes, site: bytes, allowed: Allowed) -> bool:
    """Return whether a request with these `Host`, `Origin` and `Sec-Fetch-Site` headers is from a program, from the
    server's own page, or from a page of an allowed origin.

    Browsers omit `Origin` for images, scripts and links. `Sec-Fetch-Site` then says whether another site's page made
    the request; another port of this machine counts as the same site, but is another origin.
    """
    if not origin:
        return site not in (b"cross-site", b"same-site")
    return origin in (b"http://" + host, b"https://" + host) or origin.decode("latin-1") in allowed.origins


def unauthorized(resource: "Resource", reason: str) -> ProblemAnswer:
    """401 for clients that can request a token; `reason` says why the sent one is invalid."""
    detail = reason or f"{_MESSAGE}, or an access token of {resource.issuer}"
    return ProblemAnswer(401, "unauthorized", detail, {"WWW-Authenticate": resource.challenge(reason)})


def _credential(scope: Scope, authorization: bytes) -> str:
    scheme, _, credential = authorization.decode("latin-1").partition(" ")
    if credential and scheme.lower() == "bearer":
        return credential.strip()
    if scope["type"] == "websocket":
        query = parse_qs(scope["query_string"].decode("latin-1"))
        return next((query[name][0] for name in SOCKET_PARAMETERS if name in query), "")
    return ""
