"""Listings of some time, page by page on a real server, against a filter over everything that there is.

Some of it is another agent's and may not be seen; the cursors do not name it.
"""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from factories import AGENT, NOW, SESSION_NAME, TENANT, place, recorded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.events.envelope import Recorded
from ingest.log.keys import PartitionKeys
from ingest.log.scripts import acquire_lease
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client
from projections.nouns.access import Reader
from projections.nouns.memory import Memory, memories
from projections.nouns.observation import Observation, session_observations, timeline
from projections.nouns.session import session_document_id
from projections.queries import documents as documents_module
from projections.queries.documents import DocumentPage, DocumentReader, readable_by
from projections.queries.times import Interval, Times
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

SECONDS = st.integers(-8, 8)
"""Few, so that times meet each other and the bounds; an event is recorded one second after the one before."""
BOUND = st.none() | SECONDS.map(lambda seconds: NOW + timedelta(seconds=seconds))
INTERVALS = st.builds(Interval.of, BOUND, BOUND)


class Happening(NamedTuple):
    """When an event happened, when its first log recorded it, if it was imported, and whether it is another agent's."""

    occurred: int
    imported: int | None
    others: bool


HAPPENINGS = st.lists(st.builds(Happening, SECONDS, st.none() | SECONDS, st.booleans()), max_size=12)
MEMORY = MemoryRecorded(content="tea", keep_duplicates=True)
ADA = Reader(TENANT, AGENT, "isolated")
READ: dict[str, Callable[[DocumentReader, str, str | None, int, Times], Awaitable[DocumentPage]]] = {
    "memories": lambda reader, name, cursor, limit, times: reader.newest(
        memories(TENANT, name), ADA, name, cursor, limit, times.in_log_order(), at_home=True
    ),
    "timeline": lambda reader, name, cursor, limit, times: reader.newest(
        timeline(TENANT, name), ADA, name, cursor, limit, times.by_event_time()
    ),
    "session": lambda reader, name, cursor, limit, times: reader.page(
        session_observations(session_document_id(TENANT, name, SESSION_NAME)), [0], cursor=cursor, limit=limit,
        newest_first=False, within=times.in_log_order(), readable=readable_by(ADA),
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def little_at_a_time(monkeypatch: pytest.MonkeyPatch):
    """A request that looks at few documents, so that pages end before they are full."""
    monkeypatch.setattr(documents_module, "MAX_SCANNED", 4)
    monkeypatch.setattr(documents_module, "SCANNED_AT_ONCE", 2)


@pytest.mark.parametrize("listing", READ)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(happenings=HAPPENINGS, happened=INTERVALS, wanted=INTERVALS, limit=st.integers(1, 5))
async def test_the_pages_of_a_listing_have_what_is_of_the_time_once_and_in_order(
    redis: Client, listing: str, happenings: list[Happening], happened: Interval, wanted: Interval, limit: int
):
    name, times, kind = uuid4().hex, Times(happened, wanted), Memory if listing == "memories" else Observation
    reader = DocumentReader(redis, 1)
    results = await _saved(redis, kind, name, happenings)
    cursors: list[str] = []
    listed = [item async for item in _walked(reader, listing, name, limit, times, cursors)]
    expected = [item for item in results if _is_of(item, times) and item.agent_id == AGENT]
    order = _by_event_time if listing == "timeline" else _in_log_order
    in_order = sorted(expected, key=order, reverse=listing != "session")
    assert [item.id for item in listed] == [item.id for item in in_order]
    assert [
        item.id for item in results if item.agent_id != AGENT and any(item.id in cursor for cursor in cursors)
    ] == []


async def _walked(
    reader: DocumentReader, listing: str, name: str, limit: int, times: Times, cursors: list[str]
) -> AsyncIterator[Any]:
    cursor: str | None = None
    while True:
        page = await READ[listing](reader, name, cursor, limit, times)
        assert len(page.documents) <= limit
        for document in page.documents:
            yield document.document
        if (cursor := page.next) is None:
            return
        cursors.append(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())


async def _saved(redis: Client, kind: type, name: str, happenings: list[Happening]) -> list[Any]:
    events = [_event(kind, name, number, item) for number, item in enumerate(happenings)]
    keys = PartitionKeys(0)
    store = RedisStore(redis, keys, 1, await acquire_lease(redis, keys, "test", 600_000))
    changes = await project(store, events)
    if events:
        await store.save(changes, events[-1].position)
    made = [after for _, after in changes.documents.values() if isinstance(after, kind)]
    assert len(made) == len(events)
    return made


def _event(kind: type, name: str, number: int, item: Happening) -> Recorded:
    data = MEMORY if kind is Memory else ObservationRecorded(content="tea")
    recorded_at = None if item.imported is None else NOW + timedelta(seconds=item.imported)
    return recorded(
        data, place(number), event_id=f"e{number}", project=name, occurred_at=NOW + timedelta(seconds=item.occurred),
        recorded_at=recorded_at, agent_id="bob" if item.others else AGENT,
    )  # fmt: skip


def _is_of(item: Any, times: Times) -> bool:
    """As the API page says it: half-open, and nothing is recorded after it was imported."""
    was_recorded = min(item.recorded_at, _position(item))
    return _in(times.happened, item.occurred_at) and _in(times.recorded, was_recorded)


def _in(interval: Interval, time: datetime) -> bool:
    since, until = interval
    return (since is None or to_ms(time) >= since) and (until is None or to_ms(time) < until)


def _position(item: Any) -> datetime:
    return NOW + timedelta(milliseconds=int(item.position.partition("-")[0]) - to_ms(NOW))


def _in_log_order(item: Any) -> Any:
    return _position(item)


def _by_event_time(item: Any) -> Any:
    return item.occurred_at, _position(item)
