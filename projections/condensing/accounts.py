"""What one observation says, as text a person can read: words as they were said, a tool call as what it did to what.

Guarantee: pure, never raises on JSON-like data, one tool call is one line.
"""

import re
from typing import Any, cast

import msgspec

from ingest.log.position import Position
from projections.compression.payloads import named
from projections.condensing.sentences import SCAN_CHARS, shortened
from projections.documents.observations import Observation

MODIFYING = frozenset(("file_edit", "file_write"))
"""Kinds of observation that changed their files."""
_PROSE_FIELDS = ("prompt", "last_message", "message", "task_description", "task_subject", "text")
"""Where agentmemory's hooks put what somebody said."""
_TARGET_FIELDS = (
    "file_path", "filepath", "filePath", "file", "command", "pattern", "query", "url", "path", "description",
)  # fmt: skip
_TARGET_CHARS = 120
_REASON_CHARS = 160
"""Enough for an exception with its message."""
_CALL = re.compile(r"(?:\S+: )?\S+ `[^`]*`\.?")


def in_time(observation: Observation) -> tuple[float, Position]:
    """Sort key: when it happened, then its place in the log."""
    return observation.occurred_at.timestamp(), Position.parse(observation.position)


def user_prompt(observation: Observation) -> str:
    """Returns what the user asked for, when a hook reported that; else ""."""
    return _text(observation.data.get("prompt"))


def prose(observation: Observation) -> str:
    """Returns what was said in words: a model's narrative, the content, a prompt, a message; "" for a tool call.

    A tool whose output is its input did nothing but say it.
    """
    if observation.model and observation.narrative.strip():
        return observation.narrative.strip()
    if observation.content.strip():
        return named(observation.content.strip())
    data = observation.data
    if data.get("tool_name") == "conversation":
        return "\n".join(filter(None, (_text(data.get("tool_input")), _text(data.get("tool_output")))))
    if data.get("tool_name"):
        said = _text(data.get("tool_input"))
        return (
            said if said == _text(data.get("tool_output")) else ""
        )  # agent_observe keeps what an agent says like this
    return next((said for field in _PROSE_FIELDS if (said := _text(data.get(field)))), "")


def account(observation: Observation) -> str:
    """Returns the observation's prose, else its tool call in one line, else whatever short form it has."""
    return (
        prose(observation)
        or _call(observation)
        or _pairs(observation.data)
        or observation.narrative
        or observation.title
    )


def is_bare_call(text: str) -> bool:
    """Returns whether a text that `account` made only names a tool and its target, and so tells nothing by itself."""
    return _CALL.fullmatch(text) is not None


def _call(observation: Observation) -> str:
    tool = _text(observation.data.get("tool_name"))
    if not tool:
        return ""
    target = _target(observation.data.get("tool_input"))
    line = f"{tool} `{target}`" if target else tool
    reason = _reason(observation.data) if observation.kind == "error" else ""
    return f"{line} failed: {reason}" if reason else line


def _target(tool_input: Any) -> str:
    """The file, command or question that a tool was given; hooks send the input of a failed call as JSON text."""
    if isinstance(tool_input, str) and tool_input.startswith("{"):
        try:
            tool_input = msgspec.json.decode(tool_input)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
    if isinstance(tool_input, dict):
        fields = cast(dict[str, Any], tool_input)
        tool_input = next((found for field in _TARGET_FIELDS if (found := _text(fields.get(field)))), "")
    return shortened(_text(tool_input)[:SCAN_CHARS], _TARGET_CHARS).replace("`", "'")


def _reason(data: dict[str, Any]) -> str:
    """Why a call failed: the last line of a traceback, else the first line."""
    lines = (_text(data.get("error")) or _text(data.get("tool_output"))).splitlines()
    if not lines:
        return ""
    return shortened(lines[-1] if lines[0].startswith("Traceback") else lines[0], _REASON_CHARS)


def _pairs(data: dict[str, Any]) -> str:
    """The texts and numbers of an object without a known shape, by name."""
    plain = (
        (name, value) for name, value in data.items() if name != "hookType" and isinstance(value, str | int | float)
    )
    return shortened(
        ", ".join(f"{name}: {shortened(str(value)[:SCAN_CHARS], _TARGET_CHARS)}" for name, value in plain), SCAN_CHARS
    )


def _text(value: Any) -> str:
    return named(value.strip()) if isinstance(value, str) else ""
