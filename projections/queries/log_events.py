"""Events of the log as readers see them: what an event is about decides who may see what it says."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from msgspec import Struct

from ingest.errors import CommandRejected, LogUnavailable
from ingest.events.envelope import as_json_object
from ingest.events.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.ids import MEMORY, DocumentId, document_id
from ingest.log.event_log import EventLog, Stored
from ingest.log.position import START, Position, Token, project_route
from ingest.platform.partial import leaving_out, left_out, left_out_message
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.memories import Memory
from projections.queries.documents import DocumentReader
from projections.queries.times import ANY_TIME, Times
from projections.search.index import IndexService

MAX_SCANNED = 20_000
"""Entries one filtered request may pass over; it then answers what it has and where to go on."""
_OWN = frozenset(one.TYPE for one in (MemoryRecorded, MemoryRevised, MemoryCondensed))
"""Events that create a memory."""
_SAID = frozenset({"data", "metadata", "trace"})
"""What of an event its caller said, beside who it was, where and when."""


class EventsPage(Struct, frozen=True):
    """A page of the log. `next` is what to pass as `after` to go on; at the head the next page is empty."""

    events: list[dict[str, Any]]
    next: str | None


class EventFilter(NamedTuple):
    """Which events of the log a reader asks for; empty does not restrict."""

    reader: Reader
    type: str = ""
    session_id: str = ""
    project: str | None = None
    agent_id: str = ""
    times: Times = ANY_TIME

    def matches(self, event: Mapping[str, Any], position: Position) -> bool:
        """Whether an event is wanted, and of the reader's tenant and projects.

        An unreadable one belongs to no tenant; it may be anybody's, and is shown to operators.
        """
        return (
            self._within_reach(event)
            and self.type in ("", event.get("type"))
            and self.session_id in ("", event.get("session_id", ""))
            and self.project in (None, event.get("project", ""))
            and self.agent_id in ("", event.get("agent_id", ""))
            and self.reader.only_agent in ("", event.get("agent_id", ""))
            and self.times.of_event(event, position)
        )

    def _within_reach(self, event: Mapping[str, Any]) -> bool:
        key_scope, tenant = self.reader.key_scope, event.get("tenant")
        if tenant is None:
            return key_scope.whole and not key_scope.within_tenant
        return tenant == self.reader.tenant and key_scope.allows(event.get("project", ""))


class EventView(NamedTuple):
    """One event as JSON, `position` with its partition."""

    event: dict[str, Any]

    @classmethod
    def of(cls, partition: int, row: Stored) -> "EventView":
        """The event of a log entry."""
        event = as_json_object(row.payload, row.position)
        event["position"] = f"{partition}:{row.position}"
        return cls(event)

    def about(self) -> list[DocumentId]:
        """The memories whose readers alone may see what it says."""
        data: dict[str, Any] = self.event.get("data") or {}
        if self.event.get("type") in _OWN:
            route = project_route(self.event.get("tenant", ""), self.event.get("project", ""))
            return [document_id(MEMORY, route, self.event.get("event_id", ""))]
        if self.event.get("type") == MemoryVisibilityChanged.TYPE:
            return [DocumentId(str(data.get("memory", "")))]
        return []

    def shown(self, reader: Reader, known: Mapping[DocumentId, Document]) -> dict[str, Any]:
        """The event for a reader. What is not projected yet goes by what the event itself says.

        Raises LogUnavailable where what it is about could not be read: who may see it now is not known.
        """
        for name in self.about():
            document = known.get(name)
            if document is None and not reader.operator and self._partition in (unread := left_out()):
                raise LogUnavailable(
                    f"it cannot be told who may see {self.event['position']}; {left_out_message(unread)}"
                )
            readable = may_read(document, reader) if isinstance(document, Memory) else self._says_readable(reader)
            if not readable:
                visibility = document.visibility if isinstance(document, Memory) else self._visibility
                kept = {name: value for name, value in self.event.items() if name not in _SAID}
                return {**kept, "data": {"visibility": visibility, "withheld": True}}
        return self.event

    @property
    def _partition(self) -> int:
        return int(self.event["position"].partition(":")[0])

    @property
    def _visibility(self) -> str:
        data: dict[str, Any] = self.event.get("data") or {}
        return data.get("visibility", "public")

    def _says_readable(self, reader: Reader) -> bool:
        data: dict[str, Any] = self.event.get("data") or {}
        readers = [data.get("owner"), self.event.get("agent_id")]
        if self._visibility == "shared" and isinstance(shared_with := data.get("shared_with"), list):
            readers += cast("list[Any]", shared_with)
        return self._visibility == "public" or reader.operator or (reader.agent_id != "" and reader.agent_id in readers)


class LogEvents:
    """Reads the log for readers. Of what a reader may not see the content is withheld."""

    def __init__(self, log: EventLog, index: IndexService, documents: DocumentReader) -> None:
        self._log, self._index, self._documents = log, index, documents

    async def wait_for_own_writes(self, after: str) -> None:
        """Wait until a position is searchable, before reading what follows it; raises ProjectionBehind."""
        await self._index.wait_for(Token.parse(after))

    async def page(self, wanted: EventFilter, after: str, limit: int, partition: int | None) -> EventsPage:
        """The log from behind `after`, partition by partition, as far as it is wanted.

        Of what the reader may not see the content is withheld; of a project out of reach nothing is read.
        """
        if wanted.project is not None and not wanted.reader.key_scope.allows(wanted.project):
            return EventsPage([], after or None)
        at = self.read_on(after) if after else Token()
        partitions: Sequence[int] = range(self._log.partitions) if partition is None else [self._checked(partition)]
        events: list[EventView] = []
        for number in partitions:
            more = False
            with leaving_out(number, partitions):
                more = await self._read_partition(number, at, limit - len(events), wanted, events)
            if more:
                break
        return EventsPage(await self._shown(events, wanted.reader), str(self._log.history.as_cursor(at)) or None)

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._log.partitions

    def read_on(self, after: str) -> Token:
        """Where to read on behind a token; raises CommandRejected for what is none of this log."""
        return self._log.history.to_read_on(Token.parse(after))

    def applied(self) -> Token:
        """The position up to which events are projected and searchable here."""
        return Token(self._index.applied)

    async def newly_applied(self, wanted: EventFilter, at: Token, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` of the wanted events behind `at` that are projected; moves `at` on past those looked at.

        Each event's `after` is the token that goes on behind it.
        """
        found: list[tuple[EventView, str]] = []
        for partition, until in sorted(self._index.applied.items()):
            if at.get(partition, START) >= until or len(found) >= limit:
                continue
            for row in await self._log.read(partition, at.get(partition, START), limit):
                if row.position > until or len(found) >= limit:
                    break
                at.include(partition, row.position)
                event = EventView.of(partition, row)
                if wanted.matches(event.event, row.position):
                    found.append((event, str(self._log.history.as_cursor(at))))
        shown = await self._shown([event for event, _ in found], wanted.reader)
        return [{**event, "after": after} for event, (_, after) in zip(shown, found, strict=True)]

    async def _shown(self, events: Sequence[EventView], reader: Reader) -> list[dict[str, Any]]:
        """The events as the reader may see them; what they are about decides, as it stands now."""
        about = {name for one in events for name in one.about()}
        found = await self._documents.find_all(sorted(about))
        known = {DocumentId(one.document.id): one.document for one in found}
        return [one.shown(reader, known) for one in events]

    async def _read_partition(
        self, number: int, at: Token, room: int, wanted: EventFilter, events: list[EventView]
    ) -> bool:
        """Read on in one partition until `room` events are found (then true) or its head is reached."""
        position, scanned = max(at.get(number, START), wanted.times.recorded.start), 0
        while room > 0:
            rows = await self._log.read(number, position, min(1000, max(100, room)))
            for row in rows:
                position, scanned = row.position, scanned + 1
                at.include(number, position)
                event = EventView.of(number, row)
                if wanted.matches(event.event, row.position):
                    events.append(event)
                    room -= 1
                    if room == 0:
                        return True
            if not rows:
                return False
            if scanned >= MAX_SCANNED:
                return True
        return True

    def _checked(self, partition: int) -> int:
        if not 0 <= partition < self._log.partitions:
            raise CommandRejected(f"there are partitions 0 to {self._log.partitions - 1}", "partition")
        return partition
