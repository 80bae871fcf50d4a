"""Reflecting: insights from what a project's memories and lessons have in common; slots that follow a session."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, SetSlot
from ingest.log.position import project_route
from ingest.platform.clock import Clock
from projections.condensing import slots as slot_rules
from projections.condensing.claims import SAME_CLAIM, Claim
from projections.condensing.evidence import (
    PROJECT_MEMORIES,
    fingerprint,
    is_made,
    newest,
    observations_of,
    readable,
)
from projections.condensing.insights import Insight, Item, insights
from projections.documents.access import Reader
from projections.documents.lessons import Lesson, lessons
from projections.documents.memories import Memory, memories
from projections.documents.sessions import Session
from projections.documents.slots import Slot, default_slots, slot_id
from projections.operations.current import Current, Writing

REFLECTION = "reflection"
"""The origin of lessons that reflecting made."""
MEMORY_CONFIDENCE = 0.5
"""Of what a memory says: that it was said, as a lesson that nobody confirmed."""


class Reflected(Struct, frozen=True, kw_only=True):
    """What reflecting on a project gave: new insights, and those that were confirmed."""

    insights: int
    reinforced: int
    items: int
    position: str


async def reflect(
    current: Current, clock: Clock, reader: Reader, project: str, caller: Caller, max_clusters: int = 10
) -> Reflected:
    """Insights from what a project's memories and lessons have in common, kept as lessons."""
    await current.settle()
    documents, tenant = current.documents, reader.tenant
    kept = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    learned = await newest(documents, lessons(tenant, project), Lesson, PROJECT_MEMORIES, reader)
    now = clock()
    items = [
        Item(one.id, [*one.concepts, *one.tags], one.content, MEMORY_CONFIDENCE, one.session_id)
        for one in kept
        if one.is_latest and one.visibility == "public" and not is_made(one)
    ]
    items += [
        Item(one.id, one.tag_list, one.content, one.confidence_at(now), one.derived_from)
        for one in learned
        if not one.retired_ms and one.origin != REFLECTION
    ]
    live = [one for one in learned if not one.retired_ms]
    made = [one for one in kept if one.is_latest and one.visibility == "public" and is_made(one)]
    found = await asyncio.to_thread(lambda: _with_known(insights(items, max_clusters), live, made))
    writing, fresh = Writing(current, caller), 0
    for insight, known in found:
        content = insight.content if known is None else known.content
        command = RecordLesson(
            event_id=f"insight:{fingerprint(content, *sorted(insight.sources))}",
            project=project,
            content=content,
            confidence=insight.confidence,
            tags=list(insight.concepts),
            origin=REFLECTION,
            derived_from=list(insight.sources),
        )
        await writing.give(command)
        fresh += known is None
    return Reflected(insights=fresh, reinforced=len(found) - fresh, items=len(items), position=writing.position)


def _with_known(
    found: Sequence[Insight], live: Sequence[Lesson], made: Sequence[Memory]
) -> list[tuple[Insight, Lesson | None]]:
    """The insights that no memory the server made says already, each with the lesson that claims the same.

    An overview of a concept that has one in other words is left out: what those say, its sources do not.
    """
    stated = [Claim.of(one.content) for one in made]
    said_before = [(Claim.of(one.content), one) for one in live]
    kept: list[tuple[Insight, Lesson | None]] = []
    for insight in found:
        claim, heading = Claim.of(insight.content), f"{insight.concepts[0]}: "
        if insight.content.startswith(heading):
            same = [one for one in live if one.origin == REFLECTION and one.content.startswith(heading)]
            if all(one.content == insight.content for one in same):
                kept.append((insight, next(iter(same), None)))
            continue
        known = next((one for other, one in said_before if claim.is_said_by(other, SAME_CLAIM)), None)
        if known is not None or not any(claim.is_within(one) for one in stated):
            kept.append((insight, known))
    return kept


REFLECTED = {"pending_items", "session_patterns", "project_context"}


class SlotsReflected(NamedTuple):
    """How many slots were changed, and of how many observations that was made."""

    slots_changed: int
    observations: int
    position: str


async def reflect_slots(
    current: Current, clock: Clock, session: Session, caller: Caller, newest: int = 50, *, reader: Reader | None = None
) -> SlotsReflected:
    """Bring the slots of its project that follow the work up to date with a session.

    A reader's are made of what it may see.
    """
    place = session.project
    seen = readable(await observations_of(current.documents, session), reader)[-newest:]
    route = project_route(caller.tenant, place)
    known: dict[str, Slot] = default_slots(caller.tenant, place)
    for label in REFLECTED:
        found = await current.get(route, slot_id(caller.tenant, place, label))
        if isinstance(found, Slot):
            known[label] = found
    texts = {
        label: slot_rules.SlotContent(known[label].content, known[label].size_limit)
        for label in REFLECTED
        if label in known and not known[label].read_only
    }
    changed = slot_rules.reflect(seen, texts, clock())
    writing = Writing(current, caller)
    for label, content in changed.items():
        await writing.give(SetSlot(label=label, content=content, project=place, session_id=session.session_id))
    return SlotsReflected(len(changed), len(seen), writing.position)
