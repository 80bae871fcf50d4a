"""Insights: what several documents about one concept amount to.

Guarantee: extractive, and the order of the items only decides between equals. Every insight names the items that say
so, in these words or nearly these; an insight that recurs was stated at two independent origins or more.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from ingest.commands.decide import Caller, RecordLesson, SetSlot
from ingest.events.envelope import Trust
from ingest.log.position import project_route
from ingest.platform.clock import Clock
from projections.compression.sentences import best, closed, distinct, leading, term_set
from projections.condensing import slots as slot_rules
from projections.condensing.claims import SAME_CLAIM, Claim, claim_groups, claims_in
from projections.condensing.summaries import (
    PROJECT_MEMORIES,
    fingerprint,
    is_made,
    newest,
    observations_of,
    readable,
)
from projections.documents.access import Reader
from projections.documents.lessons import Lesson, lessons, strengthened
from projections.documents.memories import Memory, memories
from projections.documents.sessions import Session
from projections.documents.slots import Slot, default_slots, slot_id
from projections.documents.trust import is_condensed, is_stated, lowest
from projections.operations.current import Current, Writing
from projections.queries.profile import mentions, topics_of
from projections.search.similarity import SIMILAR_ABOVE

MIN_ITEMS = 3
MIN_ORIGINS = 2
PER_CLUSTER = 5
INSIGHTS = 50

_OVERVIEW_SENTENCES = 3
"""More is a summary, not an insight."""
_CONCEPTS = 5
"""Of an insight, its cluster's included; more than these connects everything with everything."""


class Item(Struct, frozen=True):
    """A document to reflect on: a memory, a lesson, an observation.

    `origin` is where it was said, a session for instance; items of one origin do not confirm each other. An empty one
    is the item itself.
    """

    id: str
    concepts: list[str]
    text: str
    confidence: float
    origin: str = ""


class Insight(Struct, frozen=True):
    """A conclusion. The first concept is that of its cluster; `sources` are ids of items."""

    content: str
    confidence: float
    concepts: list[str]
    sources: list[str]


def insights(items: Iterable[Item], max_clusters: int = 10) -> list[Insight]:
    """Returns the insights of the largest concept clusters, at most 5 each and 50 in all; none is nearly another.

    A cluster gives what items of several origins state alike, the most often stated first; each origin raises its
    confidence. A cluster without that gives an overview: `<concept>: ` and the most central sentences that mention it,
    with the mean confidence of their sources.
    """
    candidates: list[Insight] = []
    for concept, members in clusters(items)[:max_clusters]:
        stating = [(item, statements) for item in members if (statements := claims_in(item.text))]
        if len({_origin(item) for item, _ in stating}) >= MIN_ORIGINS:
            candidates += _recurring(concept, stating)[:PER_CLUSTER] or _overview(concept, stating)
    different = claim_groups([insight.content for insight in candidates], SAME_CLAIM)
    return [candidates[group[0]] for group in different][:INSIGHTS]


def clusters(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Returns the topics that at least three items have, with them; largest first, ties by topic."""
    by_concept: defaultdict[str, list[Item]] = defaultdict(list)
    for item in items:
        for concept in topics_of(item.concepts):
            by_concept[concept].append(item)
    large = [(concept, members) for concept, members in by_concept.items() if len(members) >= MIN_ITEMS]
    return sorted(large, key=lambda cluster: (-len(cluster[1]), cluster[0]))


def _origin(item: Item) -> str:
    return item.origin or item.id


def _overview(concept: str, stating: Sequence[tuple[Item, list[str]]]) -> list[Insight]:
    """The most central sentences with the concept, one of an item, so that an overview speaks for several; none where
    they are alike, nor where a tag such as "decision" is all that they have in common.
    """
    saying = [(item, [text for text in statements if mentions(text, concept)]) for item, statements in stating]
    saying = [(item, sentences) for item, sentences in saying if sentences]
    leads = leading([sentences for _, sentences in saying])
    different = distinct([term_set(lead) for _, lead in leads], SIMILAR_ABOVE)
    chosen = [different[rank] for rank in best([leads[index][0] for index in different], _OVERVIEW_SENTENCES)]
    sources = [saying[index][0] for index in chosen]
    if len({_origin(item) for item in sources}) < MIN_ORIGINS:
        return []
    confidence = round(sum(item.confidence for item in sources) / len(sources), 3)
    content = f"{concept}: {' '.join(closed(leads[index][1]) for index in chosen)}"
    return [Insight(content, confidence, _concepts(concept, sources), [item.id for item in sources])]


def _recurring(concept: str, stating: Sequence[tuple[Item, list[str]]]) -> list[Insight]:
    """What items of at least two origins state alike, in the first wording."""
    stated = [(item, text) for item, statements in stating for text in statements]
    ranked: list[tuple[int, Insight]] = []
    for group in claim_groups([text for _, text in stated], SAME_CLAIM):
        sources = list({stated[index][0].id: stated[index][0] for index in group}.values())
        origins = len({_origin(item) for item in sources})
        if origins >= MIN_ORIGINS:
            content, ids = closed(stated[group[0]][1]), [item.id for item in sources]
            confidence = max(item.confidence for item in sources)
            for _ in range(origins - 1):  # each other origin reinforces it, as repeating a lesson does
                confidence = strengthened(confidence)
            ranked.append((origins, Insight(content, round(confidence, 3), _concepts(concept, sources), ids)))
    ranked.sort(key=lambda item: (-item[0], -item[1].confidence))
    return [insight for _, insight in ranked]


def _concepts(concept: str, sources: Iterable[Item]) -> list[str]:
    """The cluster's concept, then those that most sources share with it."""
    counted = Counter(other for item in sources for other in sorted(topics_of(item.concepts) - {concept}))
    return [concept, *(other for other, _ in counted.most_common(_CONCEPTS - 1))]


REFLECTION = "reflection"
"""The origin of lessons that reflecting made."""
MEMORY_CONFIDENCE = 0.5
"""Of the text of a memory: that of an unconfirmed lesson."""


class Reflected(Struct, frozen=True, kw_only=True):
    """What reflecting on a project gave: new insights, and those that were confirmed."""

    insights: int
    reinforced: int
    items: int
    position: str


async def reflect(
    current: Current, clock: Clock, reader: Reader, project: str, caller: Caller, max_clusters: int = 10
) -> Reflected:
    """Insights from what a project's memories and lessons have in common, stored as lessons."""
    await current.settle()
    documents, tenant = current.documents, reader.tenant
    stored = await newest(documents, memories(tenant, project), Memory, PROJECT_MEMORIES, reader)
    learned = await newest(documents, lessons(tenant, project), Lesson, PROJECT_MEMORIES, reader)
    live, now = [lesson for lesson in learned if not lesson.retired_ms and is_stated(lesson)], clock()
    public = [memory for memory in stored if memory.is_latest and memory.visibility == "public" and is_stated(memory)]
    trusts: dict[str, Trust] = {document.id: document.trust for document in (*public, *live)}
    made = [memory for memory in public if is_made(memory)]
    items = [
        Item(memory.id, [*memory.concepts, *memory.tags], memory.content, MEMORY_CONFIDENCE, memory.session_id)
        for memory in public
        if not is_made(memory)
    ]
    items += [
        Item(lesson.id, lesson.tag_list, lesson.content, lesson.confidence_at(now), lesson.derived_from)
        for lesson in live
        if lesson.origin != REFLECTION
    ]
    conclusions = await asyncio.to_thread(lambda: _with_existing(insights(items, max_clusters), live, made))
    writing, new = Writing(current, caller), 0
    for insight, lesson in conclusions:
        content = insight.content if lesson is None else lesson.content
        command = RecordLesson(
            event_id=f"insight:{fingerprint(content, *sorted(insight.sources))}",
            project=project,
            content=content,
            confidence=insight.confidence,
            tags=insight.concepts,
            origin=REFLECTION,
            derived_from=insight.sources,
            trust=lowest(trusts[name] for name in insight.sources),
        )
        await writing.give(command)
        new += lesson is None
    return Reflected(insights=new, reinforced=len(conclusions) - new, items=len(items), position=writing.position)


def _with_existing(
    conclusions: Sequence[Insight], live: Sequence[Lesson], made: Sequence[Memory]
) -> list[tuple[Insight, Lesson | None]]:
    """The insights that no memory the server made states already, each with the lesson that claims the same.

    An overview of a concept that has one in other words is left out: its sources do not say what that one does.
    """
    stated = [Claim.of(memory.content) for memory in made]
    lesson_claims = [(Claim.of(lesson.content), lesson) for lesson in live]
    selected: list[tuple[Insight, Lesson | None]] = []
    for insight in conclusions:
        claim, heading = Claim.of(insight.content), f"{insight.concepts[0]}: "
        if insight.content.startswith(heading):
            same = [lesson for lesson in live if lesson.origin == REFLECTION and lesson.content.startswith(heading)]
            if all(lesson.content == insight.content for lesson in same):
                selected.append((insight, next(iter(same), None)))
            continue
        existing = next((lesson for other, lesson in lesson_claims if claim.is_said_by(other, SAME_CLAIM)), None)
        if existing is not None or not any(claim.is_within(other) for other in stated):
            selected.append((insight, existing))
    return selected


REFLECTED = {slot_rules.PENDING, slot_rules.PATTERNS, slot_rules.CONTEXT}


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
    project = session.project
    seen = readable(await observations_of(current.documents, session), reader)[-newest:]
    route = project_route(caller.tenant, project)
    slots: dict[str, Slot] = default_slots(caller.tenant, project)
    for label in REFLECTED:
        stored = await current.get(route, slot_id(caller.tenant, project, label))
        if isinstance(stored, Slot):
            slots[label] = stored
    writable = {label: slots[label] for label in REFLECTED if label in slots and not slots[label].read_only}
    changed = slot_rules.reflect(seen, writable, clock())
    writing = Writing(current, caller)
    for label, content in changed.items():
        command = SetSlot(
            label=label,
            content=content,
            project=project,
            session_id=session.session_id,
            trust=lowest(("agent_concluded", *(row.trust for row in seen if is_condensed(row)))),
        )
        await writing.give(command)
    return SlotsReflected(len(changed), len(seen), writing.position)
