"""Which documents and events are of a time: half-open intervals of when it happened and of when it was recorded."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from factories import NOW, NOW_MS, minute, observed, place, said
from given import given

from ingest.log.position import START, Position
from ingest.nouns.action import ActionCreated
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.relation import RelationLinked
from ingest.nouns.session import SessionCommitted, SessionStarted
from ingest.nouns.slot import SlotSet
from ingest.roles import ANYWHERE, KeyScope
from projections.nouns.access import Reader
from projections.nouns.document import Document
from projections.nouns.slot import default_slots
from projections.queries.documents import EVERYTHING
from projections.queries.log_events import EventFilter
from projections.queries.times import ANY_TIME, Interval, Times, times_of

LINK = RelationLinked(source="mem_a", target="mem_b", relation="causes")
SECOND_MS, MINUTE_MS = 1_000, 60_000


def between(since: datetime | None = None, until: datetime | None = None) -> Times:
    return Times(happened=Interval.of(since, until))


def recorded_between(since: datetime | None = None, until: datetime | None = None) -> Times:
    return Times(recorded=Interval.of(since, until))


def only(*events: Any, kind: str) -> Document:
    """The one document of a kind that some events made."""
    (found,) = [document for document in given(*events).store.documents.values() if type(document).__name__ == kind]
    return found


def test_an_interval_has_its_beginning_and_not_its_end():
    hour = Interval.of(NOW, NOW + timedelta(hours=1))
    assert [hour.has(NOW_MS + ms) for ms in (-1, 0, 3_599_999, 3_600_000)] == [False, True, True, False]


def test_intervals_that_meet_have_every_time_once():
    earlier, later = Interval.of(None, NOW), Interval.of(NOW, None)
    assert [(earlier.has(ms), later.has(ms)) for ms in (NOW_MS - 1, NOW_MS)] == [(True, False), (False, True)]


def test_a_bound_is_compared_to_the_millisecond():
    assert Interval.of(NOW + timedelta(microseconds=900), None).has(NOW_MS)


def test_what_has_no_time_is_in_no_bounded_interval():
    assert Interval().has(None)
    assert not Interval.of(NOW, None).has(None)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([observed(3)], "Observation"),
        ([said(3, ActionCreated(title="brew"))], "Action"),
        ([said(3, LINK, session_id="")], "Relation"),
        ([said(3, SessionCommitted(commit="abc"))], "Commit"),
    ],
)
def test_a_document_has_the_times_of_its_first_event(events: list[Any], kind: str):
    """`said(n)` and its like happen n minutes, and are recorded n seconds, after NOW."""
    assert times_of(only(*events, kind=kind)) == (NOW_MS + 3 * MINUTE_MS, NOW_MS + 3 * SECOND_MS)


def test_later_changes_leave_the_times_of_a_relation():
    again = said(5, LINK, session_id="")
    assert times_of(only(said(3, LINK, session_id=""), again, kind="Relation"))[0] == NOW_MS + 3 * MINUTE_MS


def test_a_session_has_the_times_of_its_last_activity():
    session = only(said(1, SessionStarted()), said(4, ObservationRecorded(content="x")), kind="Session")
    assert times_of(session) == (NOW_MS + 4 * MINUTE_MS, NOW_MS + 4 * SECOND_MS)


def test_a_slot_has_the_times_of_its_last_write_and_none_before_one():
    twice = [said(n, SlotSet(label="notes", content=f"{n}")) for n in (1, 2)]
    written = only(*twice, kind="Slot")
    assert times_of(written) == (NOW_MS + 2 * MINUTE_MS, NOW_MS + 2 * SECOND_MS)
    untouched = default_slots("default", "atlas")["guidance"]
    assert ANY_TIME.of_document(untouched)
    assert not between(until=minute(9)).of_document(untouched)


def test_what_was_imported_was_recorded_when_its_first_log_says():
    imported = only(observed(3, recorded_at=NOW - timedelta(days=9)), kind="Observation")
    assert recorded_between(until=NOW - timedelta(days=8)).of_document(imported)


def test_what_was_imported_was_recorded_by_when_it_was_imported_whatever_it_says():
    ahead = only(observed(3, recorded_at=NOW + timedelta(days=9)), kind="Observation")
    assert times_of(ahead)[1] == NOW_MS + 3 * SECOND_MS


def test_an_event_is_of_a_time_by_both_of_its_times():
    event = {"occurred_at": minute(1), "recorded_at": minute(2)}
    at = Position(NOW_MS + 3 * MINUTE_MS, 0)
    assert between(minute(1), minute(2)).of_event(event, at)
    assert recorded_between(minute(2), minute(3)).of_event(event, at)
    assert not recorded_between(minute(3)).of_event(event, at)


def test_an_event_that_cannot_be_read_was_recorded_and_happened_at_no_known_time():
    assert recorded_between(NOW).of_event({}, place(1))
    assert not between(NOW - timedelta(days=999)).of_event({}, place(1))
    assert ANY_TIME.of_event({}, place(1))


def test_without_a_bound_all_of_a_listing_is_wanted():
    assert {ANY_TIME.in_log_order(), ANY_TIME.by_event_time(), ANY_TIME.by_recording_time()} == {EVERYTHING}
    assert ANY_TIME.recorded.start == START


def test_a_listing_is_read_from_where_its_order_says():
    """In log order nothing tells where to end: what was imported late may have been recorded early."""
    times = Times(Interval(1_000, 2_000), Interval(3_000, 4_000))
    bounds = [(one.low, one.high) for one in (times.in_log_order(), times.by_event_time(), times.by_recording_time())]
    low, high = b"[00000000003000", b"(00000000004000"
    assert bounds == [(low, b"+"), (b"[00000000001000", b"(00000000002000"), (low, high)]
    assert times.recorded.start < Position(3_000, 0)


@pytest.mark.parametrize("ms", [0, -1, 10**14])
def test_a_bound_that_a_listing_has_out_of_order_is_left_to_the_filter(ms: int):
    assert (Interval(ms, ms).low, Interval(ms, ms).high) == (b"-", b"+")


@pytest.mark.parametrize(
    ("key_scope", "shown"),
    [
        (ANYWHERE, True),
        (KeyScope(within_tenant=True), False),
        (KeyScope(projects=("shop",)), False),
        (KeyScope(agents=("ada",), within_tenant=True), False),
    ],
)
@pytest.mark.parametrize("operator", [False, True])
def test_an_event_that_names_no_tenant_is_shown_to_operators_alone(key_scope: KeyScope, shown: bool, operator: bool):
    reader = Reader("default", operator=operator, key_scope=key_scope)
    assert EventFilter(reader).matches({"unreadable": "AAAA"}, START) is shown


def test_an_event_of_the_tenant_is_shown_to_a_key_of_the_tenant():
    reader = Reader("default", key_scope=KeyScope(within_tenant=True))
    assert EventFilter(reader).matches({"tenant": "default", "project": "shop"}, START)
    assert not EventFilter(reader).matches({"tenant": "elsewhere", "project": "shop"}, START)
