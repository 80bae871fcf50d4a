"""Samples health about once a second, and keeps writes out while there is too much already."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from math import ceil, inf
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct
from redis.exceptions import RedisError

from ingest.errors import LogUnavailable, Overloaded
from ingest.platform.settings import mib, parse_bytes, parse_bytes_or_share
from ingest.platform.tasks import end
from projections.health.samples import HealthSampler, Sample

HALF_LIFE_S = 60.0
"""Long enough that a burst of some seconds does not make a tenant heavy, short enough that it is soon forgiven."""
ACTIVE = 1 / 32
"""Events: a tenant whose count is below this is not active any more: five minutes after its only event."""
MOST_TENANTS = 1_000
"""Tenants with a count of their own (some 200 bytes each); further ones share one, as if they were one tenant."""
OTHERS = ""
"""In the place of their names. No tenant has this name."""
SLACK = 1.1
"""A tenant is held back above so many times its fair share, until it is below the share: equal ones never are."""
EPSILON = 1e-9
"""What the sum of many numbers may be off by: all of them must never count as above their mean."""


class Work(NamedTuple):
    """What was accepted of a tenant: events, and the bytes that storing and projecting them may take."""

    events: float = 0.0
    size: float = 0.0


Shares = Mapping[str, Work]
"""By tenant."""


def above_fair_share(shares: Shares, unit: Literal["events", "size"], held: Collection[str] = ()) -> frozenset[str]:
    """The tenants with more than one part in as many as there are tenants; `held` are those that were before.

    Never all of them: with one tenant, nobody.
    """
    amounts = {name: getattr(work, unit) for name, work in shares.items()}
    fair = sum(amounts.values()) / max(1, len(amounts))
    return frozenset(
        name for name, amount in amounts.items() if amount > fair * (1 + EPSILON if name in held else SLACK)
    )


class RecentWork:
    """What one process accepted of each tenant. One event loop."""

    def __init__(self) -> None:
        self._of: dict[str, Work] = {}
        self._decayed_at: float | None = None

    def name_of(self, tenant: str) -> str:
        """Under which name a tenant is counted."""
        return tenant if tenant in self._of or len(self._of) < MOST_TENANTS else OTHERS

    def add(self, tenant: str, events: int, size: int) -> None:
        """Count accepted work."""
        name = self.name_of(tenant)
        before = self._of.get(name, Work())
        self._of[name] = Work(before.events + events, before.size + size)

    def shares(self, now_s: float) -> Shares:
        """What counts at a moment (monotonic seconds) of the tenants that are active; the others are dropped."""
        factor = 0.5 ** ((now_s - (self._decayed_at or now_s)) / HALF_LIFE_S)
        self._decayed_at = now_s
        decayed = {name: Work(one.events * factor, one.size * factor) for name, one in self._of.items()}
        self._of = {name: one for name, one in decayed.items() if one.events >= ACTIVE}
        return dict(self._of)


Cause = Literal["memory", "lag", "disk"]
CAUSES: tuple[Cause, ...] = ("memory", "lag", "disk")

RELEASE = 0.9
NEAR: dict[Cause, float] = {"memory": 0.95, "lag": 0.8, "disk": 0.8}
"""Shares of the ceilings from which fair shares count. Waiting works lag off but frees no memory, so the reserve of
memory is small: a server may be nearly full for months."""
EMBEDDED_DISK_FLOOR = 256 << 20
"""A server that fsyncs each write ends when its file cannot be written. This much lasts for the seconds between two
looks, and for the small rewrites that forgetting asks for."""
SOONEST_S, LATEST_S = 1, 30
"""When a client is told to come back: at the ceiling, and at 1 + FAR times it."""
FAR = 0.5
SHOWN = 1 << 19
"""Bytes that are a MiB when they are rounded."""


BYTES_PER_EVENT, BYTES_PER_BYTE = 2_500, 14
"""What projecting takes at most, but for vectors: measured at 0.8 to 2.3 KB for an event of 40 bytes, and for large
ones at 2 to 4 (an observation) and 2 to 14 (a memory; most for short words that no other has) bytes a byte."""
BYTES_PER_VECTOR = 250
"""Besides the numbers: keys, and their part of the feed. A vector is kept in the cache and, for a time, in the feed."""
TEXT_PER_VECTOR = 800
"""Bytes; a part of a text has up to 180 words."""
BYTES_PER_LOG_ENTRY = 300
"""Besides the event: its place in the stream, and its id in the window of duplicates."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much there may be; 0 is any amount.

    `memory` is bytes (int) or a share (float) of `maxmemory`, and where the server has none, of its machine's memory.
    `lag` is events, `disk` the least bytes that must be free.
    """

    memory: int | float = 0
    lag: int = 0
    disk: int = 0

    @classmethod
    def parse(cls, memory: str, lag: int, disk: str, *, embedded: bool) -> "Limits":
        """From the settings; `embedded` says that the log's server is the one `mnemolog up` starts."""
        floor = parse_bytes(disk) if disk else EMBEDDED_DISK_FLOOR if embedded else 0
        return cls(memory=parse_bytes_or_share(memory), lag=lag, disk=floor)


class LimitExceeded(Struct, frozen=True):
    """One ceiling that holds writes back: which, why in words, and after how many seconds to come back.

    `tenants` are those above their fair share, whose writes alone it holds back; None for everybody's.
    """

    cause: Cause
    reason: str
    retry_after_s: int
    tenants: frozenset[str] | None = None


class Pressure(Struct, frozen=True):
    """All that hold writes back at the moment; never empty."""

    excesses: tuple[LimitExceeded, ...]

    def of(self, tenant: str | None) -> "Pressure | None":
        """What of it holds a tenant's writes back; with None, what holds everybody's."""
        held = tuple(excess for excess in self.excesses if excess.tenants is None or tenant in excess.tenants)
        return Pressure(held) if held else None

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that are above their fair share of something."""
        return frozenset(name for excess in self.excesses for name in excess.tenants or ())

    @property
    def told(self) -> str:
        """Whose writes are refused, and why, for operators."""
        if (everybody := self.of(None)) is not None:
            return f"writes are refused: {everybody.reason}"
        near = " and ".join(self.causes)
        return f"writes of {len(self.tenants):,} tenants above their fair share are refused: near the ceiling of {near}"

    @property
    def causes(self) -> list[Cause]:
        """The ceilings that are engaged."""
        return [excess.cause for excess in self.excesses]

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return "; ".join(excess.reason for excess in self.excesses)

    @property
    def retry_after_s(self) -> int:
        """When to come back: the latest of all."""
        return max(excess.retry_after_s for excess in self.excesses)


def needed(events: int, size: int, dimensions: int) -> int:
    """Bytes that projecting so many events of so many bytes together may take; `dimensions` of their vectors."""
    vectors = events + size // TEXT_PER_VECTOR
    return events * BYTES_PER_EVENT + size * BYTES_PER_BYTE + needed_for_vectors(vectors, dimensions)


def needed_to_write(events: int, size: int, dimensions: int) -> int:
    """The same for events that are not in the log yet."""
    return events * BYTES_PER_LOG_ENTRY + size + needed(events, size, dimensions)


def needed_for_vectors(vectors: int, dimensions: int) -> int:
    """Bytes of so many vectors, in the cache and in the feed; nothing without an embedder."""
    return vectors * (4 * dimensions + BYTES_PER_VECTOR) if dimensions else 0


def promised(sample: Sample) -> int:
    """Bytes that projecting and embedding everything accepted may still take."""
    of_vectors = needed_for_vectors(sample.to_embed, sample.dimensions)
    return needed(sample.behind, sample.pending_bytes, sample.dimensions) + of_vectors


def room(sample: Sample, ceilings: Limits) -> int | None:
    """Bytes that this process may use until the next sample: its share of what the ceiling leaves; None for any."""
    most = memory_ceiling(sample, ceilings)
    if not most or sample.memory_used is None:
        return None
    return max(0, most - sample.memory_used - promised(sample)) // max(1, sample.replicas)


def reserve(sample: Sample, ceilings: Limits) -> int:
    """Bytes of this process's share of the room that are kept for tenants below their fair share."""
    return int(memory_ceiling(sample, ceilings) * (1 - NEAR["memory"])) // max(1, sample.replicas)


def decide(
    sample: Sample, ceilings: Limits, previous: Pressure | None = None, shares: Shares = MappingProxyType({})
) -> Pressure | None:
    """What holds writes back now, given what did before; None for nothing. What is not known holds nothing back.

    `shares` is the recent work of the active tenants: events count for the lag, bytes for memory and disk.
    """
    before = {} if previous is None else {excess.cause: excess for excess in previous.excesses}
    held: list[LimitExceeded] = []
    for measure in _measures(sample, ceilings):
        was, near = before.get(measure.cause), NEAR[measure.cause]
        if measure.level >= (RELEASE if was is not None and was.tenants is None else 1):
            held.append(LimitExceeded(measure.cause, measure.told, _retry_after_s(measure.level)))
        elif measure.level >= near * (1 if was is None else RELEASE):
            unit = "events" if measure.cause == "lag" else "size"
            if above := above_fair_share(shares, unit, (was and was.tenants) or ()):
                told = f"this tenant has written more than its fair share lately, and {measure.told}"
                held.append(LimitExceeded(measure.cause, told, _retry_after_s(measure.level / near), above))
    return Pressure(tuple(held)) if held else None


class _Measure(NamedTuple):
    cause: Cause
    level: float
    """1 at the ceiling."""
    told: str


def _measures(sample: Sample, ceilings: Limits) -> Iterator[_Measure]:
    """Every figure that is known and has a ceiling."""
    most = memory_ceiling(sample, ceilings)
    if most and sample.memory_used is not None:
        level = (sample.memory_used + promised(sample)) / most
        yield _Measure("memory", level, memory_told(sample, ceilings))
    if ceilings.lag:
        told = f"{sample.behind:,} events are not projected yet; the ceiling is {ceilings.lag:,}"
        told += "" if sample.workers else "; no worker is alive"
        yield _Measure("lag", sample.behind / ceilings.lag, told)
    if ceilings.disk and sample.disk_free is not None:
        told = f"the disk of the log has {mib(sample.disk_free)} left; the floor is {mib(ceilings.disk)}"
        yield _Measure("disk", ceilings.disk / sample.disk_free if sample.disk_free else inf, told)


def memory_told(sample: Sample, ceilings: Limits) -> str:
    """How much memory is used and promised, and the ceiling, in words."""
    more = promised(sample)
    told = f"the log's server uses {mib(sample.memory_used or 0)} of memory; the ceiling is "
    told += mib(memory_ceiling(sample, ceilings))
    return told + (f", and what was accepted may take {mib(more)} more" if more >= SHOWN else "")


def memory_ceiling(sample: Sample, ceilings: Limits) -> int:
    """The ceiling on memory in bytes; 0 for none, also when the server does not say what it is a share of."""
    if isinstance(ceilings.memory, int):
        return ceilings.memory
    return int(ceilings.memory * (sample.memory_limit or sample.machine_memory))


def _retry_after_s(level: float) -> int:
    """Sooner for a little too much, later for a lot: what was gathered has to be worked off first."""
    excess = min(max(level - 1, 0.0) / FAR, 1.0)
    return SOONEST_S + ceil((LATEST_S - SOONEST_S) * excess)


Weight = Literal["stops", "limits", "notes"]
"""`stops`: reads or writes do not work, send nobody here. `limits`: some of it does not work: writes are refused, or
nobody projects them. `notes`: all of it works, somebody should look."""

LOG = "log"
CheckStatus = Literal["pass", "warn", "fail"]
LATE_FAIL_S = 300.0
"""By then every worker's lease has expired several times: nothing is projected."""
DEAD_LETTERS_FAIL = 100
"""So many are no longer single events but a faulty projection."""
MEMORY_WARN, MEMORY_FAIL = 0.85, 0.95
"""Shares of the store's memory limit; at 1 it refuses to write."""


class Condition(Struct, frozen=True):
    """One thing that is wrong: its stable `code` and weight in readiness; category, check and status in diagnosis."""

    code: str
    message: str
    weight: Weight
    category: str
    check: str
    status: CheckStatus


class Readiness(Struct, frozen=True):
    """What is known of a process. `ready` as long as nothing stops it."""

    conditions: list[Condition]

    @property
    def stopped(self) -> Condition | None:
        """What stops it, the worst first."""
        return next((condition for condition in self.conditions if condition.weight == "stops"), None)

    @property
    def impaired(self) -> list[Condition]:
        """What stops it or limits it, beside a log that does not answer: the doors of dialects ask that themselves,
        and do not call healthy what has any of these."""
        return [condition for condition in self.conditions if condition.weight != "notes" and condition.code != LOG]


def unavailable(reason: str) -> Readiness:
    """The log's server does not answer, so nothing else is known."""
    return Readiness([Condition(LOG, f"the log does not answer: {reason}", "stops", "log", "log", "fail")])


def readiness(sample: Sample, pressure: Pressure | None) -> Readiness:
    """All conditions that a sample shows, the worst first."""
    return Readiness([*_stops(sample), *_limits(sample, pressure), *_notes(sample, pressure)])


def _stops(sample: Sample) -> Iterator[Condition]:
    if sample.log_file_ok is False:
        told = "the log's server cannot write its append-only file: look at its log and its disk"
        yield Condition("log_file", told, "stops", "log", "log-file", "fail")
    if sample.index_is_missing:
        told = sample.index_trouble or "the index is loading"
        yield Condition("index", told, "stops", "index", "index-ready", "fail")
    elif sample.index_is_outdated:
        told = f"the index has followed a generation that is not the live one for {sample.outdated_s:.0f} s"
        yield Condition("index", told, "stops", "index", "generation", "fail")
    if sample.is_stalled:
        told = f"no worker is alive, and events wait for {sample.oldest_pending_s:.0f} s to be projected"
        yield Condition("stalled", told, "stops", "log", "workers", "fail")


def _limits(sample: Sample, pressure: Pressure | None) -> Iterator[Condition]:
    if pressure is not None and pressure.of(None) is not None:
        yield Condition("overloaded", pressure.told, "limits", "log", "pressure", "warn")
    if sample.away:
        names = ", ".join(map(str, sample.away))
        told = f"a node of the cluster is away: partitions {names} take no writes, and reads leave them out"
        yield Condition("store_partial", told, "limits", "log", "cluster", "fail")
    if sample.jobs_trouble:
        told = "the server of the job queue is away, so nothing is embedded, summarised or purged: "
        yield Condition("jobs", told + sample.jobs_trouble, "limits", "log", "jobs", "fail")
    if sample.index_partly:
        told = sample.index_trouble or "the index is reading some partitions again"
        yield Condition("index_partial", told, "limits", "index", "index-trouble", "warn")
    if not sample.workers and not sample.is_stalled:
        told = "no worker is alive: what is written is not projected"
        yield Condition("no_worker", told, "limits", "log", "workers", "warn")


def _notes(sample: Sample, pressure: Pressure | None) -> Iterator[Condition]:
    if pressure is not None and pressure.of(None) is None:
        yield Condition("fair_share", pressure.told, "notes", "log", "pressure", "warn")
    if sample.lost_writes:
        yield Condition("lost_writes", sample.lost_writes, "notes", "log", "lost-writes", "fail")
    if sample.is_late:
        told = f"{sample.behind:,} events are not projected yet, the oldest for {sample.oldest_pending_s:.0f} s"
        status = _graded(sample.oldest_pending_s, LATE_FAIL_S)
        yield Condition("late", told, "notes", "log", "lag", status)
    if count := sample.dead_letters:
        told, status = f"{count:,} events could not be applied", _graded(count, DEAD_LETTERS_FAIL)
        yield Condition("dead_letters", told, "notes", "dead_letters", "dead-letters", status)
    if sample.index_trouble and sample.index_ready and not sample.index_partly:
        told = f"the index answers, but: {sample.index_trouble}"
        yield Condition("index_trouble", told, "notes", "index", "index-trouble", "warn")
    if sample.embedding_is_behind:
        told = f"{sample.to_embed:,} texts wait for a vector, for up to {sample.oldest_to_embed_s:,.0f} s"
        told += f", and about {sample.embed_later:,} wait for a place in the queue" if sample.embed_later else ""
        yield Condition("embedding", told, "notes", "embedding", "backlog", "warn")
    if (share := sample.memory_share) >= MEMORY_WARN:
        told = f"the log's server uses {share:.0%} of its memory limit, {mib(sample.memory_limit)}"
        yield Condition("memory", told, "notes", "storage", "memory", _graded(share, MEMORY_FAIL))


def _graded(value: float, fail_from: float) -> CheckStatus:
    return "fail" if value >= fail_from else "warn"


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
        requested_at = time.monotonic()
        async with self._one_look:
            if self.sample is None or self._looked_at < requested_at:
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
        pressure = decide(sample, self.ceilings, self.pressure, shares)
        if pressure is not None and (self.pressure is None or pressure.causes != self.pressure.causes):
            logger.warning("%s", pressure.told)
        elif pressure is None and self.pressure is not None:
            logger.info("writes are taken again")
        self.pressure = pressure
        self.readiness = readiness(sample, self.pressure)

    def _lost(self, at: float, why: str) -> None:
        self.readiness = unavailable(why)
        if at - self._looked_at > self.kept_s:
            self.sample = self.pressure = None
            self._room.forget()

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self.look()
            except LogUnavailable as error:
                logger.debug("the vital signs are not known: %s", error)
            except Exception:  # the next look may do better
                logger.exception("the vital signs cannot be read")
            await asyncio.sleep(self._every_s)
