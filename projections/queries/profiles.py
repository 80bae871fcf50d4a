"""Profiles of projects, stored for an hour: what a project is like, told by its newest sessions and public memories."""

import time
from asyncio import to_thread
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

from ingest.ids import DocumentId
from ingest.nouns.command import EVERY_PROJECT
from ingest.platform.clock import system_clock
from ingest.platform.partial import left_out
from projections.index.protocol import DocumentLocation, IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation, session_observations, timeline
from projections.nouns.session import Session, sessions
from projections.nouns.trust import is_stated
from projections.queries.documents import DocumentReader, Located
from projections.queries.lookup import key_scope
from projections.queries.profile import PREFERENCE_TAGS, Profile, profile
from projections.queries.session import summaries_of

SESSIONS = 20
SESSIONS_LOOKED_AT = 200
"""Of a project, in search of SESSIONS that an isolated reader can see."""
OBSERVATIONS = 500
"""Of all these sessions together, an equal share of each: what a profile tells but its counts."""
PREFERENCES = 100
"""Memories, of the project and of none."""
KEPT = 256  # some KB each; an agent asks for the profile of a few projects
KEEP_S = 3_600.0
NOTHING_KEPT_S = 2.0
"""How long it is remembered that nothing is known of a project: it has no work to be told of, and may at any moment."""

Key: TypeAlias = tuple[str, str, str, str, tuple[str, ...]]


class _KeptProfile(NamedTuple):
    profile: Profile | None
    until_s: float
    made_of: tuple[str, int]
    """The index it was made with, and how much had been forgotten of that."""
    public: list[DocumentLocation]
    """The memories it tells of, all of them public then."""


class ProjectProfiles:
    """Makes profiles and keeps the newest used of them."""

    def __init__(self, index: IndexService, documents: DocumentReader) -> None:
        self._index, self._documents = index, documents
        self._kept: OrderedDict[Key, _KeptProfile] = OrderedDict()

    async def of(
        self, reader: Reader, project: str, user_id: str = "", *, refresh: bool = False
    ) -> tuple[Profile | None, bool]:
        """A project's profile, with a user's preferences, and whether it was made before; None for an unknown project.

        It is made of public memories only, so readers share it. A cached one is not used after an hour, nor once
        anything was forgotten or one of its memories is no longer public; one that lacks partitions is not cached.
        """
        key = (reader.tenant, project, user_id, reader.only_agent, reader.key_scope.projects)
        cached = self._kept.get(key)
        if cached is not None and not refresh and await self._is_valid(cached):
            self._kept.move_to_end(key)
            return cached.profile, cached.profile is not None
        self._kept.pop(key, None)
        index = self._index.made_of  # before reading: what is forgotten during it outdates the profile
        past = await self._sessions(reader, project)
        observations = await self._observations(past, reader)
        public = await self._preferences(reader, project, user_id)
        memories = [memory for _, memory in public]
        summaries = await summaries_of(self._documents, past, reader)
        titles = {session: summary.title for session, summary in summaries.items()}
        fresh = None
        if past or any(memory.project == project for memory in memories):
            now, counts = system_clock(), (len(past), len(observations))
            if not reader.only_agent:  # a reader who sees only some does not learn how many there are
                listings = [sessions(reader.tenant, project), timeline(reader.tenant, project)]
                counts = await self._documents.count(listings)
            fresh = await to_thread(
                profile, project, user_id, counts[0], observations, memories, now, titles, total_observations=counts[1]
            )
        if left_out():
            return fresh, False
        sources = [(partition, DocumentId(memory.id)) for partition, memory in public] if fresh else []
        self._kept[key] = _KeptProfile(fresh, time.monotonic() + (KEEP_S if fresh else NOTHING_KEPT_S), index, sources)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return fresh, False

    async def _is_valid(self, cached: _KeptProfile) -> bool:
        if time.monotonic() >= cached.until_s or not self._index.ready or cached.made_of != self._index.made_of:
            return False
        return all(_is_public(memory) for memory in await self._documents.get(cached.public))

    async def _sessions(self, reader: Reader, project: str) -> list[Located]:
        page = await self._documents.page(
            sessions(reader.tenant, project),
            range(self._documents.partitions),
            limit=SESSIONS_LOOKED_AT if reader.only_agent else SESSIONS,
        )
        located = [located for located in page.documents if isinstance(located.document, Session)]
        return [session for session in located if may_read(session.document, reader)][:SESSIONS]

    async def _observations(self, past: list[Located], reader: Reader) -> list[Observation]:
        documents: list[Observation] = []
        for partition, session in past:
            page = await self._documents.page(
                session_observations(session.id), [partition], limit=OBSERVATIONS // len(past)
            )
            observations = [located.document for located in page.documents if isinstance(located.document, Observation)]
            documents += [observation for observation in observations if may_read(observation, reader)]
        return documents

    async def _preferences(self, reader: Reader, project: str, user_id: str) -> list[tuple[int, Memory]]:
        scope = reader.scope if reader.only_agent else "shared"
        anyone = Reader(reader.tenant, reader.only_agent, scope, key_scope=reader.key_scope)
        requested = [("type", "rule"), *(("tag", tag) for tag in PREFERENCE_TAGS)]
        requested += [("user", user_id)] if user_id else []
        allowed = key_scope(anyone, projects=[project, EVERY_PROJECT], kinds=["memory"], any_of=requested)
        locations = await self._index.ask(lambda index: index.recorded_last(allowed, PREFERENCES))
        located = zip(locations, await self._documents.get(locations), strict=True)
        return [
            (partition, memory)
            for (partition, _), memory in located
            if isinstance(memory, Memory) and _is_public(memory)
        ]


def _is_public(document: object) -> bool:
    if not isinstance(document, Memory) or document.is_expired(system_clock()):
        return False
    return document.visibility == "public" and document.is_latest and is_stated(document)
