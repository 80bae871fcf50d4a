"""Whatever is in a log, it is read, folded or set aside: nothing that somebody wrote there stops a projection."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from any_events import DEEP, damaged, histories_of_anything, msgpack_values, payloads, texts
from folding import one_by_one, replayed, run_now
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import UnreadableEvent
from ingest.events.envelope import Recorded, as_json_object
from ingest.log.event_log import Entry, Stored
from ingest.log.position import Position
from ingest.nouns.registry import decode
from projections.nouns.access import Reader
from projections.queries.log_events import Audit, EventView
from tests.compat.test_stored_samples import SAMPLES, stored
from tests.support.memory_log import MemoryLog

HERE = Position(1_769_860_800_000, 7)


def log_of(payload: bytes) -> MemoryLog:
    """A log of one partition and one entry."""
    log = MemoryLog(1, lambda: HERE.ms)
    run_now(log.append({0: [Entry("e1", payload)]}))
    return log


@given(msgpack_values)
def test_no_value_crashes_the_reader(value: Any):
    with pytest.raises(UnreadableEvent):
        decode(msgspec.msgpack.encode(value), HERE)


@given(damaged())
def test_a_damaged_event_is_read_or_is_unreadable(payload: bytes):
    try:
        assert decode(payload, HERE).position == HERE
    except UnreadableEvent:
        pass


def test_what_nests_without_end_is_unreadable():
    event = {"event_id": "e1", "type": "observation.recorded", "version": 1, "tenant": "t"}
    inside = msgspec.msgpack.encode({**event, "data": {"content": "a", "data": {"a": 0}}})
    for payload in (DEEP, inside.replace(b"\xa1a\x00", b"\xa1a" + DEEP)):
        with pytest.raises(UnreadableEvent):
            decode(payload, HERE)
        assert as_json_object(payload, HERE)["unreadable"]


@given(payloads)
def test_people_read_whatever_is_stored_as_json(payload: bytes):
    """GET /v1/events shows it, so it must be something that JSON can say."""
    shown = msgspec.json.decode(msgspec.json.encode(as_json_object(payload, HERE)))
    assert shown["position"] == str(HERE)
    assert "recorded_at" in shown


@given(payloads, st.sampled_from(["", "ada"]))
def test_readers_of_the_log_are_shown_whatever_is_stored(payload: bytes, agent: str):
    """The events, for those who may see them; and who wrote them, for the audit."""
    reader = Reader("default", agent)
    observation = EventView.of(0, Stored(HERE, payload))
    observation.about()
    assert observation.shown(reader, {})["position"] == f"0:{HERE}"
    page = asyncio.run(Audit(log_of(payload)).entries(reader, "*"))
    msgspec.json.encode(page)


@settings(max_examples=50)
@given(histories_of_anything())
def test_any_valid_events_fold(events: list[Recorded]):
    """Also such as no door would decide; and replayed from the log as the projection left it they fold again."""
    live = one_by_one(events)
    replayed(events, live)


@given(st.sampled_from(SAMPLES), st.data())
def test_an_old_sample_with_more_and_fewer_fields_is_read_or_is_unreadable(sample: Path, drawn: st.DataObject):
    """What a later release adds is passed over; what a broken writer left out is a default, or a dead letter."""
    raw = stored(sample)
    whole = decode(msgspec.msgpack.encode(raw), HERE)
    more = {f"later_{name}": value for name, value in drawn.draw(st.dictionaries(texts, msgpack_values)).items()}
    extended = decode(msgspec.msgpack.encode({**raw, **more, "data": {**raw["data"], **more}}), HERE)
    assert (extended.data, extended.envelope.event_id) == (whole.data, whole.envelope.event_id)
    gone = drawn.draw(st.sets(st.sampled_from(sorted(raw["data"]) or [""])))
    fields = {name: value for name, value in raw["data"].items() if name not in gone}
    try:
        read = decode(msgspec.msgpack.encode({**raw, "data": fields}), HERE)
    except UnreadableEvent:
        return
    assert type(read.data) is type(whole.data)
    assert read.envelope.occurred_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
