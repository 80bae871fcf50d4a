"""Refusals say whether something was stored, wherever that is known."""

import pytest

from ingest.errors import (
    AccessDenied,
    AlreadyThere,
    ArchiveUnavailable,
    DurabilityNotReached,
    Forbidden,
    LogUnavailable,
    NotFound,
    RequestTooLarge,
    SessionFull,
    SlotFull,
)
from mcp_gateway.tools.reading import RECALL
from mcp_gateway.tools.tool import refusal
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
    assert "Whether it was stored is unknown" in said
    assert "'e1'" in said
    assert "unknown" not in refusal(RECALL, "", error)
