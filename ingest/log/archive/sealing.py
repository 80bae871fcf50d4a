"""How entries move from the stream into the archive: seal, trim, rewrite; and the arq job that does it.

Sealing writes a segment, then a manifest, then names it in Redis: only then does it count. Trimming reads the segment
back from the store and trims the stream up to its end. Rewriting puts stubs into segments for what was erased since.
Each commit is one transaction that fails with Outrun when the archive changed, or something was erased, in between. So
each step can be repeated, and killed at any point: the archive is what Redis says it is, and the next run continues.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from datetime import timedelta
from time import monotonic
from typing import NamedTuple, TypeVar

from redis.exceptions import WatchError

from ingest.errors import ArchiveUnavailable, LogUnavailable, MnemologError
from ingest.ids import new_event_id
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archived import CHAIN, FILE, SEALED, STUBS, TRIMMED, VERSION, Archived, load_archived
from ingest.log.event_log import Stored, pages
from ingest.log.keys import ARCHIVE_LEASE, PartitionKeys
from ingest.log.lag import checkpoint
from ingest.log.lease import lease
from ingest.log.position import START, Position
from ingest.log.redis_log import queue_stubs, read_stub, read_stubs
from ingest.log.segments import (
    ArchiveManifest,
    Content,
    DamagedArchive,
    MissingFile,
    Outrun,
    Sealed,
    appended,
    content_of,
    file_of,
    filled,
    is_full,
    overlaid,
    pack,
    replaced,
)
from ingest.platform.clock import Clock, system_clock, to_ms
from ingest.platform.connections import Client, Transaction

logger = logging.getLogger(__name__)
T = TypeVar("T")

SLICE_S = 60.0
"""A run stops after the partition in which this time is exceeded; the next run continues there. A purge waits for
it."""
WAIT_FOR_OTHER_S = 90.0
SMALL_AFTER = 24
"""Ages after which entries that do not fill a segment are sealed; otherwise partitions with few writes would stay in
memory. With an hour as the age, a quiet partition has a segment a day."""
ATTEMPTS = 5
"""Attempts at a step that another change interfered with, usually a deletion."""
EVERYTHING = Position(10**14 - 1, 0)
"""After every position."""
MEMBERS_PER_COMMAND = 1_000
REWRITTEN_PER_COMMIT = 8
"""The most segments that one new manifest replaces, so that a large archive's manifest is not rewritten for each. All
their stubs are in memory: 24 MB if every entry was erased."""


class Sealing:
    """Seals, lets go and rewrites, one partition at a time. Two at a time are safe, and get in each other's way."""

    def __init__(self, redis: Client, log: ArchivedLog) -> None:
        self._redis, self._log, self._archive = redis, log, log.archive

    async def seal(self, partition: int, until: Position, small_until: Position) -> Sealed | None:
        """Seal the oldest entries that are not sealed, as many as a segment takes; None when it is not time.

        Nothing behind `until`, and nothing that is not projected. Less than a segment takes is sealed only when the
        oldest of it lies at `small_until` or before. Raises Outrun, or what `_settle` raises: nothing is sealed then,
        or it is and files that it replaced are left for later.
        """
        await self._settle(partition)
        keys = PartitionKeys(partition)
        state = await load_archived(self._redis, keys)
        entries = await self._waiting(partition, state.sealed, min(until, await checkpoint(self._redis, keys)))
        if not entries or not (is_full(entries) or entries[0].position <= small_until):
            return None
        before = await self._archive.manifest(partition, state)
        data = await asyncio.to_thread(pack, partition, entries)
        manifest = appended(before, await asyncio.to_thread(content_of, data, entries), str(new_event_id()))
        sealed = manifest.segments[-1]
        # files first, then Redis: killed in between, they are strays that a sweep deletes
        await self._archive.write(partition, sealed.name, data)
        await self._archive.write_manifest(manifest)
        try:
            await self._name_sealed(keys, state, manifest, entries)
        except Outrun:
            await self._archive.delete(partition, [manifest.name, sealed.name])
            raise
        await self._settle(partition)
        await self._archive.sweep(manifest)
        return sealed

    async def let_go(self, partition: int) -> int:
        """Trim the stream up to where it is sealed; returns of how many entries. Each segment is read back before.
        Raises DamagedSegment or ArchiveUnavailable when one cannot be: the stream keeps what is in it."""
        keys = PartitionKeys(partition)
        state = await load_archived(self._redis, keys)
        manifest = await self._archive.manifest(partition, state)
        projected = await checkpoint(self._redis, keys)
        trimmed_count = 0
        for sealed in manifest.behind(state.trimmed):
            if sealed.last > projected:  # the runner reads from the stream, which must keep what it has not read
                break
            # not from memory: what is trimmed exists only in the store from then on
            entries = await self._archive.entries_from_store(partition, sealed)
            await self._trim(keys, state, entries)
            state = state._replace(trimmed=sealed.last)
            trimmed_count += len(entries)
        return trimmed_count

    async def rewrite(self, partition: int) -> int:
        """Put stubs into the segments that still say what was erased since; returns into how many. Afterward no file
        of the partition says it: nor one that was written for a segment and never counted."""
        keys = PartitionKeys(partition)
        state = await load_archived(self._redis, keys)
        manifest = await self._archive.manifest(partition, state)
        count, position = 0, START
        while affected := await self._affected(keys, manifest, position):
            position = affected[-1][0].last
            contents: dict[str, Content] = {}
            moved: list[bytes] = []
            writer = str(new_event_id())
            for sealed, stubs in affected:
                if content := await self._with_stubs(manifest, sealed, stubs, writer):
                    contents[sealed.name] = content
                if sealed.last <= state.trimmed:  # else the stream's readers need them until it is let go
                    moved += stubs
            if contents or moved:
                state, manifest = await self._replace(keys, state, manifest, contents, writer, moved)
            count += len(contents)
        if not await self._archive.sweep(manifest):
            _, manifest = await self._replace(keys, state, manifest, {}, str(new_event_id()), [])
            await self._archive.sweep(manifest)
        return count

    async def _settle(self, partition: int) -> None:
        """Return when the server has its state on disk. Raises DurabilityUnavailable for a server that writes nothing
        to disk, or does not say; LogUnavailable when it does not confirm in time."""
        # only then may a file that it named before be deleted: after a power cut it would name that file again
        if await self._log.standing_durability() == "fsync":
            return
        # of the log's beginning: what is waited for is no entry, but all that the partition's server was told
        if await self._log.confirm({partition: START}, "fsync") == "memory":
            raise LogUnavailable("Redis did not confirm in time that the archive's state is on disk")

    async def _waiting(self, partition: int, after: Position, until: Position) -> list[Stored]:
        """The entries of the next segment, if it were sealed now."""
        async with aclosing(filled(pages(self._log, partition, until, after))) as segments:
            return await anext(segments, list[Stored]())

    @asynccontextmanager
    async def _committing(self, keys: PartitionKeys, state: Archived, *watched: str) -> AsyncGenerator[Transaction]:
        """A transaction that is executed after the block; raises Outrun if the archive or a watched key has changed."""
        async with self._redis.pipeline(transaction=True) as pipe:
            await pipe.watch(keys.archived, *watched)
            if await load_archived(pipe, keys) != state:
                raise _outrun(keys)
            yield pipe
            try:
                await pipe.execute()
            except WatchError:
                raise _outrun(keys) from None

    async def _name_sealed(
        self, keys: PartitionKeys, state: Archived, manifest: ArchiveManifest, entries: Sequence[Stored]
    ) -> None:
        """Let the manifest count, unless something of its new segment was erased after it was read."""
        payloads = dict(entries)
        # an entry erased after it was read must not come back in a segment
        async with self._committing(keys, state, keys.erased) as pipe:
            stubs: list[bytes] = await queue_stubs(pipe, keys, state.sealed, manifest.sealed, -1)
            if any(payloads.get(stub.position) != stub.payload for stub in read_stubs(keys, stubs)):
                raise _outrun(keys)
            pipe.multi()
            _queue_version(pipe, keys, manifest)

    async def _trim(self, keys: PartitionKeys, state: Archived, entries: Sequence[Stored]) -> None:
        """Take a segment's entries out of the stream, with exactly those stubs that the segment has."""
        payloads, last = dict(entries), entries[-1].position
        # a stub added since is not in the segment, and must stay beside the stream
        async with self._committing(keys, state, keys.erased) as pipe:
            stubs: list[bytes] = await queue_stubs(pipe, keys, state.trimmed, last, -1)
            pipe.multi()
            pipe.hset(keys.archived, TRIMMED, str(last))
            pipe.xtrim(keys.log, minid=f"{last.ms}-{last.seq + 1}", approximate=False)
            _queue_moved(pipe, keys, [stub for stub in stubs if read_stub(keys, stub) in payloads.items()])

    async def _affected(
        self, keys: PartitionKeys, manifest: ArchiveManifest, after: Position
    ) -> list[tuple[Sealed, list[bytes]]]:
        """The next few segments behind a position in which something was erased, each with all its stubs."""
        affected: list[tuple[Sealed, list[bytes]]] = []
        while len(affected) < REWRITTEN_PER_COMMIT:
            oldest: list[bytes] = await queue_stubs(self._redis, keys, after, manifest.sealed, 1)
            if not oldest:
                break
            sealed = manifest.holding(read_stub(keys, oldest[0]).position)
            affected.append((sealed, await queue_stubs(self._redis, keys, after, sealed.last, -1)))
            after = sealed.last
        return affected

    async def _with_stubs(
        self, manifest: ArchiveManifest, sealed: Sealed, stubs: Sequence[bytes], writer: str
    ) -> Content | None:
        """What a segment is with stubs in it, whose file is written; None when it has them already."""
        partition = manifest.partition
        before = await self._archive.entries_from_store(partition, sealed)
        after = overlaid(before, dict(read_stubs(PartitionKeys(partition), stubs)))
        if after == before:
            return None
        data = await asyncio.to_thread(pack, partition, after)
        content = await asyncio.to_thread(content_of, data, after)
        await self._archive.write(partition, file_of(manifest.version + 1, content, writer), data)
        return content

    async def _replace(
        self, keys: PartitionKeys, state: Archived, manifest: ArchiveManifest,
        contents: Mapping[str, Content], writer: str, moved: Sequence[bytes],
    ) -> tuple[Archived, ArchiveManifest]:  # fmt: skip
        """Let segments have other contents, which takes their stubs out of Redis; what they were is deleted."""
        newer = replaced(manifest, contents, writer)  # new files beside the old ones, which readers may be at
        await self._archive.write_manifest(newer)
        try:
            async with self._committing(keys, state) as pipe:
                pipe.multi()
                _queue_version(pipe, keys, newer)
                _queue_moved(pipe, keys, moved)
        except Outrun:
            written = [file_of(newer.version, content, writer) for content in contents.values()]
            await self._archive.delete(keys.partition, [newer.name, *written])
            raise
        await self._settle(keys.partition)
        await self._archive.sweep(newer)
        return state._replace(version=newer.version, file=newer.name, chain=newer.head), newer


def _queue_version(pipe: Transaction, keys: PartitionKeys, manifest: ArchiveManifest) -> None:
    values = {VERSION: str(manifest.version), FILE: manifest.name, CHAIN: manifest.head, SEALED: str(manifest.sealed)}
    pipe.hset(keys.archived, mapping=values)


def _queue_moved(pipe: Transaction, keys: PartitionKeys, stubs: Sequence[bytes]) -> None:
    """Take stubs out of the sorted set and count them: segments have them now."""
    for start in range(0, len(stubs), MEMBERS_PER_COMMAND):
        pipe.zrem(keys.erased, *stubs[start : start + MEMBERS_PER_COMMAND])
    pipe.hincrby(keys.archived, STUBS, len(stubs))


def _outrun(keys: PartitionKeys) -> Outrun:
    return Outrun(f"partition {keys.partition}: the archive changed, or entries were erased, during this")


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
        the place cannot be reached; with `force` also DamagedArchive, and Outrun when another is at it for too long."""
        async with self._lease(WAIT_FOR_OTHER_S if force else 0.0) as mine:
            if not mine and force:
                raise _busy()
            return await self._run(force) if mine else ArchiveRun()

    async def rewrite(self) -> int:
        """Rid all segments of what was erased since they were sealed; returns how many had something. Raises the first
        error when all partitions were tried: then it has to be done again."""
        async with self._lease(WAIT_FOR_OTHER_S) as mine:
            if not mine:
                raise _busy()
            count, errors = 0, list[MnemologError]()
            for partition in range(self._log.partitions):
                try:
                    count += await _again(lambda: self._sealing.rewrite(partition))  # noqa: B023 - called at once
                except (DamagedArchive, ArchiveUnavailable, Outrun) as error:
                    logger.warning("deleted content is still in the archive: %s", error)
                    errors.append(error)
            if errors:
                raise errors[0]
            return count

    def _lease(self, wait_s: float) -> AbstractAsyncContextManager[bool]:
        # of all workers one archives: two would fail each other's transactions
        return lease(self._redis, ARCHIVE_LEASE, self._id, wait_s=wait_s)

    async def _run(self, force: bool) -> ArchiveRun:
        until = monotonic() + SLICE_S
        done, errors = ArchiveRun(), list[MnemologError]()
        for _ in range(self._log.partitions):
            partition, self._next = self._next, (self._next + 1) % self._log.partitions
            try:
                more = await self._archive(partition, until, force)
                done = ArchiveRun(*(a + b for a, b in zip(done, more, strict=True)))
            except (DamagedArchive, MissingFile) as error:
                logger.error("partition %d could not be archived: %s", partition, error)
                errors.append(error)
            except Outrun as error:
                logger.info("%s; the next run continues", error)
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
        with suppress(Outrun, MissingFile):  # a file that is gone may have been replaced
            return await step()
    return await step()


def _busy() -> Outrun:
    return Outrun(
        f"another worker has been using the archive for {WAIT_FOR_OTHER_S:.0f} s; try again when it has finished"
    )
