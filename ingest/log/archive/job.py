"""arq job: seal old log entries into the archive, and trim Redis behind it; for a purge, rewrite what was forgotten.

Whatever it is interrupted by, the archive is what Redis says it is, and running it again does the rest.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from time import monotonic
from typing import NamedTuple, TypeVar

from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.manifest import ArchiveUnavailable, DamagedArchive, MissingFile, Outrun
from ingest.log.archive.sealing import Sealing
from ingest.log.keys import ARCHIVE_LEASE, JOB_LEASE_TTL
from ingest.log.lease import lease
from ingest.log.position import Position
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client

logger = logging.getLogger(__name__)

T = TypeVar("T")

SLICE_S = 60.0
"""A run ends with the partition at which this is over; the next one goes on behind it. A purge waits for it."""
WAIT_FOR_OTHER_S = 90.0
SMALL_AFTER = 24
"""Ages after which entries are sealed that do not fill a segment: else memory would hang on partitions that few write
to. With an hour as the age, a quiet partition has a segment a day."""
ATTEMPTS = 5
"""At a step that something else came between: a forgetting, mostly."""
EVERYTHING = Position(10**14 - 1, 0)
"""Behind every position."""


class ArchiveRun(NamedTuple):
    """What a run did: segments that were sealed, entries that were trimmed, segments that were rewritten."""

    sealed: int = 0
    trimmed: int = 0
    rewritten: int = 0


class ArchiveJob:
    """Archives a log; of all workers, one does it at a time. `after` is the age at which an entry may go."""

    def __init__(self, redis: Client, log: ArchivedLog, *, after: timedelta, clock: Clock = system_clock) -> None:
        self._redis, self._log, self._after, self._clock = redis, log, after, clock
        self._sealing = Sealing(redis, log)
        self._id = str(new_event_id())
        self._next = 0

    async def run(self, *, force: bool = False) -> ArchiveRun:
        """Archive what is old enough, for about a minute; with `force` all that is projected, however long it takes.

        What is damaged is left as it is, and logged; the other partitions are archived. Raises ArchiveUnavailable when
        the place cannot be reached; with `force` also DamagedArchive, and Outrun when another is at it for too long.
        """
        async with lease(
            self._redis, ARCHIVE_LEASE, self._id, JOB_LEASE_TTL, wait_s=WAIT_FOR_OTHER_S if force else 0.0
        ) as mine:
            if not mine and force:
                raise _busy()
            if not mine:
                return ArchiveRun()
            return await self._run(force)

    async def rewrite(self) -> int:
        """Rid all segments of what was erased since they were sealed; returns how many had something.

        Raises the first error when all partitions were tried: then it has to be done again.
        """
        async with lease(self._redis, ARCHIVE_LEASE, self._id, JOB_LEASE_TTL, wait_s=WAIT_FOR_OTHER_S) as mine:
            if not mine:
                raise _busy()
            count, errors = 0, list[MnemologError]()
            for partition in range(self._log.partitions):
                try:
                    count += await _again(lambda: self._sealing.rewrite(partition))  # noqa: B023 - called at once
                except (DamagedArchive, ArchiveUnavailable, Outrun) as error:
                    logger.warning("what was forgotten is still in the archive: %s", error)
                    errors.append(error)
            if errors:
                raise errors[0]
            return count

    async def _run(self, force: bool) -> ArchiveRun:
        until = monotonic() + SLICE_S
        done, errors = ArchiveRun(), list[MnemologError]()
        for _ in range(self._log.partitions):
            partition, self._next = self._next, (self._next + 1) % self._log.partitions
            try:
                more = await self._archive(partition, until, force)
                done = ArchiveRun(*(a + b for a, b in zip(done, more, strict=True)))
            except (DamagedArchive, MissingFile) as error:
                logger.error("partition %d is not archived: %s", partition, error)
                errors.append(error)
            except Outrun as error:
                logger.info("%s; the next run goes on", error)
                errors.append(error)
            if monotonic() >= until and not force:
                break
        if errors and force:
            raise errors[0]
        if any(done):
            logger.info("archived: %d segments sealed, %d entries trimmed, %d segments rewritten", *done)
        return done

    async def _archive(self, partition: int, until: float, force: bool) -> ArchiveRun:
        """One partition: first what an interrupted run or purge left, then segment by segment."""
        sealing = self._sealing
        rewritten = await _again(lambda: sealing.rewrite(partition))
        trimmed = await _again(lambda: sealing.let_go(partition))
        old, older = (EVERYTHING, EVERYTHING) if force else (self._before(1), self._before(SMALL_AFTER))
        sealed = 0
        while await _again(lambda: sealing.seal(partition, old, older)):
            sealed += 1
            trimmed += await _again(lambda: sealing.let_go(partition))
            if monotonic() >= until and not force:
                break
        return ArchiveRun(sealed, trimmed, rewritten)

    def _before(self, ages: int) -> Position:
        return Position(max(0, to_ms(self._clock() - ages * self._after)), 0)


async def _again(step: "Callable[[], Awaitable[T]]") -> T:
    for _ in range(ATTEMPTS - 1):
        try:
            return await step()
        except (Outrun, MissingFile):  # a file that is gone may have been replaced
            continue
    return await step()


def _busy() -> Outrun:
    return Outrun(f"another worker has been at the archive for {WAIT_FOR_OTHER_S:.0f} s; try again when it is done")
