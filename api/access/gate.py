"""The gate: the one layer before an API's routes, or its router where a path has parameters. It counts, times and
traces requests, and finds out who the caller is. Who comes past it has a principal on its scope.

With and without keys it refuses what a web page of somebody else sends. A browser names the page's origin, which must
be this server or one that is trusted; and a server on loopback must be called by a loopback name, or a page could reach
it under a name of its own that it points here (DNS rebinding).
"""

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.admission import DENIED, POLICY_VIOLATION, close
from api.access.keys import Keyring, Registry
from api.access.oauth.rules import Resource, TokenRefused, stepping_up, token_rules
from api.access.principal import SCOPE_KEY, Principal, open_caller
from api.http.endpoint import DirectRoutes
from api.http.http import HANDLERS, ProblemAnswer, answer
from api.monitoring.requests import REQUEST_ID, answered, request_id_of, request_span, route_of
from ingest.errors import (
    InvalidSetting,
    IssuerUnavailable,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    RoleMissing,
)
from ingest.names import nfc
from ingest.platform import tracing
from ingest.platform.addresses import LOOPBACK
from ingest.platform.connections import connect, retry_until_connected
from ingest.platform.settings import Settings

if TYPE_CHECKING:
    from api.access.oauth.verifier import AccessTokens

_MESSAGE = "send `Authorization: Bearer <key>`: an API key (`mnemolog keys create`), or the server's MNEMOLOG_SECRET"
UNAUTHORIZED = ProblemAnswer(401, "unauthorized", _MESSAGE, {"WWW-Authenticate": "Bearer"})
OTHER_ORIGIN = ProblemAnswer(
    403,
    "forbidden",
    "this server takes no requests from web pages of other origins, nor under names it does not know; MNEMOLOG_ORIGINS "
    "and MNEMOLOG_HOSTS say which are trusted",
)
SINGLE = frozenset((b"host", b"origin", b"authorization", b"x-agent-id", b"x-durability"))
"""Headers that are refused when there are two: otherwise a proxy in between decides which one counts."""
SOCKET_PARAMETERS = ("token", "secret")
"""Where a WebSocket's address holds the key: browsers cannot send it a header."""


class Gate:
    """Measures, asks who it is, and hands on. `unauthorized`, `forbidden` and `refusal` (of other errors) are how a
    dialect says no; `origins` the pages that it trusts.

    Requests are counted by the route's pattern, never by the raw path. A request of the native API has an id, its
    caller's or a new one, which its answer and its log lines name.
    """

    def __init__(
        self,
        app: ASGIApp,
        name: str,
        settings: Settings,
        unauthorized: ASGIApp = UNAUTHORIZED,
        forbidden: ASGIApp = OTHER_ORIGIN,
        *,
        refusal: Callable[[MnemologError], ASGIApp] = answer,
        origins: re.Pattern[str] | None = None,
        open_paths: Collection[str] = (),
        any_host: bool = False,
        resource: Resource | None = None,
        before: Sequence[Middleware] = (),
        direct: DirectRoutes = MappingProxyType({}),
        handlers: Mapping[Any, Any] = HANDLERS,
    ) -> None:
        """`resource`: what a refusal tells clients that can ask for tokens; an API whose clients cannot has none.
        `before` is middleware whose answers need no key. `direct` routes are reached without the router of `app`, and
        errors in them answered by `handlers`."""
        self._app, self._unauthorized, self._forbidden, self._refusal = app, unauthorized, forbidden, refusal
        self._name, self._direct, self._handlers = name, direct, handlers
        self._open_paths, self._resource = open_paths, resource
        self._open_caller = open_caller(settings.tenant)
        hosts = None if any_host or "*" in settings.hosts else frozenset(settings.hosts) | LOOPBACK
        if settings.host not in LOOPBACK and not settings.hosts:
            hosts = None  # only its operator knows the names it is called by
        trusted = [] if origins is None else [origins]
        if settings.origins:
            names = "|".join(re.escape(origin.rstrip("/")) for origin in settings.origins)
            trusted.append(re.compile(".*" if "*" in settings.origins else names))
        self._pages = Pages(hosts, tuple(trusted))
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
            return
        if scope["type"] == "http" and scope["path"] in self._open_paths:
            scope[SCOPE_KEY] = self._open_caller
        elif (principal := await self._identify(scope, receive, send, headers.get(b"authorization", b""))) is None:
            return
        else:
            scope[SCOPE_KEY] = principal
            if self._resource is not None and principal.expires_ms and scope["type"] == "http":
                denied: list[RoleMissing] = []
                scope[DENIED] = denied
                send = stepping_up(send, self._resource, principal, denied)
        route = self._direct.get((scope.get("method", ""), scope["path"]))
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"], scope["path_params"] = route, {}
        try:
            await route.app(scope, receive, send)
        except Exception as error:  # once an answer has begun, the server refuses another one
            kind = next(kind for kind in type(error).__mro__ if kind in self._handlers)
            await (await self._handlers[kind](Request(scope, receive), error))(scope, receive, send)
            if kind is Exception:
                raise

    def _strange(self, scope: Scope, headers: Mapping[bytes, bytes]) -> ASGIApp | None:
        """How to refuse a request that names itself in two ways, or is of another site's page; None for any other."""
        if not scope["path"].isascii():
            scope["path"] = nfc(scope["path"])
        if len(headers) < len(scope["headers"]):
            single = [name for name, _ in scope["headers"] if name in SINGLE]
            if repeated := next((name.decode() for n, name in enumerate(single) if name in single[:n]), ""):
                error = MalformedRequest(f"there is more than one {repeated} header: send one")
                return partial(self._refuse, self._refusal(error), reason=f"more than one {repeated}")
        if allowed(headers.get(b"host", b""), headers.get(b"origin", b""), self._pages):
            return None
        # of a WebSocket the handshake fails: another site's page learns nothing
        return self._forbidden if scope["type"] == "http" else _fail_handshake

    async def _identify(self, scope: Scope, receive: Receive, send: Send, authorization: bytes) -> Principal | None:
        """The caller of a request; None for one that was refused."""
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
    """A Starlette application behind a gate, which is outside of its handling of errors."""

    def __init__(self, gate: Callable[[ASGIApp], ASGIApp], **options: Any) -> None:
        super().__init__(**options)
        self._gate = gate

    def build_middleware_stack(self) -> ASGIApp:
        return self._gate(super().build_middleware_stack())


class Pages:
    """The names the server is called by (None: any), and the pages that can call it beside its own.

    Compared by identity, as part of the key of a cache.
    """

    def __init__(self, hosts: frozenset[str] | None, origins: tuple[re.Pattern[str], ...]) -> None:
        self.hosts, self.origins = hosts, origins


@lru_cache(maxsize=1024)
def allowed(host: bytes, origin: bytes, pages: Pages) -> bool:
    """Whether a request to this host from a page of this origin may come in."""
    name, page = host.decode("latin-1"), origin.decode("latin-1")
    if pages.hosts is not None:
        try:
            if urlsplit(f"//{name}").hostname not in pages.hosts:
                return False
        except ValueError:
            return False
    return not page or urlsplit(page).netloc == name or any(pattern.fullmatch(page) for pattern in pages.origins)


def unauthorized(resource: Resource, reason: str) -> ProblemAnswer:
    """401 for clients that can ask for a token; `reason` says why the one that was sent does not hold."""
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


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Raise InvalidSetting for a server that anybody on its network could use."""
    if settings.secret or keys or settings.oauth_issuer or settings.host in LOOPBACK:
        return
    raise InvalidSetting(
        f"MNEMOLOG_HOST={settings.host} would let anyone in who can reach this machine: there is no API key. Set "
        "MNEMOLOG_SECRET, or make a key with `mnemolog keys create NAME --role operator` (with REDIS_URL set, or while "
        "the server runs on 127.0.0.1)"
    )


async def check_before_start(settings: Settings) -> str:
    """What a starting server says of who gets in; empty when it asks for a key or token. Raises InvalidSetting."""
    if token_rules(settings) is not None or settings.secret or settings.redis_url is None:
        return ""
    redis = connect(settings.redis_url, connections=2)
    try:
        keys = await retry_until_connected(redis, "to see whether there are keys", Registry(redis).version) > 0
    finally:
        await redis.aclose()
    check_binding(settings, keys=keys)
    return "" if keys else "open to this machine only: no keys"
