"""What rows of any system have in common: times, lists, names, event ids."""

from datetime import UTC, datetime
from typing import Any

import pytest
from factories import NOW, TENANT

from api.importing.mapping import Mapped, Step, events_of, names, needed, texts, when, when_given
from ingest.commands.decide import Observe, Remember
from ingest.errors import CommandRejected
from ingest.ids import imported_event_id

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00.000+01:00", "2026-01-31 12:00:00", 1769860800, 1769860800000, NOON],
)
def test_a_time_is_iso_or_seconds_or_milliseconds(value: Any):
    assert when({"at": value}, "at") == NOON


@pytest.mark.parametrize("value", ["yesterday", "1969-12-31T23:59:59Z", -5, [1], 1e300])
def test_what_is_no_time_is_refused_by_its_field(value: Any):
    with pytest.raises(CommandRejected) as refused:
        when({"at": value}, "at")
    assert refused.value.field == "at"


def test_the_first_field_with_a_time_counts():
    assert when({"a": None, "b": "", "c": 1769860800}, "a", "b", "c") == NOON
    assert when_given({"a": None}, "a") is None
    with pytest.raises(CommandRejected):
        when({}, "a")


@pytest.mark.parametrize(
    ("value", "found", "lost"),
    [
        (None, [], []),
        ("", [], []),
        ('["a", "b"]', ["a", "b"], []),
        (["a", 1, "", "b"], ["a", "b"], ["list: entries that are not text"]),
        ("plain words", ["plain words"], []),
        ({"a": 1}, [], ["list: not a list"]),
        ('{"a": 1}', [], ["list: not a list"]),
    ],
)
def test_a_list_may_be_json_in_a_text_and_what_is_lost_is_said(value: Any, found: list[str], lost: list[str]):
    said: list[str] = []
    assert (texts({"list": value}, "list", said), said) == (found, lost)


def test_names_are_as_many_and_as_long_as_commands_take():
    lost: list[str] = []
    assert len(names({"files": [*map(str, range(300)), "x" * 600]}, "files", lost)) == 200
    assert len(lost) == 1


def test_half_a_surrogate_pair_is_repaired():
    assert needed({"title": "a\ud83d"}, "title") == "a\ufffd"


def test_an_event_is_recorded_when_the_row_says_and_named_by_what_it_is_called_there():
    step = Step(Remember(content="tea", project="p"), "memory\0m1", NOW)
    (event,) = events_of(Mapped([step]), "memex", TENANT)
    assert (
        event.envelope.event_id == imported_event_id("memex", "memory\0m1") != imported_event_id("agentd", "memory\0m1")
    )
    assert (event.envelope.recorded_at, event.envelope.occurred_at, event.envelope.source) == (NOW, NOW, "import")
    assert events_of(Mapped([step]), "memex", TENANT) == [event]


def test_a_secret_never_becomes_an_event():
    step = Step(Observe(session_id="s", content="key ghp_" + "a" * 36), "x", NOW)
    (event,) = events_of(Mapped([step]), "jsonl", TENANT)
    assert "ghp_" not in str(event.data)


def test_a_command_over_its_limits_is_refused_with_its_field():
    with pytest.raises(CommandRejected) as refused:
        events_of(Mapped([Step(Remember(content="x", importance=11), "x", NOW)]), "jsonl", TENANT)
    assert refused.value.field == "importance"
