"""Relations between documents. A relation is readable when both of its ends are."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from ingest.ids import DocumentId
from ingest.log.position import partition_of, project_route
from ingest.platform.partial import left_out
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.relations import Relation, edges, relations
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, Record, page_view, view_of

MAX_EDGES = 500
"""Of one end, in one partition."""


@view_of(Relation)
class RelationView(Struct, frozen=True, kw_only=True):
    """How two documents are related."""

    id: str
    project: str
    source: str
    target: str
    relation: str
    confidence: float
    agent_id: str
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime


class Relations:
    """Answers questions about relations."""

    def __init__(self, documents: DocumentReader, lookup: Lookup) -> None:
        self._documents, self._lookup = documents, lookup

    async def page(
        self, reader: Reader, project: str, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Record]:
        """A project's relations, newest first; those of documents the reader may not see are left out."""
        listing, within = relations(reader.tenant, project), times.in_log_order()

        async def readable(found: list[Document]) -> list[Relation]:
            return await self.readable([one for one in found if isinstance(one, Relation)], reader)

        return page_view(await self._documents.of_project(listing, reader, project, cursor, limit, within, readable))

    async def newest(self, reader: Reader, limit: int) -> list[Relation]:
        """The newest `limit` relations of all projects that the reader finds anything in."""
        partitions = self._documents.partitions
        places = [
            (relations(reader.tenant, project), partition_of(project_route(reader.tenant, project), partitions))
            for project in dict.fromkeys(["", *await self._lookup.projects(reader)])
        ]
        rows = await self._documents.ranges(places, limit=limit, newest_first=True)
        members = [(member, partition) for (_, partition), row in zip(places, rows, strict=True) for member in row]
        wanted = [
            (partition, DocumentId(member.rpartition("|")[2]))
            for member, partition in sorted(members, reverse=True)[:limit]
        ]
        found = [one for one in await self._documents.get(wanted) if isinstance(one, Relation)]
        return await self.readable(found, reader)

    async def of_documents(self, names: Sequence[str], reader: Reader) -> list[Relation]:
        """The relations that begin or end at any of these, as far as the reader may see what they relate."""
        everywhere = range(self._documents.partitions)
        members = [
            place
            for name in names
            for place in await self._documents.members(edges(reader.tenant, name), everywhere, MAX_EDGES)
        ]
        wanted = [(partition, DocumentId(member)) for partition, member in dict.fromkeys(members)]
        found = [one for one in await self._documents.get(wanted) if isinstance(one, Relation)]
        return await self.readable(found, reader)

    async def readable(self, found: Sequence[Relation], reader: Reader) -> list[Relation]:
        """Those relations both ends of which the reader may see; an end that is no document hides nothing.

        One that may be a document of a partition that could not be read hides them.
        """
        ends = {end for one in found for end in (one.source, one.target)}
        known = {one.document.id: one.document for one in await self._documents.find_all(sorted(map(DocumentId, ends)))}
        hidden = {name for name, document in known.items() if not may_read(document, reader)}
        if left_out() and not reader.operator:
            hidden |= ends - known.keys()
        return [one for one in found if reader.key_scope.allows(one.project) and not {one.source, one.target} & hidden]
