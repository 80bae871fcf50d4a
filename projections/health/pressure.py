"""Whether there is too much to take more: ceilings, and when they hold writes back. Pure.

A ceiling engages when it is reached and lets go below RELEASE of it, so that writes are not let in and refused by turns
while a figure hovers at its ceiling.
"""

from collections.abc import Iterator
from math import ceil, inf
from typing import Literal, NamedTuple

from msgspec import Struct

from ingest.platform.sizes import mib, parse_bytes, parse_bytes_or_share
from projections.health.vitals import Sample

Cause = Literal["memory", "lag", "disk"]
CAUSES: tuple[Cause, ...] = ("memory", "lag", "disk")

RELEASE = 0.9
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


class Ceilings(Struct, frozen=True, kw_only=True):
    """How much there may be; 0 is any amount.

    `memory` is bytes (int) or a share (float) of `maxmemory`, and where the server has none, of its machine's memory.
    `lag` is events, `disk` the least bytes that must be free.
    """

    memory: int | float = 0
    lag: int = 0
    disk: int = 0

    @classmethod
    def parse(cls, memory: str, lag: int, disk: str, *, embedded: bool) -> "Ceilings":
        """From the settings; `embedded` says that the log's server is the one `mnemolog up` starts."""
        floor = parse_bytes(disk) if disk else EMBEDDED_DISK_FLOOR if embedded else 0
        return cls(memory=parse_bytes_or_share(memory), lag=lag, disk=floor)


class Excess(Struct, frozen=True):
    """One ceiling that holds writes back: which, why in words, and after how many seconds to come back."""

    cause: Cause
    reason: str
    retry_after_s: int


class Pressure(Struct, frozen=True):
    """All that hold writes back at the moment; never empty."""

    excesses: tuple[Excess, ...]

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


def room(sample: Sample, ceilings: Ceilings) -> int | None:
    """Bytes that this process may use until the next sample: its share of what the ceiling leaves; None for any."""
    most = memory_ceiling(sample, ceilings)
    if not most or sample.memory_used is None:
        return None
    return max(0, most - sample.memory_used - promised(sample)) // max(1, sample.replicas)


def decide(sample: Sample, ceilings: Ceilings, previous: Pressure | None = None) -> Pressure | None:
    """What holds writes back now, given what did before; None for nothing. What is not known holds nothing back."""
    engaged = previous.causes if previous is not None else []
    held = tuple(
        Excess(one.cause, one.told, _retry_after_s(one.level))
        for one in _measures(sample, ceilings)
        if one.level >= (RELEASE if one.cause in engaged else 1)
    )
    return Pressure(held) if held else None


class _Measure(NamedTuple):
    cause: Cause
    level: float
    """1 at the ceiling."""
    told: str


def _measures(sample: Sample, ceilings: Ceilings) -> Iterator[_Measure]:
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


def memory_told(sample: Sample, ceilings: Ceilings) -> str:
    """How much memory is used and promised, and the ceiling, in words."""
    more = promised(sample)
    told = f"the log's server uses {mib(sample.memory_used or 0)} of memory; the ceiling is "
    told += mib(memory_ceiling(sample, ceilings))
    return told + (f", and what was accepted may take {mib(more)} more" if more >= SHOWN else "")


def memory_ceiling(sample: Sample, ceilings: Ceilings) -> int:
    """The ceiling on memory in bytes; 0 for none, also when the server does not say what it is a share of."""
    if isinstance(ceilings.memory, int):
        return ceilings.memory
    return int(ceilings.memory * (sample.memory_limit or sample.machine_memory))


def _retry_after_s(level: float) -> int:
    """Sooner for a little too much, later for a lot: what was gathered has to be worked off first."""
    excess = min(max(level - 1, 0.0) / FAR, 1.0)
    return SOONEST_S + ceil((LATEST_S - SOONEST_S) * excess)
