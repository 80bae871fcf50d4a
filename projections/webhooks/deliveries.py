"""Delivers events to webhooks, in a worker: each subscription in log order, at least once, by one worker at a time.

A failed delivery is repeated with backoff, and the next event waits for it. So a receiver that was down gets everything
in order. An event that a receiver keeps refusing becomes a dead letter, and deliveries go on after it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import json
from msgspec.structs import replace
from redis.exceptions import RedisError

from ingest.errors import MnemologError
from ingest.log.event_log import EventLog, entry_at
from ingest.log.keys import JOB_LEASE_TTL, webhooks_key
from ingest.log.lag import checkpoints
from ingest.log.lease import lease
from ingest.log.position import Position, Token
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, past_memory_limit
from ingest.platform.settings import Settings
from ingest.platform.tasks import end
from projections.nouns.access import reader_of
from projections.queries.documents import DocumentReader
from projections.queries.log_events import AppliedEvents, EventFilter, EventView
from projections.webhooks.sending import REVOKED, Sender, control_id
from projections.webhooks.subscriptions import (
    COUNTS,
    LETTERS,
    MAX_LETTERS,
    PROGRESS,
    Letter,
    Owner,
    Progress,
    Subscription,
    Webhooks,
    begin,
    occurrence,
)

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
AT_ONCE = 32
"""Subscriptions that one worker delivers to at the same time."""
PAGE = 20
LONGEST_WAIT_S = 300
REFUSED_FOR, DOWN_FOR = timedelta(minutes=15), timedelta(days=3)
"""How long an event is repeated that the receiver refuses (4xx), and one that it can't accept now."""
GONE, TOO_LARGE, TOO_MANY = 410, 413, 429
_UNAVAILABLE = (RedisError, OSError, MnemologError)


def wait_s(failures: int) -> int:
    """The seconds after the newest of some failed attempts; 0 after none."""
    return min(LONGEST_WAIT_S, (1 << min(failures, 20)) >> 1)


def gives_up(status: int, failing: timedelta) -> bool:
    """Whether an event becomes a dead letter after attempts for that long. `status` 0: there was no answer."""
    refused = 400 <= status < 500 and status != TOO_MANY
    return status in (GONE, TOO_LARGE) or failing >= (REFUSED_FOR if refused else DOWN_FOR)


def is_due(subscription: Subscription, progress: Progress, applied: Token, now: datetime) -> bool:
    """Whether there is something to do for a subscription."""
    refreshed = subscription.refreshed_at > progress.tried_at
    waited = now >= progress.tried_at + timedelta(seconds=wait_s(progress.failures)) and not progress.disabled
    has_events = not applied.covered_by(Token.parse(progress.cursor))
    retries = subscription.retry_at is not None and subscription.retry_at != progress.retried
    return subscription.is_over(now) or retries or (has_events and (refreshed or waited))


class Deliveries:
    """The deliveries of one worker, `who`. `allows`: whether an owner still has access."""

    def __init__(
        self, settings: Settings, redis: Client, log: EventLog, who: str, allows: Callable[[Owner], Awaitable[bool]]
    ) -> None:
        self._settings, self._redis, self._log, self._who, self._allows = settings, redis, log, who, allows
        self._events = AppliedEvents(log, DocumentReader(redis, log.partitions))
        self._webhooks = Webhooks(redis, Sender(private=settings.webhook_private))
        self._applied = Token()

    async def run(self) -> None:
        """Deliver until canceled."""
        running: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                running = {name: task for name, task in running.items() if not task.done()}
                try:
                    names = await self._due()
                except _UNAVAILABLE as error:
                    logger.warning("webhooks wait: %s", error)
                    names = []
                for name in [name for name in names if name not in running][: AT_ONCE - len(running)]:
                    running[name] = asyncio.create_task(self._deliver(name), name=f"webhook {name}")
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await end(*running.values())

    async def _due(self) -> list[str]:
        """The subscriptions with something to do."""
        if webhooks := await self._webhooks.all():
            self._applied = await checkpoints(self._redis, range(self._log.partitions))
        now = system_clock()
        return [each.id for each, progress in webhooks if is_due(each, progress, self._applied, now)]

    async def _deliver(self, name: str) -> None:
        try:
            async with lease(self._redis, webhooks_key(f"lease:{name}"), self._who, JOB_LEASE_TTL) as mine:
                while mine and await self._deliver_page(name):
                    pass
        except _UNAVAILABLE as error:
            logger.warning("webhook %s waits: %s", name, error)

    async def _deliver_page(self, name: str) -> bool:
        """Deliver some events; returns whether the next ones can follow now."""
        if (current := await self._current(name)) is None:
            return False
        subscription, progress, chosen = current
        # not by the time of the last attempt: a retry that was requested during an attempt would be lost
        if subscription.retry_at is not None and subscription.retry_at != progress.retried:
            await self._save(name, replace(progress, tried_at=system_clock(), retried=subscription.retry_at))
            return await self._retry(name, subscription.retry_at, chosen)
        at, has_gap = await begin(self._events, progress.cursor, self._applied)
        if has_gap:  # the log was restored from a backup
            await self._control(subscription, "gap", cursor=str(at))
        for view, after in await self._events.read(chosen, at, PAGE, self._applied):
            if not await self._attempt(name, view, after):
                return False
        if (current := await self._current(name)) is not None:
            await self._save(name, replace(current[1], cursor=str(at)))
        return not self._applied.covered_by(at)

    async def _retry(self, name: str, before: datetime, chosen: EventFilter) -> bool:
        for letter in await self._webhooks.letters(name):
            if letter.failed_at < before:
                number, _, position = letter.position.partition(":")
                row = await entry_at(self._log, int(number), Position.parse(position))
                view = row and chosen.view(int(number), row)
                if view and not await self._attempt(name, view, letter=letter):
                    return False
        return True

    async def _current(self, name: str) -> tuple[Subscription, Progress, EventFilter] | None:
        """A subscription, and what its owner can see of it now; None, and no subscription, if it is over."""
        subscription, progress = await self._webhooks.load(name)
        if subscription is None or progress is None:
            return None
        owner, now, settings = subscription.owner, system_clock(), self._settings
        allowed = await self._allows(owner)
        if allowed and not subscription.is_over(now):
            reader = reader_of(owner.tenant, settings.agent_scope, settings.agent_id, owner.agent, owner.key_scope, now)
            return subscription, progress, subscription.criteria.of(reader, subscription.type)
        if not allowed:
            await self._control(subscription, "terminated", error=REVOKED)
        await self._webhooks.remove(name)
        return None

    async def _attempt(self, name: str, view: EventView, after: str = "", letter: Letter | None = None) -> bool:
        """Send an event, or retry a letter, and save what became of it; returns whether to go on.

        Everything is read again for each event: the subscription can be deleted, its key revoked, and a memory made
        private at any time.
        """
        if (current := await self._current(name)) is None:
            return False
        subscription, progress, chosen = current
        [event] = await self._events.visible([view], chosen)
        if event is None:
            return True
        body = occurrence(event, after or progress.cursor, subscription.type if subscription.mcp else "")
        answer = await self._webhooks.sender.send(subscription, body["eventId"], body)
        now, dead = system_clock(), None
        progress = replace(progress, tried_at=now, error=answer.error, disabled=False)
        done = replace(progress, cursor=body["cursor"], failures=0, failing_since=None)
        failing_since = progress.failing_since or now
        if not answer.error:
            progress = replace(done, delivered_at=now)
        elif answer.status == GONE and not subscription.mcp:  # over MCP, it refuses only this event
            progress = replace(progress, disabled=True)
        elif letter or gives_up(answer.status, now - failing_since):
            dead = Letter(position=body["eventId"], type=view.event["type"], failed_at=now, error=answer.error)
            progress = done
        else:
            progress = replace(progress, failures=progress.failures + 1, failing_since=failing_since)
        if letter or dead:
            others = [each for each in await self._webhooks.letters(name) if each != letter]
            others += [dead] if dead else []
            await self._redis.hset(LETTERS, name, json.encode(others[-MAX_LETTERS:]))
        await self._save(name, progress, "dead" if dead else "failed" if answer.error else "delivered")
        return not answer.error or (letter is not None and answer.status > 0)

    async def _control(self, subscription: Subscription, kind: str, **fields: Any) -> None:
        await self._webhooks.sender.send(subscription, control_id(kind), {"type": kind, **fields})

    async def _save(self, name: str, progress: Progress, outcome: str = "") -> None:
        async with past_memory_limit(self._redis) as pipe:
            pipe.hset(PROGRESS, name, json.encode(progress))
            if outcome:
                pipe.hincrby(COUNTS, outcome, 1)
            await pipe.execute()
