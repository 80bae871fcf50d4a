"""Compile a context for an agent: pinned slots, memories, lessons, profile, past sessions; what its query finds."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from ingest.commands.command import Name
from ingest.events.lesson import EVERY_PROJECT
from ingest.ids import DocumentId
from ingest.log.position import Token
from ingest.platform.clock import Clock, from_ms, system_clock, to_ms
from ingest.platform.partial import made_of_parts
from projections.documents.access import Reader, may_read
from projections.documents.actions import Action, is_active, open_actions
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation, session_observations
from projections.documents.sessions import Session, Summary, sessions, summary_id
from projections.queries.context import (
    LESSONS,
    MEMORIES,
    Context,
    ContextPart,
    actions_block,
    compile_context,
    lessons_block,
    memories_block,
    profile_block,
    recall_block,
    session_block,
    slot_block,
    summary_block,
)
from projections.queries.documents import DocumentReader, Located
from projections.queries.lookup import Lookup, key_scope
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import LeastSure, Recall, RecallRequest, TimeZone
from projections.queries.slots import Slots
from projections.search.index import IndexService

PAST_SESSIONS = 10
OBSERVATIONS_READ = 20
"""Of each past session without a summary, its newest."""
RECALLED = 15
ACTIONS_READ = 20
"""The newest open ones, of which the most urgent are told."""
NOT_SEARCHED = ("slot", "actions", "session")
"""Parts of a context that a project may have without any document that recall finds."""
SPARE = 3
"""Times the memories told that are looked at: those that were made of other documents give way."""


class ContextRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom to compile, and how much room there is. `min_confidence` and `time_zone` are recall's, of `query`."""

    project: Name
    session_id: Name = ""
    user_id: Name = ""
    query: Annotated[str, Meta(max_length=20_000)] = ""
    token_budget: Annotated[int, Meta(ge=1, le=200_000)] = 2000
    agent_id: Name = ""
    min_confidence: LeastSure = None
    time_zone: TimeZone = ""
    after: str = ""


class Compile:
    """Answers context requests."""

    def __init__(
        self,
        index: IndexService,
        documents: DocumentReader,
        recall: Recall,
        profiles: ProjectProfiles,
        clock: Clock = system_clock,
    ) -> None:
        self._index, self._documents, self._recall = index, documents, recall
        self._lookup = Lookup(index, documents, clock)
        self._slots_of, self._profiles, self._clock = Slots(documents, self._lookup), profiles, clock

    async def __call__(self, request: ContextRequest, reader: Reader) -> Context:
        """The context for a request; raises ProjectionBehind when `after` is not projected in time."""
        if request.after:
            await self._index.wait_for(Token.parse(request.after))
        with made_of_parts(range(self._documents.partitions)):
            parts = await self._parts(request, reader)
            notes = [] if any(one and one.kind in NOT_SEARCHED for one in parts) else [request.project]
            notes = await self._lookup.unknown(reader, notes)
            return replace(compile_context(request.project, parts, request.token_budget), notes=notes)

    async def _parts(self, request: ContextRequest, reader: Reader) -> list[ContextPart | None]:
        (slots, memories, lessons), (actions, past), (profile, recalled) = await asyncio.gather(
            asyncio.gather(
                self._slots(request, reader), self._memories(request, reader), self._lessons(request, reader)
            ),
            asyncio.gather(self._actions(request, reader), self._sessions(request, reader)),
            asyncio.gather(self._profile(request, reader), self._recalled(request, reader)),
        )
        return [*slots, memories, lessons, actions, profile, *past, recalled]

    async def _slots(self, request: ContextRequest, reader: Reader) -> list[ContextPart | None]:
        return [slot_block(slot) for slot in await self._slots_of.of_project(reader, request.project) if slot.pinned]

    async def _profile(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        profile, _ = await self._profiles.of(reader, request.project, request.user_id)
        return profile_block(profile)

    async def _memories(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """The memories that matter most, of the project and of none; where there is a query it says which matter."""
        if request.query.strip():
            return None
        allowed = key_scope(reader, projects=list(dict.fromkeys([request.project, ""])))
        now_ms = to_ms(self._clock())
        documents = await self._documents.get(
            await self._index.ask(
                lambda index: index.notable_memories(allowed, request.project, now_ms, SPARE * MEMORIES)
            )
        )
        return memories_block([one for one in documents if isinstance(one, Memory) and may_read(one, reader)])

    async def _lessons(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """The surest of the project's lessons and of those that are meant for every project."""
        now = self._clock()
        allowed = key_scope(reader, projects=[request.project, EVERY_PROJECT])
        best = await self._index.ask(
            lambda index: index.lessons_by_confidence(allowed, request.project, to_ms(now), LESSONS)
        )
        found = await self._documents.get([(one.partition, DocumentId(one.id)) for one in best])
        return lessons_block([one for one in found if isinstance(one, Lesson) and may_read(one, reader)], now)

    async def _actions(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        """The project's newest open actions, those in progress and the more urgent first."""
        page = await self._documents.of_project(
            open_actions(reader.tenant, request.project), reader, request.project, None, ACTIONS_READ
        )
        found = [one.document for one in page.documents if isinstance(one.document, Action)]
        return actions_block(sorted(found, key=lambda one: (not is_active(one.status), -one.priority)))

    async def _sessions(self, request: ContextRequest, reader: Reader) -> list[ContextPart | None]:
        page = await self._documents.page(
            sessions(reader.tenant, request.project), range(self._documents.partitions), limit=PAST_SESSIONS + 1
        )
        past = [
            one
            for one in page.documents
            if isinstance(one.document, Session)
            and one.document.session_id != request.session_id
            and may_read(one.document, reader)
        ][:PAST_SESSIONS]
        told = await self._documents.get([(one.partition, summary_id(DocumentId(one.document.id))) for one in past])
        summaries = [one if isinstance(one, Summary) and may_read(one, reader) else None for one in told]
        untold = [one for one, summary in zip(past, summaries, strict=True) if summary is None]
        seen = await self._seen(untold, reader)
        return [
            _session_block(one.document, summary, seen.get(one.document.id, []))
            for one, summary in zip(past, summaries, strict=True)
            if isinstance(one.document, Session)
        ]

    async def _seen(self, past: Sequence[Located], reader: Reader) -> dict[str, list[Observation]]:
        """The newest observations of sessions, as far as the reader may see them, by the session's document."""
        listings = [(session_observations(one.document.id), one.partition) for one in past]
        rows = await self._documents.ranges(listings, limit=OBSERVATIONS_READ, newest_first=True)
        wanted = [
            (one.partition, DocumentId(member.rpartition("|")[2]))
            for one, row in zip(past, rows, strict=True)
            for member in row
        ]
        documents = iter(await self._documents.get(wanted))
        return {
            one.document.id: [
                found
                for found in (next(documents) for _ in row)
                if isinstance(found, Observation) and may_read(found, reader)
            ]
            for one, row in zip(past, rows, strict=True)
        }

    async def _recalled(self, request: ContextRequest, reader: Reader) -> ContextPart | None:
        if not request.query.strip():
            return None
        wanted = RecallRequest(
            query=request.query,
            project=request.project,
            limit=RECALLED,
            min_confidence=request.min_confidence,
            time_zone=request.time_zone,
        )
        answer = await self._recall(wanted, reader)
        found = [(result.id, f"({result.occurred_at:%Y-%m-%d}) {result.snippet}") for result in answer.results]
        return recall_block(request.query, found, request.token_budget)


def _session_block(past: Session, summary: Summary | None, seen: Sequence[Observation]) -> ContextPart | None:
    """A past session's summary, else what was important in it; dated by its beginning."""
    at = from_ms(past.started_ms)
    return summary_block(at, summary) if summary is not None else session_block(at, past.title, seen)
