"""The keys as one API process knows them: all of them in memory, looked after when a request comes.

At most once in FRESH_S a request asks Redis whether anything has changed (one GET), and loads the keys if so. So a key
works, and a revoked one does no longer, within FRESH_S on every process; no other request waits for Redis, and who
guesses keys never reaches it. While Redis is down what is known continues to count for STALE_S, then nobody gets in.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from redis.exceptions import RedisError

from api.access.keys import Key, Registry, parse
from api.access.principal import Principal, anybody, principal_of, root
from ingest.errors import LogUnavailable
from ingest.platform.clock import Clock, system_clock, to_ms

logger = logging.getLogger(__name__)

FRESH_S = 2.0  # a revoked key works this long at most; one GET per process and interval costs nothing
STALE_S = 60.0  # longer than a failover of Redis or Valkey takes; then a revoked key may not go on working
LOOK_S = 1.0
"""How long a look may take before the requests that wait for it continue with what is known."""
_NO_DIGEST = sha256(b"no key has this").hexdigest()


class Keyring:
    """Says who a caller is by what it sends. `loopback`: only this machine can reach the server, and no issuer of
    access tokens is named."""

    def __init__(
        self, registry: Registry, tenant: str, secret: str | None, *, loopback: bool, clock: Clock = system_clock
    ) -> None:
        self.registry, self._tenant, self._loopback, self._clock = registry, tenant, loopback, clock
        self._secret = sha256(secret.encode()).digest() if secret else None
        self._root, self._anybody = root(tenant), anybody(tenant)
        self._keys: Mapping[str, tuple[Key, Principal]] = {}
        self._version = -1
        self._due_s = self._known_s = 0.0
        self._looking: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether callers without a key are let in: no secret, never a key, and only this machine can call."""
        return self._loopback and self._secret is None and not self._keys

    @property
    def empty(self) -> bool:
        """Whether there was never a key."""
        return not self._keys

    async def load(self) -> None:
        """Read the keys now; raises what Redis raises."""
        version = await self.registry.version()
        if version != self._version:
            self._keys = {key.id: (key, key.principal()) for key in await self.registry.all()}
            self._version = version
        self._known_s = time.monotonic()

    async def identify(self, credential: str) -> Principal | None:
        """Who sends this; None for what lets nobody in. An empty text is what a caller without a key sends.

        Raises LogUnavailable when nothing was heard of the keys for STALE_S.
        """
        if time.monotonic() >= self._due_s:
            await self._look()
        if self._secret is not None and hmac.compare_digest(
            sha256(credential.encode(errors="replace")).digest(), self._secret
        ):
            return self._root
        token = parse(credential)
        # an unknown id takes the same path as a wrong secret, so timing reveals nothing
        key, principal = self._keys.get(token.id if token else "", (None, None))
        digest = token.digest if token else _NO_DIGEST
        same = hmac.compare_digest(digest, key.digest if key else _NO_DIGEST)
        if key is not None and same and key.holds(to_ms(self._clock())):
            return principal
        return self._anybody if self.open else None

    async def holds(self, principal: Principal) -> bool:
        """Whether somebody who was let in would be now: asked by what lasts longer than a request."""
        if time.monotonic() >= self._due_s:
            await self._look()
        if principal.expires_ms:
            return to_ms(self._clock()) < principal.expires_ms
        if principal.key_id:
            key, _ = self._keys.get(principal.key_id, (None, None))
            return key is not None and key.holds(to_ms(self._clock()))
        return self._secret is not None if principal.named else self.open

    async def _look(self) -> None:
        """Have one look, however many requests wait for it."""
        if self._looking is None or self._looking.done():
            # set before the look: requests that arrive meanwhile use the keys read before
            self._due_s = time.monotonic() + FRESH_S
            self._looking = asyncio.create_task(self.load(), name="keys")
        try:
            # shielded: a request that disconnects must not cancel the look that others wait for
            await asyncio.wait_for(asyncio.shield(self._looking), LOOK_S)
        except (RedisError, OSError) as error:
            if time.monotonic() - self._known_s > STALE_S:
                raise LogUnavailable(f"the keys cannot be read: {error}") from None
            logger.warning("keys are not up to date: %s", error)


async def still_holds(scope: Mapping[str, Any]) -> bool:
    """Whether the request of this scope would be let in again, with the same key."""
    keyring: Keyring = scope["app"].state.keyring
    return await keyring.holds(principal_of(scope))
