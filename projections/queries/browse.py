"""Reading without searching: one document, the listings, the log itself, and how far behind everything is."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from ingest.errors import CommandRejected, NotFound
from ingest.ids import OBSERVATION, DocumentId, document_id
from ingest.log.event_log import EventLog
from ingest.log.keys import PartitionKeys
from ingest.log.partitions import partition_of, project_route, session_route
from ingest.log.position import START, Position, Token
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.connections import Client
from ingest.reach import ANYWHERE, Reach
from projections.documents.access import Reader, may_read
from projections.documents.actions import Action, actions, open_actions, work_item
from projections.documents.commits import Commit, commits, session_commits
from projections.documents.document import Document
from projections.documents.frontier import Ready, WorkItem, frontier
from projections.documents.ledgers import Ledger, ledgers
from projections.documents.lessons import Lesson, lessons
from projections.documents.memories import Memory, memories
from projections.documents.observations import Observation, session_observations, timeline
from projections.documents.relations import Relation, edges, relations
from projections.documents.sessions import Session, session_document_id, session_name, sessions
from projections.documents.slots import Slot, default_slots, slots
from projections.documents.summaries import Summary, summaries, summary_id
from projections.documents.tombstones import Mark, Tombstone
from projections.queries import near
from projections.queries.documents import DocumentReader, Located, Page
from projections.queries.log_events import Seen, Wanted
from projections.queries.numbers import Noun, Numbers
from projections.queries.reach import Place, projects, reach
from projections.queries.views import view
from projections.search.service import ReplicaService

MAX_SCANNED = 20_000
"""Entries one filtered request may pass over; it then answers what it has and where to go on."""
RETIRED = (
    "observations of sessions that were silent for long are retired: no longer listed or searched, "
    "but still in the log (GET /v1/events?session_id=...)"
)
MAX_VERSIONS = 1_000
"""Of one memory's history."""
MAX_SLOT_PROJECTS = 1_000
MAX_SLOTS = 1_000
SAME_MOMENT = 20
"""Observations of one moment that may stand between an observation and what happened before or after it."""
MAX_OPEN_ACTIONS = 5_000
MAX_NAMED = 100
"""Sessions of one id, of different projects, in one partition."""
MAX_EDGES = 500
"""Of one end; of one session's commits."""


class PageView(Struct, frozen=True):
    """A page of documents as readers get them, and the cursor of the next one."""

    items: list[dict[str, Any]]
    next: str | None


class ObservationsPage(PageView, frozen=True, omit_defaults=True):
    """A page of observations, where others were retired: `note` says so, and where they are.

    `retired_observations` are those of the session, since `retired_at`; a timeline does not count them.
    """

    retired_observations: int = 0
    retired_at: datetime | None = None
    note: str = ""


class EventsPage(Struct, frozen=True):
    """A page of the log. `next` is what to pass as `after` to go on; at the head the next page is empty."""

    events: list[dict[str, Any]]
    next: str | None


class OpenWork(NamedTuple):
    """What is still to be done. `actions` and `ready` are the reader's to see; `everybodys` tells what waits."""

    actions: dict[str, Action]
    ready: list[Ready]
    everybodys: dict[str, WorkItem]


class Browse:
    """Everything a reader may ask for that is not a search."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        replica: ReplicaService,
        documents: DocumentReader,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._log, self._replica, self._documents = redis, log, replica, documents
        self._clock = clock
        self._numbers: dict[tuple[str, Noun], Numbers] = {}

    async def caught_up(self, after: str) -> None:
        """Wait until a position is searchable, before reading what follows it; raises ProjectionBehind."""
        await self._replica.wait_for(Token.parse(after))

    def numbers(self, tenant: str, noun: Noun) -> Numbers:
        """The numbers by which clients that know no other ids call a tenant's documents."""
        return self._numbers.setdefault((tenant, noun), Numbers(self._redis, tenant, noun))

    async def count(self, reader: Reader, project: str | None = None, **narrowing: Any) -> int:
        """How many documents recall may find for a reader, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        return await self._replica.in_index_thread(near.count, self._replica.index, allowed, now_ms)

    async def found(
        self, work: Callable[..., list[Place]], reader: Reader, project: str | None, *args: Any, **narrowing: Any
    ) -> list[Document]:
        """What a function of `near` finds for a reader, of a project or of all, narrowed as a Filter can be."""
        allowed, now_ms = reach(reader, project, **narrowing), to_ms(self._clock())
        where = await self._replica.in_index_thread(work, self._replica.index, allowed, now_ms, *args)
        return [one for one in await self._documents.get(where) if one is not None and may_read(one, reader)]

    async def beside(
        self, anchor: Observation, reader: Reader, before: int, after: int
    ) -> tuple[list[Observation], list[Observation]]:
        """What happened before and after an observation in sessions of its session's id, each in the order of time.

        What happened in the very same moment is on neither side.
        """
        allowed, at_ms = reach(reader, session_id=anchor.session_id, kinds=["observation"]), to_ms(anchor.occurred_at)
        wanted = (anchor.id, at_ms, before + SAME_MOMENT, after + SAME_MOMENT)
        where = await self._replica.in_index_thread(
            near.around, self._replica.index, allowed, to_ms(self._clock()), *wanted
        )
        loaded = [await self._documents.get(side) for side in where]
        earlier, later = [
            [
                one
                for one in side
                if isinstance(one, Observation) and may_read(one, reader) and one.occurred_at != anchor.occurred_at
            ]
            for side in loaded
        ]
        return earlier[max(0, len(earlier) - before) :], later[:after]

    async def document(self, name: str, reader: Reader) -> Located:
        """What a reader may see of an id; raises NotFound, also for what this reader may not see."""
        found = await self._documents.find(DocumentId(name))
        if found is None or not may_read(found.document, reader) or isinstance(found.document, Mark | Session | Ledger):
            raise NotFound(f"there is no document {name!r}")
        return found

    async def documents(self, names: Sequence[str], reader: Reader) -> list[Located]:
        """Those of the documents that the reader may see, in the order asked for."""
        found = await self._documents.find_all([DocumentId(name) for name in names])
        return [one for one in found if may_read(one.document, reader) and not isinstance(one.document, Mark | Ledger)]

    async def history(self, name: str, reader: Reader) -> list[Memory]:
        """Every version of a memory that the reader may see, oldest first. Forgotten ones are not there."""
        located = await self.document(name, reader)
        if not isinstance(located.document, Memory):
            raise NotFound(f"there is no memory {name!r}")
        versions = [located.document]
        for step in (_parent, _heir):
            at: Document | None = located.document
            while isinstance(at, Memory | Tombstone) and (towards := step(at)) and len(versions) < MAX_VERSIONS:
                (at,) = await self._documents.get([(located.partition, DocumentId(towards))])
                if isinstance(at, Memory) and may_read(at, reader):
                    versions.append(at)
        return sorted(versions, key=lambda one: one.version)

    async def projects(self, reader: Reader) -> list[str]:
        """The projects in which the reader finds anything, by name; the nameless one is the empty name."""
        allowed, now_ms = reach(reader), to_ms(self._clock())
        return await self._replica.in_index_thread(projects, self._replica.index, allowed, now_ms)

    async def memories(
        self, reader: Reader, project: str, cursor: str | None, limit: int, *, latest: bool = False
    ) -> PageView:
        """A project's memories, newest first; superseded ones included unless `latest`."""
        page = await self._of_project(memories(reader.tenant, project), reader.tenant, project, cursor, limit)
        return _page(page, reader, lambda found: not latest or (isinstance(found, Memory) and found.is_latest))

    async def lessons(
        self, reader: Reader, project: str, cursor: str | None, limit: int, *, retired: bool = False
    ) -> PageView:
        """A project's lessons, newest first; retired ones only if asked for."""
        page = await self._of_project(lessons(reader.tenant, project), reader.tenant, project, cursor, limit)
        return _page(page, reader, lambda found: retired or (isinstance(found, Lesson) and not found.retired_ms))

    async def slots(self, reader: Reader, project: str) -> list[Slot]:
        """A project's slots, and those of the nameless one, by label; where both have a label, the project's only.

        Slots that are there from the start are empty until something is written into them, and give way to any that
        somebody wrote.
        """
        found: dict[str, Slot] = {**default_slots(reader.tenant, ""), **default_slots(reader.tenant, project)}
        for place in filter(reader.reach.allows, dict.fromkeys(["", project])):
            page = await self._of_project(slots(reader.tenant, place), reader.tenant, place, None, MAX_SLOTS, False)
            found |= {one.document.label: one.document for one in page.documents if isinstance(one.document, Slot)}
        return [found[label] for label in sorted(found)]

    async def all_slots(self, reader: Reader) -> list[Slot]:
        """The nameless project's slots, and those of every other that hold something, by label.

        Of a tenant with more than MAX_SLOT_PROJECTS projects only the first by name.
        """
        projects = [one for one in await self.projects(reader) if one][:MAX_SLOT_PROJECTS]
        listings = [slots(reader.tenant, project) for project in projects]
        names = await self._documents.members_of(listings, range(self._documents.partitions))
        found = [one.document for one in await self._documents.find_all(names)]
        held = [one for one in found if isinstance(one, Slot) and one.content.strip() and may_read(one, reader)]
        return sorted([*await self.slots(reader, ""), *held], key=lambda one: (one.label, one.project))

    async def actions(
        self, reader: Reader, project: str, cursor: str | None, limit: int, *, open_only: bool = False
    ) -> PageView:
        """A project's actions, newest first."""
        listing = (open_actions if open_only else actions)(reader.tenant, project)
        return _page(await self._of_project(listing, reader.tenant, project, cursor, limit), reader)

    async def open_work(self, reader: Reader, project: str | None, agent_id: str = "") -> OpenWork:
        """The actions still to be done, of a project or of all, and those that `agent_id` can work on now.

        What waits for an action that the reader may not see waits all the same.
        """
        found = [one for one in await self._open_actions(reader.tenant, project) if reader.reach.allows(one.project)]
        items = {one.id: work_item(one) for one in found}
        readable = {one.id: one for one in found if may_read(one, reader)}
        ready = frontier(items, self._clock(), agent_id, len(items))
        return OpenWork(readable, [one for one in ready if one.item.id in readable], items)

    async def _open_actions(self, tenant: str, project: str | None) -> list[Action]:
        """The MAX_OPEN_ACTIONS oldest, whoever wrote them."""
        page = await self._documents.page(
            open_actions(tenant, project),
            self._everywhere,
            cursor=None,
            limit=MAX_OPEN_ACTIONS,
            newest_first=False,
        )
        return [one.document for one in page.documents if isinstance(one.document, Action)]

    async def relations(self, reader: Reader, project: str, cursor: str | None, limit: int) -> PageView:
        """A project's relations, newest first; those of documents the reader may not see are left out."""
        page = await self._of_project(relations(reader.tenant, project), reader.tenant, project, cursor, limit)
        found = [one.document for one in page.documents if isinstance(one.document, Relation)]
        return PageView([view(one) for one in await self.readable_relations(found, reader)], page.next)

    async def newest_relations(self, reader: Reader, limit: int) -> list[Relation]:
        """The newest `limit` relations of all projects that the reader finds anything in."""
        places = [
            (relations(reader.tenant, project), partition_of(project_route(reader.tenant, project), self.partitions))
            for project in dict.fromkeys(["", *await self.projects(reader)])
        ]
        rows = await self._documents.ranges(places, limit=limit, newest_first=True)
        members = [(member, partition) for (_, partition), row in zip(places, rows, strict=True) for member in row]
        wanted = [
            (partition, DocumentId(member.rpartition("|")[2]))
            for member, partition in sorted(members, reverse=True)[:limit]
        ]
        found = [one for one in await self._documents.get(wanted) if isinstance(one, Relation)]
        return await self.readable_relations(found, reader)

    async def edges(self, names: Sequence[str], reader: Reader) -> list[Relation]:
        """The relations that begin or end at any of these, as far as the reader may see what they relate."""
        members = [
            place
            for name in names
            for place in await self._documents.members(edges(reader.tenant, name), self._everywhere, MAX_EDGES)
        ]
        wanted = [(partition, DocumentId(member)) for partition, member in dict.fromkeys(members)]
        found = [one for one in await self._documents.get(wanted) if isinstance(one, Relation)]
        return await self.readable_relations(found, reader)

    async def readable_relations(self, found: Sequence[Relation], reader: Reader) -> list[Relation]:
        """Those relations both ends of which the reader may see; an end that is no document hides nothing."""
        ends = {end for one in found for end in (one.source, one.target)}
        known = {one.document.id: one.document for one in await self._documents.find_all(sorted(map(DocumentId, ends)))}
        hidden = {name for name, document in known.items() if not may_read(document, reader)}
        return [one for one in found if reader.reach.allows(one.project) and not {one.source, one.target} & hidden]

    async def commits(self, reader: Reader, project: str | None, cursor: str | None, limit: int) -> PageView:
        """A tenant's or a project's commits, the newest linked first."""
        page = await self._documents.page(
            commits(reader.tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, reader)

    async def session_commits(self, reader: Reader, session_id: str) -> list[Commit]:
        """The commits made in a session, the newest linked first."""
        listing = session_commits(reader.tenant, session_id)
        page = await self._documents.page(listing, self._everywhere, cursor=None, limit=MAX_EDGES, newest_first=True)
        found = [one.document for one in page.documents if may_read(one.document, reader)]
        return [one for one in found if isinstance(one, Commit)]

    async def summaries(self, reader: Reader, project: str, cursor: str | None, limit: int) -> PageView:
        """A project's session summaries, newest first."""
        page = await self._documents.page(
            summaries(reader.tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, reader)

    async def summary(self, reader: Reader, located: Located) -> Summary | None:
        """The summary of a session; None while there is none."""
        name = summary_id(DocumentId(located.document.id))
        (found,) = await self._documents.get([(located.partition, name)])
        return found if isinstance(found, Summary) and may_read(found, reader) else None

    async def sessions(self, reader: Reader, project: str | None, cursor: str | None, limit: int) -> PageView:
        """A tenant's or a project's sessions, the most recently active first."""
        page = await self._documents.page(
            sessions(reader.tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        return _page(page, reader)

    async def session(self, reader: Reader, session_id: str, project: str | None) -> Located:
        """One session; without a project, the one with that id (rejected when several projects have one)."""
        located = await locate_session(self._documents, reader.tenant, session_id, project, reader.reach)
        if not may_read(located.document, reader):
            raise NotFound(f"there is no session {session_id!r}")
        return located

    async def sessions_named(self, reader: Reader, session_id: str) -> list[Located]:
        """The sessions of that id, of whatever project, the most recently heard of first."""
        named = await self._documents.members(session_name(reader.tenant, session_id), self._everywhere, MAX_NAMED)
        found = await self._documents.get([(partition, DocumentId(member)) for partition, member in named])
        places = zip(named, found, strict=True)
        located = [Located(place, one) for (place, _), one in places if isinstance(one, Session)]
        readable = [one for one in located if may_read(one.document, reader)]
        return sorted(readable, key=lambda one: getattr(one.document, "seen_ms", 0), reverse=True)

    async def session_observations(
        self,
        reader: Reader,
        session_id: str,
        project: str | None,
        cursor: str | None,
        limit: int,
        *,
        newest_first: bool = False,
    ) -> PageView:
        """A session's observations in the order they were recorded."""
        located = await self.session(reader, session_id, project)
        page = await self._documents.page(
            session_observations(located.document.id),
            [located.partition],
            cursor=cursor,
            limit=limit,
            newest_first=newest_first,
        )
        found, session = _page(page, reader), located.document
        if not isinstance(session, Session) or not session.retired:
            return found
        return ObservationsPage(found.items, found.next, session.retired, from_ms(session.retired_ms), RETIRED)

    async def timeline(
        self, reader: Reader, project: str, until: datetime | None, cursor: str | None, limit: int
    ) -> PageView:
        """A project's observations by the time they happened, newest first, beginning at `until`."""
        if cursor is None and until is not None:
            cursor = self._documents.cursor_at(f"{to_ms(until) + 1:014d}")
        page = await self._documents.page(
            timeline(reader.tenant, project), self._everywhere, cursor=cursor, limit=limit, newest_first=True
        )
        found = _page(page, reader)
        if found.next is None and await self._documents.members(ledgers(reader.tenant), self._everywhere, 1):
            return ObservationsPage(found.items, found.next, note=RETIRED)
        return found

    async def events(self, wanted: Wanted, after: str, limit: int, partition: int | None) -> EventsPage:
        """The log from behind `after`, partition by partition, as far as it is wanted.

        Of what the reader may not see the content is withheld.
        """
        at = Token.parse(after).check(self.partitions) if after else Token()
        partitions: Sequence[int] = self._everywhere if partition is None else [self._checked(partition)]
        events: list[Seen] = []
        for number in partitions:
            more = await self._read_partition(number, at, limit - len(events), wanted, events)
            if more:
                break
        return EventsPage(await self._shown(events, wanted.reader), str(at) or None)

    def applied(self) -> Token:
        """The position up to which events are projected and searchable here."""
        return Token(self._replica.applied)

    async def applied_events(self, wanted: Wanted, at: Token, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` of the wanted events behind `at` that are projected; moves `at` on past those looked at.

        Each event's `after` is the token that goes on behind it.
        """
        found: list[tuple[Seen, str]] = []
        for partition, until in sorted(self._replica.applied.items()):
            if at.get(partition, START) >= until or len(found) >= limit:
                continue
            for row in await self._log.read(partition, at.get(partition, START), limit):
                if row.position > until or len(found) >= limit:
                    break
                at.include(partition, row.position)
                event = Seen.of(partition, row)
                if wanted.matches(event.event):
                    found.append((event, str(at)))
        shown = await self._shown([event for event, _ in found], wanted.reader)
        return [{**event, "after": after} for event, (_, after) in zip(shown, found, strict=True)]

    async def observed(self, events: Sequence[Mapping[str, Any]], reader: Reader) -> list[Observation]:
        """The observations that these events of the log recorded, as they stand now, as far as the reader may see."""
        wanted = [
            (
                int(one["position"].partition(":")[0]),
                document_id(
                    OBSERVATION, session_route(one["tenant"], one["project"], one["session_id"]), one["event_id"]
                ),
            )
            for one in events
        ]
        found = await self._documents.get(wanted)
        return [one for one in found if isinstance(one, Observation) and may_read(one, reader)]

    async def _shown(self, events: Sequence[Seen], reader: Reader) -> list[dict[str, Any]]:
        """The events as the reader may see them; what they are about decides, as it stands now."""
        about = {name for one in events for name in one.about()}
        found = await self._documents.find_all(sorted(about))
        known = {DocumentId(one.document.id): one.document for one in found}
        return [one.shown(reader, known) for one in events]

    async def _read_partition(self, number: int, at: Token, room: int, wanted: Wanted, events: list[Seen]) -> bool:
        """Read on in one partition until `room` events are found (then true) or its head is reached."""
        position, scanned = at.get(number, START), 0
        while room > 0:
            rows = await self._log.read(number, position, min(1000, max(100, room)))
            for row in rows:
                position, scanned = row.position, scanned + 1
                at.include(number, position)
                event = Seen.of(number, row)
                if wanted.matches(event.event):
                    events.append(event)
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
                generation, lease = await pipe.execute()
            live = keys.of_generation(int(generation or 1))
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.get(live.checkpoint)
                pipe.zcard(live.embed_queue)
                pipe.xlen(live.changes)
                pipe.zcard(live.dead)
                stored, waiting, feed, dead = await pipe.execute()
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

    async def _of_project(
        self, listing: str, tenant: str, project: str, cursor: str | None, limit: int, newest_first: bool = True
    ) -> Page:
        """A page of a listing that is in the project's partition."""
        partition = partition_of(project_route(tenant, project), self._log.partitions)
        return await self._documents.page(listing, [partition], cursor=cursor, limit=limit, newest_first=newest_first)

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


async def locate_session(
    documents: DocumentReader, tenant: str, session_id: str, project: str | None, reach: Reach = ANYWHERE
) -> Located:
    """A tenant's session; raises NotFound, or CommandRejected when several projects within reach have one and none is
    named."""
    if project is None and reach.projects:
        return await _located_within(documents, tenant, session_id, reach)
    if project is not None:
        partition = partition_of(session_route(tenant, project, session_id), documents.partitions)
        (found,) = await documents.get([(partition, session_document_id(tenant, project, session_id))])
        if isinstance(found, Session):
            return Located(partition, found)
        raise NotFound(f"project {project!r} has no session {session_id!r}")
    named = await documents.members(session_name(tenant, session_id), range(documents.partitions), 2)
    if len(named) > 1:
        raise CommandRejected(f"several projects have a session {session_id!r}; name the project", "project")
    found = await documents.get([(partition, DocumentId(member)) for partition, member in named])
    if not found or not isinstance(found[0], Session):
        raise NotFound(f"there is no session {session_id!r}")
    return Located(named[0][0], found[0])


async def _located_within(documents: DocumentReader, tenant: str, session_id: str, reach: Reach) -> Located:
    """The one session of that id in the projects of a key: what other projects have does not show."""
    found: list[Located] = []
    for project in reach.projects:
        try:
            found.append(await locate_session(documents, tenant, session_id, project))
        except NotFound:
            continue
    if len(found) > 1:
        raise CommandRejected(f"several projects have a session {session_id!r}; name the project", "project")
    if not found:
        raise NotFound(f"there is no session {session_id!r}")
    return found[0]


async def find_session(documents: DocumentReader, tenant: str, session_id: str, project: str) -> Session | None:
    """A project's session; None when there is none."""
    try:
        located = await locate_session(documents, tenant, session_id, project)
    except NotFound:
        return None
    return located.document if isinstance(located.document, Session) else None


def _page(page: Page, reader: Reader, wanted: Callable[[Document], bool] = lambda document: True) -> PageView:
    readable = [one.document for one in page.documents if may_read(one.document, reader) and wanted(one.document)]
    return PageView([view(document) for document in readable], page.next)


def _parent(version: Memory | Tombstone) -> str:
    return version.parent_id if isinstance(version, Memory) else ""


def _heir(version: Memory | Tombstone) -> str:
    return version.superseded_by
