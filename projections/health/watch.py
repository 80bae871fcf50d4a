"""Samples health about once a second, and keeps writes out while there is too much already."""

import asyncio
import logging
import time
from contextlib import AbstractContextManager

from redis.exceptions import RedisError

from ingest.errors import LogUnavailable, Overloaded
from ingest.platform.settings import mib
from ingest.platform.tasks import end
from projections.health.fairness import RecentWork, above_fair_share
from projections.health.pressure import (
    Limits,
    Pressure,
    Readiness,
    decide,
    memory_told,
    needed_to_write,
    readiness,
    reserve,
    room,
    unavailable,
)
from projections.health.samples import HealthSampler, Sample

logger = logging.getLogger(__name__)

EVERY_S = 1.0
PARTITIONS_A_SECOND = 64
"""A look costs up to 0.4 ms of this process for each partition; logs with more of them are looked at less often."""
WITHIN_S = 2.0
"""A server that takes longer to answer is taken to be away."""
KEPT_S = 30.0
"""For so long the last pressure stands while nobody can look; writes fail by themselves then, or go to a server that
came back with less in it."""


class Room:
    """Bytes that writes of this process may still take, with what projecting them takes. One event loop.

    What was accepted since the last look counts at once. Every process sees the same room, and knows of its own writes
    alone; so each may take its share of the room, and all together never more than there is.
    """

    def __init__(self) -> None:
        self._share: int | None = None
        """As of the last look; None for any amount."""
        self._why = ""
        self._under_way = 0
        self._ended = 0
        """Of all writes that ended, ever."""
        self._ended_before = 0
        """Of those that had ended when the last look began: it saw them."""

    def begin_look(self) -> int:
        """Note where writes stand before the server is looked at, for `looked`."""
        return self._ended

    def looked(self, began: int, share: int | None, why: str = "") -> None:
        """The share of the room that a look found, and how it comes about in words.

        `began` is what `begin_look` returned.
        """
        self._ended_before, self._share, self._why = began, share, why

    def forget(self) -> None:
        """Nobody knows what room there is."""
        self._share = None

    def taken(self, size: int, reserve: int = 0) -> "_Taken":
        """Counts a write while it is under way (`with`), and behind that until a look has seen it.

        Raises Overloaded when it is too much, or would take a part of what is in `reserve` for others.
        """
        used = self._under_way + self._ended - self._ended_before
        if self._share is not None and used + size > self._share - reserve:
            left = mib(max(0, self._share - reserve - used))
            raise Overloaded(
                f"{self._why}; this write, with projecting it, may take {mib(size)}, and {left} are left until the "
                "server is looked at again",
                cause="memory",
            )
        return _Taken(self, size)

    def begin(self, size: int) -> None:
        """A write is under way."""
        self._under_way += size

    def end(self, size: int) -> None:
        """It is not any more."""
        self._under_way -= size
        self._ended += size


class _Taken:
    """A write under way. Every write makes one, so it is no generator, which would take four times as long."""

    __slots__ = ("_room", "_size")

    def __init__(self, room: Room, size: int) -> None:
        self._room, self._size = room, size

    def __enter__(self) -> None:
        self._room.begin(self._size)

    def __exit__(self, *_: object) -> None:
        self._room.end(self._size)


class Watch:
    """The newest sample of a process, and what follows from it. Start it, or call `look`."""

    def __init__(self, health_sampler: HealthSampler, ceilings: Limits) -> None:
        self._vitals, self.ceilings = health_sampler, ceilings
        self.kept_s = KEPT_S
        self._every_s = max(EVERY_S, health_sampler.partitions / PARTITIONS_A_SECOND)
        self._one_look = asyncio.Lock()
        self._looked_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._room = Room()
        self._work = RecentWork()
        self._heavy: frozenset[str] = frozenset()
        """The tenants above their fair share of bytes, who leave the reserve of the room alone."""
        self._reserve = 0
        self.sample: Sample | None = None
        """The newest; None before the first, and after KEPT_S without one."""
        self.pressure: Pressure | None = None
        """What holds writes back; None for nothing."""
        self.readiness: Readiness = unavailable("nobody has looked yet")
        """What the last look amounts to, or that it failed."""

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._look_for_ever(), name="watch")

    async def aclose(self) -> None:
        """Look no more."""
        if self._task is not None:
            await end(self._task)

    def check(self, tenant: str) -> None:
        """Raise Overloaded while a ceiling holds this tenant's writes back."""
        held = self.pressure
        if held is not None and (own := held.of(self._work.name_of(tenant))) is not None:
            raise Overloaded(own.reason, own.retry_after_s, own.causes[0])

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        """Count a write of so many bytes while it is under way. Raises Overloaded when there is no room for it."""
        needed = needed_to_write(events, size, self.sample.dimensions if self.sample is not None else 0)
        taken = self._room.taken(needed, self._reserve if self._work.name_of(tenant) in self._heavy else 0)
        self._work.add(tenant, events, needed)
        return taken

    async def look(self) -> Sample:
        """Take a sample and act on it; looks at the same time share one. Raises LogUnavailable."""
        asked_at = time.monotonic()
        async with self._one_look:
            if self.sample is None or self._looked_at < asked_at:
                await self._look()
            assert self.sample is not None
            return self.sample

    async def _look(self) -> None:
        started, began = time.monotonic(), self._room.begin_look()
        try:
            async with asyncio.timeout(WITHIN_S):
                sample = await self._vitals.sample()
        except (RedisError, OSError) as error:
            self._lost(started, str(error) or f"nothing within {WITHIN_S:g} s")
            raise LogUnavailable(f"the log's server does not answer: {error}") from error
        except Exception as error:  # a fault of ours, but the last look must not stand for ever
            self._lost(started, repr(error))
            raise
        self._looked_at, self.sample = started, sample
        self._room.looked(began, room(sample, self.ceilings), memory_told(sample, self.ceilings))
        shares = self._work.shares(started)
        self._heavy, self._reserve = above_fair_share(shares, "size", self._heavy), reserve(sample, self.ceilings)
        self._hold(decide(sample, self.ceilings, self.pressure, shares))
        self.readiness = readiness(sample, self.pressure)

    def _lost(self, at: float, why: str) -> None:
        self.readiness = unavailable(why)
        if at - self._looked_at > self.kept_s:
            self.sample = self.pressure = None
            self._room.forget()

    def _hold(self, pressure: Pressure | None) -> None:
        if pressure is not None and (self.pressure is None or pressure.causes != self.pressure.causes):
            logger.warning("%s", pressure.told)
        elif pressure is None and self.pressure is not None:
            logger.info("writes are taken again")
        self.pressure = pressure

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self.look()
            except LogUnavailable as error:
                logger.debug("the vital signs are not known: %s", error)
            except Exception:  # the next look may do better
                logger.exception("the vital signs cannot be read")
            await asyncio.sleep(self._every_s)
