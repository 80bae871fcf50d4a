"""arq job: carry a rebuild through, a slice at a time, together with the other workers.

One state machine for all rebuilds; what is rebuilt, and how, is a strategy's. Partitions are divided by a lease each;
comparing, switching and rolling back are one worker's, by a lease of its own, and go on behind the end of a slice:
making an index of a million documents takes minutes.
Everything that is known is in Redis: a worker that dies is replaced when its leases run out, after 30 seconds at most,
and the next one goes on from the checkpoints of the generations.
"""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import NamedTuple

from ingest.errors import LeaseLost, WrongRebuildState
from ingest.ids import new_event_id
from ingest.log.keys import JOB_LEASE_TTL, REBUILD_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries
from projections.rebuilding.rebuilds import Part, Rebuild, Rebuilds, State, What
from projections.search.snapshots import UnusableSnapshot
from projections.vectors.embedder import EmbeddingError, EmbeddingServiceUnavailable

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 1.0
"""How often progress is written, and how soon an order to cancel is heard."""
ALONE: frozenset[State] = frozenset({"comparing", "switching", "rolling_back"})
"""What one worker does for all partitions."""


class PartitionProgress(NamedTuple):
    """What was filled of a partition: the step that notes it at a given time, and whether nothing is left."""

    step: Callable[[Rebuild, datetime], Rebuild]
    level: bool


class Strategy(ABC):
    """One worker's part in a kind of rebuild. What it raises of EmbeddingError, UnusableSnapshot and OSError is noted
    and tried again, or ends the rebuild; LeaseLost leaves it to another worker."""

    @abstractmethod
    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Fill a partition that this worker has leased, for about REPORT_EVERY_S."""

    @abstractmethod
    async def compare(self, rebuild: Rebuild) -> Canaries | None:
        """Ask the canaries; None while another worker has a partition: try again."""

    @abstractmethod
    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Make what was rebuilt what is read, or (`back`) the other way round; false when it has to be tried again.

        What an earlier try switched stays. Raises WrongRebuildState when what is live is neither of the two.
        """

    async def keep_level(self, rebuild: Rebuild) -> None:  # noqa: B027
        """Apply to what is ready what was forgotten meanwhile."""

    async def has_moved(self, rebuild: Rebuild) -> bool:
        """Whether the switch that was ordered has happened, though it was not noted."""
        return False

    async def clean_up(self, rebuild: Rebuild) -> bool:
        """Delete what is not read; false when another worker has one of its partitions."""
        return True

    def stop_filling(self) -> None:  # noqa: B027
        """Give back what is held for filling."""

    async def release(self) -> None:  # noqa: B027
        """Give back what is held for comparing and switching."""


class RebuildJob:
    """One worker's part in the rebuilds of a log."""

    def __init__(
        self,
        redis: Client,
        rebuilds: Rebuilds,
        keep: timedelta,
        documents: Strategy,
        embeddings: Strategy,
        who: str = "",
    ) -> None:
        """`keep` is how long a rebuild that has switched can be rolled back."""
        self._redis, self._rebuilds, self._keep = redis, rebuilds, keep
        self._strategies: dict[What, Strategy] = {"documents": documents, "embeddings": embeddings}
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
                self._stop_filling()
                await self._release()

    async def aclose(self) -> None:
        """Leave what is under way to the other workers."""
        await self._release()

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
        for kept in await self._rebuilds.kept(due=True):
            await self._tidy_up(kept)
        rebuild = await self._rebuilds.current()
        if rebuild is None or rebuild.state != "running":
            self._stop_filling()
        if rebuild is None or rebuild.state not in ALONE:
            await self._release()
        if rebuild is None:
            return False
        try:
            match rebuild.state:
                case "running":
                    return await self._fill(rebuild, until)
                case "ready":
                    await self._strategies[rebuild.what].keep_level(rebuild)
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
        worked, strategy = False, self._strategies[rebuild.what]
        for part in (part for part in rebuild.parts if not part.level):
            async with partition_lease(self._redis, part.partition, self._id) as mine:
                while mine and time.monotonic() < until:
                    worked = True
                    step, level = await strategy.fill(rebuild, part)
                    now = self._rebuilds.now
                    after = await self._rebuilds.change(rebuild.id, lambda one, step=step, now=now: step(one, now))
                    if level or after.state != "running":
                        break
        return worked

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
                case "switching" | "rolling_back":
                    return await self._switch(rebuild, back=rebuild.state == "rolling_back")
                case _:
                    return False

    async def _compare(self, rebuild: Rebuild) -> bool:
        canaries = await self._strategies[rebuild.what].compare(rebuild)
        if canaries is None:
            return False
        logger.info("rebuild %s: %s", rebuild.id, canaries.said)
        await self._rebuilds.change(rebuild.id, lambda one: steps.compared(one, canaries))
        return True

    async def _switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Switch, or go back to what was read before; one that was interrupted finds some of it done."""
        try:
            done = await self._strategies[rebuild.what].switch(rebuild, back=back)
        except WrongRebuildState as error:
            await self._give_up(rebuild, error)
            raise
        if done and back:
            await self._rebuilds.change(rebuild.id, lambda one: steps.rolled_back(one, self._rebuilds.now))
        elif done:
            await self._rebuilds.change(rebuild.id, lambda one: steps.switched(one, self._rebuilds.now, self._keep))
        return done

    async def _troubled(self, rebuild: Rebuild, error: Exception) -> None:
        """Try again where that may help, or where what was ordered has happened already; else it has failed.

        An OSError may be the server's: what cannot be noted now is noted at a later try.
        """
        waits = isinstance(error, UnusableSnapshot) and rebuild.state == "running"  # another worker may write one
        if (
            waits
            or isinstance(error, OSError | EmbeddingServiceUnavailable)
            or await self._strategies[rebuild.what].has_moved(rebuild)
        ):
            logger.warning("rebuild %s: trying again: %s", rebuild.id, error)
            await self._rebuilds.change(rebuild.id, lambda one: steps.troubled(one, str(error)))
        else:
            await self._give_up(rebuild, error)

    async def _give_up(self, rebuild: Rebuild, error: Exception) -> None:
        logger.error("rebuild %s failed: %s", rebuild.id, error)
        await self._rebuilds.change(rebuild.id, lambda one: steps.failed(one, str(error), self._rebuilds.now))

    def _stop_filling(self) -> None:
        for strategy in self._strategies.values():
            strategy.stop_filling()

    async def _release(self) -> None:
        """End what was to be compared or switched to, and give back what was held for it."""
        if self._task is not None:
            await end(self._task)
            self._task = None
        for strategy in self._strategies.values():
            await strategy.release()

    async def _tidy_up(self, rebuild: Rebuild) -> bool:
        """Delete what a rebuild leaves behind; false when another worker has one of its partitions."""
        if not await self._strategies[rebuild.what].clean_up(rebuild):
            return False
        await self._rebuilds.change(rebuild.id, steps.tidied)
        return True


def partition_lease(redis: Client, partition: int, who: str, wait_s: float = 0.0) -> AbstractAsyncContextManager[bool]:
    """The lease on rebuilding a partition; see `lease`."""
    return lease(redis, PartitionKeys(partition).rebuild, who, JOB_LEASE_TTL, wait_s=wait_s)
