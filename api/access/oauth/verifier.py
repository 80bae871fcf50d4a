"""From a bearer token to whom it lets in.

A signature takes 0.1 to 0.2 ms of the event loop, and a client sends the same token for minutes: what was verified is
kept, until the token expires or the issuer's keys are fetched again.
"""

import logging
from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

from api.access.oauth.claims import principal_of_claims
from api.access.oauth.issuer import IssuerKeys
from api.access.oauth.rules import TokenRefused, TokenRules
from api.access.oauth.tokens import SigningKey, is_token, key_id_of, verified_claims
from api.access.principal import Principal
from ingest.platform.clock import Clock, system_clock, to_ms

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
        except TokenRefused as refused:
            logger.debug("an access token was refused: %s", refused)
            raise

    async def _principal(self, token: str) -> Principal:
        digest = sha256(token.encode()).digest()
        known = self._verified.get(digest)
        kid = key_id_of(token, self._rules.issuer) if known is None else known.kid
        key = await self._keys.find(kid)
        if known is not None and known.key is key and to_ms(self._clock()) < known.principal.expires_ms:
            self._verified.move_to_end(digest)
            return known.principal
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
