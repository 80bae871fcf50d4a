"""Memories: listed, by when they happened, and the versions of one."""

from collections.abc import Callable

from msgspec import Struct

from ingest.errors import NotFound
from ingest.ids import DocumentId
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_read
from projections.documents.document import Document, Tombstone
from projections.documents.memories import Memory, memories
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup, reach
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, Record, page_view, public_view
from projections.search.index import IndexService

MAX_VERSIONS = 1_000
"""Of one memory's history."""

MemoryView = public_view(Memory)


class Memories:
    """Answers questions about memories."""

    def __init__(self, documents: DocumentReader, lookup: Lookup) -> None:
        self._documents, self._lookup = documents, lookup

    async def page(
        self,
        reader: Reader,
        project: str,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        latest: bool = False,
    ) -> Page[Record]:
        """A project's memories, newest first; superseded ones included unless `latest`."""
        listing, within = memories(reader.tenant, project), times.in_log_order()
        page = await self._documents.of_project(listing, reader, project, cursor, limit, within)
        return page_view(page, lambda found: not latest or (isinstance(found, Memory) and found.is_latest))

    async def history(self, name: str, reader: Reader) -> list[Memory]:
        """Every version of a memory that the reader may see, oldest first. Forgotten ones are not there."""
        located = await self._lookup.document(name, reader)
        if not isinstance(located.document, Memory):
            raise NotFound(f"there is no memory {name!r}")
        versions = [located.document]
        for step in (_version_before, _version_after):
            at: Document | None = located.document
            while isinstance(at, Memory | Tombstone) and (towards := step(at)) and len(versions) < MAX_VERSIONS:
                (at,) = await self._documents.get([(located.partition, DocumentId(towards))])
                if isinstance(at, Memory) and may_read(at, reader):
                    versions.append(at)
        return sorted(versions, key=lambda one: one.version)


class MemoryPage(Struct, frozen=True):
    """Some memories, and how many there are on all pages."""

    memories: list[Memory]
    total: int


class MemoryPages:
    """Answers from the index, which finds and counts, and the documents of the page."""

    def __init__(self, index: IndexService, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._index, self._documents, self._clock = index, documents, clock

    async def page(
        self,
        reader: Reader,
        project: str,
        offset: int,
        limit: int,
        name: Callable[[Memory], str] = lambda memory: memory.id,
        **narrowing: object,
    ) -> MemoryPage:
        """The memories from `offset` on, as far as the reader may see them, narrowed as a Filter can be.

        Those of one millisecond are ordered by `name`, the greatest first; very many of one by document id. Raises
        ProjectionBehind before the index is loaded.
        """
        allowed, now_ms = reach(reader, project, kinds=["memory"], **narrowing), to_ms(self._clock())
        seen = await self._index.ask(lambda index: index.window(allowed, now_ms, offset, limit))
        documents = await self._documents.get([place for _, place in seen.found])
        dated = [
            ((at_ms, "" if at_ms in seen.crowded else name(one)), one)
            for (at_ms, _), one in zip(seen.found, documents, strict=True)
            if isinstance(one, Memory) and may_read(one, reader)
        ]
        ordered = [one for _, one in sorted(dated, key=lambda pair: pair[0], reverse=True)]
        return MemoryPage(ordered[seen.skipped : seen.skipped + limit], seen.total)


def _version_before(version: Memory | Tombstone) -> str:
    return version.parent_id if isinstance(version, Memory) else ""


def _version_after(version: Memory | Tombstone) -> str:
    return version.superseded_by
