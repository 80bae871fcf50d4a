"""Opens the log of the settings. Every process opens it here, so that none reads it without its beginning, which may be
in an archive.
"""

import logging

from redis.exceptions import ConnectionError, TimeoutError

from ingest.errors import MnemologError
from ingest.log.archived import load_archived
from ingest.log.event_log import refuse_if_closed
from ingest.log.keys import PartitionKeys
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.log.store import store_of
from ingest.platform.connections import Client, server_of
from ingest.platform.settings import Settings

logger = logging.getLogger(__name__)


class ArchiveNotConfigured(MnemologError):
    """The beginning of the log is in an archive, and MNEMOLOG_ARCHIVE does not say where."""

    code = "archive_not_configured"

    def __init__(self, partition: int, trimmed: str) -> None:
        super().__init__(
            f"partition {partition} of this log is archived up to "
            f"{trimmed}; "
            "set MNEMOLOG_ARCHIVE to the archive's location"
        )


async def open_to_write(settings: Settings, redis: Client) -> RedisLog:
    """The log of the settings, for a process that serves or projects it; raises as `open_log`."""
    await refuse_if_closed(redis)
    return await open_log(settings, redis)


async def open_log(settings: Settings, redis: Client, partitions: int | None = None) -> RedisLog:
    """The log of a server, created or checked: an ArchivedLog if MNEMOLOG_ARCHIVE is set. `partitions` overrides the
    settings. Raises what `create_or_check` raises, InvalidSetting for an impossible MNEMOLOG_ARCHIVE, and
    ArchiveNotConfigured without one when the beginning of the log is in an archive."""
    count, window_ms = partitions or settings.partitions, settings.dedup_window * 1000
    if settings.archive:
        # only with the setting: the archive is a room
        from ingest.log.archive.room import Archive, ArchivedLog

        archive = Archive(redis, store_of(settings.archive))
        log = ArchivedLog(redis, count, archive, window_ms=window_ms, window_ids=settings.dedup_ids)
    else:
        log = RedisLog(redis, count, window_ms=window_ms, window_ids=settings.dedup_ids)
    await log.create_or_check()
    for partition in () if settings.archive else range(count):
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
