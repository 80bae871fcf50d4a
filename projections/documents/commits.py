"""Commits: what version control knows of the sessions' work."""

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ingest.events.envelope import Recorded
from ingest.events.session import SessionCommitted
from ingest.ids import COMMIT, DocumentId, content_id
from ingest.log.position import project_route
from ingest.platform.clock import to_ms
from projections.documents.rows import by_position, by_time, in_user_listing, of_tenant


class Commit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit of one project. `occurred_ms` is when it was first linked as its agent says, `linked_ms` when that was
    recorded; milliseconds since the epoch."""

    LETTER: ClassVar[bytes] = b"c"

    id: DocumentId
    tenant: str
    project: str = ""
    commit: str
    message: str = ""
    branch: str = ""
    repo: str = ""
    author: str = ""
    authored_at: str = ""
    files: list[str] = []
    session_ids: list[str] = []
    agent_id: str = ""
    user_id: str = ""
    occurred_ms: int = 0
    linked_ms: int
    position: str

    def listing_members(self) -> set[tuple[str, str]]:
        """The `(listing, member)` pairs it stands for."""
        member = by_time(self.linked_ms, self.id)
        return {
            (commits(self.tenant), member),
            (commits(self.tenant, self.project), member),
            *((session_commits(self.tenant, one), member) for one in self.session_ids),
            *in_user_listing(self.tenant, self.user_id, by_position(self.position, self.id)),
        }


def commits(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's commits, by when they were linked."""
    return of_tenant("commits", tenant, project)


def session_commits(tenant: str, session_id: str) -> str:
    """Listing of the commits made in sessions of that id, by when they were linked."""
    return f"session-commits:{tenant}\0{session_id}"


def commit_id(recorded: Recorded, data: SessionCommitted) -> DocumentId:
    """The id of a commit within its project."""
    route = project_route(recorded.envelope.tenant, recorded.envelope.project)
    return content_id(COMMIT, route, data.commit)


def linked(commit: Commit | None, recorded: Recorded, data: SessionCommitted) -> Commit:
    """The commit after it was linked (again: newer words replace older ones, sessions and files add up)."""
    envelope = recorded.envelope
    known = commit or Commit(
        id=commit_id(recorded, data),
        tenant=envelope.tenant,
        project=envelope.project,
        commit=data.commit,
        agent_id=envelope.agent_id,
        user_id=envelope.user_id,
        occurred_ms=to_ms(envelope.occurred_at),
        linked_ms=recorded.recorded_ms,
        position=str(recorded.position),
    )
    sessions = [*known.session_ids, envelope.session_id] if envelope.session_id else known.session_ids
    return replace(
        known,
        message=data.message or known.message,
        branch=data.branch or known.branch,
        repo=data.repo or known.repo,
        author=data.author or known.author,
        authored_at=data.authored_at or known.authored_at,
        files=list(dict.fromkeys([*known.files, *data.files])),
        session_ids=list(dict.fromkeys(sessions)),
    )
