"""Payloads as Claude Code and others hand them to a hook.

As in their documentation: cursor.com/docs/hooks, geminicli.com/docs/hooks/reference, developers.openai.com/codex/hooks.
"""

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


def cursor(event: str, **fields: Any) -> dict[str, Any]:
    """The same of Cursor."""
    return {
        "conversation_id": "s-1",
        "generation_id": "490b90b7",
        "model": "claude-opus-4-7",
        "hook_event_name": event,
        "cursor_version": "1.7.2",
        "workspace_roots": ["/src/shop", "/src/till"],
        "user_email": None,
        "transcript_path": None,
        **fields,
    }


def gemini(event: str, **fields: Any) -> dict[str, Any]:
    """The same of Gemini CLI."""
    return {
        "session_id": "s-1",
        "transcript_path": "/home/ada/.gemini/tmp/s-1.json",
        "cwd": "/src/shop",
        "hook_event_name": event,
        "timestamp": "2026-01-31T12:00:00.000Z",
        **fields,
    }


def codex(event: str, **fields: Any) -> dict[str, Any]:
    """The same of Codex."""
    return {
        "session_id": "s-1",
        "turn_id": "turn-1",
        "transcript_path": None,
        "cwd": "/src/shop",
        "hook_event_name": event,
        "model": "gpt-5",
        "permission_mode": "default",
        **fields,
    }
