"""Samples health about once a second, and refuses writes while there is too much already."""

import asyncio
import logging
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import ceil, inf
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct
from redis.exceptions import RedisError

from ingest.errors import LogUnavailable, Overloaded
from ingest.platform.settings import mib, parse_bytes, parse_bytes_or_share
from ingest.platform.tasks import end
from projections.health.samples import HealthSampler, Sample

HALF_LIFE_S = 60.0
"""Long enough that a burst of some seconds does not make a tenant heavy, short enough that it is soon forgiven."""
ACTIVE = 1 / 32
"""Decayed events below which a tenant is inactive: five minutes after its only event."""
MOST_TENANTS, OTHERS = 1_000, ""
"""Tenants with a count of their own (some 200 bytes each); further ones share one, under a name that no tenant has."""
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


def above_fair_share(shares: Shares, unit: Literal["events", "size"], held: Collection[str]) -> frozenset[str]:
    """The tenants with more than the mean; `held` are those that were above before. Never all of them."""
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
        decayed = {name: Work(work.events * factor, work.size * factor) for name, work in self._of.items()}
        self._of = {name: work for name, work in decayed.items() if work.events >= ACTIVE}
        return dict(self._of)


Cause = Literal["memory", "lag", "disk"]
CAUSES: tuple[Cause, ...] = ("memory", "lag", "disk")

RELEASE = 0.9
NEAR: dict[Cause, float] = {"memory": 0.95, "lag": 0.8, "disk": 0.8}
"""Shares of the ceilings from which fair shares count. Waiting works lag off but frees no memory, so the reserve of
memory is small: a server may be nearly full for months."""
EMBEDDED_DISK_FLOOR = 256 << 20
"""A server that fsyncs each write ends when its file cannot be written. This much lasts for the seconds between two
samples, and for the small rewrites that forgetting asks for."""
SOONEST_S, LATEST_S, FAR = 1, 30, 0.5
"""The `Retry-After` of a refused write: at the limit, and at 1 + FAR times the limit."""
HALF_A_MIB = 1 << 19

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

    `memory` is bytes (int) or a share (float) of `maxmemory`, or of the machine's memory without one. `lag` is events,
    `disk` the least bytes that must be free.
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
    """One limit that refuses writes: which, why, and after how many seconds to retry.

    `tenants` are those above their fair share, whose writes alone it refuses; None for all tenants.
    """

    cause: Cause
    reason: str
    retry_after_s: int
    tenants: frozenset[str] | None = None


class Pressure(Struct, frozen=True):
    """All that hold writes back at the moment; never empty."""

    excesses: tuple[LimitExceeded, ...]

    def of(self, tenant: str | None) -> "Pressure | None":
        """The part that refuses a tenant's writes; with None, what refuses the writes of all tenants."""
        held = tuple(excess for excess in self.excesses if excess.tenants is None or tenant in excess.tenants)
        return Pressure(held) if held else None

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that are above their fair share of something."""
        return frozenset(name for excess in self.excesses for name in excess.tenants or ())

    @property
    def message(self) -> str:
        """Whose writes are refused, and why, for operators."""
        if (all_tenants := self.of(None)) is not None:
            return f"writes are refused: {all_tenants.reason}"
        near = " and ".join(self.causes)
        return (
            f"writes are refused for {len(self.tenants):,} tenants above their fair share: near the ceiling of {near}"
        )

    @property
    def causes(self) -> list[Cause]:
        """The limits that are exceeded."""
        return [excess.cause for excess in self.excesses]

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return "; ".join(excess.reason for excess in self.excesses)

    @property
    def retry_after_s(self) -> int:
        """When to retry: the latest of all."""
        return max(excess.retry_after_s for excess in self.excesses)


def needed(events: int, size: int, dimensions: int) -> int:
    """Bytes that projecting so many events of so many bytes together may take; `dimensions` of their vectors."""
    vectors = events + size // TEXT_PER_VECTOR
    return events * BYTES_PER_EVENT + size * BYTES_PER_BYTE + needed_for_vectors(vectors, dimensions)


def needed_for_vectors(vectors: int, dimensions: int) -> int:
    """Bytes of so many vectors, in the cache and in the feed; nothing without an embedder."""
    return vectors * (4 * dimensions + BYTES_PER_VECTOR) if dimensions else 0


def promised(sample: Sample) -> int:
    """Bytes that projecting and embedding everything accepted may still take."""
    of_vectors = needed_for_vectors(sample.to_embed, sample.dimensions)
    return needed(sample.behind, sample.pending_bytes, sample.dimensions) + of_vectors


def room(sample: Sample, ceilings: Limits) -> int | None:
    """Bytes that this process may use until the next sample: its share of what is left below the limit; None for any
    amount."""
    most = memory_ceiling(sample, ceilings)
    if not most or sample.memory_used is None:
        return None
    return max(0, most - sample.memory_used - promised(sample)) // max(1, sample.replicas)


def reserve(sample: Sample, ceilings: Limits) -> int:
    """Bytes of this process's share of the room that are reserved for tenants below their fair share."""
    return int(memory_ceiling(sample, ceilings) * (1 - NEAR["memory"])) // max(1, sample.replicas)


def decide(
    sample: Sample, ceilings: Limits, previous: Pressure | None = None, shares: Shares = MappingProxyType({})
) -> Pressure | None:
    """What refuses writes now, given what did before; None for nothing. What is unknown refuses nothing.

    `shares` is the recent work of the active tenants: events count for the lag, bytes for memory and disk.
    """
    before = {} if previous is None else {excess.cause: excess for excess in previous.excesses}
    held: list[LimitExceeded] = []
    for cause, level, message in _measures(sample, ceilings):
        was, near = before.get(cause), NEAR[cause]
        # what is refused stays refused until it is well below the limit, or every sample would switch it
        if level >= (RELEASE if was is not None and was.tenants is None else 1):
            held.append(LimitExceeded(cause, message, _retry_after_s(level)))
        elif level >= near * (1 if was is None else RELEASE):
            unit = "events" if cause == "lag" else "size"
            if above := above_fair_share(shares, unit, (was and was.tenants) or ()):
                message = f"this tenant has recently written more than its fair share, and {message}"
                held.append(LimitExceeded(cause, message, _retry_after_s(level / near), above))
    return Pressure(tuple(held)) if held else None


def _measures(sample: Sample, ceilings: Limits) -> Iterator[tuple[Cause, float, str]]:
    """Every figure that is known and has a limit: its level, which is 1 at the limit, and a message."""
    most = memory_ceiling(sample, ceilings)
    if most and sample.memory_used is not None:
        yield "memory", (sample.memory_used + promised(sample)) / most, memory_message(sample, ceilings)
    if ceilings.lag:
        message = f"{sample.behind:,} events are pending; the ceiling is {ceilings.lag:,}"
        yield "lag", sample.behind / ceilings.lag, message + ("" if sample.workers else "; no worker is running")
    if ceilings.disk and sample.disk_free is not None:
        message = f"the log's disk has {mib(sample.disk_free)} free; the minimum is {mib(ceilings.disk)}"
        yield "disk", ceilings.disk / sample.disk_free if sample.disk_free else inf, message


def memory_message(sample: Sample, ceilings: Limits) -> str:
    """How much memory is used and promised, and the limit, in words."""
    used, most, more = mib(sample.memory_used or 0), mib(memory_ceiling(sample, ceilings)), promised(sample)
    message = f"Redis uses {used} of memory; the ceiling is {most}"
    return message + (f", and accepted writes may need {mib(more)} more" if more >= HALF_A_MIB else "")


def memory_ceiling(sample: Sample, ceilings: Limits) -> int:
    """The limit on memory in bytes; 0 for none, also when the server does not say what it is a share of."""
    if isinstance(ceilings.memory, int):
        return ceilings.memory
    return int(ceilings.memory * (sample.memory_limit or sample.machine_memory))


def _retry_after_s(level: float) -> int:
    """Sooner for a little too much, later for a lot: the backlog has to be worked off first."""
    excess = min(max(level - 1, 0.0) / FAR, 1.0)
    return SOONEST_S + ceil((LATEST_S - SOONEST_S) * excess)


Weight = Literal["stops", "limits", "notes"]
"""`stops`: reads or writes do not work, route nothing here. `limits`: some of it does not work: writes are refused, or
not projected. `notes`: all of it works, but an operator should look."""

LOG = "log"
CheckStatus = Literal["pass", "warn", "fail"]
LATE_WARN_S, LATE_FAIL_S = 10.0, 300.0
"""An event is searchable well within a second while workers run. After five minutes, every worker's lease has expired
several times: nothing is projected."""
STALLED_S = 15.0
"""Three times a lease: a worker that was killed is restarted well within it."""
OUTDATED_S = 10.0
"""An index follows a switch of generations within a moment; after this long it is stuck."""
EMBED_BACKLOG = 1_000
"""Texts that wait for a vector; keyword search finds them until then."""
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
    """What is known of a process."""

    conditions: list[Condition]

    @property
    def stopped(self) -> Condition | None:
        """What stops it, the worst first; None while it is ready."""
        return next((condition for condition in self.conditions if condition.weight == "stops"), None)

    @property
    def impaired(self) -> list[Condition]:
        """What stops it or limits it, except a log that does not answer: dialects check that themselves."""
        return [condition for condition in self.conditions if condition.weight != "notes" and condition.code != LOG]


def unavailable(reason: str) -> Readiness:
    """The log's server does not answer, so nothing else is known."""
    return Readiness([Condition(LOG, f"Redis is not responding: {reason}", "stops", "log", "log", "fail")])


def readiness(sample: Sample, pressure: Pressure | None) -> Readiness:
    """All conditions that a sample shows, the worst first."""
    stalled = bool(sample.lag) and not sample.workers and sample.oldest_pending_s >= STALLED_S
    conditions = [*_stops(sample, stalled), *_limits(sample, pressure, stalled), *_notes(sample, pressure)]
    return Readiness([Condition(*condition) for condition in conditions])


_Condition: TypeAlias = tuple[str, str, Weight, str, str, CheckStatus]


def _stops(sample: Sample, stalled: bool) -> Iterator[_Condition]:
    if sample.log_file_ok is False:
        message = "Redis cannot write its append-only file: check its log and its disk"
        yield "log_file", message, "stops", "log", "log-file", "fail"
    elif sample.log_folder_gone:
        message = (
            "the log's folder was deleted: what is written now is lost at a restart. Stop writing, and make a backup"
        )
        yield "log_file", message, "stops", "log", "log-file", "fail"
    if not sample.index_ready and not sample.index_partly:
        yield "index", sample.index_trouble or "the index is loading", "stops", "index", "index-ready", "fail"
    elif sample.outdated_s >= OUTDATED_S:
        message = f"the index has followed a generation that is no longer live for {sample.outdated_s:.0f} s"
        yield "index", message, "stops", "index", "generation", "fail"
    if stalled:
        message = f"no worker is running, and events have been pending for {sample.oldest_pending_s:.0f} s"
        yield "stalled", message, "stops", "log", "workers", "fail"


def _limits(sample: Sample, pressure: Pressure | None, stalled: bool) -> Iterator[_Condition]:
    if pressure is not None and pressure.of(None) is not None:
        yield "overloaded", pressure.message, "limits", "log", "pressure", "warn"
    if sample.away:
        names = ", ".join(map(str, sample.away))
        message = f"a cluster node is unreachable: partitions {names} accept no writes, and reads omit them"
        yield "store_partial", message, "limits", "log", "cluster", "fail"
    elif sample.nodes_down:
        yield "nodes_down", sample.nodes_down, "notes", "log", "cluster", "warn"
    if sample.jobs_trouble:
        message = "the job queue's server is unreachable, so nothing is embedded, summarized or purged: "
        yield "jobs", message + sample.jobs_trouble, "limits", "log", "jobs", "fail"
    if sample.index_partly:
        message = sample.index_trouble or "the index is reloading some partitions"
        yield "index_partial", message, "limits", "index", "index-trouble", "warn"
    if not sample.workers and not stalled:
        yield "no_worker", "no worker is running: writes are not projected", "limits", "log", "workers", "warn"


def _notes(sample: Sample, pressure: Pressure | None) -> Iterator[_Condition]:
    if pressure is not None and pressure.of(None) is None:
        yield "fair_share", pressure.message, "notes", "log", "pressure", "warn"
    if sample.lost_writes:
        yield "lost_writes", sample.lost_writes, "notes", "log", "lost-writes", "fail"
    if sample.rebuild_due:
        yield "rebuild", sample.rebuild_due, "notes", "index", "fold-version", "warn"
    if sample.lag and (age_s := sample.oldest_pending_s) >= LATE_WARN_S:
        message = f"{sample.behind:,} events are pending, the oldest for {age_s:.0f} s"
        yield "late", message, "notes", "log", "lag", "fail" if age_s >= LATE_FAIL_S else "warn"
    if count := sample.dead_letters:
        status = "fail" if count >= DEAD_LETTERS_FAIL else "warn"
        yield "dead_letters", f"{count:,} events could not be applied", "notes", "dead_letters", "dead-letters", status
    if sample.index_trouble and sample.index_ready and not sample.index_partly:
        yield (
            "index_trouble",
            f"the index responds, but: {sample.index_trouble}",
            "notes",
            "index",
            "index-trouble",
            "warn",
        )
    if sample.dimensions and sample.to_embed + sample.embed_later > EMBED_BACKLOG:
        message = (
            f"{sample.to_embed:,} texts have been waiting for a vector, for up to {sample.oldest_to_embed_s:,.0f} s"
        )
        message += f", and about {sample.embed_later:,} have only a static vector" if sample.embed_later else ""
        yield "embedding", message, "notes", "embedding", "backlog", "warn"
    if (share := sample.memory_share) >= MEMORY_WARN:
        message = f"Redis uses {share:.0%} of its memory limit, {mib(sample.memory_limit)}"
        yield "memory", message, "notes", "storage", "memory", "fail" if share >= MEMORY_FAIL else "warn"


logger = logging.getLogger(__name__)

EVERY_S, PARTITIONS_A_SECOND = 1.0, 64
"""A sample costs up to 0.4 ms of this process for each partition; logs with more of them are sampled less often."""
WITHIN_S = 2.0
"""A server that takes longer to answer counts as away."""
KEPT_S = 30.0
"""For so long the last pressure counts while no sample succeeds; writes fail then anyway, or go to a server that came
back with less in it."""


class Room:
    """Bytes that writes of this process may still take, with what projecting them takes. One event loop.

    What was accepted since the last sample counts at once. Every process sees the same room, but knows only its own
    writes; so each may take its share of the room, and all together never more than there is.
    """

    def __init__(self) -> None:
        self.share: int | None = None
        """As of the last sample; None for any amount."""
        self.under_way = self.ended = 0
        """Bytes of the writes under way, and of all that ever ended."""
        self._reason, self._ended_before = "", 0

    def update(self, ended: int, share: int | None, reason: str = "") -> None:
        """Set the share of the room by a sample, and its reason; `ended` is as of before the sample, which has them."""
        self._ended_before, self.share, self._reason = ended, share, reason

    def taken(self, size: int, reserve: int = 0) -> "_Taken":
        """Counts a write while it is under way (`with`), and after that until a sample has seen it.

        Raises Overloaded when it is too much, or would take a part of the `reserve` for others.
        """
        used = self.under_way + self.ended - self._ended_before
        if self.share is not None and used + size > self.share - reserve:
            left = mib(max(0, self.share - reserve - used))
            raise Overloaded(
                f"{self._reason}; this write and its projection may need {mib(size)}, and {left} are "
                "available until the "
                "next check",
                cause="memory",
            )
        return _Taken(self, size)


@dataclass(slots=True)
class _Taken:
    """A write under way. Every write makes one, so it is no generator, which would take four times as long."""

    _room: Room
    _size: int

    def __enter__(self) -> None:
        self._room.under_way += self._size

    def __exit__(self, *_: object) -> None:
        self._room.under_way -= self._size
        self._room.ended += self._size


class Watch:
    """The newest sample of a process, and what follows from it. Start it, or call `look`."""

    def __init__(self, health_sampler: HealthSampler, ceilings: Limits) -> None:
        self._sampler, self.ceilings = health_sampler, ceilings
        self.kept_s = KEPT_S
        self._every_s = max(EVERY_S, health_sampler.partitions / PARTITIONS_A_SECOND)
        # requests that find the sample too old share one look instead of asking the servers once each
        self._one_look = asyncio.Lock()
        self._looked_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._room, self._work = Room(), RecentWork()
        self._heavy: frozenset[str] = frozenset()
        """The tenants above their fair share of bytes, who must not use the reserve of the room."""
        self._reserve = 0
        self.sample: Sample | None = None
        """The newest; None before the first, and after KEPT_S without one."""
        self.pressure: Pressure | None = None
        """What refuses writes; None for nothing."""
        self.readiness: Readiness = unavailable("not checked yet")
        """The result of the newest sample; unavailable before the first."""

    def start(self) -> None:
        """Begin to take samples."""
        self._task = asyncio.create_task(self._look_for_ever(), name="watch")

    async def aclose(self) -> None:
        """Stop."""
        await end(self._task)

    def check(self, tenant: str) -> None:
        """Raise Overloaded while a limit refuses this tenant's writes."""
        pressure = self.pressure
        if pressure is not None and (own := pressure.of(self._work.name_of(tenant))) is not None:
            raise Overloaded(own.reason, own.retry_after_s, own.causes[0])

    def taken(self, tenant: str, events: int, size: int) -> AbstractContextManager[None]:
        """Count a write of so many bytes while it is under way. Raises Overloaded when there is no room for it."""
        dimensions = self.sample.dimensions if self.sample is not None else 0
        most = events * BYTES_PER_LOG_ENTRY + size + needed(events, size, dimensions)
        taken = self._room.taken(most, self._reserve if self._work.name_of(tenant) in self._heavy else 0)
        self._work.add(tenant, events, most)
        return taken

    async def look(self) -> Sample:
        """Take a sample and act on it; calls at the same time share one. Raises LogUnavailable."""
        requested_at = time.monotonic()
        async with self._one_look:
            if self.sample is None or self._looked_at < requested_at:
                await self._look()
            assert self.sample is not None
            return self.sample

    async def _look(self) -> None:
        started, ended = time.monotonic(), self._room.ended
        try:
            # a server that accepts connections and never answers must count as down, not hold up /readyz
            async with asyncio.timeout(WITHIN_S):
                sample = await self._sampler.sample()
        except (RedisError, OSError) as error:
            self._lost(started, str(error) or f"no response within {WITHIN_S:g} s")
            raise LogUnavailable(f"Redis is not responding: {error}") from error
        except Exception as error:  # a bug of ours, but the last sample must not count for ever
            self._lost(started, repr(error))
            raise
        self._looked_at, self.sample = started, sample
        self._room.update(ended, room(sample, self.ceilings), memory_message(sample, self.ceilings))
        shares = self._work.shares(started)
        self._heavy, self._reserve = above_fair_share(shares, "size", self._heavy), reserve(sample, self.ceilings)
        pressure = decide(sample, self.ceilings, self.pressure, shares)
        if pressure is not None and (self.pressure is None or pressure.causes != self.pressure.causes):
            logger.warning("%s", pressure.message)
        elif pressure is None and self.pressure is not None:
            logger.info("writes are accepted again")
        self.pressure, self.readiness = pressure, readiness(sample, pressure)

    def _lost(self, at: float, reason: str) -> None:
        self.readiness = unavailable(reason)
        if at - self._looked_at > self.kept_s:
            self.sample = self.pressure = self._room.share = None

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self.look()
            except LogUnavailable as error:
                logger.debug("the vital signs could not be read: %s", error)
            except Exception:  # the next sample may succeed
                logger.exception("the vital signs cannot be read")
            await asyncio.sleep(self._every_s)
