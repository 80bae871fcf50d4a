"""Whether there is too much to take more (ceilings), and whether a process can do its work (readiness). Pure.

A ceiling engages when it is reached and lets go below RELEASE of it, so that writes are not let in and refused by turns
while a figure hovers at its ceiling. Near a ceiling (NEAR of it) tenants above their fair share are refused, which
leaves the rest to the others; at the ceiling everybody is. Readiness and the diagnosis of the server have one list of
conditions, made from a sample; `docs/operations.md` has the table.
"""

from collections.abc import Iterator
from math import ceil, inf
from types import MappingProxyType
from typing import Literal, NamedTuple

from msgspec import Struct

from ingest.platform.settings import mib, parse_bytes, parse_bytes_or_share
from projections.health.fairness import Shares, above_fair_share
from projections.health.samples import Sample

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
        held = tuple(one for one in self.excesses if one.tenants is None or tenant in one.tenants)
        return Pressure(held) if held else None

    @property
    def tenants(self) -> frozenset[str]:
        """The tenants that are above their fair share of something."""
        return frozenset(name for one in self.excesses for name in one.tenants or ())

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
        return [one.cause for one in self.excesses]

    @property
    def reason(self) -> str:
        """All reasons, in words."""
        return "; ".join(one.reason for one in self.excesses)

    @property
    def retry_after_s(self) -> int:
        """When to come back: the latest of all."""
        return max(one.retry_after_s for one in self.excesses)


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
    before = {} if previous is None else {one.cause: one for one in previous.excesses}
    held: list[LimitExceeded] = []
    for one in _measures(sample, ceilings):
        was, near = before.get(one.cause), NEAR[one.cause]
        if one.level >= (RELEASE if was is not None and was.tenants is None else 1):
            held.append(LimitExceeded(one.cause, one.told, _retry_after_s(one.level)))
        elif one.level >= near * (1 if was is None else RELEASE):
            unit = "events" if one.cause == "lag" else "size"
            if above := above_fair_share(shares, unit, (was and was.tenants) or ()):
                told = f"this tenant has written more than its fair share lately, and {one.told}"
                held.append(LimitExceeded(one.cause, told, _retry_after_s(one.level / near), above))
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
        return next((one for one in self.conditions if one.weight == "stops"), None)

    @property
    def impaired(self) -> list[Condition]:
        """What stops it or limits it, beside a log that does not answer: the doors of dialects ask that themselves,
        and do not call healthy what has any of these."""
        return [one for one in self.conditions if one.weight != "notes" and one.code != LOG]


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
