"""Observations: the timeline of a project, what happened beside one, and those that events of the log recorded."""

from collections.abc import Mapping, Sequence
from typing import Any

from ingest.ids import OBSERVATION, document_id
from ingest.log.partitions import session_route
from ingest.platform.clock import Clock, system_clock, to_ms
from projections.compression.accounts import headline
from projections.documents.access import Reader, may_read
from projections.documents.observations import Observation, timeline
from projections.documents.tombstones import ledgers
from projections.queries.documents import DocumentReader
from projections.queries.lookup import key_scope
from projections.queries.times import ANY_TIME, Times
from projections.queries.views import Page, Record, SomeRetired, page_view, public_view
from projections.search.index import IndexService

SAME_MOMENT = 20
"""Observations of one moment that may stand between an observation and what happened before or after it."""
RETIRED = (
    "observations of sessions that were silent for long are retired: no longer listed or searched, "
    "but still in the log (GET /v1/events?session_id=...)"
)

ObservationView = public_view(Observation, headline=headline)


class Observations:
    """Answers questions about observations."""

    def __init__(self, index: IndexService, documents: DocumentReader, clock: Clock = system_clock) -> None:
        self._index, self._documents, self._clock = index, documents, clock

    async def timeline(
        self, reader: Reader, project: str, cursor: str | None, limit: int, times: Times = ANY_TIME
    ) -> Page[Record]:
        """A project's observations by the time they happened, newest first."""
        listing, within = timeline(reader.tenant, project), times.by_event_time()
        found = page_view(await self._documents.newest(listing, reader, project, cursor, limit, within))
        everywhere = range(self._documents.partitions)
        if found.next is None and await self._documents.members(ledgers(reader.tenant), everywhere, 1):
            return SomeRetired(found.items, found.next, note=RETIRED)
        return found

    async def beside(
        self, anchor: Observation, reader: Reader, before: int, after: int
    ) -> tuple[list[Observation], list[Observation]]:
        """What happened before and after an observation in sessions of its session's id, each in the order of time.

        What happened in the very same moment is on neither side.
        """
        allowed, at_ms = (
            key_scope(reader, session_id=anchor.session_id, kinds=["observation"]),
            to_ms(anchor.occurred_at),
        )
        wanted = (to_ms(self._clock()), anchor.id, at_ms, before + SAME_MOMENT, after + SAME_MOMENT)
        where = await self._index.ask(lambda index: index.around(allowed, *wanted))
        loaded = [await self._documents.get(side) for side in where]
        earlier, later = [
            [
                one
                for one in side
                if isinstance(one, Observation) and may_read(one, reader) and one.occurred_at != anchor.occurred_at
            ]
            for side in loaded
        ]
        return earlier[max(0, len(earlier) - before) :], later[:after]

    async def recorded_by(self, events: Sequence[Mapping[str, Any]], reader: Reader) -> list[Observation]:
        """The observations that these events of the log recorded, as they stand now, as far as the reader may see."""
        wanted = [
            (
                int(one["position"].partition(":")[0]),
                document_id(
                    OBSERVATION, session_route(one["tenant"], one["project"], one["session_id"]), one["event_id"]
                ),
            )
            for one in events
        ]
        found = await self._documents.get(wanted)
        return [one for one in found if isinstance(one, Observation) and may_read(one, reader)]
