"""Payloads as Claude Code hands them to a hook."""

from typing import Any


def payload(event: str, **fields: Any) -> dict[str, Any]:
    """The payload of one event, of session `s-1` in /src/shop unless said otherwise."""
    return {
        "session_id": "s-1",
        "transcript_path": "/home/ada/.claude/projects/shop/s-1.jsonl",
        "cwd": "/src/shop",
        "permission_mode": "default",
        "hook_event_name": event,
        **fields,
    }
