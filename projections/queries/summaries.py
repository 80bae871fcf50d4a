"""Summaries of sessions."""

from ingest.ids import DocumentId
from projections.documents.access import Reader, may_read
from projections.documents.summaries import Summary, summaries, summary_id
from projections.queries.documents import DocumentReader, Located
from projections.queries.views import Page, Record, page_view, public_view

# another shape is called Summary, too: the OpenAPI document tells them apart by this name, which its clients know
SummaryView = public_view(Summary)


class Summaries:
    """Answers questions about summaries."""

    def __init__(self, documents: DocumentReader) -> None:
        self._documents = documents

    async def page(self, reader: Reader, project: str, cursor: str | None, limit: int) -> Page[Record]:
        """A project's session summaries, newest first."""
        return page_view(await self._documents.newest(summaries(reader.tenant, project), cursor, limit), reader)

    async def of_session(self, reader: Reader, session: Located) -> Summary | None:
        """The summary of a session; None while there is none."""
        name = summary_id(DocumentId(session.document.id))
        (found,) = await self._documents.get([(session.partition, name)])
        return found if isinstance(found, Summary) and may_read(found, reader) else None
