"""From a bearer token to whom it lets in.

A signature takes 0.1 to 0.2 ms of the event loop, and a client sends the same token for minutes: what was verified is
kept, until the token expires or the issuer's keys are fetched again.
"""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from api.access.keys import AgentNames, ProjectNames
from api.access.oauth.issuer import IssuerKeys
from api.access.oauth.rules import TokenRefused, TokenRules
from api.access.oauth.tokens import LEEWAY_S, SigningKey, is_token, key_id_of, verified_claims
from api.access.principal import Principal
from ingest.commands.command import Name
from ingest.names import nfc
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.roles import ADMIN, OF_THE_SERVER, KeyScope, Role

logger = logging.getLogger(__name__)

MAX_VERIFIED = 4096
"""About 1 KB each."""


class _Verified(NamedTuple):
    kid: str
    key: SigningKey
    principal: Principal


class AccessTokens:
    """Says who a caller is by the access token it sends."""

    def __init__(self, rules: TokenRules, keys: IssuerKeys, clock: Clock = system_clock) -> None:
        self._rules, self._keys, self._clock = rules, keys, clock
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        """By the hash of a token: a token itself is kept nowhere."""

    async def identify(self, credential: str) -> Principal | None:
        """Whom a token lets in; None for what is no token. Raises TokenRefused or IssuerUnavailable."""
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
                else "the token does not say with which of the issuer's keys (`kid`) it is signed"
            )
        principal = principal_of_claims(verified_claims(token, key, self._rules), self._rules)
        self._verified[digest] = _Verified(kid, key, principal)
        if len(self._verified) > MAX_VERIFIED:
            self._verified.popitem(last=False)
        return principal


EVERY = "*"
"""In the claim of projects or agents: all of them."""
SCOPE_CLAIMS = ("scope", "scp")
"""RFC 9068, section 2.2.3, and what Microsoft and Okta write."""


def principal_of_claims(claims: Mapping[str, Any], rules: TokenRules) -> Principal:
    """Whom a token lets in. Raises TokenRefused where a claim that the settings name is missing, or holds no names.

    What a key could not be, a token is not either: one for some projects has no role for the whole server, one for some
    agents none of an admin. The scope is skipped then, since clients ask for every scope there is.
    """
    tenant: str = _claim(claims, rules.tenant_claim, Name) if rules.tenant_claim else rules.tenant
    projects = _names(claims, rules.projects_claim, ProjectNames)
    agents = _names(claims, rules.agents_claim, AgentNames)
    if not claims["sub"]:
        raise TokenRefused("the token's claim `sub` is empty")
    if not tenant or any("\0" in name for name in (tenant, *projects, *agents)):
        raise TokenRefused("the token names a tenant, project or agent that cannot be one")
    roles: frozenset[Role] = frozenset(
        role for scope in scopes_of(claims) for role in rules.roles_by_scope.get(scope, ())
    )
    if projects or agents:
        roles -= OF_THE_SERVER
    if agents:
        roles -= ADMIN
    return Principal(
        tenant,
        roles,
        "oauth-" + sha256(claims["sub"].encode(errors="replace")).hexdigest()[:24],
        KeyScope(tuple(map(nfc, projects)), tuple(map(nfc, agents)), "operator" not in roles),
        rules.rates,
        expires_ms=(int(claims["exp"]) + LEEWAY_S) * 1000,
    )


def scopes_of(claims: Mapping[str, Any]) -> list[str]:
    """The scopes of a token: words of a text, or a list."""
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
    """The names that a claim lists, which may be one text; none, for any, where it lists EVERY or is not asked for."""
    if not claim:
        return ()
    stated = claims.get(claim)
    listed: list[str] = _claim({claim: [stated] if isinstance(stated, str) else stated}, claim, kind)
    if not listed:  # a key scope without names would allow everything, so the token must say so
        raise TokenRefused(f"the token's claim {claim!r} is empty; {EVERY!r} in it means all")
    return () if EVERY in listed else tuple(sorted(set(listed)))


def _claim(claims: Mapping[str, Any], claim: str, kind: Any) -> Any:
    if claims.get(claim) is None:
        raise TokenRefused(f"the token has no claim {claim!r}, which the settings name")
    try:
        return msgspec.convert(claims[claim], kind)
    except msgspec.ValidationError as error:
        raise TokenRefused(f"the token's claim {claim!r} cannot be used: {error}") from None
