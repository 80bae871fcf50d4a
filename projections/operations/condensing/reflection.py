"""Reflecting on a project: insights from what its memories and lessons have in common."""

import asyncio

from msgspec import Struct

from ingest.clock import Clock
from ingest.commands.decide import Caller
from ingest.commands.requests import RecordLesson
from projections.access import Reader
from projections.condense.insights import Item, insights
from projections.documents.document import lessons, memories
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.operations.condensing.evidence import PROJECT_MEMORIES, fingerprint, newest
from projections.operations.condensing.writing import Writing
from projections.operations.current import Current


class Reflected(Struct, frozen=True, kw_only=True):
    """What reflecting on a project gave: new insights, and those that were confirmed."""

    insights: int
    reinforced: int
    items: int
    position: str


class Reflection:
    """Finds insights."""

    def __init__(self, current: Current, clock: Clock) -> None:
        self._current, self._clock = current, clock

    async def reflect(self, reader: Reader, project: str, caller: Caller, max_clusters: int = 10) -> Reflected:
        """Insights from what a project's memories and lessons have in common, kept as lessons."""
        await self._current.settle()
        documents, tenant = self._current.documents, reader.tenant
        kept = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
        learned = await newest(documents, lessons(tenant, project), Lesson, PROJECT_MEMORIES, reader)
        now = self._clock()
        items = [
            Item(one.id, [*one.concepts, *one.tags], one.content, one.importance / 10)
            for one in kept
            if one.is_latest and one.visibility == "public"
        ]
        items += [
            Item(one.id, one.tag_list, one.content, one.confidence_at(now))
            for one in learned
            if not one.retired_ms and one.origin != "reflection"
        ]
        known = {one.content.strip().lower() for one in learned if not one.retired_ms}
        found = await asyncio.to_thread(insights, items, max_clusters)
        writing, fresh = Writing(self._current, caller), 0
        for insight in found:
            command = RecordLesson(
                event_id=f"insight:{fingerprint(insight.content, *sorted(insight.sources))}",
                project=project,
                content=insight.content,
                confidence=insight.confidence,
                tags=list(insight.concepts),
                origin="reflection",
                derived_from=list(insight.sources),
            )
            await writing.give(command)
            fresh += insight.content.strip().lower() not in known
        return Reflected(insights=fresh, reinforced=len(found) - fresh, items=len(items), position=writing.position)
