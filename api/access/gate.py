"""The gate: ASGI middleware that every API has. Who comes past it has a principal on its scope.

With and without keys it refuses what a web page of somebody else sends. A browser names the page's origin, which must
be this server or one that is trusted; and a server on loopback must be called by a loopback name, or a page could reach
it under a name of its own that it points here (DNS rebinding).
"""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.admission import DENIED, POLICY_VIOLATION, close
from api.access.keys import Keyring, Registry
from api.access.oauth.rules import Resource, TokenRefused, stepping_up, token_rules
from api.access.principal import SCOPE_KEY, Principal, open_caller
from api.http.http import ProblemAnswer, answer
from ingest.errors import (
    InvalidSetting,
    IssuerUnavailable,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    RoleMissing,
)
from ingest.names import nfc
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
    """Asks who it is. `unauthorized`, `forbidden` and `refusal` (of other errors) are how a dialect says no; `origins`
    the pages that it trusts.

    `resource`: what a refusal tells clients that can ask for tokens; an API whose clients cannot has none.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        unauthorized: ASGIApp = UNAUTHORIZED,
        forbidden: ASGIApp = OTHER_ORIGIN,
        *,
        refusal: Callable[[MnemologError], ASGIApp] = answer,
        origins: re.Pattern[str] | None = None,
        open_paths: Collection[str] = (),
        any_host: bool = False,
        resource: Resource | None = None,
    ) -> None:
        self._app, self._unauthorized, self._forbidden, self._refusal = app, unauthorized, forbidden, refusal
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if not scope["path"].isascii():
            scope["path"] = nfc(scope["path"])
        single = [name for name, _ in scope["headers"] if name in SINGLE]
        if len(single) > len(set(single)):
            repeated = next(name.decode() for number, name in enumerate(single) if name in single[:number])
            error = MalformedRequest(f"there is more than one {repeated} header: send one")
            await self._refuse(self._refusal(error), scope, receive, send, f"more than one {repeated}")
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not allowed(headers.get(b"host", b""), headers.get(b"origin", b""), self._pages):
            if kind == "websocket":  # the handshake fails: another site's page learns nothing
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            else:
                await self._forbidden(scope, receive, send)
            return
        if kind == "http" and scope["path"] in self._open_paths:
            scope[SCOPE_KEY] = self._open_caller
            await self._app(scope, receive, send)
            return
        principal = await self._identify(scope, receive, send, headers.get(b"authorization", b""))
        if principal is None:
            return
        scope[SCOPE_KEY] = principal
        if self._resource is not None and principal.expires_ms and kind == "http":
            denied: list[RoleMissing] = []
            scope[DENIED] = denied
            send = stepping_up(send, self._resource, principal, denied)
        await self._app(scope, receive, send)

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

    async def _refuse(self, refusal: ASGIApp, scope: Scope, receive: Receive, send: Send, reason: str) -> None:
        if scope["type"] == "websocket":
            await close(receive, send, POLICY_VIOLATION, reason)
        else:
            await refusal(scope, receive, send)


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
