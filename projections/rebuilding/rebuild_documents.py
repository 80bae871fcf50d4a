"""A rebuild of documents: a generation a partition, filled from the log, compared with the live one and switched to."""

import logging
import time
from datetime import datetime

from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.rebuilding import rebuild_steps as steps
from projections.rebuilding.canaries import Canaries, Difference, PartitionCanaries, ask, verdict
from projections.rebuilding.generations import clean_up, entries_of, fill, fill_into, switch
from projections.rebuilding.rebuild_job import REPORT_EVERY_S, PartitionProgress, Strategy, partition_lease
from projections.rebuilding.rebuild_steps import Part, Rebuild, unread
from projections.search.replica import live_generation
from projections.store.rebuild_store import RebuildStore

logger = logging.getLogger(__name__)

LEVEL_WITHIN_S = 15.0
"""For comparing or switching a partition: writes go on meanwhile, and both must stand at the same position once."""


class DocumentRebuild(Strategy):
    """One worker's part in rebuilding documents; `who` holds its leases on partitions."""

    def __init__(self, redis: Client, log: EventLog, who: str) -> None:
        self._redis, self._log, self._id = redis, log, who
        self._filling: RebuildStore | None = None
        """Of the partition that is filled, with what it keeps of the documents."""

    async def fill(self, rebuild: Rebuild, part: Part) -> PartitionProgress:
        """Apply what the generation lacks of the log."""
        store = self._filling
        if store is None or (store.partition, store.generation) != (part.partition, part.generation):
            store = self._filling = RebuildStore(self._redis, PartitionKeys(part.partition), part.generation, self._id)
        applied, level = await fill_into(store, self._redis, self._log, REPORT_EVERY_S)
        total = await entries_of(self._redis, part.partition)

        def noted(one: Rebuild, now: datetime) -> Rebuild:
            return steps.progressed(one, part.partition, applied, total, level=level, now=now)

        return PartitionProgress(noted, level)

    def stop_filling(self) -> None:
        """Give back the memory of what was kept."""
        self._filling = None

    async def keep_level(self, rebuild: Rebuild) -> None:
        """What is forgotten while the operator thinks leaves what was rebuilt, too."""
        for part in rebuild.parts:
            async with partition_lease(self._redis, part.partition, self._id) as mine:
                if mine:
                    await self._level(part.partition, part.generation)

    async def compare(self, rebuild: Rebuild) -> Canaries | None:
        """Ask the canaries of every partition of both generations."""
        asked: list[PartitionCanaries] = []
        for part in rebuild.parts:
            if (answer := await self._ask(part)) is None:  # whoever has it gives it up, or its lease runs out
                return None
            asked.append(answer)
        found = [difference for one in asked for difference in one.differing]
        newer = {field for one in asked for field in one.newer}
        return verdict(sum(one.canaries for one in asked), found, newer)

    async def _ask(self, part: Part) -> PartitionCanaries | None:
        """The answers of a partition's canaries; None while another worker has the partition."""
        async with partition_lease(self._redis, part.partition, self._id, LEVEL_WITHIN_S) as mine:
            if not mine:
                return None
            until = time.monotonic() + LEVEL_WITHIN_S
            while time.monotonic() < until:
                if await self._level(part.partition, part.generation):
                    asked = await ask(self._redis, self._log, part.partition, part.before, part.generation)
                    if asked is not None:
                        return asked
        said = f"the two never stood at the same position within {LEVEL_WITHIN_S:.0f} s: too much is written"
        return PartitionCanaries(
            1, [Difference(partition=part.partition, what="position", name="checkpoint", said=said)]
        )

    async def switch(self, rebuild: Rebuild, *, back: bool) -> bool:
        """Every partition, each in one transaction, once its generation has caught up on what came since."""
        for part in rebuild.parts:
            before, after = (part.generation, part.before) if back else (part.before, part.generation)
            if not await self._switch_partition(part.partition, before, after):
                logger.warning("rebuild %s: partition %d did not come level yet", rebuild.id, part.partition)
                return False
        return True

    async def _switch_partition(self, partition: int, before: int, after: int) -> bool:
        """Bring a generation level and switch to it; false when it did not come level in time: try again."""
        async with partition_lease(self._redis, partition, self._id, LEVEL_WITHIN_S) as mine:
            until = time.monotonic() + LEVEL_WITHIN_S
            if mine and await live_generation(self._redis, partition) == after:
                return True
            while mine and time.monotonic() < until:
                if await self._level(partition, after) and await switch(self._redis, partition, before, after):
                    return True
        return False

    async def clean_up(self, rebuild: Rebuild) -> bool:
        """Delete the generations that nobody reads."""
        for partition, generation in unread(rebuild):
            async with partition_lease(self._redis, partition, self._id, LEVEL_WITHIN_S) as mine:
                if not mine:  # a worker that has not heard yet that there is nothing to fill, or another one tidies up
                    return False
                await clean_up(self._redis, partition, generation)
        return True

    async def _level(self, partition: int, generation: int) -> bool:
        """Whether a generation stands where the live one does."""
        return (await fill(self._redis, self._log, partition, generation, REPORT_EVERY_S, self._id)).level
