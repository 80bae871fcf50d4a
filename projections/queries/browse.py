"""Reading without searching: one document, the listings, the log itself, and how far behind everything is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from ingest.clock import to_ms
from ingest.connections import Client
from ingest.errors import CommandRejected, NotFound
from ingest.events.envelope import as_json_object
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.partitions import partition_of, project_route, session_route
from ingest.log.position import START, Position, Token
from projections.dead_letters import dead_letters
from projections.documents.document import lessons, memories, session_name, session_observations, sessions, timeline
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Session, session_document_id
from projections.index.service import ReplicaService
from projections.queries.documents import DocumentReader, Located, Page
from projections.queries.views import readable_by, view

Limit = Annotated[int, Meta(ge=1, le=1000)]
MAX_SCANNED = 20_000
"""Entries one filtered request may pass over; it then answers what it has and where to go on."""


class PageView(Struct, frozen=True):
    """A page of documents as readers get them, and the cursor of the next one."""

    items: list[dict[str, Any]]
    next: str | None


class EventsPage(Struct, frozen=True):
    """A page of the log. `next` is what to pass as `after` to go on; at the head the next page is empty."""

    events: list[dict[str, Any]]
    next: str | None


class Wanted(NamedTuple):
    """Which events of the log a reader asks for, and who the reader is; empty does not restrict."""

    tenant: str
    type: str = ""
    session_id: str = ""
    reader: str = ""

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is wanted. An unreadable one belongs to no tenant and is shown to all."""
        return (
            event.get("tenant") in (self.tenant, None)
            and self.type in ("", event.get("type"))
            and self.session_id in ("", event.get("session_id", ""))
        )

    def readable(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event as this reader may see it."""
        data: dict[str, Any] = event.get("data") or {}
        visibility = data.get("visibility", "public")
        readers = {data.get("owner"), event.get("agent_id"), *data.get("shared_with", ())} - {None, ""}
        if visibility == "public" or self.reader in readers:
            return event
        return {**event, "data": {"visibility": visibility, "withheld": True}}


class Browse:
    """Everything a reader may ask for that is not a search."""

    def __init__(self, redis: Client, log: EventLog, replica: ReplicaService, documents: DocumentReader) -> None:
        self._redis, self._log, self._replica, self._documents = redis, log, replica, documents

    async def document(self, name: str, tenant: str, reader: str = "") -> Located:
        """An observation, memory or lesson by id; raises NotFound, also for what this reader may not see."""
        found = await self._documents.find(DocumentId(name))
        readable = found is not None and readable_by(found.document, tenant, reader)
        if found is None or not readable or not isinstance(found.document, Observation | Memory | Lesson):
            raise NotFound(f"there is no document {name!r}")
        return found

    async def memories(self, tenant: str, project: str, reader: str, cursor: str | None, limit: int) -> PageView:
        """A project's memories, newest first, superseded ones included."""
        partition = partition_of(project_route(tenant, project), self._log.partitions)
        page = await self._documents.page(
            memories(tenant, project), [partition], cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, tenant, reader)

    async def lessons(self, tenant: str, project: str, cursor: str | None, limit: int) -> PageView:
        """A project's lessons, newest first."""
        partition = partition_of(project_route(tenant, project), self._log.partitions)
        page = await self._documents.page(
            lessons(tenant, project), [partition], cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, tenant, "")

    async def sessions(self, tenant: str, project: str | None, cursor: str | None, limit: int) -> PageView:
        """A tenant's or a project's sessions, the most recently active first."""
        page = await self._documents.page(
            sessions(tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, tenant, "")

    async def session(self, tenant: str, session_id: str, project: str | None) -> Located:
        """One session; without a project, the one with that id (rejected when several projects have one)."""
        if project is not None:
            partition = partition_of(session_route(tenant, project, session_id), self._log.partitions)
            (found,) = await self._documents.get([(partition, session_document_id(tenant, project, session_id))])
            if isinstance(found, Session):
                return Located(partition, found)
            raise NotFound(f"project {project!r} has no session {session_id!r}")
        named = await self._documents.members(session_name(tenant, session_id), self._everywhere, 2)
        if not named:
            raise NotFound(f"there is no session {session_id!r}")
        if len(named) > 1:
            raise CommandRejected(f"several projects have a session {session_id!r}; name the project", "project")
        partition, member = named[0]
        (found,) = await self._documents.get([(partition, DocumentId(member))])
        if not isinstance(found, Session):
            raise NotFound(f"there is no session {session_id!r}")
        return Located(partition, found)

    async def session_observations(
        self, tenant: str, session_id: str, project: str | None, cursor: str | None, limit: int
    ) -> PageView:
        """A session's observations in the order they were recorded."""
        located = await self.session(tenant, session_id, project)
        page = await self._documents.page(
            session_observations(located.document.id),
            [located.partition],
            cursor=cursor,
            limit=limit,
            newest_first=False,
        )
        return _page(page, tenant, "")

    async def timeline(
        self, tenant: str, project: str, until: datetime | None, cursor: str | None, limit: int
    ) -> PageView:
        """A project's observations by the time they happened, newest first, beginning at `until`."""
        if cursor is None and until is not None:
            cursor = self._documents.cursor_at(f"{to_ms(until) + 1:014d}")
        page = await self._documents.page(
            timeline(tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, tenant, "")

    async def events(self, wanted: Wanted, after: str, limit: int, partition: int | None) -> EventsPage:
        """The log from behind `after`, partition by partition, as far as it is wanted.

        Of a memory that is not public the content is withheld from everybody but those who may read it.
        """
        at = Token.parse(after).check(self.partitions) if after else Token()
        partitions: Sequence[int] = self._everywhere if partition is None else [self._checked(partition)]
        events: list[dict[str, Any]] = []
        for number in partitions:
            more = await self._read_partition(number, at, limit - len(events), wanted, events)
            if more:
                break
        return EventsPage(events, str(at) or None)

    async def _read_partition(
        self, number: int, at: Token, room: int, wanted: Wanted, events: list[dict[str, Any]]
    ) -> bool:
        """Read on in one partition until `room` events are found (then true) or its head is reached."""
        position, scanned = at.get(number, START), 0
        while room > 0:
            rows = await self._log.read(number, position, min(1000, max(100, room)))
            for row in rows:
                position, scanned = row.position, scanned + 1
                at.include(number, position)
                event = as_json_object(row.payload, row.position)
                event["position"] = f"{number}:{row.position}"
                if wanted.matches(event):
                    events.append(wanted.readable(event))
                    room -= 1
                    if room == 0:
                        return True
            if not rows:
                return False
            if scanned >= MAX_SCANNED:
                return True
        return True

    async def projections(self) -> list[dict[str, Any]]:
        """For every partition: head of the log, checkpoint, what is searchable, how many entries wait, dead letters."""
        applied, behind = self._replica.applied, await self._replica.measure_lag()
        rows: list[dict[str, Any]] = []
        for partition in self._everywhere:
            keys = PartitionKeys(partition)
            head = await self._log.head(partition)
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(keys.generation)
                pipe.get(keys.lease)
                pipe.hlen(keys.dead)
                generation, lease, dead = await pipe.execute()
            live = keys.of_generation(int(generation or 1))
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(live.checkpoint)
                pipe.zcard(live.embed_queue)
                pipe.xlen(live.changes)
                stored, waiting, feed = await pipe.execute()
            checkpoint = Position.parse(stored) if stored else START
            rows.append(
                {
                    "partition": partition,
                    "generation": live.generation,
                    "head": str(head),
                    "checkpoint": str(checkpoint),
                    "searchable": str(applied.get(partition, START)),
                    "lag": behind.get(partition, 0),
                    "to_embed": waiting,
                    "feed": feed,
                    "dead_letters": dead,
                    "worker": lease.decode() if lease else None,
                }
            )
        return rows

    async def dead_letters(self, wanted: Wanted) -> list[dict[str, Any]]:
        """The dead letters a reader may see, with their events as the log has them (null once erased)."""
        found: list[dict[str, Any]] = []
        for partition in self._everywhere:
            for letter in await dead_letters(self._redis, PartitionKeys(partition)):
                at = Position.parse(letter.position)
                before = Position(at.ms, at.seq - 1) if at.seq else Position(at.ms - 1, 2**63 - 1)
                rows = await self._log.read(partition, before, 1)
                event = as_json_object(rows[0].payload, at) if rows and rows[0].position == at else None
                if event is not None and not wanted.matches(event):
                    continue
                found.append(
                    {
                        "position": f"{partition}:{letter.position}",
                        "code": letter.code,
                        "message": letter.message,
                        "attempts": letter.attempts,
                        "event": wanted.readable(event) if event else None,
                    }
                )
        return found

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._log.partitions

    @property
    def _everywhere(self) -> range:
        return range(self._log.partitions)

    def _checked(self, partition: int) -> int:
        if not 0 <= partition < self._log.partitions:
            raise CommandRejected(f"there are partitions 0 to {self._log.partitions - 1}", "partition")
        return partition


def _page(page: Page, tenant: str, reader: str) -> PageView:
    readable = [located.document for located in page.documents if readable_by(located.document, tenant, reader)]
    return PageView([view(document) for document in readable], page.next)
