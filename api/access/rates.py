"""How often a key, or a subject of tokens, may ask: a bucket for each and kind in Redis, which all API processes take
from in advance.

A process takes a second's worth at once and gives it out without asking: one round trip a second and key, however many
requests. A refused key is not asked for again until its bucket has something. Precision: never more in all than the
bucket gave, and what a process took and did not use, a second's worth at most, is lost or comes later. The bucket holds
a minute's worth: it may be used at once, then so many a minute. Without Redis nobody is held back here: what they ask
for fails by itself.

A write of several events counts as many. It is taken whole where one write may be taken, and leaves a debt in the
bucket, of an hour's worth at most, that is worked off before the next: any batch can be sent, and the rate holds.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Literal

from redis.exceptions import RedisError

from ingest.errors import TooManyRequests
from ingest.log.keys import access_bucket
from ingest.log.scripts import take_requests
from ingest.platform.connections import Client

logger = logging.getLogger(__name__)

Kind = Literal["reads", "writes"]
MAX_LEASES = 20_000
"""One for each kind of every key there can be; with more subjects of tokens, the longest unused begin again."""


class _Lease:
    """What a process has taken of one bucket and not given out."""

    def __init__(self) -> None:
        self.left = 0
        self.refused_until_s = 0.0
        self.lock = asyncio.Lock()


class RateLimits:
    """The leases of one process."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._leases: OrderedDict[tuple[str, Kind], _Lease] = OrderedDict()

    async def take(self, key_id: str, kind: Kind, per_minute: int) -> None:
        """Count one request; raises TooManyRequests with the seconds to wait."""
        lease = self._lease(key_id, kind)
        if lease.left <= 0:
            async with lease.lock:
                if lease.left <= 0:
                    await self._renew(lease, key_id, kind, per_minute)
        lease.left -= 1

    def meter(self, key_id: str, per_minute: int) -> Callable[[int], Awaitable[None]]:
        """What charges a request's events to its key; the first one was paid for when the request was counted."""
        paid = 1

        async def charged(events: int) -> None:
            nonlocal paid
            owed, paid = max(0, events - paid), max(0, paid - events)
            if owed:
                await self._owe(key_id, per_minute, owed)

        return charged

    async def _owe(self, key_id: str, per_minute: int, events: int) -> None:
        lease = self._lease(key_id, "writes")
        lease.left -= events
        if lease.left < 0:
            owed, lease.left = -lease.left, 0  # at once: it may be another process that is asked next
            _, wait_ms = await self._taken(key_id, "writes", per_minute, 0, owed)
            lease.refused_until_s = time.monotonic() + wait_ms / 1000

    async def _renew(self, lease: _Lease, key_id: str, kind: Kind, per_minute: int) -> None:
        if (wait_s := lease.refused_until_s - time.monotonic()) > 0:
            raise TooManyRequests(kind, per_minute, math.ceil(wait_s))
        second = max(1, per_minute // 60)
        taken, wait_ms = await self._taken(key_id, kind, per_minute, second)
        if not taken:
            lease.refused_until_s = time.monotonic() + wait_ms / 1000
            raise TooManyRequests(kind, per_minute, max(1, math.ceil(wait_ms / 1000)))
        lease.left = taken

    async def _taken(self, key_id: str, kind: Kind, per_minute: int, want: int, owed: int = 0) -> tuple[int, int]:
        try:
            return await take_requests(self._redis, access_bucket(key_id, kind), per_minute, want, owed)
        except (RedisError, OSError) as error:
            logger.debug("the rate of key %s is not counted: %s", key_id, error)
            return want, 0

    def _lease(self, key_id: str, kind: Kind) -> _Lease:
        lease = self._leases.setdefault((key_id, kind), _Lease())
        self._leases.move_to_end((key_id, kind))
        if len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)
        return lease
