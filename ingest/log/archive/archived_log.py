"""A log whose beginning is archived: reads cover both parts seamlessly.

A page is made of one moment of Redis: the stream, the stubs, and up to where the stream was trimmed. Up to there the
archive has the entries, and a stub takes the place of what a segment still says, so that forgetting works at once.
"""

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from operator import attrgetter

from ingest.log.archive.archive import Archive
from ingest.log.archived import Archived, queue_archived, read_archived
from ingest.log.event_log import Stored
from ingest.log.keys import DEDUP_IDS
from ingest.log.position import START, Position
from ingest.log.redis_log import (
    RedisLog,
    merged,
    queue_page,
    queue_page_back,
    queue_stubs,
    read_stub,
    read_stubs,
)
from ingest.log.segments import MissingFile, overlaid
from ingest.platform.connections import Client

logger = logging.getLogger(__name__)

TRIES = 5
"""How often a page is read because its files were replaced in between."""
_POSITION, _FIRST = attrgetter("position"), attrgetter("first")


class ArchivedLog(RedisLog):
    """A RedisLog that is read from its archive where its streams were trimmed; appended to like any other."""

    def __init__(
        self, redis: Client, partitions: int, archive: Archive, *,
        window_ms: int | None = None, window_ids: int = DEDUP_IDS,
    ) -> None:  # fmt: skip
        super().__init__(redis, partitions, window_ms=window_ms, window_ids=window_ids)
        self.archive = archive
        self._trimmed = [START] * partitions
        """Up to which position streams were trimmed when last read: a hint about where to look first."""

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        """See EventLog. Raises DamagedArchive or ArchiveUnavailable where the archive cannot be read."""
        return await _patiently(lambda: self._read(partition, after, limit))

    async def read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        """See EventLog; raises as `read` does."""
        return await _patiently(lambda: self._read_back(partition, before, limit))

    async def _read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        if after < self._trimmed[partition]:
            page = await self._read_archived(partition, after, limit)
            if len(page) == limit:
                return page
        keys = self._keys[partition]
        async with self._redis.pipeline(transaction=True) as pipe:
            queue_archived(pipe, keys)
            queue_page(pipe, keys, after, limit)
            answer, rows, stubs = await pipe.execute()
        archived = self._noted(partition, read_archived(answer))
        if after >= archived.trimmed:
            return merged(keys, rows, stubs)[:limit]
        page = await self._segments(partition, archived, after, limit, stubs)
        later = [stub for stub in stubs if read_stub(keys, stub).position > archived.trimmed]
        return [*page, *merged(keys, rows, later)][:limit]

    async def _read_archived(self, partition: int, after: Position, limit: int) -> list[Stored]:
        """The part of a page that is in the archive; the stream is not asked, which a replay would not use."""
        keys = self._keys[partition]
        async with self._redis.pipeline(transaction=True) as pipe:
            queue_archived(pipe, keys)
            queue_stubs(pipe, keys, after, None, limit)
            answer, stubs = await pipe.execute()
        return await self._segments(partition, self._noted(partition, read_archived(answer)), after, limit, stubs)

    async def _read_back(self, partition: int, before: Position | None, limit: int) -> list[Stored]:
        keys = self._keys[partition]
        async with self._redis.pipeline(transaction=True) as pipe:
            queue_archived(pipe, keys)
            queue_page_back(pipe, keys, before, limit)
            answer, rows, stubs = await pipe.execute()
        archived = self._noted(partition, read_archived(answer))
        later = [stub for stub in stubs if read_stub(keys, stub).position > archived.trimmed]
        page = merged(keys, rows, later, newest_first=True)[:limit]
        if len(page) == limit or archived.trimmed == START:
            return page
        return [*page, *await self._segments_back(partition, archived, before, limit - len(page), stubs)]

    async def _segments(
        self, partition: int, archived: Archived, after: Position, limit: int, stubs: Sequence[bytes]
    ) -> list[Stored]:
        """Up to `limit` archived entries behind a position; `stubs` has those of them that are not in segments yet."""
        manifest = await self.archive.manifest(partition, archived)
        page: list[Stored] = []
        for sealed in manifest.behind(after):
            if len(page) == limit or sealed.first > archived.trimmed:
                break
            entries = await self.archive.entries(partition, sealed)
            start = bisect_right(entries, after, key=_POSITION)
            page += entries[start : start + limit - len(page)]
        return overlaid(page, dict(read_stubs(self._keys[partition], stubs)))

    async def _segments_back(
        self, partition: int, archived: Archived, before: Position | None, limit: int, stubs: Sequence[bytes]
    ) -> list[Stored]:
        manifest = await self.archive.manifest(partition, archived)
        end = Position(archived.trimmed.ms, archived.trimmed.seq + 1)
        if before is not None:
            end = min(end, before)
        page: list[Stored] = []
        for sealed in reversed(manifest.segments[: bisect_left(manifest.segments, end, key=_FIRST)]):
            if len(page) == limit:
                break
            entries = await self.archive.entries(partition, sealed)
            stop = bisect_left(entries, end, key=_POSITION)
            page += reversed(entries[max(0, stop - (limit - len(page))) : stop])
        return overlaid(page, dict(read_stubs(self._keys[partition], stubs)))

    def _noted(self, partition: int, archived: Archived) -> Archived:
        self._trimmed[partition] = archived.trimmed
        return archived


async def _patiently(read: Callable[[], Awaitable[list[Stored]]]) -> list[Stored]:
    for _ in range(TRIES - 1):
        with suppress(MissingFile):  # the archive may have a newer one
            return await read()
    return await read()
