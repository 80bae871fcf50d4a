"""Deciding: a command, a caller and the time become one event, or a refusal."""

from datetime import UTC, datetime, timedelta

import pytest

from ingest.commands.decide import Caller, Observe, RecordLesson, Remember, decide
from ingest.errors import CommandRejected
from ingest.ids import EventId
from ingest.nouns.memory import MemoryRecorded

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ADA = Caller(tenant="default", agent_id="ada")


def test_deciding_is_a_function_of_its_arguments():
    """The same command, id and time decide the same event: the time is an argument, so a test needs no clock."""
    command = Remember(content="We deploy on Tuesdays", project="shop", ttl_days=7)

    decision = decide(command, ADA, EventId("event-1"), NOON)

    assert decision == decide(command, ADA, EventId("event-1"), NOON)
    assert decision.event.envelope.agent_id == "ada"
    assert decision.event.envelope.occurred_at == NOON
    assert isinstance(decision.event.data, MemoryRecorded)
    assert decision.event.data.forget_after == NOON + timedelta(days=7)


def test_a_secret_is_removed_before_there_is_an_event():
    """What must not be stored is replaced here, so that no later step can leak it."""
    command = Remember(content=f"The token is ghp_{'a' * 36}, keep it.")

    data = decide(command, ADA, EventId("event-1"), NOON).event.data

    assert isinstance(data, MemoryRecorded)
    assert data.content == "The token is [REDACTED_SECRET], keep it."


def test_a_refusal_names_the_field():
    with pytest.raises(CommandRejected) as refused:
        decide(Remember(content="  "), ADA, EventId("event-1"), NOON)
    assert refused.value.field == "content"


def test_the_same_lesson_has_the_same_id():
    """A lesson's id is made of its project and its text without case, so a restatement reaches the same lesson."""
    first = decide(RecordLesson(content="Sum first, round last", project="shop"), ADA, EventId("event-1"), NOON)
    again = decide(RecordLesson(content="  SUM FIRST, round last", project="shop"), ADA, EventId("event-2"), NOON)
    other = decide(RecordLesson(content="Sum first, round last", project="bank"), ADA, EventId("event-3"), NOON)

    assert first.subject == again.subject
    assert first.subject != other.subject


def test_an_event_occurred_when_the_command_says():
    """History can be backfilled: the time of an event is its own, and its position is the time of writing."""
    yesterday = NOON - timedelta(days=1)
    command = Observe(content="Tests are red", project="shop", session_id="monday", occurred_at=yesterday)

    assert decide(command, ADA, EventId("event-1"), NOON).event.envelope.occurred_at == yesterday
