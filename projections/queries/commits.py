"""Version-control commits that were linked to sessions."""

from datetime import datetime

from msgspec import Struct

from projections.documents.access import Reader, may_read
from projections.documents.commits import Commit, commits, session_commits
from projections.queries.documents import DocumentReader
from projections.queries.views import Page, Record, page_view, view_of

MAX_OF_SESSION = 500


@view_of(Commit)
class CommitView(Struct, frozen=True, kw_only=True):
    """A version-control commit, and the sessions it was made in."""

    id: str
    project: str
    commit: str
    message: str
    branch: str
    repo: str
    author: str
    authored_at: str
    files: list[str]
    session_ids: list[str]
    agent_id: str
    linked_at: datetime


class Commits:
    """Answers questions about commits."""

    def __init__(self, documents: DocumentReader) -> None:
        self._documents = documents

    async def page(self, reader: Reader, project: str | None, cursor: str | None, limit: int) -> Page[Record]:
        """A tenant's or a project's commits, the newest linked first."""
        return page_view(await self._documents.newest(commits(reader.tenant, project), cursor, limit), reader)

    async def of_session(self, reader: Reader, session_id: str) -> list[Commit]:
        """The commits made in a session, the newest linked first."""
        page = await self._documents.newest(session_commits(reader.tenant, session_id), None, MAX_OF_SESSION)
        found = [one.document for one in page.documents if may_read(one.document, reader)]
        return [one for one in found if isinstance(one, Commit)]
