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
from ingest.log.keys import REBUILD_LEASE, PartitionKeys
from ingest.log.lease import lease
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.embedding.live import Choice, chosen
from projections.index.snapshots import UnusableSnapshot
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import Canaries
from projections.rebuilding.rebuilds import Part, Rebuild, Rebuilds, State, What
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

    @abstractmethod
    async def discard(self, rebuild: Rebuild | None) -> bool:
        """Free the memory and files that a rebuild in progress does not need in its state (None: there is no rebuild).

        Of one that has ended, delete what is no longer read; false when another worker has one of its partitions.
        """


class RebuildJob:
    """One worker's part in the rebuilds of a log."""

    def __init__(
        self,
        redis: Client,
        rebuilds: Rebuilds,
        keep: timedelta,
        documents: Strategy,
        embeddings: Strategy | None,
        who: str = "",
    ) -> None:
        """`keep` is how long a rebuild that has switched can be rolled back. Without `embeddings` it has no part in
        rebuilds of these."""
        self._redis, self._rebuilds, self._keep = redis, rebuilds, keep
        self._strategies: dict[What, Strategy] = {"documents": documents}
        if embeddings is not None:
            self._strategies["embeddings"] = embeddings
        self._id = who or str(new_event_id())
        # arq may start the job again before the last run has ended its slice; two would fill the same generation
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
        why = "documents were deleted, so the old generation was deleted: a rollback is not possible"
        for retained in await self._rebuilds.retained():
            # a rebuild of embeddings keeps nothing but cached vectors, and a purge deletes those of forgotten texts
            if retained.what == "documents":
                rebuild = await self._change(
                    retained, lambda current: steps.without_way_back(current, self._rebuilds.now, why)
                )
                if rebuild.kept_until is None:
                    continue
                await asyncio.sleep(max(0.0, (rebuild.kept_until - self._rebuilds.now).total_seconds()))
                if not await self._tidy_up(rebuild):
                    return False
        return True

    async def _step(self, until: float) -> bool:
        """One step of the current rebuild; false when there is nothing to do for this worker now."""
        for retained in await self._rebuilds.retained(due=True):
            if retained.what in self._strategies:
                await self._tidy_up(retained)
        rebuild = await self._rebuilds.current()
        await self._free(rebuild)
        if rebuild is None or rebuild.what not in self._strategies:
            return False
        try:
            if rebuild.state in ("running", "ready"):
                return await self._fill(rebuild, until)
            # act for all partitions, in a task that may outlast the slice
            if self._task is None:
                self._task = asyncio.create_task(self._alone(rebuild), name=f"rebuild {rebuild.id}")
            await asyncio.wait([self._task], timeout=max(0.0, until - time.monotonic()))
            if not self._task.done():
                return False
            task, self._task = self._task, None
            return task.result()
        except (EmbeddingError, UnusableSnapshot, OSError) as error:
            await self._handle(rebuild, error)
        except (LeaseLost, WrongRebuildState) as error:  # another worker has it, or the operator decided otherwise
            logger.info("rebuild %s: %s", rebuild.id, error)
        return False

    async def _fill(self, rebuild: Rebuild, until: float) -> bool:
        """Fill partitions that no other worker has; false when there were none.

        Documents that wait for their operator follow what is forgotten in that time.
        """
        worked, strategy, is_running = False, self._strategies[rebuild.what], rebuild.state == "running"
        if not is_running and rebuild.what == "embeddings":
            return False
        for part in (part for part in rebuild.parts if not (is_running and part.level)):
            async with partition_lease(self._redis, part.partition, self._id) as mine:
                while mine and time.monotonic() < until:
                    step, level = await strategy.fill(rebuild, part)
                    if not is_running:
                        break
                    worked, now = True, self._rebuilds.now
                    after = await self._change(rebuild, lambda current, step=step, now=now: step(current, now))
                    if level or after.state != "running":
                        break
        return worked

    async def _alone(self, rebuild: Rebuild) -> bool:
        """Compare, switch or roll back; false while another worker does. One that was interrupted finds some done."""
        strategy = self._strategies[rebuild.what]
        # comparing and switching act on all partitions at once: two workers would switch what the other still compares
        async with lease(self._redis, REBUILD_LEASE, self._id) as mine:
            if not mine:
                return False
            if rebuild.state == "comparing":
                canaries = await strategy.compare(rebuild)
                if canaries is not None:
                    logger.info("rebuild %s: %s", rebuild.id, canaries.said)
                    await self._change(rebuild, lambda current: steps.compared(current, canaries))
                return canaries is not None
            back = rebuild.state == "rolling_back"
            try:
                done = await strategy.switch(rebuild, back=back)
            except WrongRebuildState as error:
                await self._give_up(rebuild, error)
                raise
            now = self._rebuilds.now
            if done and back:
                await self._change(rebuild, lambda current: steps.rolled_back(current, now))
            elif done:
                await self._change(rebuild, lambda current: steps.switched(current, now, self._keep))
            return done

    async def _handle(self, rebuild: Rebuild, error: Exception) -> None:
        """Try again where that may help, or where the switch has happened already; otherwise the rebuild fails.

        An OSError may be Redis's own: what cannot be stored now is stored at a later attempt.
        """
        waits = isinstance(error, UnusableSnapshot) and rebuild.state == "running"  # another worker may write one
        ordered = rebuild.ordered_embedder
        if (
            waits
            or isinstance(error, OSError | EmbeddingServiceUnavailable)
            or (ordered is not None and await is_live(self._redis, ordered))
        ):
            logger.warning("rebuild %s: retrying: %s", rebuild.id, error)
            await self._change(rebuild, lambda current: steps.troubled(current, str(error)))
        else:
            await self._give_up(rebuild, error)

    async def _give_up(self, rebuild: Rebuild, error: Exception) -> None:
        logger.error("rebuild %s failed: %s", rebuild.id, error)
        await self._change(rebuild, lambda current: steps.failed(current, str(error), self._rebuilds.now))

    async def _free(self, rebuild: Rebuild | None) -> None:
        """End a comparison or switch that is in progress for another state, and free what this state does not need."""
        if self._task is not None and (rebuild is None or rebuild.state not in ALONE):
            await end(self._task)
            self._task = None
        for what, strategy in self._strategies.items():
            await strategy.discard(rebuild if rebuild is not None and rebuild.what == what else None)

    async def _tidy_up(self, rebuild: Rebuild) -> bool:
        """Delete what a rebuild has left over; false when another worker has one of its partitions."""
        if not await self._strategies[rebuild.what].discard(rebuild):
            return False
        await self._change(rebuild, steps.tidied)
        return True

    async def _change(self, rebuild: Rebuild, step: Callable[[Rebuild], Rebuild]) -> Rebuild:
        return await self._rebuilds.change(rebuild.id, step)


async def is_live(redis: Client, choice: Choice) -> bool:
    """Whether the log's record names a choice of embedder."""
    record = await chosen(redis)
    return record is not None and record.live == choice


def partition_lease(redis: Client, partition: int, who: str, wait_s: float = 0.0) -> AbstractAsyncContextManager[bool]:
    """The lease on rebuilding a partition; see `lease`."""
    return lease(redis, PartitionKeys(partition).rebuild, who, wait_s=wait_s)
