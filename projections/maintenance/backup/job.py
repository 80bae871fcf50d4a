"""arq job: back the log up when it has changed, and delete the backups that have to go.

A backup that was made before something was forgotten still has it: it is replaced by a new one, and then deleted. The
new one is whole before any other is touched, so a crash at any point leaves what there was and is made good by running
again.
"""

import asyncio
import logging
import shutil
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.event_log import EventLog
from ingest.log.keys import BACKUP_LEASE, JOB_LEASE_TTL
from ingest.log.lease import lease
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from ingest.platform.tasks import end
from projections.maintenance.backup.contents import write_backup
from projections.maintenance.backup.manifest import (
    BackupFailed,
    BackupManifest,
    LogState,
    Status,
    changed,
    due,
    load_status,
    measure,
    newest_of,
    save_status,
    to_delete,
)
from projections.maintenance.backup.target import Target, listed

logger = logging.getLogger(__name__)

SLICE_S = 240.0
"""How long a job waits for its backup; one that takes longer goes on, and the next job waits for it."""
WAIT_FOR_OTHER_S = 60.0


class BackupJob:
    """Keeps the backups of a log in `target` as new as they should be. `work` is a folder of this process's own."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        target: Target,
        work: Path,
        *,
        every: timedelta,
        keep: int,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._log, self._target, self._work = redis, log, target, work
        self._every, self._keep, self._clock = every, keep, clock
        self._id = str(new_event_id())
        self._under_way: asyncio.Task[None] | None = None

    async def start_or_go_on(self) -> bool:
        """Run as a job whose time is limited; whether it is over. What failed is logged."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._logged(), name="backup")
        over, _ = await asyncio.wait({self._under_way}, timeout=SLICE_S)
        if over:
            self._under_way = None
        return bool(over)

    async def aclose(self) -> None:
        """Stop the backup that is under way, if any: there is none of it then."""
        if self._under_way is not None:
            await end(self._under_way)

    async def _logged(self) -> None:
        try:
            await self.run()
        except MnemologError as error:
            logger.warning("no backup was made: %s", error)
        except Exception:  # a fault of ours: the next run tries again
            logger.exception("no backup was made")

    async def run(self, *, force: bool = False) -> BackupManifest | None:
        """Back up if it is time, or (`force`) whenever the log has changed; returns the manifest, None without.

        Of all workers one does it at a time; while another does it, nothing is done. Raises BackupFailed when the
        target cannot be reached, or (`force`) when another takes too long; what failed is noted, too, and the next run
        tries again.
        """
        wait_s = WAIT_FOR_OTHER_S if force else 0.0
        async with lease(self._redis, BACKUP_LEASE, self._id, JOB_LEASE_TTL, wait_s=wait_s) as mine:
            if not mine and force:
                raise BackupFailed(f"another backup has been under way for {wait_s:.0f} s; try again when it is done")
            if not mine:
                logger.info("another worker makes a backup")
                return None
            noted = await load_status(self._redis)
            if noted is None or noted.target != str(self._target):
                noted = Status(target=str(self._target))
            state = await measure(self._redis, self._log)
            if not force and not due(state, noted.newest, noted.listed_at, self._clock(), self._every):
                return None
            try:
                newest, made = await self._renew(state)
            except Exception as error:  # whatever it is, the status shows it
                await save_status(self._redis, replace(noted, error=str(error)[:500]))
                raise
            finally:
                await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
            done = Status(target=str(self._target), newest=newest, listed_at=self._clock())
            await save_status(self._redis, done)
            return newest if made else None

    async def _renew(self, state: LogState) -> tuple[BackupManifest | None, bool]:
        """The newest backup of the log, and whether it was made just now."""
        there = await asyncio.to_thread(listed, self._target, self._work / "there")
        for one in there:
            if one.manifest is None:
                logger.warning("backup %s in %s is damaged: %s", one.name, self._target, one.trouble)
        backups = [one.manifest for one in there if one.manifest is not None]
        newest = newest_of(state.log, backups)
        made = changed(state, newest)
        if made:
            newest = await write_backup(self._redis, self._log, self._work / "new", self._clock)
            await asyncio.to_thread(self._target.put, newest.name, self._work / "new")
            backups.append(newest)
            logger.info("backup %s: %d events, %d bytes, in %s", newest.name, newest.events, newest.bytes, self._target)
        if newest is not None and (outdated := to_delete(newest, backups, self._keep)):
            await asyncio.to_thread(self._target.delete, outdated)
            logger.info("backups deleted: %s", ", ".join(outdated))
        return newest, made
