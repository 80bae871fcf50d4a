"""Forgetting in bulk: everything but what is to be kept, or what has had its time, when somebody asks for it.

Scheduled maintenance forgets expired memories by itself, and no more. agentmemory's sweep also takes the title of the
newest from the older of two memories that say the same. Here saving does that, so a sweep finds none.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple

from ingest.commands.decide import Caller
from ingest.log.position import Token
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_read
from projections.documents.actions import actions
from projections.documents.lessons import lessons
from projections.documents.memories import memories
from projections.documents.observations import Observation, session_observations
from projections.documents.relations import relations
from projections.documents.rows import derived
from projections.documents.sessions import Session, sessions, summary_id
from projections.documents.slots import slots
from projections.forgetting.forget import Forgetting
from projections.forgetting.retired import Retired
from projections.operations.current import Current
from projections.queries.lookup import Lookup, expired, unimportant
from projections.services import Queries

PAGE = 200
REASON = "import: replace"


class Clear:
    """Forgets what somebody has replaced."""

    def __init__(self, current: Current, forgetting: Forgetting, queries: Queries) -> None:
        self._documents, self._forgetting, self._queries = current.documents, forgetting, queries
        self._retired = Retired(current.documents, current.log)

    async def others(self, kept: Collection[str], reader: Reader, caller: Caller) -> Token:
        """Forget all documents but these, as far as the reader may; returns the position behind all of it.

        Raises what forgetting raises, on the way: repeating it goes on.
        """
        token, everywhere = Token(), range(self._documents.partitions)
        projects = {"", *await self._queries.lookup.projects(reader)}
        projects |= {one.project for one in (await self._queries.actions.open_work(reader, None)).actions.values()}
        async for page in self._documents.located(sessions(reader.tenant), everywhere, PAGE):
            for partition, session in page:
                if not isinstance(session, Session) or not may_read(session, reader):
                    continue
                projects.add(session.project)
                if session.id in kept:
                    listing = session_observations(session.id)
                    await self._forget(listing, [partition], kept, reader, caller, token)
                    async for seen in self._retired.of_session(session):
                        names = [one.id for one in seen if one.id not in kept]
                        await self._forget_names(names, kept, reader, caller, token)
                else:
                    gone = await self._forgetting.session(session, caller, reason=REASON)
                    token.include_all(Token.parse(gone.position))
        for project in sorted(projects):
            for listing in (memories, lessons, slots, actions, relations):
                await self._forget(listing(reader.tenant, project), everywhere, kept, reader, caller, token)
        return token

    async def _forget(
        self, listing: str, partitions: Collection[int], kept: Collection[str], reader: Reader, caller: Caller,
        token: Token,
    ) -> None:  # fmt: skip
        async for page in self._documents.pages(listing, list(partitions), PAGE):
            names = [one.id for one in page if one.id not in kept]
            await self._forget_names(names, kept, reader, caller, token)

    async def _forget_names(
        self, names: Sequence[str], kept: Collection[str], reader: Reader, caller: Caller, token: Token
    ) -> None:
        if names:
            gone = await self._forgetting.documents(names, reader, caller, reason=REASON, kept=kept)
            token.include_all(Token.parse(gone.position) if gone.position else {})


KEPT = timedelta(days=180)
"""How long an observation is kept whatever it says."""
UNIMPORTANT = 2
MOST = 200
"""Documents of each kind that one sweep forgets."""


class Swept(NamedTuple):
    """What was, or would be, forgotten: ids of memories and observations."""

    expired: list[str]
    unimportant: list[str]
    position: str


class Sweep:
    """Forgets expired memories and old observations that hardly mattered."""

    def __init__(self, current: Current, lookup: Lookup, forgetting: Forgetting, clock: Clock = system_clock) -> None:
        self._current, self._lookup, self._forgetting, self._clock = current, lookup, forgetting, clock

    async def run(self, reader: Reader, caller: Caller, *, dry_run: bool) -> Swept:
        """Forget what the reader may see of it; with `dry_run`, only say what that would be.

        An observation stays of which something was made that a forgetting would take along.
        """
        memories = await self._lookup.found(expired, reader, None, MOST, kinds=["memory"])
        until_ms = to_ms(self._clock() - KEPT)
        old = await self._lookup.found(
            unimportant, reader, None, MOST, UNIMPORTANT, kinds=["observation"], to_ms=until_ms
        )
        outlived: list[str] = [one.id for one in memories]
        minor: list[str] = [one.id for one in old if isinstance(one, Observation) and not await self._is_source(one)]
        token = Token()
        if not dry_run:
            for names, reason in ((outlived, "expired"), (minor, "old and unimportant")):
                if names:
                    gone = await self._forgetting.documents(names, reader, caller, reason=reason)
                    token.include_all(Token.parse(gone.position) if gone.position else {})
        return Swept(outlived, minor, str(token))

    async def _is_source(self, seen: Observation) -> bool:
        listings = [derived(seen.id), derived(summary_id(seen.session))]
        return bool(await self._current.documents.members_of(listings, range(self._current.documents.partitions)))
