"""Answers as agentmemory gives them: JSON in the text, the same as data; a fault is `{success: false, error}`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ingest.errors import CommandRejected, LogUnavailable, MnemologError, Overloaded, ProjectionBehind, ReaderUnknown
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Tool, ToolAnswer, refusal

_RETRY = (LogUnavailable, Overloaded, ProjectionBehind)


def answer(record: Mapping[str, Any], text: str | None = None) -> ToolAnswer:
    """The answer that says this; `text` where the text is not the record's JSON."""
    data: dict[str, Any] = msgspec.to_builtins(record, str_keys=True)
    return ToolAnswer(msgspec.json.encode(data).decode() if text is None else text, data)


def succeeded(**record: Any) -> ToolAnswer:
    """The answer of a function that did what it should."""
    return answer({"success": True, **record})


def failed(error: str, **record: Any) -> ToolAnswer:
    """The answer of a function that could not: no error of the protocol, so that clients show what it says."""
    return answer({"success": False, "error": error, **record})


def refused(tool: Tool, error: Exception) -> ToolAnswer:
    """How a fault is told: an argument at fault is an error that names it, what the function refuses is its answer."""
    if isinstance(error, BadArgument):
        return _bad_argument(error.field, error.message)
    if isinstance(error, CommandRejected):
        name = argument(error.field)
        at_fault = type(error) in (CommandRejected, ReaderUnknown) and name in tool.input_schema["properties"]
        return _bad_argument(name, error.message) if at_fault else failed(error.message)
    if isinstance(error, MnemologError) and not isinstance(error, _RETRY):
        return failed(str(error))
    return ToolAnswer(refusal(tool, "", error), is_error=True)


def argument(field: str | None) -> str | None:
    """What agentmemory calls a field of a command: camel case, without what is inside it."""
    if field is None:
        return None
    first, *others = field.split(".")[0].split("[")[0].split("_")
    return first + "".join(map(str.capitalize, others))


def _bad_argument(name: str | None, message: str) -> ToolAnswer:
    return ToolAnswer(f"Bad argument {name}: {message}. Nothing was stored.", is_error=True)
