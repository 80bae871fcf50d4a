"""Work items: those of a project, and what can be done now."""

from datetime import datetime
from typing import NamedTuple

from msgspec import Struct

from ingest.events.action import ActionEdge
from ingest.platform.clock import Clock, system_clock
from projections.documents.access import Reader, may_read
from projections.documents.actions import Action, Ready, WorkItem, actions, frontier, open_actions, work_item
from projections.queries.documents import DocumentReader
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, Record, page_view, view_of

MAX_OPEN_ACTIONS = 5_000


def _priority(action: Action) -> int | float:
    return int(action.priority) if float(action.priority).is_integer() else action.priority


@view_of(Action, priority=_priority, tags="tag_list", edges="edge_list")
class ActionView(Struct, frozen=True, kw_only=True):
    """A work item."""

    id: str
    project: str
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
    """What is still to be done. `actions` and `ready` are the reader's to see; `everybodys` has what waits, too."""

    actions: dict[str, Action]
    ready: list[Ready]
    all_open_actions: dict[str, WorkItem]


class Actions:
    """Answers questions about work items."""

    def __init__(self, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._documents, self._clock = documents, clock

    async def page(
        self,
        reader: Reader,
        project: str,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        open_only: bool = False,
    ) -> Page[Record]:
        """A project's actions, newest first."""
        listing = (open_actions if open_only else actions)(reader.tenant, project)
        within = times.in_log_order()
        page = await self._documents.of_project(listing, reader, project, cursor, limit, within)
        return page_view(page)

    async def open_work(self, reader: Reader, project: str | None, agent_id: str = "") -> OpenWork:
        """The actions still to be done, of a project or of all, and those that `agent_id` can work on now.

        What waits for an action that the reader may not see waits all the same.
        """
        found = [one for one in await self._open(reader.tenant, project) if reader.key_scope.allows(one.project)]
        items = {one.id: work_item(one) for one in found}
        readable = {one.id: one for one in found if may_read(one, reader)}
        ready = frontier(items, self._clock(), agent_id, len(items))
        return OpenWork(readable, [one for one in ready if one.item.id in readable], items)

    async def _open(self, tenant: str, project: str | None) -> list[Action]:
        """The MAX_OPEN_ACTIONS oldest, whoever wrote them."""
        page = await self._documents.page(
            open_actions(tenant, project), range(self._documents.partitions), limit=MAX_OPEN_ACTIONS, newest_first=False
        )
        return [one.document for one in page.documents if isinstance(one.document, Action)]
