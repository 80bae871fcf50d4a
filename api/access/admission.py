"""Checks the roles and the rate limit of every request, for every route and tool."""

import asyncio
import copy
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from redis.exceptions import RedisError
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.principal import Principal, principal_of
from ingest.commands.handler import charge
from ingest.errors import AccessDenied, RoleMissing, TooManyRequests
from ingest.log.keys import access_bucket
from ingest.log.scripts import take_requests
from ingest.platform.connections import Client
from ingest.platform.partial import left_out_message, partial_reads
from ingest.roles import METRICS, OPERATOR, READ, Needs

R = TypeVar("R", Route, WebSocketRoute)

DENIED = "mnemolog.denied"
"""Scope key of the gate's list of roles that the request's token lacks."""
DEGRADED_HEADER = b"mnemolog-degraded"
"""Response header of an answer without the data of cluster nodes that are down."""
POLICY_VIOLATION, TRY_LATER = 1008, 1013
"""WebSocket close codes for a caller without access, and for one to retry later."""

_HINTS = {
    OPERATOR: ": this affects the whole server and needs MNEMOLOG_SECRET, or an operator key (`mnemolog admin keys "
    "create NAME --role operator`)",
    METRICS: ": these metrics cover the whole server and need MNEMOLOG_SECRET, or a metrics key (`mnemolog admin "
    "keys create NAME --role metrics`)",
}


async def admit(scope: Mapping[str, Any], needs: Needs) -> None:
    """Check that a request has these roles, and count it against its rate limit; do neither if no role is needed.

    Raises AccessDenied or TooManyRequests.
    """
    principal = principal_of(scope)
    if not principal.may(needs):
        credential = "token" if principal.expires_ms else "key"
        missing = " and no ".join(sorted(needs - principal.roles))
        refused = RoleMissing(f"this {credential} has no {missing} role{_HINTS.get(needs, '')}", needs)
        if DENIED in scope:
            scope[DENIED].append(refused)
        raise refused
    if needs and principal.key_id:
        await count(scope, principal, writes=needs not in (READ, METRICS))


async def count(scope: Mapping[str, Any], principal: Principal, *, writes: bool) -> None:
    """Count a key's request, and meter the events that it writes; raises TooManyRequests."""
    most = principal.rates.writes if writes else principal.rates.reads
    if not most:
        charge.set(None)
        return
    limits: RateLimits = scope["app"].state.rates
    await limits.take(principal.key_id, "writes" if writes else "reads", most)
    charge.set(limits.meter(principal.key_id, most) if writes else None)


@dataclass
class Guarded:
    """A route's application behind `admit`. `needs` maps methods to roles; a WebSocket needs those of GET."""

    app: ASGIApp
    needs: Mapping[str, Needs]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            try:
                await admit(scope, self.needs["GET"])
            except (AccessDenied, TooManyRequests) as error:
                code = TRY_LATER if isinstance(error, TooManyRequests) else POLICY_VIOLATION
                await close(receive, send, code, str(error))
                return
            await self.app(scope, receive, send)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        needs = self.needs[method]
        await admit(scope, needs)
        if method != "GET" and needs != READ:
            await self.app(scope, receive, send)
            return
        with partial_reads() as left_out:  # a read continues without what is on nodes that are down

            async def named(message: Message) -> None:
                if left_out and message["type"] == "http.response.start":
                    message["headers"] = [*message["headers"], (DEGRADED_HEADER, left_out_message(left_out).encode())]
                await send(message)

            await self.app(scope, receive, named)


async def close(receive: Receive, send: Send, code: int, reason: str) -> None:
    """Refuse a WebSocket with a close code: a page cannot see the status of a failed handshake."""
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": reason[:100]})


def guarded(route: R, needs: Needs) -> R:
    """A copy of a route whose methods all need these roles."""
    methods = (route.methods or set()) - {"HEAD"} if isinstance(route, Route) else {"GET"}
    copied = copy.copy(route)
    copied.app = Guarded(route.app, dict.fromkeys(methods, needs))
    return copied


logger = logging.getLogger(__name__)

Kind = Literal["reads", "writes"]
# twice the maximum number of keys; with more token subjects, the least recently used lose their counts
MAX_LEASES = 20_000


class _Lease:
    def __init__(self) -> None:
        self.available = 0
        self.refused_until_s = 0.0
        # one refill at a time: concurrent requests of a key would each lease tokens and exceed its limit
        self.lock = asyncio.Lock()


class RateLimits:
    """The rate-limit leases of one process."""

    def __init__(self, redis: Client) -> None:
        self._redis = redis
        self._leases: OrderedDict[tuple[str, Kind], _Lease] = OrderedDict()

    async def take(self, key_id: str, kind: Kind, per_minute: int) -> None:
        """Count one request; raises TooManyRequests with the seconds to wait."""
        lease = self._lease(key_id, kind)
        if lease.available <= 0:
            async with lease.lock:
                # checked again: another request may have renewed it while this one waited for the lock
                if lease.available <= 0:
                    await self._renew(lease, key_id, kind, per_minute)
        lease.available -= 1

    def meter(self, key_id: str, per_minute: int) -> Callable[[int], Awaitable[None]]:
        """A meter that charges a request's events to its key; counting the request already paid for the first event."""
        paid = 1

        async def charged(events: int) -> None:
            nonlocal paid
            unpaid, paid = max(0, events - paid), max(0, paid - events)
            if not unpaid:
                return
            lease = self._lease(key_id, "writes")
            lease.available -= unpaid
            if lease.available < 0:
                owed, lease.available = -lease.available, 0  # now: another process may get the next request
                _, wait_ms = await self._taken(key_id, "writes", per_minute, 0, owed)
                lease.refused_until_s = time.monotonic() + wait_ms / 1000

        return charged

    async def _renew(self, lease: _Lease, key_id: str, kind: Kind, per_minute: int) -> None:
        if (wait_s := lease.refused_until_s - time.monotonic()) > 0:
            raise TooManyRequests(kind, per_minute, math.ceil(wait_s))
        second = max(1, per_minute // 60)  # taken in advance: one round trip a second, however many requests
        taken, wait_ms = await self._taken(key_id, kind, per_minute, second)
        if not taken:
            lease.refused_until_s = time.monotonic() + wait_ms / 1000
            raise TooManyRequests(kind, per_minute, max(1, math.ceil(wait_ms / 1000)))
        lease.available = taken

    async def _taken(self, key_id: str, kind: Kind, per_minute: int, want: int, owed: int = 0) -> tuple[int, int]:
        try:
            return await take_requests(self._redis, access_bucket(key_id, kind), per_minute, want, owed)
        except (RedisError, OSError) as error:
            logger.debug("requests of key %s are not rate limited for now: %s", key_id, error)
            return want, 0

    def _lease(self, key_id: str, kind: Kind) -> _Lease:
        lease = self._leases.setdefault((key_id, kind), _Lease())
        self._leases.move_to_end((key_id, kind))
        if len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)
        return lease
