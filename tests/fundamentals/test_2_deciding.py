"""Deciding: a command, who asks and what time it is, to the one event it becomes."""

from datetime import UTC, datetime, timedelta

import pytest

from ingest.commands.decide import Caller, Remember, decide
from ingest.errors import CommandRejected
from ingest.events.memory import MemoryRecorded
from ingest.ids import EventId

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ADA = Caller(tenant="default", agent_id="ada")


def test_deciding_is_a_function_of_its_arguments():
    """The same command, id and time decide the same event; the time is passed in, never asked for."""
    command = Remember(content="We deploy on Tuesdays", project="shop", ttl_days=7)

    decision = decide(command, ADA, EventId("event-1"), NOON)

    assert decision == decide(command, ADA, EventId("event-1"), NOON)
    assert decision.event.envelope.agent_id == "ada"
    assert decision.event.envelope.occurred_at == NOON
    assert isinstance(decision.event.data, MemoryRecorded)
    assert decision.event.data.forget_after == NOON + timedelta(days=7)


def test_a_secret_is_gone_before_there_is_an_event():
    """What must not be stored is taken out here, so no later step can leak it."""
    command = Remember(content=f"The token is ghp_{'a' * 36}, keep it.")

    data = decide(command, ADA, EventId("event-1"), NOON).event.data

    assert isinstance(data, MemoryRecorded)
    assert data.content == "The token is [REDACTED_SECRET], keep it."


def test_a_command_may_be_refused():
    """A refusal names the field at fault, and no event exists."""
    with pytest.raises(CommandRejected) as refused:
        decide(Remember(content="  "), ADA, EventId("event-1"), NOON)
    assert refused.value.field == "content"
