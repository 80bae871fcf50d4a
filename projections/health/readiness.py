"""Whether a process can do its work, and what it cannot do well: told from a sample, never from being alive. Pure.

`docs/operations.md` has the table of conditions.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from projections.health.pressure import Pressure
from projections.health.vitals import Sample

Weight = Literal["stops", "limits", "notes"]
"""`stops`: reads or writes do not work, send nobody here. `limits`: some of it does not work: writes are refused, or
nobody projects them. `notes`: all of it works, somebody should look."""

LOG = "log"
STOPPED_S = 15.0
"""An event that waits for so long while no worker is alive waits for nobody: three times a lease, and a worker that was
killed is started again well within it."""

NO_WORKER = "no worker is alive: what is written is not projected"


def refused(reason: str) -> str:
    """That writes are refused, and why."""
    return f"writes are refused: {reason}"


def outdated(sample: Sample) -> str:
    """For how long the index has been stuck."""
    return f"index has followed a generation that is not the live one for {sample.outdated_s:.0f} s"


def not_applied(sample: Sample) -> str:
    """How many dead letters there are."""
    return f"{sample.dead_letters:,} events could not be applied"


def waiting_for_vectors(sample: Sample) -> str:
    """How far embedding is behind."""
    return f"{sample.to_embed:,} texts wait for a vector"


class Condition(Struct, frozen=True):
    """One thing that is not as it should be; `code` is stable."""

    code: str
    message: str
    weight: Weight


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
    return Readiness([Condition(LOG, f"the log does not answer: {reason}", "stops")])


def readiness(sample: Sample, pressure: Pressure | None) -> Readiness:
    """All conditions that a sample shows, the worst first."""
    return Readiness([*_stops(sample), *_limits(sample, pressure), *_notes(sample)])


def _stops(sample: Sample) -> Iterator[Condition]:
    if sample.log_file_ok is False:
        told = "the log's server cannot write its append-only file: look at its log and its disk"
        yield Condition("log_file", told, "stops")
    if sample.index_is_missing:
        yield Condition("index", sample.index_trouble or "the index is loading", "stops")
    elif sample.index_is_outdated:
        yield Condition("index", f"the {outdated(sample)}", "stops")
    if not sample.workers and sample.oldest_pending_s >= STOPPED_S:
        told = f"no worker is alive, and events wait for {sample.oldest_pending_s:.0f} s to be projected"
        yield Condition("stalled", told, "stops")


def _limits(sample: Sample, pressure: Pressure | None) -> Iterator[Condition]:
    if pressure is not None:
        yield Condition("overloaded", refused(pressure.reason), "limits")
    if sample.index_partly:
        yield Condition("index_partial", sample.index_trouble or "the index is reading some partitions again", "limits")
    if not sample.workers:
        yield Condition("no_worker", NO_WORKER, "limits")


def _notes(sample: Sample) -> Iterator[Condition]:
    if sample.lost_writes:
        yield Condition("lost_writes", sample.lost_writes, "notes")
    if sample.is_late:
        told = f"{sample.behind:,} events are not projected yet, the oldest for {sample.oldest_pending_s:.0f} s"
        yield Condition("late", told, "notes")
    if sample.dead_letters:
        yield Condition("dead_letters", not_applied(sample), "notes")
    if sample.embedding_is_behind:
        yield Condition("embedding", waiting_for_vectors(sample), "notes")
