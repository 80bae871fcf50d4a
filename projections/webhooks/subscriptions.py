"""Webhook subscriptions: who asked for which events, where they go, and how far deliveries are.

A subscription is written by the API, and its progress by the worker that delivers, so neither overwrites the other. The
progress is a cursor of the log: a receiver that is down loses nothing, because the log (with its archive) keeps events.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct, json, to_builtins
from msgspec.structs import replace

from ingest.errors import CommandRejected, Overloaded
from ingest.log.keys import webhooks_key
from ingest.log.position import START, Position, Token
from ingest.names import visible_data
from ingest.platform.clock import system_clock, to_ms
from ingest.platform.connections import Client
from ingest.roles import KeyScope
from projections.queries.log_events import AppliedEvents, Criteria
from projections.webhooks.sending import BODY_BYTES, Sender, check_secret, new_secret

SUBSCRIPTIONS, PROGRESS, LETTERS, COUNTS = map(webhooks_key, ("subscriptions", "progress", "letters", "counts"))
MAX_WEBHOOKS = 1_000
"""Of the server; workers read them all every second."""
MAX_LETTERS = 1_000
"""Dead letters of a subscription; the oldest are dropped first."""


class Owner(NamedTuple):
    """Who subscribed: deliveries contain what this reader can see at that moment, and end with its access."""

    tenant: str
    key_id: str
    key_scope: KeyScope
    expires_ms: int
    """When its access token expires; 0 without one."""
    agent: str = ""


class Subscription(Struct, frozen=True, kw_only=True):
    """One subscription. `type` is as in EventFilter. `mcp`: it was made over MCP, with `type` as the name of the event.

    Its newest secrets sign each message, so that a receiver can change to a new one at any time.
    """

    owner: Owner
    url: str
    type: str
    criteria: Criteria
    mcp: bool = False
    secrets: list[str]
    refreshed_at: datetime
    """Ends a wait for the next attempt, and enables it again."""
    retry_at: datetime | None = None
    """Dead letters that failed before this are tried once more."""
    expires_at: datetime | None = None

    @property
    def id(self) -> str:
        """The same for the same owner, URL and events."""
        owner = (self.owner.tenant, self.owner.key_id, self.owner.agent)
        return "sub_" + sha256(json.encode((owner, self.url, self.type, self.criteria, self.mcp))).hexdigest()[:20]

    def is_over(self, now: datetime) -> bool:
        """Whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


class Progress(Struct, frozen=True, kw_only=True):
    """How far deliveries are. `cursor`: all events up to it were delivered, or are dead letters."""

    cursor: str
    tried_at: datetime
    retried: datetime | None = None
    """The `retry_at` whose letters were sent again last."""
    delivered_at: datetime | None = None
    failures: int = 0
    """Attempts of the next event."""
    failing_since: datetime | None = None
    error: str = ""
    disabled: bool = False


class Letter(Struct, frozen=True, kw_only=True):
    """An event that a receiver did not accept. `position` is where it is in the log, which has its content."""

    position: str
    type: str
    failed_at: datetime
    error: str


@dataclass
class Webhooks:
    """The subscriptions of a server."""

    _redis: Client
    sender: Sender

    async def subscribe(
        self, requested: Subscription, cursor: Token, *, verify: bool
    ) -> tuple[Subscription, Progress, bool]:
        """Create a subscription that starts after `cursor`, or refresh the one with the same id.

        Returns it, its progress, and whether it is new. Without a secret, it keeps the old one or gets a new one.
        Raises CommandRejected for a URL or a secret, CallbackFailed if the receiver does not return the challenge, and
        Overloaded if there are MAX_WEBHOOKS.
        """
        name = requested.id
        old, progress = await self.load(name)
        is_new = old is None or progress is None or old.is_over(requested.refreshed_at)
        if old is None or progress is None or is_new:
            old, progress = None, Progress(cursor=str(cursor), tried_at=requested.refreshed_at)
            if await self._redis.hlen(SUBSCRIPTIONS) >= MAX_WEBHOOKS:
                raise Overloaded(f"there are {MAX_WEBHOOKS:,} webhooks", retry_after_s=3600)
        all_secrets = requested.secrets + (old.secrets if old else []) or [new_secret()]
        requested = replace(requested, secrets=list(dict.fromkeys(all_secrets))[:2])
        check_secret(requested.secrets[0])
        await self.sender.address_of(requested.url)
        if is_new and verify:
            await self.sender.verify(requested)
        await self.save(requested)
        if is_new:
            await self._redis.hset(PROGRESS, name, json.encode(progress))
        return requested, progress, is_new

    async def save(self, subscription: Subscription) -> None:
        """Store a subscription."""
        await self._redis.hset(SUBSCRIPTIONS, subscription.id, json.encode(subscription))

    async def load(self, name: str) -> tuple[Subscription | None, Progress | None]:
        """A subscription and its progress; None without one."""
        subscription, progress = await self._redis.hget(SUBSCRIPTIONS, name), await self._redis.hget(PROGRESS, name)
        return subscription and _subscription(subscription), progress and _progress(progress)

    async def all(self) -> list[tuple[Subscription, Progress]]:
        """Every subscription with its progress, by id."""
        progress = await self._redis.hgetall(PROGRESS)
        stored = sorted((await self._redis.hgetall(SUBSCRIPTIONS)).items())
        return [(_subscription(raw), _progress(progress[name])) for name, raw in stored if name in progress]

    async def letters(self, name: str) -> list[Letter]:
        """The dead letters of a subscription, oldest first."""
        return json.decode(await self._redis.hget(LETTERS, name) or b"[]", type=list[Letter])

    async def counts(self) -> dict[str, int]:
        """How many attempts were `delivered`, `failed` and `dead` (the last one of an event)."""
        return {name.decode(): int(count) for name, count in (await self._redis.hgetall(COUNTS)).items()}

    async def remove(self, name: str) -> bool:
        """Delete a subscription with its dead letters; False if there was none."""
        for key in (PROGRESS, LETTERS):
            await self._redis.hdel(key, name)
        return bool(await self._redis.hdel(SUBSCRIPTIONS, name))


_subscription = json.Decoder(Subscription).decode
_progress = json.Decoder(Progress).decode


async def begin(
    events: AppliedEvents, cursor: str | None, applied: Token, max_age_ms: int | None = None
) -> tuple[Token, bool]:
    """Where a reader begins: after its cursor, or after all events that are projected; and whether it skips events.

    A cursor of another log, or a text that is not a cursor, begins after all events.
    """
    start, skips = Token({0: START, **applied}), cursor is not None
    if cursor is not None:
        with suppress(CommandRejected):
            start = events.read_on(cursor)
            oldest_ms = to_ms(system_clock()) - max_age_ms if max_age_ms is not None else 0
            skips = await events.skip_before(start, Position(max(0, oldest_ms), 0))
    return start, skips


def occurrence(event: dict[str, Any], after: str, name: str = "") -> dict[str, Any]:
    """An event that a reader gets, as MCP's Events extension has it; `name` is by default its type, `after` the cursor.

    `data` is the event as in `GET /v1/events`. What an event says is left out if it would be over BODY_BYTES.
    """
    if len(json.encode(event)) > BODY_BYTES - 4_096:
        event = {**event, "data": {"omitted": True}}
    data: dict[str, Any] = visible_data(to_builtins(event))
    return {
        "eventId": data["position"],
        "name": name or data.get("type", ""),
        "timestamp": data.get("occurred_at", data["recorded_at"]),
        "data": data,
        **({"cursor": after} if after else {}),
    }
