"""Slots: small named texts of a project, and global ones in the nameless project."""

from datetime import datetime

from msgspec import Struct

from ingest.events.slot import SlotScope
from projections.documents.access import Reader, may_read
from projections.documents.slots import Slot, default_slots, slots
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup
from projections.queries.views import view_of

MAX_SLOTS = 1_000
MAX_PROJECTS = 1_000


def _size(slot: Slot) -> int:
    return len(slot.content)


@view_of(Slot, size=_size)
class SlotView(Struct, frozen=True, kw_only=True):
    """A small named text. `size` and `size_limit` are characters; times are null for one nobody wrote to."""

    id: str
    label: str
    scope: SlotScope
    project: str
    content: str
    size: int
    size_limit: int
    description: str
    pinned: bool
    read_only: bool
    agent_id: str
    created_at: datetime | None
    occurred_at: datetime | None
    updated_at: datetime | None


class Slots:
    """Answers questions about slots."""

    def __init__(self, documents: DocumentReader, lookup: Lookup) -> None:
        self._documents, self._lookup = documents, lookup

    async def of_project(self, reader: Reader, project: str) -> list[Slot]:
        """A project's slots, and those of the nameless one, by label; where both have a label, the project's only.

        Slots that are there from the start are empty until something is written into them, and give way to any that
        somebody wrote.
        """
        found: dict[str, Slot] = {**default_slots(reader.tenant, ""), **default_slots(reader.tenant, project)}
        for place in filter(reader.key_scope.allows, dict.fromkeys(["", project])):
            home = [self._documents.home(reader.tenant, place)]
            page = await self._documents.page(slots(reader.tenant, place), home, limit=MAX_SLOTS, newest_first=False)
            found |= {one.document.label: one.document for one in page.documents if isinstance(one.document, Slot)}
        return [found[label] for label in sorted(found)]

    async def all(self, reader: Reader) -> list[Slot]:
        """The nameless project's slots, and those of every other that hold something, by label.

        Of a tenant with more than MAX_PROJECTS projects only the first by name.
        """
        projects = [one for one in await self._lookup.projects(reader) if one][:MAX_PROJECTS]
        listings = [slots(reader.tenant, project) for project in projects]
        names = await self._documents.members_of(listings, range(self._documents.partitions))
        found = [one.document for one in await self._documents.find_all(names)]
        held = [one for one in found if isinstance(one, Slot) and one.content.strip() and may_read(one, reader)]
        return sorted([*await self.of_project(reader, ""), *held], key=lambda one: (one.label, one.project))
