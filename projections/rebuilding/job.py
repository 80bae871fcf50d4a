"""arq job: carry out a rebuild, a slice at a time, together with the other workers.

One state machine for all rebuilds; a strategy knows what is rebuilt, and how. Each partition has a lease; comparing,
switching and rolling back are done by one worker, under another lease, and may take longer than a slice: making an
index of a million documents takes minutes.

The whole state is in Redis: a worker that dies is replaced when its leases expire, after 30 seconds at most, and the
next one continues from the checkpoints of the generations.
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
"""How often progress is stored, and how soon an order to cancel is noticed."""
ALONE: frozenset[State] = frozenset({"comparing", "switching", "rolling_back"})
"""States in which one worker acts for all partitions."""


class PartitionProgress(NamedTuple):
    """What was filled of a partition: the step that stores it, given the time, and whether nothing is left."""

    step: Callable[[Rebuild, datetime], Rebuild]
    level: bool


class Strategy(ABC):
    """One worker's part in a kind of rebuild. EmbeddingError, UnusableSnapshot and OSError are stored, and it is tried
    again or ends; LeaseLost leaves it to another worker."""

    @abstractmethod
    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Fill a partition that this worker has leased, for about REPORT_EVERY_S."""

    @abstractmethod
    async def compare(self, rebuild: Rebuild) -> Canaries | None:
        """Compare canaries; None while another worker has a partition: try again."""

    @abstractmethod
    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Make the rebuilt side live, or (`back`) the old one; false when it has to be tried again.

        What an earlier attempt switched stays. Raises WrongRebuildState when neither side is live.
        """

    async def keep_level(self, rebuild: Rebuild) -> None:  # noqa: B027
        """Apply what was forgotten meanwhile to a side that is ready."""

    async def has_moved(self, rebuild: Rebuild) -> bool:
        """Whether the switch that was ordered has happened, though that is not stored."""
        return False

    async def clean_up(self, rebuild: Rebuild) -> bool:
        """Delete what is no longer read; false when another worker has one of its partitions."""
        return True

    async def free(self, state: State | None) -> None:  # noqa: B027
        """Free the memory and files that a rebuild in that state does not need; None: there is no rebuild."""


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
        """Work on the current rebuild for about `slice_s` seconds; nothing without one, or if already running."""
        if self._running.locked():
            return
        async with self._running:
            until = time.monotonic() + slice_s
            while await self._step(until) and time.monotonic() < until:
                pass

    async def rest(self) -> None:
        """Free what was held for a rebuild that another worker ended."""
        if not self._running.locked():
            async with self._running:
                await self._free(None)

    async def aclose(self) -> None:
        """Stop; the other workers continue."""
        await self._free(None)

    async def forget_unread(self) -> bool:
        """Delete what is kept for a rollback, after something was forgotten; returns whether all of it is deleted.

        A rebuild that is being rolled back applies the forgetting before it is read again.
        """
        why = "something was forgotten, so what was read before was deleted: there is no way back"
        for rebuild in await self._kept_documents():
            await self._rebuilds.change(rebuild.id, lambda kept: steps.without_way_back(kept, self._rebuilds.now, why))
        for rebuild in await self._kept_documents():
            if rebuild.kept_until is not None:
                await asyncio.sleep(max(0.0, (rebuild.kept_until - self._rebuilds.now).total_seconds()))
            if not await self._tidy_up(rebuild):
                return False
        return True

    async def _kept_documents(self) -> list[Rebuild]:
        # a rebuild of embeddings keeps nothing but cached vectors, and a purge deletes those of forgotten texts
        return [rebuild for rebuild in await self._rebuilds.kept() if rebuild.what == "documents"]

    async def _step(self, until: float) -> bool:
        """One step of the current rebuild; false when there is nothing to do for this worker now."""
        for kept in await self._rebuilds.kept(due=True):
            await self._tidy_up(kept)
        rebuild = await self._rebuilds.current()
        await self._free(rebuild.state if rebuild else None)
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
        """Fill partitions that no other worker has; false when there was none."""
        worked, strategy = False, self._strategies[rebuild.what]
        for part in (part for part in rebuild.parts if not part.level):
            async with partition_lease(self._redis, part.partition, self._id) as mine:
                while mine and time.monotonic() < until:
                    worked = True
                    step, level = await strategy.fill(rebuild, part)
                    now = self._rebuilds.now
                    after = await self._rebuilds.change(
                        rebuild.id, lambda current, step=step, now=now: step(current, now)
                    )
                    if level or after.state != "running":
                        break
        return worked

    async def _alone(self, rebuild: Rebuild, until: float) -> bool:
        """Act for all partitions, in a task that may outlast the slice; false while another worker does, or it runs."""
        if self._task is None:
            self._task = asyncio.create_task(self._under_lease(rebuild), name=f"rebuild {rebuild.id}")
        await asyncio.wait([self._task], timeout=max(0.0, until - time.monotonic()))
        if not self._task.done():
            return False
        task, self._task = self._task, None
        return task.result()

    async def _under_lease(self, rebuild: Rebuild) -> bool:
        # comparing and switching act on all partitions at once: two workers would switch what the other still compares
        async with lease(self._redis, REBUILD_LEASE, self._id, JOB_LEASE_TTL) as mine:
            if not mine:
                return False
            if rebuild.state != "comparing":
                return await self._switch(rebuild, back=rebuild.state == "rolling_back")
            canaries = await self._strategies[rebuild.what].compare(rebuild)
            if canaries is not None:
                logger.info("rebuild %s: %s", rebuild.id, canaries.said)
                await self._rebuilds.change(rebuild.id, lambda current: steps.compared(current, canaries))
            return canaries is not None

    async def _switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Switch, or roll back; one that was interrupted finds some of it done."""
        try:
            done = await self._strategies[rebuild.what].switch(rebuild, back=back)
        except WrongRebuildState as error:
            await self._give_up(rebuild, error)
            raise
        if done and back:
            await self._rebuilds.change(rebuild.id, lambda current: steps.rolled_back(current, self._rebuilds.now))
        elif done:
            now = self._rebuilds.now
            await self._rebuilds.change(rebuild.id, lambda current: steps.switched(current, now, self._keep))
        return done

    async def _troubled(self, rebuild: Rebuild, error: Exception) -> None:
        """Try again where that may help, or where the switch has happened already; otherwise the rebuild fails.

        An OSError may be Redis's own: what cannot be stored now is stored at a later attempt.
        """
        waits = isinstance(error, UnusableSnapshot) and rebuild.state == "running"  # another worker may write one
        if (
            waits
            or isinstance(error, OSError | EmbeddingServiceUnavailable)
            or await self._strategies[rebuild.what].has_moved(rebuild)
        ):
            logger.warning("rebuild %s: trying again: %s", rebuild.id, error)
            await self._rebuilds.change(rebuild.id, lambda current: steps.troubled(current, str(error)))
        else:
            await self._give_up(rebuild, error)

    async def _give_up(self, rebuild: Rebuild, error: Exception) -> None:
        logger.error("rebuild %s failed: %s", rebuild.id, error)
        await self._rebuilds.change(rebuild.id, lambda current: steps.failed(current, str(error), self._rebuilds.now))

    async def _free(self, state: State | None) -> None:
        """End a comparison or switch that is in progress for another state, and free what the state does not need."""
        if self._task is not None and state not in ALONE:
            await end(self._task)
            self._task = None
        for strategy in self._strategies.values():
            await strategy.free(state)

    async def _tidy_up(self, rebuild: Rebuild) -> bool:
        """Delete what a rebuild has left over; false when another worker has one of its partitions."""
        if not await self._strategies[rebuild.what].clean_up(rebuild):
            return False
        await self._rebuilds.change(rebuild.id, steps.tidied)
        return True


def partition_lease(redis: Client, partition: int, who: str, wait_s: float = 0.0) -> AbstractAsyncContextManager[bool]:
    """The lease on rebuilding a partition; see `lease`."""
    return lease(redis, PartitionKeys(partition).rebuild, who, JOB_LEASE_TTL, wait_s=wait_s)
