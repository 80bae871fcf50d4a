"""Where rebuilds are kept: one hash, changed by compare-and-set, so that orders and progress never undo each other."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct, json
from redis.exceptions import WatchError

from ingest.errors import NotFound, RebuildUnderWay
from ingest.ids import new_event_id
from ingest.log.keys import REBUILDS, PartitionKeys
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.embedding.live import Choice
from projections.rebuilding.rebuild_steps import Part, Rebuild, Switch, What, without_way_back

KEPT = 10
"""Rebuilds that are remembered; a record has some 100 bytes a partition."""
_STATE = "books"

Step = Callable[[Rebuild], Rebuild]
"""From a rebuild as it is to what it becomes; raises WrongRebuildState."""


class _RebuildState(Struct, frozen=True, kw_only=True):
    """What is to be done: the rebuild that is under way, and until when (ms) others' generations are kept."""

    current: str = ""
    kept: dict[str, int] = {}
    order: list[str] = []


class Rebuilds:
    """All rebuilds of a log."""

    def __init__(self, redis: Client, clock: Clock = system_clock) -> None:
        self._redis, self._clock = redis, clock

    @property
    def now(self) -> datetime:
        """The time that steps are given."""
        return self._clock()

    async def start(
        self,
        what: What,
        partitions: Sequence[int],
        switch: Switch = "auto",
        embedders: tuple[Choice, Choice] | None = None,
    ) -> Rebuild:
        """Begin one; an earlier one cannot be rolled back any more. `embedders`, from which to which, are embeddings'.

        Raises RebuildUnderWay while another has not ended.
        """
        if (current := await self.current()) is not None:
            raise RebuildUnderWay(current.id, current.state)
        parts = [await self._part(number, fresh=what == "documents") for number in partitions]
        begun = Rebuild(
            id=str(new_event_id()), what=what, switch=switch, state="running", parts=parts, started_at=self._clock(),
            embedders=embedders,
        )  # fmt: skip
        await self._write(begun.id, lambda _: begun)
        for earlier in await self.kept():  # memory for a third copy of the documents is nobody's plan
            await self.change(earlier.id, lambda one: without_way_back(one, self.now, "another rebuild has begun"))
        return begun

    async def change(self, name: str, step: Step) -> Rebuild:
        """Take a step and keep what it returns; what the step raises leaves everything as it is.

        Raises NotFound for an unknown rebuild, RebuildUnderWay when it would be under way beside another.
        """

        def known(rebuild: Rebuild | None) -> Rebuild:
            if rebuild is None:
                raise NotFound(f"there is no rebuild {name}")
            return step(rebuild)

        return await self._write(name, known)

    async def get(self, name: str) -> Rebuild:
        """A rebuild by id; NotFound when there is none."""
        raw = await self._redis.hget(REBUILDS, name) if name != _STATE else None
        if raw is None:
            raise NotFound(f"there is no rebuild {name}")
        return json.decode(raw, type=Rebuild)

    async def all(self) -> list[Rebuild]:
        """The newest rebuilds, newest first."""
        stored: dict[bytes, bytes] = await self._redis.hgetall(REBUILDS)
        found = [json.decode(raw, type=Rebuild) for name, raw in stored.items() if name != _STATE.encode()]
        return sorted(found, key=lambda rebuild: (rebuild.started_at, rebuild.id), reverse=True)

    async def current(self) -> Rebuild | None:
        """The one that is under way."""
        name = (await self._state()).current
        return await self.get(name) if name else None

    async def kept(self, *, due: bool = False) -> list[Rebuild]:
        """Those whose generations that are not live are kept; with `due`, only where the time for that is over."""
        until = to_ms(self._clock())
        state = await self._state()
        return [await self.get(name) for name, over in state.kept.items() if not due or over <= until]

    async def beside(self, partition: int) -> set[int]:
        """The generations of a partition that may be there beside the live one: filled, or kept as the way back."""
        found = [one for one in await self.all() if one.under_way or one.kept_until is not None]
        parts = [part for one in found for part in one.parts if part.partition == partition]
        return {generation for part in parts for generation in (part.before, part.generation)}

    async def wanted(self) -> bool:
        """Whether there is anything for a worker to do. One round trip."""
        state = await self._state()
        return bool(state.current) or any(over <= to_ms(self._clock()) for over in state.kept.values())

    async def _part(self, partition: int, *, fresh: bool) -> Part:
        """A share; a `fresh` one fills a generation of its own: a number that was used once is never used again."""
        keys = PartitionKeys(partition)
        if not fresh:
            live = int(await self._redis.get(keys.generation) or 1)
            return Part(partition=partition, before=live, generation=live)
        while True:
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(keys.generation, keys.generations)
                live = int(await pipe.get(keys.generation) or 1)
                next_one = max(live, int(await pipe.get(keys.generations) or 1)) + 1
                pipe.multi()
                pipe.set(keys.generations, str(next_one))
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return Part(partition=partition, before=live, generation=next_one)

    async def _state(self) -> _RebuildState:
        raw = await self._redis.hget(REBUILDS, _STATE)
        return json.decode(raw, type=_RebuildState) if raw else _RebuildState()

    async def _write(self, name: str, step: Callable[[Rebuild | None], Rebuild]) -> Rebuild:
        while True:
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(REBUILDS)
                raw, stored = await pipe.hmget(REBUILDS, [name, _STATE])
                state = json.decode(stored, type=_RebuildState) if stored else _RebuildState()
                before = json.decode(raw, type=Rebuild) if raw else None
                after = step(before)
                if after == before:
                    return after
                if after.under_way and state.current not in ("", after.id):
                    raise RebuildUnderWay(state.current, "under way")
                state, past = _with_rebuild(state, after)
                pipe.multi()
                pipe.hset(REBUILDS, after.id, json.encode(after))
                pipe.hset(REBUILDS, _STATE, json.encode(state))
                if past:
                    pipe.hdel(REBUILDS, *past)
                try:
                    await pipe.execute()
                except WatchError:
                    continue
                return after


def _with_rebuild(state: _RebuildState, rebuild: Rebuild) -> tuple[_RebuildState, list[str]]:
    """The state with a rebuild as it is now, and the ids of those that are forgotten."""
    order = [*state.order, rebuild.id] if rebuild.id not in state.order else state.order
    kept = {name: over for name, over in state.kept.items() if name != rebuild.id}
    if rebuild.kept_until is not None:
        kept[rebuild.id] = to_ms(rebuild.kept_until)
    current = rebuild.id if rebuild.under_way else state.current if state.current != rebuild.id else ""
    past = [name for name in order[:-KEPT] if name not in kept and name != current]
    return _RebuildState(current=current, kept=kept, order=[name for name in order if name not in past]), past
