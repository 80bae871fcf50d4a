"""The native tools, in the order clients list them, and how any tool is declared to clients."""

from importlib.metadata import PackageNotFoundError, version

import mcp.types as types

from mcp_gateway.tools.reading import CONTEXT, RECALL
from mcp_gateway.tools.tool import Tool
from mcp_gateway.tools.writing import FORGET, LESSON, OBSERVE, REMEMBER, REVISE, SLOTS

NATIVE = (RECALL, REMEMBER, OBSERVE, LESSON, CONTEXT, REVISE, FORGET, SLOTS)
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


def declared(tool: Tool) -> types.Tool:
    """A tool as clients see it."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destructive,
            # Without the same event_id, a second write is a second event.
            idempotent_hint=tool.reads_only,
            open_world_hint=False,
        ),
    )
