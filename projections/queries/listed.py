"""Lists as agent-memory's clients ask for them, newest first, of one project or of all; and how much there is.

What happened last is found through the index, so a page costs no more for being of all projects.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from ingest.log.keys import NumberKeys
from ingest.log.scripts import number
from ingest.platform.connections import Client
from ingest.secrets.clean import clean_name
from projections.index.protocol import DocumentLocation, Index, IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.document import Document
from projections.nouns.lesson import SEVERITIES, Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.session import Session, sessions
from projections.queries.documents import DocumentReader
from projections.queries.lookup import key_scope
from projections.queries.session import summaries_of
from projections.search.question import Filter

D = TypeVar("D", bound=Document)
Result = TypeVar("Result")

SESSIONS_AT_ONCE = 200
MAX_SESSIONS = 5_000
"""The most recently active ones that are looked at for those that started last."""
MAX_INACTIVE = 1_000
"""Lessons out of use that are looked at: some of them faded, and are not shown."""


class ListedSession(NamedTuple):
    """A session and its summary; empty if it has none."""

    session: Session
    summary: str


class Tally(NamedTuple):
    """How many observations there are, how many of them have a vector, and how many of each kind and project."""

    total: int
    embedded: int
    kinds: dict[str, int]
    projects: dict[str, int]


@dataclass
class Listed:
    """Answers from the index and the documents."""

    _index: IndexService
    _documents: DocumentReader

    async def observations(
        self, reader: Reader, project: str | None, types: Sequence[str], offset: int, limit: int
    ) -> list[Observation | Memory]:
        """Observations and memories by when they happened, newest first; of any type without `types`."""
        allowed = key_scope(reader, project, kinds=["observation", "memory"], types=types)
        page = await self._get(lambda index: index.most_recent(allowed, limit, offset), reader, (Observation, Memory))
        # the index knows milliseconds only
        return sorted(page, key=lambda document: document.occurred_at, reverse=True)

    async def rules(
        self, reader: Reader, project: str | None, severity: str | None, *, active: bool, limit: int
    ) -> list[Lesson]:
        """Lessons in use (or, not `active`, those that were switched off): the most severe first, then the newest.

        One without a severity is `info`.
        """
        allowed = key_scope(reader, project, kinds=["lesson"])
        count = limit if active else MAX_INACTIVE
        lessons = await self._get(
            lambda index: _by_severity(index, allowed, severity, active, count), reader, (Lesson,)
        )
        return [lesson for lesson in lessons if lesson.active == active and not lesson.retired_ms][:limit]

    async def sessions(
        self, reader: Reader, project: str | None, statuses: Sequence[str], limit: int
    ) -> list[ListedSession]:
        """Sessions of some statuses by when they started, newest first; of several of one id the one begun first.

        Looks at the MAX_SESSIONS most recently active ones: one that started later was active later as well.
        """
        results: dict[str, tuple[int, Session]] = {}
        cursor, looked_at = None, 0
        everywhere = range(self._documents.partitions)
        while True:
            page = await self._documents.page(
                sessions(reader.tenant, project), everywhere, cursor=cursor, limit=SESSIONS_AT_ONCE
            )
            active_ms = 0
            for partition, session in page.documents:
                if isinstance(session, Session):
                    active_ms = session.updated_ms
                    _, first = results.get(session.session_id, (0, session))
                    earliest = session.started_ms <= first.started_ms
                    if earliest and session.status in statuses and may_read(session, reader):
                        results[session.session_id] = partition, session
            cursor, looked_at = page.next, looked_at + len(page.documents)
            best = sorted(results.values(), key=lambda pair: (-pair[1].started_ms, pair[1].id))[:limit]
            enough = len(best) == limit and (not best or best[-1][1].started_ms > active_ms)
            if cursor is None or enough or looked_at >= MAX_SESSIONS:
                break
        summaries = await summaries_of(self._documents, best, reader)
        texts = {session: summary.narrative or summary.title for session, summary in summaries.items()}
        return [ListedSession(session, texts.get(session.id, "")) for _, session in best]

    async def session_count(self, tenant: str) -> int:
        """How many sessions there are."""
        counts = [
            self._documents.first(sessions(tenant), partition, b"-", b"+", 1)
            for partition in range(self._documents.partitions)
        ]
        return sum(count for count, _ in await asyncio.gather(*counts))

    async def observation_count(self, reader: Reader) -> int:
        """How many observations there are."""
        allowed = key_scope(reader, kinds=["observation"])
        return await self._index.ask_current(lambda index: index.count(allowed))

    async def tally(self, reader: Reader) -> Tally:
        """The observations, counted in the index: no document is read."""
        allowed = key_scope(reader, kinds=["observation"])
        return await self._index.ask_current(
            lambda index: Tally(
                index.count(allowed),
                index.count(replace(allowed, embedded=True)),
                index.counts(allowed, "type"),
                index.counts(allowed, "project"),
            )
        )

    async def embedded(self, names: Sequence[str]) -> set[str]:
        """Those of the documents that have a vector."""
        return await self._index.ask_current(lambda index: index.with_vectors(names))

    async def to_embed(self, reader: Reader, *, only_missing: bool) -> list[DocumentLocation]:
        """The observations, or those without a vector."""
        allowed = key_scope(reader, kinds=["observation"], embedded=False if only_missing else None)
        return await self._index.ask_current(lambda index: index.every(allowed))

    async def _get(
        self, find: Callable[[Index], list[DocumentLocation]], reader: Reader, kinds: tuple[type[D], ...]
    ) -> list[D]:
        documents = await self._documents.get(await self._index.ask(find))
        return [document for document in documents if isinstance(document, kinds) and may_read(document, reader)]


def _by_severity(
    index: Index, allowed: Filter, severity: str | None, active: bool, count: int
) -> list[DocumentLocation]:
    allowed = replace(allowed, retired=not active)
    results: list[DocumentLocation] = []
    for level in SEVERITIES:
        if severity in (None, level):
            requested = replace(allowed, types=[level])
            if level == SEVERITIES[-1]:  # includes lessons without a severity
                requested = replace(allowed, without=[("type", other) for other in SEVERITIES[:-1]])
            results += index.most_recent(requested, count - len(results))
    return results


Noun = Literal["observation", "lesson", "session", "project"]
# cached in the process: numbers never change
MAX_KNOWN = 50_000
# names in one call of the script: Lua unpacks twice as many values, and its limit is 8,000
AT_ONCE = 2_000


class IntegerIds:
    """The numbers of one noun in one tenant, for clients that know no other ids.

    A name is a document id, or the noun's own name.
    """

    def __init__(self, redis: Client, tenant: str, noun: Noun) -> None:
        self._redis, self._keys = redis, NumberKeys(tenant, noun)
        self._known: OrderedDict[str, int] = OrderedDict()

    async def numbers(self, ids: Sequence[str]) -> list[int]:
        """The number of each, in the order asked for; new ones get the next numbers in that order."""
        numbers = {name: cached for name in ids if (cached := self._known.get(name))}
        missing = [name for name in dict.fromkeys(ids) if name not in numbers]
        for start in range(0, len(missing), AT_ONCE):
            requested = missing[start : start + AT_ONCE]
            clean = [clean_name(name, "replace", "name") for name in requested]  # as events have it
            numbers |= zip(requested, await number(self._redis, self._keys, clean), strict=True)
        self._known.update((name, numbers[name]) for name in missing)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
        return [numbers[name] for name in ids]

    async def ids(self, numbers: Sequence[int]) -> list[str | None]:
        """The name of each number, in the order of the numbers; None for a number without a name."""
        if not numbers:
            return []
        names: list[bytes | None] = await self._redis.hmget(self._keys.by_number, [str(value) for value in numbers])
        return [None if name is None else name.decode() for name in names]

    async def count(self) -> int:
        """How many names have a number."""
        return int(await self._redis.hlen(self._keys.by_name))
