"""Observations for the condensing tests: `saw(n, ...)` is what happened in minute n, compressed as the fold does it."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ingest.ids import DocumentId
from ingest.log.position import Position
from projections.nouns.observation import Observation
from projections.nouns.trust import said_by
from projections.text.compression import compress

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def saw(n: int, content: str = "", kind: str = "", data: dict[str, Any] | None = None, **fields: Any) -> Observation:
    """An observation `n` minutes after NOON; any field may be given instead of derived."""
    short = compress(kind, content, data)
    at = NOON + timedelta(minutes=n)
    derived: dict[str, Any] = {
        "title": short.title, "subtitle": short.subtitle or "", "facts": short.facts, "narrative": short.narrative,
        "concepts": short.concepts, "files": short.files, "importance": short.importance,
        "confidence": short.confidence, "kind": short.type, "role": short.role,
        "trust": said_by(short.type, short.role, content, data or {}),
    }  # fmt: skip
    return Observation(
        id=DocumentId(f"obs_{n}"), event_id=f"e{n}", tenant="default", session=DocumentId("ses_1"), content=content,
        data=data or {}, occurred_at=at, recorded_at=at, position=str(Position(round(at.timestamp() * 1000), 0)),
        **{**derived, **fields},
    )  # fmt: skip


def called(n: int, tool: str, tool_input: dict[str, Any] | str, output: str = "", error: str = "") -> Observation:
    """A tool call as the hooks report it."""
    hook = "post_tool_failure" if error else "post_tool_use"
    result = {"error": error} if error else {"tool_output": output}
    return saw(n, kind=hook, data={"tool_name": tool, "tool_input": tool_input, **result})


def asked(n: int, prompt: str) -> Observation:
    """A user's prompt as the hooks report it."""
    return saw(n, kind="prompt_submit", data={"prompt": prompt})
