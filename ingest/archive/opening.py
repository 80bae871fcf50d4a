"""How every process opens the log: with its archive where one is configured, and never without one that it needs."""

from ingest.archive.archive import Archive
from ingest.archive.archived_log import ArchivedLog
from ingest.archive.errors import ArchiveNotConfigured
from ingest.archive.state import load_archived
from ingest.archive.store import store_of
from ingest.connections import Client
from ingest.log.keys import PartitionKeys
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.settings import Settings


async def open_log(settings: Settings, redis: Client, partitions: int | None = None) -> RedisLog:
    """The log of a server, created or checked: an ArchivedLog where MNEMOLOG_ARCHIVE names a place.

    `partitions` is for who knows better than the settings. Raises what `create_or_check` raises, InvalidSetting for an
    impossible place, and ArchiveNotConfigured when the beginning of the log is in an archive and no place is named.
    """
    count, window_ms = partitions or settings.partitions, settings.dedup_window * 1000
    if settings.archive:
        archive = Archive(redis, store_of(settings.archive))
        log = ArchivedLog(redis, count, archive, window_ms=window_ms, window_ids=settings.dedup_ids)
        await log.create_or_check()
        return log
    log = RedisLog(redis, count, window_ms=window_ms, window_ids=settings.dedup_ids)
    await log.create_or_check()
    for partition in range(count):
        archived = await load_archived(redis, PartitionKeys(partition))
        if archived.trimmed > START:
            raise ArchiveNotConfigured(partition, str(archived.trimmed))
    return log
