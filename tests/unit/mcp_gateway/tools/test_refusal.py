"""Refusals say whether something was stored, wherever that is known."""

import pytest

from ingest.errors import (
    AccessDenied,
    AlreadyThere,
    ArchiveUnavailable,
    CommandRejected,
    DurabilityNotReached,
    Forbidden,
    LogUnavailable,
    NotFound,
    RequestTooLarge,
    SessionFull,
    SlotFull,
)
from mcp_gateway.tools.reading import RECALL
from mcp_gateway.tools.tool import LastWrites, refusal
from mcp_gateway.tools.writing import FORGET

DEFINITE = [
    NotFound("no memory mem_x"),
    Forbidden("the memory is somebody else's"),
    AccessDenied("this key has no write role"),
    AlreadyThere("a slot of that label exists"),
    SlotFull("notes", 10, 5),
    SessionFull("s1", 5),
    RequestTooLarge("the body", 9, 8, "values"),
]
UNKNOWN = [
    LogUnavailable("away"),
    DurabilityNotReached("replicated", "fsync"),
    ArchiveUnavailable("away"),
    RuntimeError("a fault"),
]


@pytest.mark.parametrize("error", DEFINITE, ids=lambda error: type(error).__name__)
def test_what_was_refused_before_anything_was_stored_says_so(error: Exception):
    said = refusal(FORGET, "e1", error)
    assert "Nothing was stored" in said
    assert "unknown" not in said
    assert str(error) in said


@pytest.mark.parametrize("error", DEFINITE, ids=lambda error: type(error).__name__)
def test_a_refused_read_does_not_speak_of_unknown_outcomes(error: Exception):
    assert "unknown" not in refusal(RECALL, "", error)


@pytest.mark.parametrize("error", UNKNOWN, ids=lambda error: type(error).__name__)
def test_an_unknown_outcome_is_said_to_be_unknown(error: Exception):
    said = refusal(FORGET, "e1", error)
    assert "It is unknown whether it was stored" in said
    assert "'e1'" in said
    assert "unknown" not in refusal(RECALL, "", error)


def test_an_agent_that_never_wrote_waits_for_nothing():
    assert LastWrites().after("ada") == ""


def test_an_agent_waits_for_all_its_writes_in_all_partitions():
    """One position a partition, the newest, whatever the order of the acknowledgements."""
    writes = LastWrites()
    for position in ("3:10-0", "1:7-2", "3:9-5", "3:10-1"):
        writes.wrote("ada", position)
    assert writes.after("ada") == "1:7-2,3:10-1"


def test_agents_wait_only_for_themselves():
    writes = LastWrites()
    writes.wrote("ada", "1:7-2")
    writes.wrote("", "2:9-0")
    assert (writes.after("ada"), writes.after(""), writes.after("bob")) == ("1:7-2", "2:9-0", "")


def test_a_read_may_wait_for_the_writes_of_several():
    writes = LastWrites()
    for agent, position in (("ada", "1:7-2"), ("", "2:9-0"), ("", "1:8-0")):
        writes.wrote(agent, position)
    assert writes.after("ada", "", "bob") == "1:8-0,2:9-0"
    assert writes.after("ada") == "1:7-2"


def test_the_agent_that_wrote_longest_ago_is_forgotten_first():
    writes = LastWrites(limit=2)
    for agent in ("ada", "bob", "ada", "cleo"):
        writes.wrote(agent, "1:7-2")
    assert (len(writes), writes.after("bob")) == (2, "")
    assert writes.after("ada") == writes.after("cleo") == "1:7-2"


def test_what_is_no_position_is_refused_and_leaves_no_trace():
    writes = LastWrites()
    with pytest.raises(CommandRejected):
        writes.wrote("ada", "soon")
    assert writes.after("ada") == ""
