"""arq job: compare log, documents, listings and index of every partition, and repair what is safe to repair.

One worker at a time, some partitions at a time: what is written down after each is where the next run goes on. Running
it again is harmless; of a clean store it changes nothing but the report.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from ingest.ids import new_event_id
from ingest.log.event_log import EventLog
from ingest.log.keys import JOB_LEASE_TTL, MANIFEST, RECONCILE_LEASE
from ingest.log.lease import lease
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client
from projections.maintenance.reconciling import IndexNames, PartitionCheck
from projections.maintenance.repairs import ReconcileReport, load_report, save_report
from projections.vectors.embedder import Embedder, Embedders

logger = logging.getLogger(__name__)

EVERY = timedelta(days=1)
SLICE_S = 30.0
"""A run that has looked at a partition after so long leaves the others to the next one, a minute later."""


class ReconcileJob:
    """Reconciles a log with what was made of it. `index_of` tells what the index has, of an embedder's vectors."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        index_of: Callable[[Embedder], IndexNames],
        embedders: Embedders,
        clock: Clock = system_clock,
        slice_s: float = SLICE_S,
    ) -> None:
        self._redis, self._log, self._index_of = redis, log, index_of
        self._embedders, self._clock, self._slice_s = embedders, clock, slice_s
        self._id = str(new_event_id())

    async def run(self, force: bool = False) -> ReconcileReport | None:
        """Go on with a run that is not over; else begin one, when a day is over or `force` says so.

        Returns how far it is; None when there was nothing to do, or another worker does it.
        """
        async with lease(self._redis, RECONCILE_LEASE, self._id, JOB_LEASE_TTL) as mine:
            if not mine:
                return None
            report = await load_report(self._redis)
            if report is None or report.next is None:
                now = self._clock()
                if not force and now - (report.started_at if report else await self._created()) < EVERY:
                    return None
                report = ReconcileReport(started_at=now, partitions=[])
            return await self._go_on(report)

    async def _created(self) -> datetime:
        """When the log was created: its first run is a day later."""
        return datetime.fromisoformat((await self._redis.hget(MANIFEST, "created_at") or b"1970-01-01T00:00Z").decode())

    async def _go_on(self, report: ReconcileReport) -> ReconcileReport:
        until = time.monotonic() + self._slice_s
        embedder = await self._embedders.refresh()
        index = self._index_of(embedder)
        for partition in range(report.next or 0, self._log.partitions):
            check = PartitionCheck(self._redis, self._log, partition, embedder.model, embedder.dimensions, index)
            found = await check.run(to_ms(self._clock()))
            report.partitions.append(found)
            report.next = partition + 1 if partition + 1 < self._log.partitions else None
            if report.next is None:
                report.finished_at = self._clock()
            await save_report(self._redis, report)
            if found.found:
                logger.warning("reconcile: partition %d: %s %s", partition, found.found, found.advice)
            if time.monotonic() > until:
                break
        return report
