"""Events of the log as readers see them: what an event is about decides who may see what it says."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from ingest.events.envelope import as_json_object
from ingest.events.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.ids import MEMORY, DocumentId, document_id
from ingest.log.event_log import Stored
from ingest.log.partitions import project_route
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.memories import Memory

_OWN = frozenset(one.TYPE for one in (MemoryRecorded, MemoryRevised, MemoryCondensed))
"""Events that create a memory."""
_SAID = frozenset({"data", "metadata", "trace"})
"""What of an event its caller said, beside who it was, where and when."""


class Wanted(NamedTuple):
    """Which events of the log a reader asks for; empty does not restrict."""

    reader: Reader
    type: str = ""
    session_id: str = ""
    project: str | None = None
    agent_id: str = ""

    def matches(self, event: Mapping[str, Any]) -> bool:
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
        )

    def _within_reach(self, event: Mapping[str, Any]) -> bool:
        reach, tenant = self.reader.reach, event.get("tenant")
        if tenant is None:
            return reach.whole and not reach.within_tenant
        return tenant == self.reader.tenant and reach.allows(event.get("project", ""))


class Seen(NamedTuple):
    """One event as JSON, `position` with its partition."""

    event: dict[str, Any]

    @classmethod
    def of(cls, partition: int, row: Stored) -> "Seen":
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
        """The event for a reader. What is not projected yet goes by what the event itself says."""
        for name in self.about():
            document = known.get(name)
            readable = may_read(document, reader) if isinstance(document, Memory) else self._says_readable(reader)
            if not readable:
                visibility = document.visibility if isinstance(document, Memory) else self._visibility
                kept = {name: value for name, value in self.event.items() if name not in _SAID}
                return {**kept, "data": {"visibility": visibility, "withheld": True}}
        return self.event

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
