"""Observations for the condensing tests: `saw(n, ...)` is what happened in minute n, compressed as the fold does it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from ingest.events.envelope import Envelope, Recorded
from ingest.ids import DocumentId
from ingest.log.position import Position
from ingest.nouns.observation import ObservationRecorded
from projections.nouns.observation import Observation, observation

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def saw(n: int, content: str = "", kind: str = "", data: dict[str, Any] | None = None, **fields: Any) -> Observation:
    """An observation `n` minutes after NOON; any field may be given instead of derived."""
    at = NOON + timedelta(minutes=n)
    reported = ObservationRecorded(kind=kind, content=content, data=data or {})
    envelope = Envelope(
        event_id=f"e{n}", type=reported.TYPE, version=reported.VERSION, tenant="default", occurred_at=at
    )
    event = Recorded(Position(round(at.timestamp() * 1000), 0), envelope, reported)
    return replace(observation(event, reported, DocumentId("ses_1")), **{"id": DocumentId(f"obs_{n}"), **fields})


def called(n: int, tool: str, tool_input: dict[str, Any] | str, output: str = "", error: str = "") -> Observation:
    """A tool call as the hooks report it."""
    hook = "post_tool_failure" if error else "post_tool_use"
    result = {"error": error} if error else {"tool_output": output}
    return saw(n, kind=hook, data={"tool_name": tool, "tool_input": tool_input, **result})


def asked(n: int, prompt: str) -> Observation:
    """A user's prompt as the hooks report it."""
    return saw(n, kind="prompt_submit", data={"prompt": prompt})
