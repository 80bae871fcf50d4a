"""The native tools, in the order clients list them, and how any tool is declared to clients."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import mcp.types as types

from mcp_gateway.tools.reading import CONTEXT, RECALL
from mcp_gateway.tools.tool import Tool
from mcp_gateway.tools.writing import CONFIRM, FORGET, LESSON, OBSERVE, REMEMBER, REVISE, SLOTS

NATIVE = (RECALL, REMEMBER, OBSERVE, LESSON, CONTEXT, CONFIRM, REVISE, FORGET, SLOTS)
INSTRUCTIONS = (
    "mnemolog is memory shared by you and other agents. Start with `context` for the project. `recall` before you "
    "assume. `remember` what should last, `observe` what happens, `lesson` what you learned. Pass the same `agent_id` "
    "and `project` every time."
)


def server_version() -> str:
    """The installed release; empty when run from a source tree."""
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return ""


LIMITS = frozenset(("maxLength", "minLength", "maxItems", "pattern"))
"""Keywords of a schema that no model heeds: who goes beyond is told so, and every session pays for listing them."""


def declared(tool: Tool) -> types.Tool:
    """A tool as clients see it. A native one as briefly as it can be called by: a model reads it in every session."""
    native = tool.arguments is not None
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=brief(tool.input_schema) if native else tool.input_schema,
        output_schema=None if native else tool.output_schema,
        annotations=_native_hints(tool) if native else _hints(tool),
    )


def brief(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema without limits of length, what it is as a whole, and defaults that are empty."""
    return {key: value for key, value in _without_limits(schema).items() if key != "description"}


def _without_limits(schema: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in schema.items() if key not in LIMITS and not (key == "default" and value == "")}
    if "properties" in kept:
        kept["properties"] = {name: _without_limits(one) for name, one in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _without_limits(kept["items"])
    return kept


def _native_hints(tool: Tool) -> types.ToolAnnotations:
    """Those that differ from what a client takes for granted; of a tool that only reads the others say nothing."""
    if tool.reads_only:
        return types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.ToolAnnotations(destructive_hint=tool.destructive, open_world_hint=False)


def _hints(tool: Tool) -> types.ToolAnnotations:
    return types.ToolAnnotations(
        title=tool.title,
        read_only_hint=tool.reads_only,
        destructive_hint=tool.destructive,
        # Without the same event_id, a second write is a second event.
        idempotent_hint=tool.reads_only,
        open_world_hint=False,
    )
