"""How many tokens a tenant may spend a UTC day, counted in Redis for all processes together.

An estimate is reserved before a call and settled with the real number after it, so callers at the same time cannot go
over together; the day's total is over the limit at most by what the estimates were too low. A caller that dies between
the two leaves its estimate counted.
"""

from datetime import timedelta
from typing import NamedTuple

from ingest.log.keys import llm_budget
from ingest.log.scripts import Script
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client

BUDGET_TTL = timedelta(days=2)
"""A day, and time for calls that began in it to be settled."""
_NO_LIMIT = -1

_SPEND_TOKENS = Script("spend_tokens")


class Reservation(NamedTuple):
    """Tokens set aside for one call, on the day it began."""

    key: str
    tokens: int


class DailyBudget:
    """A limit of tokens for each tenant and UTC day; `None` counts without limit, 0 lets nothing through."""

    def __init__(self, redis: Client, tokens: int | None, clock: Clock = system_clock) -> None:
        self._redis, self._clock = redis, clock
        self.tokens = tokens

    async def reserve(self, tenant: str, tokens: int) -> Reservation | None:
        """Set tokens aside; None, and nothing is counted, when the day has not so many left."""
        key = llm_budget(tenant, self._clock().date().isoformat())
        limit = _NO_LIMIT if self.tokens is None else self.tokens
        return Reservation(key, tokens) if await self._spend(key, tokens, limit) else None

    async def settle(self, reservation: Reservation, used: int) -> None:
        """Count what a call really used, be it more or less than was reserved; 0 gives everything back."""
        if used != reservation.tokens:
            await self._spend(reservation.key, used - reservation.tokens, _NO_LIMIT)

    async def spent(self, tenant: str) -> int:
        """Tokens spent or set aside today."""
        return int(await self._redis.get(llm_budget(tenant, self._clock().date().isoformat())) or 0)

    async def _spend(self, key: str, tokens: int, limit: int) -> bool:
        ttl_s = int(BUDGET_TTL.total_seconds())
        return bool(await _SPEND_TOKENS.call(self._redis, (key,), (tokens, limit, ttl_s)))
