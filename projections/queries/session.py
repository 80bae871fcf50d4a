"""Sessions: lookup by the agents' session id, listings; observations, summaries and commits."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from ingest.errors import CommandRejected, NotFound
from ingest.ids import DocumentId
from ingest.log.position import partition_of, session_route
from ingest.platform.clock import from_ms
from ingest.platform.partial import check_missing
from ingest.roles import ANYWHERE, KeyScope
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document
from projections.nouns.observation import Observation, session_observations, session_turns
from projections.nouns.session import (
    Commit,
    Session,
    Summary,
    commits,
    session_document_id,
    session_name,
    sessions,
    summaries,
    summary_id,
)
from projections.queries.documents import DocumentReader, Located, location_of, readable_by
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, SomeRetired, page_view, public_view, view_of
from projections.text.accounts import in_time, story_turn
from projections.text.story import story_of

RETIRED = (
    "observations of long-idle sessions are retired: no longer listed or searched, but still in the "
    "log (GET /v1/events?session_id=...)"
)
MAX_NAMED = 100
"""Sessions of one id, of different projects, in one partition."""


@view_of(
    Session,
    id="session_id",
    retired=lambda session: session.retired > 0 and not session.searchable_observations,
    retired_observations="retired",
    retired_at=lambda session: from_ms(session.retired_ms) if session.retired and session.retired_ms else None,
)
class SessionView(Struct, frozen=True, kw_only=True):
    """A session; `summarised` is how many of its observations its summary covers.

    `retired_observations` of them are in the log alone, since `retired_at`; `retired` says that all of them are.
    """

    id: str
    project: str
    agent_id: str
    user_id: str
    agent_type: str
    title: str
    first_prompt: str
    cwd: str
    status: Literal["active", "ended", "failed"]
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    observation_count: int
    worked: bool
    """Whether something was done or stated in it."""
    summarised: int
    retired: bool
    retired_observations: int
    retired_at: datetime | None


class StoryExchange(Struct, frozen=True):
    """A request of the user, and the beginning of the agent's last answer to it."""

    request: str
    answer: str


class SessionStory(Struct, frozen=True):
    """What a session came to so far: decisions in force, open work, and its newest exchanges; oldest first."""

    decisions: list[str]
    remaining: list[str]
    exchanges: list[StoryExchange]


@dataclass
class Sessions:
    """Answers questions about sessions."""

    _documents: DocumentReader

    async def page(
        self, reader: Reader, project: str | None, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Any]:
        """A tenant's or a project's sessions, the most recently active first."""
        listing, within = sessions(reader.tenant, project), times.by_event_time()
        return page_view(await self._documents.newest(listing, reader, project, cursor, limit, within))

    async def one(self, reader: Reader, session_id: str, project: str | None) -> Located:
        """One session; without a project, the one with that id (rejected when several projects have one)."""
        located = await locate_session(self._documents, reader.tenant, session_id, project, reader.key_scope)
        if not may_read(located.document, reader):
            raise NotFound(f"there is no session {session_id!r}")
        return located

    async def named(self, reader: Reader, session_id: str) -> list[Located]:
        """The sessions of that id, of whatever project, the most recently heard of first."""
        everywhere = range(self._documents.partitions)
        named = await self._documents.members(session_name(reader.tenant, session_id), everywhere, MAX_NAMED)
        documents = await self._documents.get([(partition, DocumentId(member)) for partition, member in named])
        readable = [
            (partition, session)
            for (partition, _), session in zip(named, documents, strict=True)
            if isinstance(session, Session) and may_read(session, reader)
        ]
        return [Located(*row) for row in sorted(readable, key=lambda row: row[1].seen_ms, reverse=True)]

    async def story(self, reader: Reader, session_id: str, project: str | None) -> SessionStory:
        """What a session came to so far; raises as `one`."""
        return await story_of_session(self._documents, await self.one(reader, session_id, project), reader)

    async def observations(
        self,
        reader: Reader,
        session_id: str,
        project: str | None,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        newest_first: bool = False,
    ) -> SomeRetired[Any]:
        """A session's observations in the order they were recorded."""
        located = await self.one(reader, session_id, project)
        page = await self._documents.page(
            session_observations(located.document.id),
            [located.partition],
            cursor=cursor,
            limit=limit,
            newest_first=newest_first,
            within=times.in_log_order(),
            readable=readable_by(reader),
        )
        items, session = page_view(page).items, located.document
        if not isinstance(session, Session) or not session.retired:
            return SomeRetired(items, page.next)
        retired_at = from_ms(session.retired_ms)
        return SomeRetired(items, page.next, retired_observations=session.retired, retired_at=retired_at, note=RETIRED)


async def locate_session(
    documents: DocumentReader, tenant: str, session_id: str, project: str | None, key_scope: KeyScope = ANYWHERE
) -> Located:
    """A tenant's session; raises NotFound, or CommandRejected when several projects within reach have one and none is
    named. Raises LogUnavailable where it is not found and may be in a partition that could not be read."""
    if project is not None:
        partition = partition_of(session_route(tenant, project, session_id), documents.partitions)
        (session,) = await documents.get([(partition, session_document_id(tenant, project, session_id))])
        if isinstance(session, Session):
            return Located(partition, session)
        check_missing(f"a session {session_id!r} of project {project!r}")
        raise NotFound(f"project {project!r} has no session {session_id!r}")
    matches: list[Located] = []
    if key_scope.projects:  # only these: what other projects have does not show
        for allowed in key_scope.projects:
            with suppress(NotFound):
                matches.append(await locate_session(documents, tenant, session_id, allowed))
    else:
        named = await documents.members(session_name(tenant, session_id), range(documents.partitions), 2)
        rows = await documents.get([(partition, DocumentId(member)) for partition, member in named])
        pairs = zip(named, rows, strict=True)
        matches = [Located(partition, session) for (partition, _), session in pairs if isinstance(session, Session)]
    if len(matches) > 1:
        raise CommandRejected(f"several projects have a session {session_id!r}; name the project", "project")
    if not matches:
        check_missing(f"a session {session_id!r}")
        raise NotFound(f"there is no session {session_id!r}")
    return matches[0]


async def find_session(documents: DocumentReader, tenant: str, session_id: str, project: str) -> Session | None:
    """A project's session, or None."""
    try:
        located = await locate_session(documents, tenant, session_id, project)
    except NotFound:
        return None
    return located.document if isinstance(located.document, Session) else None


async def summaries_of(
    documents: DocumentReader, sessions: Sequence[tuple[int, Document]], reader: Reader
) -> dict[str, Summary]:
    """The summaries that the reader can see of these sessions, by the session's document id."""
    names = [(partition, summary_id(DocumentId(session.id))) for partition, session in sessions]
    pairs = zip(sessions, await documents.get(names), strict=True)
    return {
        session.id: summary
        for (_, session), summary in pairs
        if isinstance(summary, Summary) and may_read(summary, reader)
    }


TURNS_READ = 400
"""Of a session, the newest turns of users and agents: what its story is made of."""


async def turns_of(
    documents: DocumentReader,
    some: Sequence[tuple[int, Session]],
    reader: Reader,
    listing: Callable[[str], str] = session_turns,
    limit: int = TURNS_READ,
) -> dict[str, list[Observation]]:
    """The newest observations of each session's listing, by default what users and agents said, in time order, by the
    session's document id."""
    listings = [(listing(session.id), partition) for partition, session in some]
    rows = await documents.ranges(listings, limit=limit, newest_first=True)
    locations = [
        location_of(partition, member) for (partition, _), row in zip(some, rows, strict=True) for member in row
    ]
    turns: dict[str, list[Observation]] = {}
    for item in sorted(await documents.readable(locations, reader, Observation), key=in_time):
        if not item.quarantined:
            turns.setdefault(item.session, []).append(item)
    return turns


async def story_of_session(documents: DocumentReader, session: Located, reader: Reader) -> SessionStory:
    """The story of a session, from what the reader can see of it."""
    document = session.document
    assert isinstance(document, Session)
    turns = (await turns_of(documents, [(session.partition, document)], reader)).get(document.id, [])
    story = await asyncio.to_thread(story_of, list(map(story_turn, turns)))
    return SessionStory(
        [entry.text for entry in story.decisions],
        [entry.text for entry in story.remaining],
        [StoryExchange(exchange.request, exchange.answer) for exchange in story.exchanges],
    )


# another shape is called Summary, too: the OpenAPI document tells them apart by this name, which its clients know
SummaryView = public_view(Summary)


@dataclass
class Summaries:
    """Answers questions about summaries."""

    _documents: DocumentReader

    async def page(
        self, reader: Reader, project: str, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Any]:
        """A project's session summaries, newest first."""
        listing, within = summaries(reader.tenant, project), times.in_log_order()
        return page_view(await self._documents.newest(listing, reader, project, cursor, limit, within))

    async def of_session(self, reader: Reader, session: Located) -> Summary | None:
        """The summary of a session, or None."""
        return (await summaries_of(self._documents, [session], reader)).get(session.document.id)


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
    occurred_at: datetime
    linked_at: datetime


@dataclass
class Commits:
    """Answers questions about commits."""

    _documents: DocumentReader

    async def page(
        self, reader: Reader, project: str | None, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Any]:
        """A tenant's or a project's commits, the newest linked first."""
        listing, within = commits(reader.tenant, project), times.by_recording_time()
        return page_view(await self._documents.newest(listing, reader, project, cursor, limit, within))
