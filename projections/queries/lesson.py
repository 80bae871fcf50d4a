"""Questions about lessons: which trigger before a tool call, which are about a query, which are the most confident."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from msgspec import Struct

from ingest.events.envelope import Trust
from ingest.ids import DocumentId
from ingest.nouns.command import EVERY_PROJECT
from ingest.platform.clock import from_ms, to_ms
from projections.index.protocol import DocumentLocation, IndexService
from projections.nouns.access import Reader
from projections.nouns.document import searchable_text
from projections.nouns.lesson import Lesson, lessons, matches, recall_score, rules
from projections.queries.documents import DocumentReader, location_of
from projections.queries.lookup import key_scope
from projections.queries.recall import QueryVectors
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, page_view, view_of
from projections.search.question import Question
from projections.text.terms import query_terms_of, terms

logger = logging.getLogger(__name__)

FIRST_PAGE, PAGE = 20, 200
"""Lessons whose triggers are read at once: often the first few fill an answer."""
# for all patterns of one request: a hook waits for the answer before its tool runs
PATTERNS_BUDGET_S = 0.05
SPARE = 4
"""Times the limit that the index is asked for: it ranks by other weights than a lesson's own."""
FOUND = 200
LISTED = 1_000
"""Most that is looked at where the index cannot tell which are wanted."""
# below this, texts that share no word are unrelated
LEAST_COSINE = 0.3
NO_PROJECT = "\0"
"""Not a project's name, so none weighs more than another."""


@view_of(Lesson, tags="tag_list", derived_from="sources")
class LessonView(Struct, frozen=True, kw_only=True):
    """Something learned. `confidence` is as of `reinforced_at`."""

    id: str
    version: int
    changed_by: str
    project: str
    agent_id: str
    user_id: str
    title: str
    content: str
    context: str
    tags: list[str]
    confidence: float
    reinforcements: int
    origin: str
    severity: str
    trigger_tool: str
    trigger_pattern: str
    trigger_count: int
    triggered_at: datetime | None
    active: bool
    derived_from: list[str]
    occurred_at: datetime
    recorded_at: datetime
    reinforced_at: datetime
    updated_at: datetime
    retired_at: datetime | None
    position: str
    trust: Trust
    quarantined: str


@dataclass
class Lessons:
    """Answers questions about lessons."""

    _index: IndexService
    _documents: DocumentReader
    _vectors: QueryVectors

    async def page(
        self,
        reader: Reader,
        project: str,
        cursor: str | None,
        limit: int,
        times: Times = ANY_TIME,
        *,
        retired: bool = False,
    ) -> Page[Any]:
        """A project's lessons, newest first; retired ones only on request."""
        listing, within = lessons(reader.tenant, project), times.in_log_order()
        page = await self._documents.newest(listing, reader, project, cursor, limit, within, at_home=True)
        return page_view(page, lambda lesson: retired or (isinstance(lesson, Lesson) and not lesson.retired_ms))

    async def match(
        self, reader: Reader, tool_name: str, preview: str, project: str | None, limit: int = 5
    ) -> list[Lesson]:
        """The active lessons about a tool call, global or of the project: the most severe first, then the newest.

        Looks at all of them, however many; stops early, with a warning in the log, when their patterns take longer than
        PATTERNS_BUDGET_S.
        """
        documents: list[Lesson] = []
        spent_s = 0.0
        listings = [
            (source, rules(reader.tenant, source, tool)) for source in _projects(project) for tool in ("", tool_name)
        ]
        async with aclosing(self._in_order(reader.tenant, list(dict.fromkeys(listings)))) as pages:
            async for page in pages:
                rules_of = await self._documents.fields(page, ("trigger_tool", "trigger_pattern"))
                started = time.perf_counter()
                matching: list[DocumentLocation] = []
                for location, (tool, pattern) in zip(page, rules_of, strict=True):
                    if matches(tool, pattern, tool_name, preview):
                        matching.append(location)
                    if spent_s + time.perf_counter() - started > PATTERNS_BUDGET_S:
                        break
                spent_s += time.perf_counter() - started
                for first in range(0, len(matching), limit):
                    documents += await self._load(matching[first : first + limit], reader)
                    if len(documents) >= limit:
                        return documents[:limit]
                if spent_s > PATTERNS_BUDGET_S:
                    message = "lessons of %r for tool %r: %d matched, the others were skipped after %.0f ms"
                    logger.warning(message, project, tool_name, len(documents), spent_s * 1000)
                    break
        return documents

    async def search(
        self,
        reader: Reader,
        query: str,
        project: str | None,
        now: datetime,
        *,
        min_confidence: float = 0.1,
        limit: int = 10,
        everywhere: bool = True,
    ) -> list[tuple[Lesson, float]]:
        """Lessons about a query with their recall scores by agentmemory's formula, best first, equals by id.

        Of the project and, with `everywhere`, global ones; of all projects without one. Relevance is the share of the
        query's terms that the lesson says, or its cosine to the query, whichever is more.
        """
        if not query.strip():
            return []
        depth = min(FOUND, max(50, SPARE * limit))
        question = Question(text=query, vector=None, limit=depth, now_ms=to_ms(now))
        within = [] if project is None else _projects(project) if everywhere else [project]
        hits, _ = await self._vectors.search(question, key_scope(reader, now=now, projects=within, kinds=["lesson"]))
        cosine = {hit.id: hit.explain.get("cosine", 0.0) for hit in hits}
        loaded = await self._load([(hit.partition, DocumentId(hit.id)) for hit in hits], reader)
        said = await asyncio.to_thread(lambda: [terms(searchable_text(lesson)) for lesson in loaded])
        requested = set(query_terms_of(query))
        scored: list[tuple[Lesson, float]] = []
        for lesson, words in zip(loaded, said, strict=True):
            shared = requested.intersection(words)
            similarity = cosine[lesson.id] if cosine[lesson.id] >= LEAST_COSINE else 0.0
            relevance = min(1.0, max(len(shared) / len(requested) if requested else 0.0, similarity))
            confidence = lesson.confidence_at(now)
            if relevance and confidence >= min_confidence:
                age = now - from_ms(lesson.reinforced_ms or lesson.recorded_ms)
                scored.append((lesson, recall_score(confidence, relevance, age)))
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:limit]

    async def surest(
        self,
        reader: Reader,
        project: str | None,
        now: datetime,
        *,
        source: str = "",
        min_confidence: float = 0.0,
        limit: int = 50,
    ) -> list[Lesson]:
        """Lessons of a project, or of all, by current confidence; `source` is their origin.

        With a source, only the LISTED most confident are considered.
        """
        count = LISTED if source else min(limit, LISTED)
        allowed, now_ms = key_scope(reader, project, now=now), to_ms(now)
        best = await self._index.ask(lambda index: index.lessons_by_confidence(allowed, NO_PROJECT, now_ms, count))
        documents = await self._load([(hit.partition, DocumentId(hit.id)) for hit in best], reader)
        selected = [
            document
            for document in documents
            if source in ("", document.origin) and document.confidence_at(now) >= min_confidence
        ]
        return selected[:limit]

    async def _in_order(
        self, tenant: str, listings: Sequence[tuple[str, str]]
    ) -> AsyncGenerator[list[DocumentLocation]]:
        """Where the lessons in these `(project, listing)` pairs are, in the order of their members, in pages."""
        pairs = [(listing, self._documents.home(tenant, project)) for project, listing in listings]
        low, count = b"-", FIRST_PAGE
        while True:
            rows = await self._documents.ranges(pairs, low, limit=count)
            members = [(member, partition) for (_, partition), row in zip(pairs, rows, strict=True) for member in row]
            page = sorted(members)[:count]
            yield [location_of(partition, member) for member, partition in page]
            if len(page) < count:
                return
            low, count = b"(" + page[-1][0].encode(), PAGE

    async def _load(self, locations: Sequence[DocumentLocation], reader: Reader) -> list[Lesson]:
        lessons = await self._documents.readable(locations, reader, Lesson)
        return [lesson for lesson in lessons if lesson.active and not lesson.retired_ms]


def _projects(project: str | None) -> list[str]:
    return [project or "", EVERY_PROJECT]
