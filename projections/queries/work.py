"""Work items of a project, and those that can be done now."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeGuard

from msgspec import Struct

from ingest.ids import DocumentId
from ingest.nouns.action import ActionEdge
from ingest.nouns.slot import SlotScope
from ingest.platform.clock import from_ms, system_clock, to_ms
from ingest.platform.partial import left_out
from projections.nouns.access import Reader, may_read
from projections.nouns.action import (
    Action,
    Ready,
    WorkItem,
    actions,
    claimed_paths,
    frontier,
    open_actions,
    work_item,
)
from projections.nouns.document import Document
from projections.nouns.relation import Relation, edges, relations
from projections.nouns.slot import Slot, default_slots, slots
from projections.queries.documents import DocumentReader, location_of
from projections.queries.lookup import Lookup
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, page_view, view_of
from projections.text.globs import names_file

MAX_OPEN_ACTIONS = 5_000
MAX_CLAIMED = 50


@view_of(
    Action,
    priority=lambda action: int(action.priority) if float(action.priority).is_integer() else action.priority,
    tags="tag_list",
    edges="edge_list",
    paths="path_list",
    expires_at=lambda action: from_ms(action.expires_ms) if action.holder else None,
)
class ActionView(Struct, frozen=True, kw_only=True):
    """A work item. `holder` is the agent whose claim is valid until `expires_at`; empty and null without a claim."""

    id: str
    project: str
    version: int
    changed_by: str
    holder: str
    token: str
    expires_at: datetime | None
    paths: list[str]
    title: str
    description: str
    status: str
    priority: int | float
    tags: list[str]
    edges: list[ActionEdge]
    parent: str
    session_id: str
    agent_id: str
    assigned_to: str
    result: str
    crystallized_into: str
    occurred_at: datetime
    created_at: datetime
    updated_at: datetime


class OpenWork(NamedTuple):
    """What is still to be done. `actions` and `ready` are the reader's to see; `everybodys` has what waits as well."""

    actions: dict[str, Action]
    ready: list[Ready]
    all_open_actions: dict[str, WorkItem]


@dataclass
class Actions:
    """Answers questions about work items."""

    _documents: DocumentReader

    async def page(
        self,
        reader: Reader,
        project: str,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        open_only: bool = False,
    ) -> Page[Any]:
        """A project's actions, newest first."""
        listing = (open_actions if open_only else actions)(reader.tenant, project)
        within = times.in_log_order()
        return page_view(await self._documents.newest(listing, reader, project, cursor, limit, within, at_home=True))

    async def open_work(self, reader: Reader, project: str | None, agent_id: str = "") -> OpenWork:
        """The actions still to be done, of a project or of all, and those that `agent_id` can work on now.

        What waits for an action that the reader can't see waits all the same.
        """
        page = await self._documents.page(
            open_actions(reader.tenant, project),
            range(self._documents.partitions),
            limit=MAX_OPEN_ACTIONS,
            newest_first=False,
        )
        unfinished = [
            action
            for _, action in page.documents
            if isinstance(action, Action) and reader.key_scope.allows(action.project)
        ]
        now = system_clock()
        items = {action.id: work_item(action, to_ms(now)) for action in unfinished}
        readable = {action.id: action for action in unfinished if may_read(action, reader)}
        ready = frontier(items, now, agent_id, len(items))
        return OpenWork(readable, [task for task in ready if task.item.id in readable], items)

    async def claimed(self, reader: Reader, project: str, files: Sequence[str] = ()) -> list[Action]:
        """The actions with paths that other agents hold now; with `files`, only those whose paths match one of them.

        Of a project with more than MAX_CLAIMED of them, only so many.
        """
        listing, now = claimed_paths(reader.tenant, project), to_ms(system_clock())
        page = await self._documents.newest(listing, reader, project, None, MAX_CLAIMED, at_home=True)

        def is_wanted(action: Document) -> TypeGuard[Action]:
            if not isinstance(action, Action) or not action.is_claimed(now) or action.holder == reader.agent_id:
                return False
            return not files or any(names_file(pattern, file) for pattern in action.path_list for file in files)

        # in a thread: many long patterns take milliseconds
        return await asyncio.to_thread(lambda: [row.document for row in page.documents if is_wanted(row.document)])


MAX_SLOTS = 1_000
MAX_PROJECTS = 1_000


@view_of(Slot, size=lambda slot: len(slot.content))
class SlotView(Struct, frozen=True, kw_only=True):
    """A small named text. `size` and `size_limit` are characters; times are null for a slot that was never written.

    Its version is 0 then.
    """

    id: str
    version: int
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


@dataclass
class Slots:
    """Answers questions about slots."""

    _documents: DocumentReader
    _lookup: Lookup

    async def of_project(self, reader: Reader, project: str) -> list[Slot]:
        """A project's slots, and those of the nameless one, by label; where both have a label, the project's only.

        Slots that are there from the start are empty until something is written into them, and give way to any that
        somebody wrote.
        """
        by_label: dict[str, Slot] = {**default_slots(reader.tenant, ""), **default_slots(reader.tenant, project)}
        for name in filter(reader.key_scope.allows, dict.fromkeys(["", project])):
            home = [self._documents.home(reader.tenant, name)]
            page = await self._documents.page(slots(reader.tenant, name), home, limit=MAX_SLOTS, newest_first=False)
            by_label |= {slot.label: slot for _, slot in page.documents if isinstance(slot, Slot)}
        return [by_label[label] for label in sorted(by_label)]

    async def all(self, reader: Reader) -> list[Slot]:
        """The nameless project's slots, and those of every other that hold something, by label.

        Of a tenant with more than MAX_PROJECTS projects only the first by name.
        """
        projects = [project for project in await self._lookup.projects(reader) if project][:MAX_PROJECTS]
        listings = [slots(reader.tenant, project) for project in projects]
        names = await self._documents.members_of(listings, range(self._documents.partitions))
        filled = [
            slot
            for _, slot in await self._documents.find_all(names)
            if isinstance(slot, Slot) and slot.content.strip() and may_read(slot, reader)
        ]
        return sorted([*await self.of_project(reader, ""), *filled], key=lambda slot: (slot.label, slot.project))


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


@dataclass
class Relations:
    """Answers questions about relations."""

    _documents: DocumentReader
    _lookup: Lookup

    async def page(
        self, reader: Reader, project: str, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Any]:
        """A project's relations, newest first; those of documents the reader can't see are left out."""
        listing, within = relations(reader.tenant, project), times.in_log_order()
        readable = partial(self.readable, reader=reader)
        return page_view(
            await self._documents.newest(
                listing, reader, project, cursor, limit, within, at_home=True, readable=readable
            )
        )

    async def newest(self, reader: Reader, limit: int) -> list[Relation]:
        """The newest `limit` relations of all projects that the reader finds anything in."""
        listings = [
            (relations(reader.tenant, project), self._documents.home(reader.tenant, project))
            for project in dict.fromkeys(["", *await self._lookup.projects(reader)])
        ]
        rows = await self._documents.ranges(listings, limit=limit, newest_first=True)
        members = [(member, partition) for (_, partition), row in zip(listings, rows, strict=True) for member in row]
        newest = [location_of(partition, member) for member, partition in sorted(members, reverse=True)[:limit]]
        return await self.readable(await self._documents.get(newest), reader)

    async def of_documents(self, names: Sequence[str], reader: Reader) -> list[Relation]:
        """The relations that begin or end at any of these, as far as the reader can see what they relate."""
        everywhere = range(self._documents.partitions)
        members = [
            member
            for name in names
            for member in await self._documents.members(edges(reader.tenant, name), everywhere, MAX_EDGES)
        ]
        locations = [(partition, DocumentId(name)) for partition, name in dict.fromkeys(members)]
        return await self.readable(await self._documents.get(locations), reader)

    async def readable(self, documents: Sequence[Document | None], reader: Reader) -> list[Relation]:
        """The relations among these documents both ends of which the reader can see.

        An end that is no document hides nothing; one that may be a document of a partition that could not be read
        hides its relations.
        """
        stated = [document for document in documents if isinstance(document, Relation)]
        ends = {end for relation in stated for end in (relation.source, relation.target)}
        existing = {
            located.document.id: located.document
            for located in await self._documents.find_all(sorted(map(DocumentId, ends)))
        }
        hidden = {name for name, document in existing.items() if not may_read(document, reader)}
        if left_out() and not reader.operator:
            hidden |= ends - existing.keys()
        return [
            relation
            for relation in stated
            if reader.key_scope.allows(relation.project) and not {relation.source, relation.target} & hidden
        ]
