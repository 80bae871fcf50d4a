"""The archive: the beginning of the log in sealed segments, on disk or in an object store, so that Redis can drop it.

Hands out `open_log` and `open_to_write`, through which every process opens the log (so that none reads it without its
beginning), the worker's job, and what `mnemolog archive` shows and verifies. Without this room the log stays in Redis:
open it with `RedisLog`; MNEMOLOG_ARCHIVE and `mnemolog archive` go, and backups lose their segment format and store.
"""

import logging

from redis.exceptions import ConnectionError, TimeoutError

from ingest.log.archive.archive import Archive, PartitionArchive, load_archived, look, verify
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import ArchiveJob, ArchiveRun
from ingest.log.archive.segments import ArchiveNotConfigured, DamagedArchive, MissingFile
from ingest.log.archive.store import store_of
from ingest.log.event_log import refuse_if_closed
from ingest.log.keys import PartitionKeys
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, server_of
from ingest.platform.settings import Settings

__all__ = [
    "ArchiveJob",
    "ArchiveRun",
    "ArchivedLog",
    "DamagedArchive",
    "MissingFile",
    "PartitionArchive",
    "look",
    "open_log",
    "open_to_write",
    "verify",
]

logger = logging.getLogger(__name__)


async def open_to_write(settings: Settings, redis: Client) -> RedisLog:
    """The log of the settings, for a process that serves or projects it; raises as `open_log`."""
    await refuse_if_closed(redis)
    return await open_log(settings, redis)


async def open_log(settings: Settings, redis: Client, partitions: int | None = None) -> RedisLog:
    """The log of a server, created or checked: an ArchivedLog if MNEMOLOG_ARCHIVE is set. `partitions` overrides the
    settings. Raises what `create_or_check` raises, InvalidSetting for an impossible MNEMOLOG_ARCHIVE, and
    ArchiveNotConfigured without one when the beginning of the log is in an archive."""
    count, window_ms = partitions or settings.partitions, settings.dedup_window * 1000
    archive = Archive(redis, store_of(settings.archive)) if settings.archive else None
    if archive is not None:
        log = ArchivedLog(redis, count, archive, window_ms=window_ms, window_ids=settings.dedup_ids)
    else:
        log = RedisLog(redis, count, window_ms=window_ms, window_ids=settings.dedup_ids)
    await log.create_or_check()
    for partition in range(count) if archive is None else ():
        try:
            archived = await load_archived(redis, PartitionKeys(partition))
        except (ConnectionError, TimeoutError, OSError) as error:
            if not server_of(redis, PartitionKeys(partition).log):
                raise
            # the other partitions of the cluster are served; this one has no reader before its node is back
            logger.warning("partition %d: its node is unreachable: %s", partition, error)
            continue
        if archived.trimmed > START:
            raise ArchiveNotConfigured(partition, str(archived.trimmed))
    return log
