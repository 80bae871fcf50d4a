"""Errors as an agent should read them: which argument, what to do, and whether a retry is safe. Pure."""

from typing import Any

from ingest.errors import (
    CommandRejected,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    Overloaded,
    ProjectionBehind,
)
from ingest.log.archive.manifest import ArchiveUnavailable
from mcp_gateway.tools.tool import Tool


def refusal(tool: Tool, event_id: str, error: Exception) -> str:
    """What a failed call of `tool` says. `event_id` makes repeating a write harmless; a reading tool has none."""
    match error:
        case CommandRejected(message=message, field=field):
            return _bad_argument(tool, message, field)
        case MalformedRequest():
            return f"{error}. Correct the arguments and call {tool.name} again; nothing was stored."
        case Overloaded(retry_after_s=seconds):
            return (
                f"The server has more to do than it can take: {error}; nothing was stored. "
                f"A retry is safe: wait {seconds} s, then make the same call."
            )
        case LogFull(retry_after_s=seconds):
            after = _after_unknown_outcome(tool, event_id)
            return f"The log's server has no memory left; come back in {seconds} s. {after}"
        case LogUnavailable():
            return f"The log did not acknowledge. {_after_unknown_outcome(tool, event_id)}"
        case ProjectionBehind():
            return (
                "The index is still catching up and cannot answer yet. A retry is safe: wait a second, then ask again."
            )
        case ArchiveUnavailable():
            return f"{error}. {_after_unknown_outcome(tool, event_id)}"
        case MnemologError():
            # said by a look before anything was written, or by a limit
            nothing = "" if tool.reads_only else " Nothing was stored or changed."
            return f"{error}.{nothing} The same call will be refused again: correct it first."
        case _:
            return f"An unexpected fault; the server's log has it. {_after_unknown_outcome(tool, event_id)}"


def _after_unknown_outcome(tool: Tool, event_id: str) -> str:
    if tool.reads_only:
        return "A retry is safe: this tool only reads."
    if not event_id:
        return "Whether it was stored is unknown: look before you repeat it."
    return (
        "Whether it was stored is unknown. "
        f"A retry is safe if you add `event_id`: {event_id!r} to the same arguments; then nothing is stored twice."
    )


def _bad_argument(tool: Tool, message: str, field: str | None) -> str:
    properties: dict[str, dict[str, Any]] = tool.input_schema["properties"]
    name = (field or "").split(".")[0].split("[")[0]
    if name in properties:
        about = properties[name].get("description", "")
        hint = f" {name}: {about}" if about else ""
    else:
        hint = f" {tool.name} takes: {', '.join(properties)}."
    where = f"Bad argument `{field}`: " if field else "Bad arguments: "
    return f"{where}{message}.{hint} Nothing was stored; correct it and call {tool.name} again."
