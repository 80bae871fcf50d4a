"""arq job: carry a rebuild through, a slice at a time, together with the other workers.

Partitions are divided by a lease each; comparing, switching and rolling back are one worker's, by a lease of its own,
and go on behind the end of a slice: making an index of a million documents takes minutes.
Everything that is known is in Redis: a worker that dies is replaced when its leases run out, after 30 seconds at most,
and the next one goes on from the checkpoints of the generations.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from ingest.errors import LeaseLost, WrongRebuildState
from ingest.ids import new_event_id
from ingest.log.event_log import EventLog
from ingest.log.keys import JOB_LEASE_TTL, REBUILD_LEASE, PartitionKeys
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.embedding.embedder import EmbeddingError, EmbeddingServiceUnavailable
from projections.embedding.live import Choice
from projections.maintenance.rebuilds import rebuild as steps
from projections.maintenance.rebuilds.asking import Asked, ask
from projections.maintenance.rebuilds.canaries import Difference, verdict
from projections.maintenance.rebuilds.rebuild import Part, Rebuild, State, unread
from projections.maintenance.rebuilds.refeed import refeed, stale
from projections.maintenance.rebuilds.store import Rebuilds
from projections.search.reading import live_generation
from projections.search.snapshots import UnusableSnapshot
from workers.jobs.embeddings import EmbeddingRebuild
from workers.jobs.rebuild import clean_up, entries_of, fill, switch
from workers.lease import lease

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0
"""How often progress is written, and how soon an order to cancel is heard."""
ALONE: frozenset[State] = frozenset({"comparing", "switching", "rolling_back"})
"""What one worker does for all partitions."""
LEVEL_WITHIN_S = 15.0
"""For comparing or switching a partition: writes go on meanwhile, and both must stand at the same position once."""


class RebuildJob:
    """One worker's part in the rebuilds of a log."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        rebuilds: Rebuilds,
        keep: timedelta,
        embeddings: EmbeddingRebuild,
        who: str = "",
    ) -> None:
        self._redis, self._log, self._rebuilds, self._keep = redis, log, rebuilds, keep
        self._embeddings = embeddings
        self._id = who or str(new_event_id())
        self._running = asyncio.Lock()
        self._task: asyncio.Task[bool] | None = None

    async def run(self, slice_s: float) -> None:
        """Do what there is to do, for about `slice_s` seconds; returns at once when there is nothing.

        Also when it is at it already: any worker may get the part that another one asked for.
        """
        if self._running.locked():
            return
        async with self._running:
            until = time.monotonic() + slice_s
            while await self._step(until) and time.monotonic() < until:
                pass

    async def rest(self) -> None:
        """There is no rebuild: give back what was held for one that another worker ended."""
        if not self._running.locked():
            async with self._running:
                self._embeddings.forget_names()
                await self._hold_nothing()

    async def aclose(self) -> None:
        """Leave what is under way to the other workers."""
        if self._task is not None:
            await end(self._task)
        await self._embeddings.let_go()

    async def forget_unread(self) -> bool:
        """Something was forgotten: delete what is kept for going back; returns whether all of it is gone.

        One that is being rolled back meanwhile applies the forgetting before it is read again.
        """
        why = "something was forgotten, so what was read before was deleted: there is no way back"
        for rebuild in await self._kept_documents():
            await self._rebuilds.change(rebuild.id, lambda one: steps.without_way_back(one, self._rebuilds.now, why))
        for rebuild in await self._kept_documents():
            if rebuild.kept_until is not None:
                await asyncio.sleep(max(0.0, (rebuild.kept_until - self._rebuilds.now).total_seconds()))
            if not await self._tidy_up(rebuild):
                return False
        return True

    async def _kept_documents(self) -> list[Rebuild]:
        """Of embeddings nothing is kept but what is cached, by a text that is purged there."""
        return [one for one in await self._rebuilds.kept() if one.what == "documents"]

    async def _step(self, until: float) -> bool:
        """One step of the rebuild that is under way; false when it is for others, or for the next look."""
        await self._tidy()
        rebuild = await self._rebuilds.current()
        if rebuild is None or rebuild.state != "running":
            self._embeddings.forget_names()
        if rebuild is None or rebuild.state not in ALONE:
            await self._hold_nothing()
        if rebuild is None:
            return False
        try:
            match rebuild.state:
                case "running":
                    return await self._fill(rebuild, until)
                case "ready":
                    await self._stay_level(rebuild)
                    return False
                case _:
                    return await self._alone(rebuild, until)
        except (EmbeddingError, UnusableSnapshot, OSError) as error:
            await self._troubled(rebuild, error)
            return False
        except (LeaseLost, WrongRebuildState) as error:  # another worker has it, or the operator decided otherwise
            logger.info("rebuild %s: %s", rebuild.id, error)
            return False

    async def _fill(self, rebuild: Rebuild, until: float) -> bool:
        """Fill partitions that nobody else fills; false when there was none."""
        worked = False
        for part in (part for part in rebuild.parts if not part.level):
            async with self._mine(part.partition) as mine:
                if mine and rebuild.what == "embeddings":
                    worked = await self._embed(rebuild, part, until) or worked
                    continue
                while mine and time.monotonic() < until:
                    worked = True
                    filled = await fill(
                        self._redis, self._log, part.partition, part.generation, REPORT_EVERY_S, self._id
                    )
                    if filled.level:
                        await self._refresh(part.partition, part.generation)
                    total = await entries_of(self._redis, part.partition)
                    now = self._rebuilds.now
                    await self._rebuilds.change(
                        rebuild.id,
                        lambda one, number=part.partition, filled=filled, total=total, now=now: steps.progressed(
                            one, number, filled.applied, total, level=filled.level, now=now
                        ),
                    )
                    if filled.level:
                        break
        return worked

    async def _embed(self, rebuild: Rebuild, part: Part, until: float) -> bool:
        """Embed a partition's documents; false when time is over at once."""
        worked = False
        while time.monotonic() < until:
            worked = True
            filled = await self._embeddings.fill(rebuild, part.partition, REPORT_EVERY_S)
            now = self._rebuilds.now
            after = await self._rebuilds.change(
                rebuild.id,
                lambda one, filled=filled, now=now: steps.embedded(one, part.partition, filled.done, filled.total, now),
            )
            if after.state != "running" or filled.done >= filled.total:
                break
        return worked

    async def _stay_level(self, rebuild: Rebuild) -> None:
        """What is forgotten while the operator thinks leaves what was rebuilt, too."""
        if rebuild.what == "embeddings":  # of which nothing is kept but what is cached
            return
        for part in rebuild.parts:
            async with self._mine(part.partition) as mine:
                if mine:
                    await fill(self._redis, self._log, part.partition, part.generation, REPORT_EVERY_S, self._id)
                    await self._refresh(part.partition, part.generation)

    async def _alone(self, rebuild: Rebuild, until: float) -> bool:
        """What one worker does, which may take longer than the slice; false when it is for another, or goes on."""
        if self._task is None:
            self._task = asyncio.create_task(self._under_lease(rebuild), name=f"rebuild {rebuild.id}")
        await asyncio.wait([self._task], timeout=max(0.0, until - time.monotonic()))
        if not self._task.done():
            return False
        task, self._task = self._task, None
        return task.result()

    async def _under_lease(self, rebuild: Rebuild) -> bool:
        async with lease(self._redis, REBUILD_LEASE, self._id, JOB_LEASE_TTL) as mine:
            if not mine:
                return False
            match rebuild.state:
                case "comparing":
                    return await self._compare(rebuild)
                case "switching":
                    return await self._switch(rebuild)
                case "rolling_back":
                    return await self._roll_back(rebuild)
                case _:
                    return False

    async def _compare(self, rebuild: Rebuild) -> bool:
        if rebuild.what == "embeddings":
            canaries = await self._embeddings.compare(rebuild)
            logger.info("rebuild %s: %s", rebuild.id, canaries.said)
            await self._rebuilds.change(rebuild.id, lambda one: steps.compared(one, canaries))
            return True
        asked: list[Asked] = []
        for part in rebuild.parts:
            if (answer := await self._ask(part)) is None:  # whoever has it gives it up, or its lease runs out
                return False
            asked.append(answer)
        found = [difference for one in asked for difference in one.differing]
        canaries = verdict(sum(one.canaries for one in asked), found)
        logger.info("rebuild %s: %s", rebuild.id, canaries.said)
        await self._rebuilds.change(rebuild.id, lambda one: steps.compared(one, canaries))
        return True

    async def _ask(self, part: Part) -> Asked | None:
        """The answers of a partition's canaries; None while another worker has the partition."""
        async with self._mine(part.partition, wait_s=LEVEL_WITHIN_S) as mine:
            if not mine:
                return None
            until = time.monotonic() + LEVEL_WITHIN_S
            while time.monotonic() < until:
                if await self._level(part.partition, part.generation):
                    asked = await ask(self._redis, self._log, part.partition, part.before, part.generation)
                    if asked is not None:
                        return asked
        said = f"the two never stood at the same position within {LEVEL_WITHIN_S:.0f} s: too much is written"
        return Asked(1, [Difference(partition=part.partition, what="position", name="checkpoint", said=said)])

    async def _switch(self, rebuild: Rebuild) -> bool:
        """Every partition, each in one transaction; one that was interrupted finds some of them switched."""
        if rebuild.embedders is not None and not await self._change_embedders(rebuild, *rebuild.embedders):
            return False
        for part in _generations(rebuild):
            if not await self._change_over(rebuild, part.partition, part.before, part.generation):
                return False
        await self._rebuilds.change(rebuild.id, lambda one: steps.switched(one, self._rebuilds.now, self._keep))
        return True

    async def _roll_back(self, rebuild: Rebuild) -> bool:
        """Back to what was read before, once that has caught up on what came since."""
        if rebuild.embedders is not None and not await self._change_embedders(rebuild, *reversed(rebuild.embedders)):
            return False
        for part in _generations(rebuild):
            if not await self._change_over(rebuild, part.partition, part.generation, part.before):
                return False
        await self._rebuilds.change(rebuild.id, lambda one: steps.rolled_back(one, self._rebuilds.now))
        return True

    async def _change_embedders(self, rebuild: Rebuild, before: Choice, after: Choice) -> bool:
        try:
            return await self._embeddings.change_over(before, after)
        except WrongRebuildState as error:
            await self._give_up(rebuild, error)
            raise

    async def _troubled(self, rebuild: Rebuild, error: Exception) -> None:
        """Try again where that may help, or where what was ordered has happened already; else it has failed.

        An OSError may be the server's: what cannot be noted now is noted at a later try.
        """
        waits = isinstance(error, UnusableSnapshot) and rebuild.state == "running"  # another worker may write one
        if waits or isinstance(error, OSError | EmbeddingServiceUnavailable) or await self._has_moved(rebuild):
            logger.warning("rebuild %s: trying again: %s", rebuild.id, error)
            await self._rebuilds.change(rebuild.id, lambda one: steps.troubled(one, str(error)))
        else:
            await self._give_up(rebuild, error)

    async def _has_moved(self, rebuild: Rebuild) -> bool:
        """Whether the embedder that was ordered is the live one."""
        if rebuild.embedders is None or rebuild.state not in ("switching", "rolling_back"):
            return False
        return await self._embeddings.is_live(rebuild.embedders[1 if rebuild.state == "switching" else 0])

    async def _give_up(self, rebuild: Rebuild, error: Exception) -> None:
        logger.error("rebuild %s failed: %s", rebuild.id, error)
        await self._rebuilds.change(rebuild.id, lambda one: steps.failed(one, str(error), self._rebuilds.now))

    async def _hold_nothing(self) -> None:
        """End what was to be compared or switched to; free the index that vectors were made for."""
        if self._task is not None:
            await end(self._task)
            self._task = None
        await self._embeddings.let_go()

    async def _change_over(self, rebuild: Rebuild, partition: int, before: int, after: int) -> bool:
        """Bring a generation level and switch to it; false when it did not come level in time: try again."""
        try:
            async with self._mine(partition, wait_s=LEVEL_WITHIN_S) as mine:
                until = time.monotonic() + LEVEL_WITHIN_S
                if mine and await live_generation(self._redis, partition) == after:
                    return True
                while mine and time.monotonic() < until:
                    if await self._level(partition, after):
                        if await switch(self._redis, partition, before, after):
                            return True
                        await self._refresh(partition, after)
        except WrongRebuildState as error:
            await self._give_up(rebuild, error)
            raise
        logger.warning("rebuild %s: partition %d did not come level yet", rebuild.id, partition)
        return False

    async def _level(self, partition: int, generation: int) -> bool:
        """Whether a generation stands where the live one does."""
        return (await fill(self._redis, self._log, partition, generation, REPORT_EVERY_S, self._id)).level

    async def _refresh(self, partition: int, generation: int) -> None:
        """Write a stale feed anew."""
        keys = PartitionKeys(partition).of_generation(generation)
        if await stale(self._redis, keys):
            await refeed(self._redis, keys)

    async def _tidy(self) -> None:
        """Delete what is not read and need not be kept any longer."""
        for rebuild in await self._rebuilds.kept(due=True):
            await self._tidy_up(rebuild)

    async def _tidy_up(self, rebuild: Rebuild) -> bool:
        """Delete what a rebuild leaves behind; false when another worker has one of its partitions."""
        for partition, generation in unread(rebuild):
            async with self._mine(partition, wait_s=LEVEL_WITHIN_S) as mine:
                if not mine:  # a worker that has not heard yet that there is nothing to fill, or another one tidies up
                    return False
                await clean_up(self._redis, partition, generation)
        await self._rebuilds.change(rebuild.id, steps.tidied)
        return True

    @asynccontextmanager
    async def _mine(self, partition: int, wait_s: float = 0.0) -> AsyncGenerator[bool]:
        async with lease(self._redis, PartitionKeys(partition).rebuild, self._id, JOB_LEASE_TTL, wait_s=wait_s) as mine:
            yield mine


def _generations(rebuild: Rebuild) -> list[Part]:
    """The parts that have a generation to switch to; there are none of embeddings."""
    return rebuild.parts if rebuild.what == "documents" else []
