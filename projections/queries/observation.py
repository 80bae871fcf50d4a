"""Observations: the timeline of a project, what happened beside one, and those that events of the log recorded."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar
from xml.sax.saxutils import escape

from msgspec import UNSET, Struct

from ingest.errors import MnemologError
from ingest.ids import document_id
from ingest.kinds import OBSERVATION
from ingest.log.position import session_route
from ingest.names import visible
from ingest.platform.clock import to_ms
from projections.index.protocol import DocumentLocation, IndexService
from projections.nouns.access import Reader
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation, timeline
from projections.nouns.tombstone import ledgers
from projections.queries.documents import DocumentReader
from projections.queries.lookup import Lookup, key_scope, touching
from projections.queries.recall import Recall, RecallRequest
from projections.queries.session import RETIRED, Sessions
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import SomeRetired, page_view, public_view
from projections.search.question import Filter
from projections.text.accounts import headline

LIMIT_CHARS = 4_000
MIN_IMPORTANCE = 4
"""Reads and searches still count: they are most of a file's history."""
SHOWN_PER_FILE = 5
HITS = 5
BUGS = 3
SEPARATOR = "\n\n"


class EnrichRequest(Struct, frozen=True, kw_only=True):
    """What is about to be worked on."""

    files: list[str]
    session_id: str = ""
    terms: list[str] = []
    tool_name: str = ""
    project: str | None = None


class Enriched(Struct, frozen=True):
    """The text, empty when nothing is known; `truncated` when more was known than fits."""

    context: str
    truncated: bool


def enrich(
    file_history: Mapping[str, Sequence[Observation]],
    hits: Sequence[str],
    bugs: Sequence[Memory],
    limit_chars: int = LIMIT_CHARS,
) -> Enriched:
    """The parts that have something to say, cut to `limit_chars`.

    `file_history` holds for each file the observations of other sessions that name it (see `same_file`), `hits` the
    snippets that recall found, best first, `bugs` the remembered bugs that touch one of the files. Any may be empty.
    """
    current = sorted((bug for bug in bugs if bug.is_latest), key=lambda bug: bug.id)
    current = sorted(current, key=lambda bug: bug.recorded_at, reverse=True)[:BUGS]
    errors = [(_quoted(bug.title), _quoted(bug.content)) for bug in current]
    bodies = {
        "agentmemory-file-context": _history_lines(file_history),
        "agentmemory-relevant-context": [line for hit in hits if (line := _quoted(hit))][:HITS],
        "agentmemory-past-errors": [
            f"- {content}" if content.startswith(title) else f"- {title}: {content}" for title, content in errors
        ],
    }
    context = ""
    for tag, lines in bodies.items():
        if not (body := "\n".join(lines)):
            continue
        lead = SEPARATOR if context else ""
        room = limit_chars - len(context) - len(lead) - len(f"<{tag}>\n\n</{tag}>")
        fits = len(body) <= room
        if not fits:
            # an XML entity is not cut in half
            body = re.sub(r"&[^;&]*\Z", "", body[: max(0, room)])
        if room > 0:
            context += f"{lead}<{tag}>\n{body}\n</{tag}>"
        if not fits:
            return Enriched(context, True)
    return Enriched(context, False)


def _history_lines(file_history: Mapping[str, Sequence[Observation]]) -> Iterator[str]:
    """A heading for each file that has a history, and its most important observations, the newest of equal ones."""
    for file, observations in file_history.items():
        important = [
            observation
            for observation in observations
            if observation.importance >= MIN_IMPORTANCE and headline(observation)
        ]
        if important:
            yield f"## {_quoted(file)}"
        important.sort(key=lambda observation: observation.id)
        important.sort(key=lambda observation: (observation.importance, observation.occurred_at), reverse=True)
        for observation in important[:SHOWN_PER_FILE]:
            yield f"- {observation.occurred_at:%Y-%m-%d}: {_quoted(headline(observation))}"


def _quoted(text: str) -> str:
    # the text on one line, so that it cannot pass for a heading or an item of its own
    return escape(" ".join(visible(text).split()))


SAME_MOMENT = 20
"""Observations of one moment that may stand between an observation and what happened before or after it."""

ObservationView = public_view(Observation, headline=headline)


@dataclass
class Observations:
    """Answers questions about observations."""

    _index: IndexService
    _documents: DocumentReader

    async def timeline(
        self, reader: Reader, project: str, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> SomeRetired[Any]:
        """A project's observations by the time they happened, newest first."""
        listing, within = timeline(reader.tenant, project), times.by_event_time()
        page = page_view(await self._documents.newest(listing, reader, project, cursor, limit, within))
        everywhere = range(self._documents.partitions)
        retired = page.next is None and await self._documents.members(ledgers(reader.tenant), everywhere, 1)
        return SomeRetired(page.items, page.next, note=RETIRED if retired else UNSET)

    async def beside(
        self, anchor: Observation, reader: Reader, before: int, after: int
    ) -> tuple[list[Observation], list[Observation]]:
        """What happened before and after an observation in sessions of its session's id, each in the order of time.

        What happened in the very same moment is on neither side.
        """
        allowed = key_scope(reader, session_id=anchor.session_id, kinds=["observation"])
        at_ms = to_ms(anchor.occurred_at)
        counts = before + SAME_MOMENT, after + SAME_MOMENT
        locations = await self._index.ask(lambda index: index.around(allowed, anchor.id, at_ms, *counts))
        sides = [await self._documents.readable(side, reader, Observation) for side in locations]
        earlier, later = [[other for other in side if other.occurred_at != anchor.occurred_at] for side in sides]
        return earlier[max(0, len(earlier) - before) :], later[:after]

    async def recorded_by(self, events: Sequence[Mapping[str, Any]], reader: Reader) -> list[Observation]:
        """The observations that these events of the log recorded, as they stand now, as far as the reader can see."""
        locations: list[DocumentLocation] = []
        for event in events:
            route = session_route(event["tenant"], event["project"], event["session_id"])
            partition = int(event["position"].partition(":")[0])
            locations.append((partition, document_id(OBSERVATION, route, event["event_id"])))
        return await self._documents.readable(locations, reader, Observation)


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

    def __init__(self, index: IndexService, documents: DocumentReader, recall: Recall) -> None:
        self._index, self._documents, self._recall = index, documents, recall
        self._lookup, self._sessions = Lookup(index, documents), Sessions(documents)

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
            try:
                moment_ms = to_ms(datetime.fromisoformat(anchor))
            except (ValueError, OverflowError):
                return _nothing("invalid_date")
            nearest = await self._index.ask(lambda index: index.nearest(allowed, moment_ms))
            chosen = next(iter(await self._documents.readable(nearest, reader, Observation)), None)
        elif anchor.startswith(f"{OBSERVATION}_"):
            named = [observation for _, observation in await self._lookup.documents([anchor], reader)]
            matching = (
                observation
                for observation in named
                if isinstance(observation, Observation)
                and project in (None, observation.project)
                and session_id in ("", observation.session_id)
            )
            chosen = next(matching, None)
        else:
            chosen = await self._newest_saying(anchor, allowed, reader)
        if chosen is None:
            return _nothing("no_match")
        counts = [max(0, min(count, MAX_AROUND)) for count in (before, after)]
        at_ms = to_ms(chosen.occurred_at)
        sides = await self._index.ask(lambda index: index.around(allowed, chosen.id, at_ms, *counts))
        earlier, later = [await self._documents.readable(side, reader, Observation) for side in sides]
        numbered = enumerate([*earlier, chosen, *later], -len(earlier))
        return Timeline([TimelineEntry(observation, number) for number, observation in numbered], len(earlier), "")

    async def enrich(self, reader: Reader, request: EnrichRequest) -> Enriched:
        """What other sessions saw in these files, what recall finds for them and the terms, and bugs they had.

        Without a project, in that of the session. A part that is unavailable is left out, with a warning in the log.
        `tool_name` is only named in the log.
        """
        files = list(dict.fromkeys(file for file in request.files if file.strip()))[:MAX_FILES]
        project, tool = request.project, request.tool_name
        if project is None and request.session_id:
            with suppress(MnemologError):
                located = await self._sessions.one(reader, request.session_id, None)
                project = getattr(located.document, "project", None)
        return enrich(
            await _or_nothing(self._history(reader, request.session_id, files, project), {}, tool),
            await _or_nothing(self._hits(reader, files, project, request), [], tool),
            await _or_nothing(self._bugs(reader, files, project), [], tool),
        )

    async def _newest_saying(self, words: str, allowed: Filter, reader: Reader) -> Observation | None:
        for everywhere in (False, True):
            locations = await self._index.ask(
                lambda index, everywhere=everywhere: index.saying(allowed, words, everywhere=everywhere)
            )
            for start in range(0, len(locations), CHECKED):
                page = locations[start : start + CHECKED]
                for observation in await self._documents.readable(page, reader, Observation):
                    texts = (observation.title, observation.narrative, observation.content, *observation.concepts)
                    if any(words.lower() in text.lower() for text in texts):
                        return observation
        return None

    async def _history(
        self, reader: Reader, session_id: str, files: Sequence[str], project: str | None
    ) -> dict[str, list[Observation]]:
        allowed = key_scope(reader, project, kinds=["observation"])
        locations = await self._index.ask(lambda index: touching(index, allowed, files, session_id, PER_FILE))
        read = self._documents.readable
        return {file: await read(of_file, reader, Observation) for file, of_file in locations.items()}

    async def _bugs(self, reader: Reader, files: Sequence[str], project: str | None) -> list[Memory]:
        allowed = key_scope(reader, project, kinds=["memory"], tags=[BUG])
        locations = await self._index.ask(lambda index: touching(index, allowed, files, "", BUGS))
        distinct = list(dict.fromkeys(location for of_file in locations.values() for location in of_file))
        return await self._documents.readable(distinct, reader, Memory)

    async def _hits(
        self, reader: Reader, files: Sequence[str], project: str | None, request: EnrichRequest
    ) -> list[str]:
        # files and terms are separate queries: a document that matches all of one need not match the other
        names = [file.replace("\\", "/").rpartition("/")[2] for file in files]
        queries = [" ".join(filter(str.strip, words))[:QUERY_CHARS] for words in (names, request.terms[:MAX_TERMS])]
        # agentmemory's clients expect as many as there are
        requested = [
            RecallRequest(query=query, project=project, limit=HITS, min_confidence=0.0) for query in queries if query
        ]
        answers = await asyncio.gather(*(self._recall(request, reader) for request in requested))
        results = {result.id: result for answer in reversed(answers) for result in answer.results}
        best = sorted(results.values(), key=lambda result: result.confidence or 0.0, reverse=True)
        return [result.snippet for result in best[:HITS]]


async def _or_nothing(part: Awaitable[Part], nothing: Part, tool_name: str) -> Part:
    try:
        return await part
    except MnemologError as error:
        logger.warning("enriching before tool %r: a part is missing: %s", tool_name, error)
        return nothing


def _nothing(reason: Reason) -> Timeline:
    return Timeline([], -1, reason)
