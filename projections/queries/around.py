"""What happened around a moment, an observation or a word; what is known of the files that are about to be touched."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Literal, TypeVar

from msgspec import Struct

from ingest.errors import MnemologError
from ingest.ids import OBSERVATION
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.documents.access import Reader, may_read
from projections.documents.document import Document
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.queries.documents import DocumentReader
from projections.queries.enrichment import BUGS, HITS, LIMIT_CHARS, Enriched, enrich
from projections.queries.lookup import Lookup, key_scope, touching
from projections.queries.recall import LeastSure, Recall, RecallRequest
from projections.queries.sessions import Sessions
from projections.search.index import DocumentLocation, Index, IndexService
from projections.search.question import Filter

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
Part = TypeVar("Part")

Reason = Literal["", "no_match", "invalid_anchor", "invalid_date"]

MAX_AROUND = 200
"""On either side."""
MAX_FILES = 20
MAX_TERMS = 50
PER_FILE = 15
"""Of each file's history; the most important of them are shown."""
CHECKED = 50
"""Observations loaded at once in search of a keyword."""
QUERY_CHARS = 2_000
BUG = "bug"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class TimelineEntry(Struct, frozen=True):
    """An observation and its place: 0 is the anchor, negative is before it."""

    observation: Observation
    position: int


class Timeline(Struct, frozen=True):
    """What happened, in the order of time; empty for a `reason`, and then there is no anchor (`anchor_index` -1)."""

    entries: list[TimelineEntry]
    anchor_index: int
    reason: Reason


class AroundQueries:
    """Answers what surrounds something."""

    def __init__(
        self, index: IndexService, documents: DocumentReader, recall: Recall, clock: Clock = system_clock
    ) -> None:
        self._index, self._documents, self._recall, self._clock = index, documents, recall, clock
        self._lookup, self._sessions = Lookup(index, documents, clock), Sessions(documents)

    async def timeline(
        self, reader: Reader, anchor: str, project: str | None, session_id: str = "", before: int = 5, after: int = 5
    ) -> Timeline:
        """The observations around an anchor, of a project, of a session, or of all.

        The anchor is a date (the observation nearest in time), an observation's id, or words (the newest observation
        that contains them in title, narrative, content or concepts, as far as the index finds it by them).
        """
        anchor = anchor.strip()
        if not anchor:
            return _nothing("invalid_anchor")
        allowed = key_scope(reader, project, session_id=session_id, kinds=["observation"])
        if _DATE.match(anchor):
            when = _moment(anchor)
            if when is None:
                return _nothing("invalid_date")
            found = await self._observations(
                await self._near(lambda index, now_ms: index.nearest(allowed, now_ms, to_ms(when))), reader
            )
            return await self._beside(found[0], allowed, reader, before, after) if found else _nothing("no_match")
        if anchor.startswith(f"{OBSERVATION}_"):
            chosen = await self._named(anchor, reader, project, session_id)
        else:
            chosen = await self._newest_saying(anchor, allowed, reader)
        return await self._beside(chosen, allowed, reader, before, after) if chosen else _nothing("no_match")

    async def enrich(
        self,
        reader: Reader,
        session_id: str,
        files: Sequence[str],
        terms: Sequence[str],
        tool_name: str,
        project: str | None,
        limit_chars: int = LIMIT_CHARS,
        min_confidence: LeastSure = None,
    ) -> Enriched:
        """What other sessions saw in these files, what recall finds for them and the terms, and bugs they had.

        Without a project, in that of the session. A part that cannot be had is left out, with a warning in the log.
        `tool_name` is only named in the log.
        """
        wanted = list(dict.fromkeys(file for file in files if file.strip()))[:MAX_FILES]
        if project is None and session_id:
            project = await self._project_of(reader, session_id)
        return enrich(
            await _or_nothing(self._history(reader, session_id, wanted, project), {}, tool_name),
            await _or_nothing(self._hits(reader, wanted, terms, project, min_confidence), [], tool_name),
            await _or_nothing(self._bugs(reader, wanted, project), [], tool_name),
            limit_chars,
        )

    async def _beside(self, anchor: Observation, allowed: Filter, reader: Reader, before: int, after: int) -> Timeline:
        wanted = anchor.id, to_ms(anchor.occurred_at), _some(before), _some(after)
        sides = await self._near(lambda index, now_ms: index.around(allowed, now_ms, *wanted))
        earlier, later = [await self._observations(side, reader) for side in sides]
        entries = [
            *(TimelineEntry(one, place - len(earlier)) for place, one in enumerate(earlier)),
            TimelineEntry(anchor, 0),
            *(TimelineEntry(one, place + 1) for place, one in enumerate(later)),
        ]
        return Timeline(entries, len(earlier), "")

    async def _named(self, name: str, reader: Reader, project: str | None, session_id: str) -> Observation | None:
        found = await self._lookup.documents([name], reader)
        one = found[0].document if found else None
        if not isinstance(one, Observation):
            return None
        return one if project in (None, one.project) and session_id in ("", one.session_id) else None

    async def _newest_saying(self, words: str, allowed: Filter, reader: Reader) -> Observation | None:
        for everywhere in (False, True):
            found = await self._near(partial(_saying, words, everywhere, allowed))
            for start in range(0, len(found), CHECKED):
                for one in await self._observations(found[start : start + CHECKED], reader):
                    if _contains(one, words):
                        return one
        return None

    async def _history(
        self, reader: Reader, session_id: str, files: Sequence[str], project: str | None
    ) -> dict[str, list[Observation]]:
        allowed = key_scope(reader, project, kinds=["observation"])
        found = await self._near(lambda index, now_ms: touching(index, allowed, now_ms, files, session_id, PER_FILE))
        return {file: await self._observations(where, reader) for file, where in found.items()}

    async def _bugs(self, reader: Reader, files: Sequence[str], project: str | None) -> list[Memory]:
        allowed = key_scope(reader, project, kinds=["memory"], tags=[BUG])
        found = await self._near(lambda index, now_ms: touching(index, allowed, now_ms, files, "", BUGS))
        where = list(dict.fromkeys(place for places in found.values() for place in places))
        return [one for one in await self._load(where, reader) if isinstance(one, Memory)]

    async def _hits(
        self,
        reader: Reader,
        files: Sequence[str],
        terms: Sequence[str],
        project: str | None,
        min_confidence: LeastSure,
    ) -> list[str]:
        """Files and terms are asked for apart: what says all of one is an answer, whatever it says of the other."""
        names = [file.replace("\\", "/").rpartition("/")[2] for file in files]
        queries = [" ".join(filter(str.strip, words))[:QUERY_CHARS] for words in (names, terms[:MAX_TERMS])]
        asked = [
            RecallRequest(query=query, project=project, limit=HITS, min_confidence=min_confidence)
            for query in queries
            if query
        ]
        answers = await asyncio.gather(*(self._recall(one, reader) for one in asked))
        found = {one.id: one for answer in reversed(answers) for one in answer.results}
        best = sorted(found.values(), key=lambda one: one.confidence or 0.0, reverse=True)
        return [one.snippet for one in best[:HITS]]

    async def _project_of(self, reader: Reader, session_id: str) -> str | None:
        """The project of a session; None when that is not known for sure."""
        try:
            located = await self._sessions.one(reader, session_id, None)
        except MnemologError:
            return None
        return getattr(located.document, "project", None)

    async def _near(self, find: Callable[[Index, int], Result]) -> Result:
        """What the index finds, as of now."""
        now_ms = to_ms(self._clock())
        return await self._index.ask(lambda index: find(index, now_ms))

    async def _observations(self, where: Sequence[DocumentLocation], reader: Reader) -> list[Observation]:
        return [one for one in await self._load(where, reader) if isinstance(one, Observation)]

    async def _load(self, where: Sequence[DocumentLocation], reader: Reader) -> list[Document]:
        found = await self._documents.get(where)
        return [one for one in found if one is not None and may_read(one, reader)]


async def _or_nothing(part: Awaitable[Part], nothing: Part, tool_name: str) -> Part:
    try:
        return await part
    except MnemologError as error:
        logger.warning("enriching before tool %r: a part is missing: %s", tool_name, error)
        return nothing


def _saying(words: str, everywhere: bool, allowed: Filter, index: Index, now_ms: int) -> list[DocumentLocation]:
    return index.saying(allowed, now_ms, words, everywhere=everywhere)


def _nothing(reason: Reason) -> Timeline:
    return Timeline([], -1, reason)


def _some(count: int) -> int:
    return max(0, min(count, MAX_AROUND))


def _moment(text: str) -> datetime | None:
    """The time that a text names, in UTC unless it says otherwise; None for an impossible one."""
    try:
        when = datetime.fromisoformat(text)
        to_ms(when)
    except (ValueError, OverflowError):
        return None
    return when


def _contains(one: Observation, words: str) -> bool:
    wanted = words.lower()
    return any(wanted in text.lower() for text in (one.title, one.narrative, one.content, *one.concepts))
