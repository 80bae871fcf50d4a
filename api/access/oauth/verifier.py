"""Maps a bearer token to a principal.

Verifying a signature blocks the event loop for 0.1 to 0.2 ms, and a client sends the same token for minutes, so results
are cached until the token expires or the issuer's keys are fetched again.

The issuer's keys are fetched when a token needs them. A request waits for a fetch only if its key is unknown, or once
every FRESH_S; concurrent requests share one fetch. An unknown key triggers another fetch, at most every AGAIN_S,
whatever callers send. While the issuer is unreachable, the fetched keys stay valid for STALE_S. No redirects are
followed, and no key is read over plain HTTP except from this machine.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import httpx
import msgspec

from api.access.keys import AgentNames, ProjectNames
from api.access.oauth.rules import TokenRules
from api.access.oauth.tokens import LEEWAY_S, SigningKey, is_token, key_id_of, signing_keys, verified_claims
from api.access.principal import Principal, TokenRefused
from ingest.errors import IssuerUnavailable
from ingest.names import nfc
from ingest.nouns.command import Name
from ingest.platform.addresses import fault_of_url, proxy_options
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.tasks import end
from ingest.roles import ADMIN, OF_THE_SERVER, KeyScope, Role, allow

logger = logging.getLogger(__name__)

FRESH_S = 300.0
"""How long a key stays valid after the issuer has withdrawn it."""
AGAIN_S = 10.0  # callers choose the key id, so without it anyone could make this server flood the issuer
STALE_S = 3600.0  # an outage of the issuer should not lock everyone out, a forgotten key should not work forever
FETCH_S = 5.0
"""For the metadata and the keys together."""
MAX_BYTES = 256 << 10
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}


class _Metadata(msgspec.Struct):
    """The fields used from RFC 8414, section 2, and from OpenID Connect Discovery 1.0, section 3."""

    issuer: str
    jwks_uri: str


class _Unusable(Exception):
    """The issuer's answer cannot be used."""


class _NotThere(_Unusable):
    """There is nothing at this address."""


class IssuerKeys:
    """An issuer's keys. As a context manager it starts fetching them on entry, and closes its connections on exit."""

    def __init__(self, rules: TokenRules, now_s: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._now_s = rules, now_s
        self._http = httpx.AsyncClient(
            headers=_HEADERS, timeout=FETCH_S, follow_redirects=False, **proxy_options(rules.jwks or rules.issuer)
        )
        self._keys: Mapping[str, SigningKey] = {}
        self._error = "they have not been fetched yet"
        self._begun_s = self._read_s = -math.inf
        self._fetching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await end(self._fetching)
        await self._http.aclose()

    async def find(self, kid: str) -> SigningKey | None:
        """The key of this id; None if the issuer has no such key. Raises IssuerUnavailable if this cannot be
        determined."""
        exists = kid in self._keys
        age_s = self._now_s() - self._begun_s
        begin = age_s >= (FRESH_S if exists and not self._error else AGAIN_S)
        if begin:
            self._begin()
        if self._fetching is not None and (begin or not exists):
            await asyncio.shield(self._fetching)  # a caller that disconnects must not cancel it for the others
        if self._error and (kid not in self._keys or self._now_s() - self._read_s > STALE_S):
            raise IssuerUnavailable(f"the keys of the issuer {self._rules.issuer} cannot be fetched: {self._error}")
        return self._keys.get(kid)

    def _begin(self) -> None:
        if self._fetching is None or self._fetching.done():
            self._begun_s = self._now_s()
            self._fetching = asyncio.create_task(self._fetch(), name="keys of the issuer")

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_S):
                address = self._rules.jwks or await self._address_of_keys()
                document = await self._get(address)
            self._keys = _usable(address, lambda: signing_keys(document))
            reason, self._read_s = "", self._now_s()
        except _Unusable as error:
            reason = str(error)
        except TimeoutError:
            reason = f"no answer within {FETCH_S:g} s"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = f"{type(error).__name__}: {error}"
        if reason and reason != self._error:
            logger.warning("the keys of the issuer %s cannot be fetched: %s", self._rules.issuer, reason)
        self._error = reason

    async def _address_of_keys(self) -> str:
        issuer = self._rules.issuer
        addresses = _addresses_of_metadata(issuer)
        for address in addresses:
            try:
                document = await self._get(address)
            except _NotThere:
                continue
            metadata = _usable(address, lambda document=document: msgspec.json.decode(document, type=_Metadata))
            if metadata.issuer != issuer:  # RFC 8414, section 3.3
                raise _Unusable(
                    f"{address} names the issuer {metadata.issuer!r}: set MNEMOLOG_OAUTH_ISSUER to exactly that"
                )
            if problem := fault_of_url(metadata.jwks_uri, query=True):
                raise _Unusable(f"{address}: jwks_uri {problem}")
            return metadata.jwks_uri
        raise _Unusable(f"no metadata at {', '.join(addresses)}; set MNEMOLOG_OAUTH_JWKS to the URL of the keys")

    async def _get(self, address: str) -> bytes:
        async with self._http.stream("GET", address) as response:
            if 400 <= response.status_code < 500:
                raise _NotThere(f"{address} returned HTTP {response.status_code}")
            if response.status_code != 200:
                raise _Unusable(f"{address} returned HTTP {response.status_code}")
            body = bytearray()
            async for part in response.aiter_raw():  # raw: a small compressed body could expand without limit
                body += part
                if len(body) > MAX_BYTES:
                    raise _Unusable(f"{address} returned more than {MAX_BYTES:,} bytes")
            return bytes(body)


def _addresses_of_metadata(issuer: str) -> list[str]:
    """Where an issuer's metadata can be, in order: RFC 8414, sections 3 and 5, and OpenID Connect Discovery 1.0."""
    parts = urlsplit(issuer)
    server, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    addresses = [f"{server}/.well-known/{name}{path}" for name in names]
    return [*addresses, f"{server}{path}/.well-known/openid-configuration"] if path else addresses


def _usable(address: str, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _Unusable(f"{address}: {error}") from None


MAX_VERIFIED = 4096
"""About 1 KB each."""


class _Verified(NamedTuple):
    kid: str
    key: SigningKey
    principal: Principal


@dataclass
class AccessTokens:
    """Identifies a caller by its access token."""

    _rules: TokenRules
    _keys: IssuerKeys
    _clock: Clock = system_clock

    def __post_init__(self) -> None:
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        """By the token's hash; tokens themselves are not stored."""

    async def identify(self, credential: str) -> Principal | None:
        """The principal of a token; None if the credential is not a token. Raises TokenRefused or IssuerUnavailable."""
        if not is_token(credential):
            return None
        try:
            return await self._principal(credential)
        except TokenRefused as error:
            logger.debug("an access token was refused: %s", error)
            raise

    async def _principal(self, token: str) -> Principal:
        digest = sha256(token.encode()).digest()
        cached = self._verified.get(digest)
        kid = key_id_of(token, self._rules.issuer) if cached is None else cached.kid
        key = await self._keys.find(kid)
        if cached is not None and cached.key is key and to_ms(self._clock()) < cached.principal.expires_ms:
            self._verified.move_to_end(digest)
            return cached.principal
        self._verified.pop(digest, None)
        if key is None:
            raise TokenRefused(
                f"the token is signed with the key {kid[:200]!r}, which the issuer {self._rules.issuer} does not have"
                if kid
                else "the token does not name the issuer's key (`kid`) that signed it"
            )
        principal = principal_of_claims(verified_claims(token, key, self._rules), self._rules)
        self._verified[digest] = _Verified(kid, key, principal)
        if len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)
        return principal


EVERY = "*"
"""In the claim for projects or agents: all of them."""
SCOPE_CLAIMS = ("scope", "scp")
"""The claim of RFC 9068, section 2.2.3, and those of Microsoft and Okta."""


def principal_of_claims(claims: Mapping[str, Any], rules: TokenRules) -> Principal:
    """The principal of a token. Raises TokenRefused if a claim that the settings name is missing or has no names.

    The limits of keys apply to tokens: a token for some projects has no server-wide role, and a token for some agents
    no admin role. Scopes for such roles are ignored, because clients request every scope.
    """
    tenant: str = _claim(claims, rules.tenant_claim, Name) if rules.tenant_claim else rules.tenant
    projects = _names(claims, rules.projects_claim, ProjectNames)
    agents = _names(claims, rules.agents_claim, AgentNames)
    if not claims["sub"]:
        raise TokenRefused("the token's claim `sub` is empty")
    if not tenant or any("\0" in name for name in (tenant, *projects, *agents)):
        raise TokenRefused("the token contains an invalid tenant, project or agent name")
    roles: frozenset[Role] = frozenset(
        role for scope in scopes_of(claims) for role in rules.roles_by_scope.get(scope, ())
    )
    if projects or agents:
        roles -= OF_THE_SERVER
    if agents:
        roles -= ADMIN
    key = "oauth-" + sha256(claims["sub"].encode(errors="replace")).hexdigest()[:24]
    return Principal(
        tenant,
        roles,
        key,
        KeyScope(tuple(map(nfc, projects)), tuple(map(nfc, agents)), "operator" not in roles, allow(roles, ADMIN), key),
        rules.rates,
        expires_ms=(int(claims["exp"]) + LEEWAY_S) * 1000,
    )


def scopes_of(claims: Mapping[str, Any]) -> list[str]:
    """The scopes of a token, from a space-separated text or a list."""
    for name in SCOPE_CLAIMS:
        match claims.get(name):
            case str(text):
                return text.split()
            case list(listed):  # pyright: ignore[reportUnknownVariableType]
                return [name for name in listed if isinstance(name, str)]  # pyright: ignore[reportUnknownVariableType]
            case _:
                pass
    return []


def _names(claims: Mapping[str, Any], claim: str, kind: Any) -> tuple[str, ...]:
    """The names in a claim, which can be a single text; empty (meaning all) if it contains EVERY or the settings name
    no claim."""
    if not claim:
        return ()
    stated = claims.get(claim)
    listed: list[str] = _claim({claim: [stated] if isinstance(stated, str) else stated}, claim, kind)
    if not listed:  # a key scope without names allows everything, so the token must say so explicitly
        raise TokenRefused(f"the token's claim {claim!r} is empty; use {EVERY!r} for all")
    return () if EVERY in listed else tuple(sorted(set(listed)))


def _claim(claims: Mapping[str, Any], claim: str, kind: Any) -> Any:
    if claims.get(claim) is None:
        raise TokenRefused(f"the token has no claim {claim!r}, which the settings require")
    try:
        return msgspec.convert(claims[claim], kind)
    except msgspec.ValidationError as error:
        raise TokenRefused(f"the token's claim {claim!r} is invalid: {error}") from None
