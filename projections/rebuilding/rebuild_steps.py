"""A rebuild and its steps. Pure: every step takes a rebuild and returns the next, or says why that cannot be.

    running -> comparing -> switching -> switched -> rolling_back -> rolled_back
                        \\-> ready -/

`ready` waits for the operator: because that was asked for, or because the canaries differ. `cancelled` and `failed` end
what has not begun to switch. What was read before a switch is kept until `kept_until`, and that is the way back.

Of documents, generations are made from the log; of embeddings, vectors by another embedder of what is read.
"""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import WrongRebuildState
from projections.embedding.live import Choice
from projections.rebuilding.canaries import Canaries

What = Literal["documents", "embeddings"]
Switch = Literal["auto", "manual"]
State = Literal[
    "running", "comparing", "ready", "switching", "switched", "rolling_back", "rolled_back", "cancelled", "failed"
]
UNDER_WAY: frozenset[State] = frozenset({"running", "comparing", "ready", "switching", "rolling_back"})


class Part(Struct, frozen=True, kw_only=True):
    """One partition's share: the generation that was live when it began, the one that is filled, and how far that is.

    `done` and `total` count log entries; with embeddings, documents of the one generation that there is.
    """

    partition: int
    before: int
    generation: int
    done: int = 0
    total: int = 0
    level: bool = False


class Rebuild(Struct, frozen=True, kw_only=True):
    """One rebuild. `why` says what it waits for or what went wrong.

    With `kept_until`, what is `unread` is deleted then; before, with `way_back`, it can be rolled back. `embedders` are
    what was live before and what is to be, of embeddings.
    """

    id: str
    what: What
    switch: Switch
    state: State
    parts: list[Part]
    started_at: datetime
    filled_at: datetime | None = None
    finished_at: datetime | None = None
    kept_until: datetime | None = None
    way_back: bool = False
    canaries: Canaries | None = None
    why: str = ""
    embedders: tuple[Choice, Choice] | None = None

    @property
    def under_way(self) -> bool:
        """Whether there is something to do, or to decide, before another one may begin."""
        return self.state in UNDER_WAY

    @property
    def level(self) -> bool:
        """Whether everything was filled once."""
        return all(part.level for part in self.parts)


READERS_FINISH = timedelta(seconds=10)
"""Readers that learned the generation just before a switch have finished after this."""


class Estimate(Struct, frozen=True, kw_only=True):
    """How far a rebuild is: entries a second since it began, and the seconds that are left at that rate, if known."""

    done: int
    total: int
    rate: float
    estimate_s: float | None


def estimate(rebuild: Rebuild, now: datetime) -> Estimate:
    """How far it is at `now`. Nothing is left once everything was filled."""
    done, total = sum(part.done for part in rebuild.parts), sum(part.total for part in rebuild.parts)
    seconds = ((rebuild.filled_at or rebuild.finished_at or now) - rebuild.started_at).total_seconds()
    rate = done / seconds if seconds > 0 else 0.0
    if rebuild.state != "running":
        left = 0.0 if rebuild.level else None
    else:
        left = max(0, total - done) / rate if rate else None
    return Estimate(done=done, total=total, rate=round(rate, 1), estimate_s=None if left is None else round(left, 1))


def progressed(rebuild: Rebuild, partition: int, done: int, total: int, *, level: bool, now: datetime) -> Rebuild:
    """`done` more entries of a partition are applied. A partition that was level once stays so."""
    if rebuild.state != "running":
        raise WrongRebuildState(f"the rebuild is {rebuild.state}: nothing is filled any more")
    parts = [
        replace(part, done=part.done + done, total=max(total, part.done + done), level=level or part.level)
        if part.partition == partition
        else part
        for part in rebuild.parts
    ]
    after = replace(rebuild, parts=parts, why="")
    return replace(after, state="comparing", filled_at=now) if after.level else after


def embedded(rebuild: Rebuild, partition: int, done: int, total: int, now: datetime) -> Rebuild:
    """`done` of a partition's documents have vectors by now, of `total`; who begins anew finds most of them made."""
    (part,) = (part for part in rebuild.parts if part.partition == partition)
    level = done >= total
    if not level:
        done, total = max(done, part.done), max(total, part.total)
    return progressed(rebuild, partition, done - part.done, total, level=level, now=now)


def troubled(rebuild: Rebuild, why: str) -> Rebuild:
    """A try has failed, and there will be another one: say why nothing moves."""
    return replace(rebuild, why=why) if rebuild.under_way and rebuild.state != "ready" else rebuild


def compared(rebuild: Rebuild, canaries: Canaries) -> Rebuild:
    """The canaries' answers are known: on to the switch, or wait for the operator and say why."""
    _must_be(rebuild, "comparing", asked="compared")
    if not canaries.agree:
        return replace(rebuild, state="ready", canaries=canaries, why=canaries.said)
    if rebuild.switch == "manual":
        return replace(rebuild, state="ready", canaries=canaries, why="waits for the order to switch")
    return replace(rebuild, state="switching", canaries=canaries, why="")


def to_switch(rebuild: Rebuild, *, force: bool = False) -> Rebuild:
    """The operator says: switch. Refused while the canaries differ, unless with `force`."""
    if rebuild.state in ("switching", "switched"):
        return rebuild
    _must_be(rebuild, "ready", asked="switched")
    if not force and (rebuild.canaries is None or not rebuild.canaries.agree):
        raise WrongRebuildState(f"{rebuild.why}; look at its canaries, then switch with force or cancel it")
    return replace(rebuild, state="switching", why="")


def switched(rebuild: Rebuild, now: datetime, keep: timedelta) -> Rebuild:
    """Every partition reads what was rebuilt; for `keep` it can be rolled back."""
    _must_be(rebuild, "switching", asked="marked as switched")
    return replace(rebuild, state="switched", finished_at=now, kept_until=now + keep, way_back=True, why="")


def to_roll_back(rebuild: Rebuild, now: datetime) -> Rebuild:
    """The operator says: go back. Refused when what was read before is not kept any more."""
    if rebuild.state in ("rolling_back", "rolled_back"):
        return rebuild
    _must_be(rebuild, "switched", asked="rolled back")
    if not rebuild.way_back or rebuild.kept_until is None or rebuild.kept_until <= now:
        raise WrongRebuildState(rebuild.why or "what was read before is not kept any more: there is no way back")
    return replace(rebuild, state="rolling_back", kept_until=None, way_back=False)


def rolled_back(rebuild: Rebuild, now: datetime) -> Rebuild:
    """Every partition reads what it read before."""
    _must_be(rebuild, "rolling_back", asked="marked as rolled back")
    return replace(rebuild, state="rolled_back", finished_at=now, kept_until=now + READERS_FINISH, why="")


def cancelled(rebuild: Rebuild, now: datetime) -> Rebuild:
    """The operator says: leave it. Refused once it has begun to switch."""
    if rebuild.state == "cancelled":
        return rebuild
    _must_be(rebuild, "running", "comparing", "ready", asked="cancelled")
    return replace(rebuild, state="cancelled", finished_at=now, kept_until=now, why="")


def failed(rebuild: Rebuild, why: str, now: datetime) -> Rebuild:
    """It cannot go on; the partitions that have switched stay so."""
    if not rebuild.under_way:
        return rebuild
    return replace(rebuild, state="failed", finished_at=now, kept_until=now, why=why)


def without_way_back(rebuild: Rebuild, now: datetime, why: str) -> Rebuild:
    """What was read before is to be deleted as soon as nobody reads it; does nothing where there is no way back."""
    if not rebuild.way_back or rebuild.finished_at is None:
        return rebuild
    soon = max(now, rebuild.finished_at + READERS_FINISH)
    return replace(rebuild, kept_until=soon, way_back=False, why=why)


def unread(rebuild: Rebuild) -> list[tuple[int, int]]:
    """The `(partition, generation)` that nobody reads and a rebuild leaves behind when it has ended."""
    match rebuild.state:
        case _ if rebuild.what == "embeddings":  # snapshots of the other model give way to newer ones
            return []
        case "switched":
            return [(part.partition, part.before) for part in rebuild.parts]
        case "rolled_back" | "cancelled":
            return [(part.partition, part.generation) for part in rebuild.parts]
        case "failed":  # some may have switched: the live ones are nobody's to delete
            return [(part.partition, one) for part in rebuild.parts for one in (part.before, part.generation)]
        case _:
            return []


def tidied(rebuild: Rebuild) -> Rebuild:
    """What was not read is deleted."""
    return replace(rebuild, kept_until=None, way_back=False)


def _must_be(rebuild: Rebuild, *states: State, asked: str) -> None:
    if rebuild.state not in states:
        raise WrongRebuildState(
            f"rebuild {rebuild.id} is {rebuild.state}; only one that is {' or '.join(states)} can be {asked}"
        )
