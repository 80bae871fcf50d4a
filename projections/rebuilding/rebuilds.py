"""A rebuild, its steps, and where rebuilds are stored.

Steps are pure: each takes a rebuild and returns the next, or raises WrongRebuildState.

    running -> comparing -> switching -> switched -> rolling_back -> rolled_back
                        \\-> ready -/

`ready` waits for the operator: because that was requested, or because the canaries differ. `cancelled` and `failed` end
a rebuild that has not begun to switch. What was read before a switch is kept until `kept_until`, for a rollback.

A rebuild of documents makes generations from the log; one of embeddings makes vectors with another embedder.

Rebuilds are one hash, changed by compare-and-set, so that orders and progress never overwrite each other.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct, json
from msgspec.structs import replace
from redis.exceptions import WatchError

from ingest.errors import NotFound, RebuildUnderWay, WrongRebuildState
from ingest.ids import new_event_id
from ingest.log.keys import REBUILDS, PartitionKeys
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.embedding.live import Choice
from projections.index.replica import live_generation
from projections.nouns.fold import VERSION
from projections.rebuilding.canaries import Canaries
from projections.store.dead_letters import live_keys
from projections.store.redis_store import why_rebuild

What = Literal["documents", "embeddings"]
Switch = Literal["auto", "manual"]
State = Literal[
    "running", "comparing", "ready", "switching", "switched", "rolling_back", "rolled_back", "cancelled", "failed"
]
UNDER_WAY: frozenset[State] = frozenset({"running", "comparing", "ready", "switching", "rolling_back"})


class Part(Struct, frozen=True, kw_only=True):
    """One partition: the generation that was live at the start, the one that is filled, and how far that is.

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

    What is `unread` is deleted at `kept_until`; until then, with `way_back`, it can be rolled back. `embedders`, for
    embeddings, are the live one at the start and the new one.
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
    folds: int = 0
    """The version of the folds of the release that started it; 0 for releases before version 9."""

    @property
    def under_way(self) -> bool:
        """Whether it has to end before another one may begin."""
        return self.state in UNDER_WAY

    @property
    def fills_documents(self) -> bool:
        """True while partitions are being filled from the log."""
        return self.what == "documents" and self.state == "running"

    @property
    def level(self) -> bool:
        """Whether everything was filled once."""
        return all(part.level for part in self.parts)

    @property
    def ordered_embedder(self) -> Choice | None:
        """The embedder that a switch or rollback in progress makes the live one, if it changes embedders."""
        if self.embedders is None or self.state not in ("switching", "rolling_back"):
            return None
        return self.embedders[self.state == "switching"]


READERS_FINISH = timedelta(seconds=10)
"""Readers that read the generation just before a switch have finished by then."""


class Estimate(Struct, frozen=True, kw_only=True):
    """How far a rebuild is: entries a second since it began, and the seconds left at that rate, if known."""

    done: int
    total: int
    rate: float
    estimate_s: float | None


def estimate(rebuild: Rebuild, now: datetime) -> Estimate:
    """How far it is at `now`; 0 seconds are left once everything was filled."""
    done, total = sum(part.done for part in rebuild.parts), sum(part.total for part in rebuild.parts)
    seconds = ((rebuild.filled_at or rebuild.finished_at or now) - rebuild.started_at).total_seconds()
    rate = done / seconds if seconds > 0 else 0.0
    if rebuild.state != "running":
        left = 0.0 if rebuild.level else None
    else:
        left = max(0, total - done) / rate if rate else None
    return Estimate(done=done, total=total, rate=round(rate, 1), estimate_s=None if left is None else round(left, 1))


def progressed(rebuild: Rebuild, partition: int, done: int, total: int, *, level: bool, now: datetime) -> Rebuild:
    """`done` more entries of a partition are applied. A partition that was level once stays level."""
    if rebuild.state != "running":
        raise WrongRebuildState(f"the rebuild is {rebuild.state}, so no more data is written")
    parts = [
        replace(part, done=part.done + done, total=max(total, part.done + done), level=level or part.level)
        if part.partition == partition
        else part
        for part in rebuild.parts
    ]
    after = replace(rebuild, parts=parts, why="")
    return replace(after, state="comparing", filled_at=now) if after.level else after


def embedded(rebuild: Rebuild, partition: int, done: int, total: int, now: datetime) -> Rebuild:
    """`done` of a partition's `total` documents have vectors; a worker that starts over finds most in the cache."""
    (part,) = (part for part in rebuild.parts if part.partition == partition)
    level = done >= total
    if not level:
        done, total = max(done, part.done), max(total, part.total)
    return progressed(rebuild, partition, done - part.done, total, level=level, now=now)


def troubled(rebuild: Rebuild, why: str) -> Rebuild:
    """An attempt has failed and will be repeated: say why there is no progress."""
    return replace(rebuild, why=why) if rebuild.under_way and rebuild.state != "ready" else rebuild


def compared(rebuild: Rebuild, canaries: Canaries) -> Rebuild:
    """The canaries were compared: on to the switch, or wait for the operator and say why."""
    _must_be(rebuild, "comparing", order="compared")
    if not canaries.agree:
        return replace(rebuild, state="ready", canaries=canaries, why=canaries.said)
    if rebuild.switch == "manual":
        return replace(rebuild, state="ready", canaries=canaries, why="waits for the command to switch")
    return replace(rebuild, state="switching", canaries=canaries, why="")


def to_switch(rebuild: Rebuild, *, force: bool = False) -> Rebuild:
    """The operator orders the switch. Refused while the canaries differ, unless with `force`."""
    if rebuild.state in ("switching", "switched"):
        return rebuild
    _must_be(rebuild, "ready", order="switched")
    if not force and (rebuild.canaries is None or not rebuild.canaries.agree):
        raise WrongRebuildState(f"{rebuild.why}; check its canaries, then switch with force or cancel it")
    return replace(rebuild, state="switching", why="")


def switched(rebuild: Rebuild, now: datetime, keep: timedelta) -> Rebuild:
    """Every partition reads what was rebuilt; it can be rolled back for `keep`."""
    _must_be(rebuild, "switching", order="marked as switched")
    return replace(rebuild, state="switched", finished_at=now, kept_until=now + keep, way_back=True, why="")


def to_roll_back(rebuild: Rebuild, now: datetime) -> Rebuild:
    """The operator orders a rollback. Refused when what was read before is no longer kept."""
    if rebuild.state in ("rolling_back", "rolled_back"):
        return rebuild
    _must_be(rebuild, "switched", order="rolled back")
    if not rebuild.way_back or rebuild.kept_until is None or rebuild.kept_until <= now:
        raise WrongRebuildState(rebuild.why or "the old generation was deleted: a rollback is not possible")
    return replace(rebuild, state="rolling_back", kept_until=None, way_back=False)


def rolled_back(rebuild: Rebuild, now: datetime) -> Rebuild:
    """Every partition reads again what it read before."""
    _must_be(rebuild, "rolling_back", order="marked as rolled back")
    return replace(rebuild, state="rolled_back", finished_at=now, kept_until=now + READERS_FINISH, why="")


def cancelled(rebuild: Rebuild, now: datetime) -> Rebuild:
    """The operator cancels it. Refused once it has begun to switch."""
    if rebuild.state == "cancelled":
        return rebuild
    _must_be(rebuild, "running", "comparing", "ready", order="cancelled")
    return replace(rebuild, state="cancelled", finished_at=now, kept_until=now, why="")


def failed(rebuild: Rebuild, why: str, now: datetime) -> Rebuild:
    """It cannot continue; the partitions that have switched stay switched."""
    if not rebuild.under_way:
        return rebuild
    return replace(rebuild, state="failed", finished_at=now, kept_until=now, why=why)


def without_way_back(rebuild: Rebuild, now: datetime, why: str) -> Rebuild:
    """Delete what was read before as soon as no reader is left; does nothing where it cannot be rolled back."""
    if not rebuild.way_back or rebuild.finished_at is None:
        return rebuild
    soon = max(now, rebuild.finished_at + READERS_FINISH)
    return replace(rebuild, kept_until=soon, way_back=False, why=why)


def unread(rebuild: Rebuild) -> list[tuple[int, int]]:
    """The `(partition, generation)` that a rebuild that has ended leaves, and that readers don't use."""
    match rebuild.state:
        case _ if rebuild.what == "embeddings":  # newer snapshots replace those of the other model
            return []
        case "switched":
            return [(part.partition, part.before) for part in rebuild.parts]
        case "rolled_back" | "cancelled":
            return [(part.partition, part.generation) for part in rebuild.parts]
        case "failed":  # some may have switched: `clean_up` leaves the live one of both
            return [(part.partition, number) for part in rebuild.parts for number in (part.before, part.generation)]
        case _:
            return []


def tidied(rebuild: Rebuild) -> Rebuild:
    """What readers no longer use is deleted."""
    return replace(rebuild, kept_until=None, way_back=False)


def _must_be(rebuild: Rebuild, *states: State, order: str) -> None:
    if rebuild.state not in states:
        raise WrongRebuildState(
            f"rebuild {rebuild.id} is {rebuild.state}; only one that is {' or '.join(states)} can be {order}"
        )


KEPT = 10
"""Rebuilds that are stored; a record has some 100 bytes a partition."""
_STATE = "books"

Step = Callable[[Rebuild], Rebuild]
"""From the current rebuild to the next; raises WrongRebuildState."""


class _RebuildState(Struct, frozen=True, kw_only=True):
    """The rebuild in progress, and until when (ms) the generations of others are kept."""

    current: str = ""
    kept: dict[str, int] = {}
    order: list[str] = []


@dataclass
class Rebuilds:
    """All rebuilds of a log."""

    _redis: Client
    _clock: Clock = system_clock

    @property
    def now(self) -> datetime:
        """The time that is passed to steps."""
        return self._clock()

    async def start(
        self,
        what: What,
        partitions: Sequence[int],
        switch: Switch = "auto",
        embedders: tuple[Choice, Choice] | None = None,
    ) -> Rebuild:
        """Begin one; earlier ones can no longer be rolled back. `embedders`: the live and the new one, for embeddings.

        Raises RebuildUnderWay while another has not ended.
        """
        if (current := await self.current()) is not None:
            raise RebuildUnderWay(current.id, current.state)
        parts = [await self._part(number, fresh=what == "documents") for number in partitions]
        rebuild = Rebuild(
            id=str(new_event_id()), what=what, switch=switch, state="running", parts=parts, started_at=self._clock(),
            embedders=embedders, folds=VERSION,
        )  # fmt: skip
        await self._write(rebuild.id, lambda _: rebuild)
        for earlier in await self.retained():  # there would be three copies of the documents in memory
            await self.change(earlier.id, lambda old: without_way_back(old, self.now, "another rebuild has started"))
        return rebuild

    async def start_due(self, partitions: int) -> str:
        """Rebuild the partitions whose live documents another version of the folds made. Return why; empty if none.

        Starts nothing while a rebuild is in progress, or if one for this version failed, or an operator canceled it or
        rolled it back.
        """
        reasons: dict[int, str] = {}
        for partition in range(partitions):
            if why := await why_rebuild(self._redis, await live_keys(self._redis, PartitionKeys(partition))):
                reasons[partition] = why
        if not reasons:
            return ""
        stored = await self.all()
        earlier = [rebuild for rebuild in stored if rebuild.what == "documents" and rebuild.folds == VERSION]
        if not earlier or earlier[0].state not in ("cancelled", "failed", "rolled_back"):
            with suppress(RebuildUnderWay):  # another worker was first
                await self.start("documents", list(reasons))
        return next(iter(reasons.values()))

    async def change(self, name: str, step: Step) -> Rebuild:
        """Take a step and store its result; an error in the step changes nothing.

        Raises NotFound for an unknown rebuild, RebuildUnderWay when there would be two in progress.
        """

        def existing(rebuild: Rebuild | None) -> Rebuild:
            if rebuild is None:
                raise NotFound(f"there is no rebuild {name}")
            return step(rebuild)

        return await self._write(name, existing)

    async def get(self, name: str) -> Rebuild:
        """A rebuild by id; raises NotFound."""
        raw = await self._redis.hget(REBUILDS, name) if name != _STATE else None
        if raw is None:
            raise NotFound(f"there is no rebuild {name}")
        return json.decode(raw, type=Rebuild)

    async def all(self) -> list[Rebuild]:
        """The newest rebuilds, newest first."""
        stored: dict[bytes, bytes] = await self._redis.hgetall(REBUILDS)
        rebuilds = [json.decode(raw, type=Rebuild) for name, raw in stored.items() if name != _STATE.encode()]
        return sorted(rebuilds, key=lambda rebuild: (rebuild.started_at, rebuild.id), reverse=True)

    async def current(self) -> Rebuild | None:
        """The rebuild in progress, if any."""
        name = (await self._state()).current
        return await self.get(name) if name else None

    async def retained(self, *, due: bool = False) -> list[Rebuild]:
        """Rebuilds with unread generations that are still stored; with `due`, only those to be deleted by now."""
        until = to_ms(self._clock())
        state = await self._state()
        return [await self.get(name) for name, over in state.kept.items() if not due or over <= until]

    async def beside(self, partition: int) -> set[int]:
        """The generations of a partition that may exist beside the live one: being filled, or kept for a rollback."""
        rebuilds = [rebuild for rebuild in await self.all() if rebuild.under_way or rebuild.kept_until is not None]
        parts = [part for rebuild in rebuilds for part in rebuild.parts if part.partition == partition]
        return {generation for part in parts for generation in (part.before, part.generation)}

    async def has_work(self) -> bool:
        """Whether there is work for a worker. One round trip."""
        state = await self._state()
        return bool(state.current) or any(over <= to_ms(self._clock()) for over in state.kept.values())

    async def _part(self, partition: int, *, fresh: bool) -> Part:
        """A partition as it is now; a `fresh` one fills a generation of its own, whose number was never used before."""
        keys = PartitionKeys(partition)
        if not fresh:
            live = await live_generation(self._redis, partition)
            return Part(partition=partition, before=live, generation=live)
        while True:
            async with self._redis.pipeline(transaction=True) as pipe:
                # watched, so that two rebuilds that begin together never get the same generation
                await pipe.watch(keys.generation, keys.generations)
                live = await live_generation(pipe, partition)
                unused = max(live, int(await pipe.get(keys.generations) or 1)) + 1
                pipe.multi()
                pipe.set(keys.generations, str(unused))
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return Part(partition=partition, before=live, generation=unused)

    async def _state(self) -> _RebuildState:
        raw = await self._redis.hget(REBUILDS, _STATE)
        return json.decode(raw, type=_RebuildState) if raw else _RebuildState()

    async def _write(self, name: str, step: Callable[[Rebuild | None], Rebuild]) -> Rebuild:
        while True:
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(REBUILDS)  # a step on a record that has changed is repeated on the new one
                raw, stored = await pipe.hmget(REBUILDS, [name, _STATE])
                state = json.decode(stored, type=_RebuildState) if stored else _RebuildState()
                before = json.decode(raw, type=Rebuild) if raw else None
                after = step(before)
                if after == before:
                    return after
                if after.under_way and state.current not in ("", after.id):
                    raise RebuildUnderWay(state.current, "under way")
                state, old = _with_rebuild(state, after)
                pipe.multi()
                pipe.hset(REBUILDS, after.id, json.encode(after))
                pipe.hset(REBUILDS, _STATE, json.encode(state))
                if old:
                    pipe.hdel(REBUILDS, *old)
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return after


def _with_rebuild(state: _RebuildState, rebuild: Rebuild) -> tuple[_RebuildState, list[str]]:
    """The state with a rebuild's current record, and the ids of the rebuilds to delete."""
    order = [*state.order, rebuild.id] if rebuild.id not in state.order else state.order
    stored = {name: over for name, over in state.kept.items() if name != rebuild.id}
    if rebuild.kept_until is not None:
        stored[rebuild.id] = to_ms(rebuild.kept_until)
    current = rebuild.id if rebuild.under_way else state.current if state.current != rebuild.id else ""
    old = [name for name in order[:-KEPT] if name not in stored and name != current]
    return _RebuildState(current=current, kept=stored, order=[name for name in order if name not in old]), old
