"""The tools of agent-memory, as its clients know them.

Each names the `module:function` that does it. Those load the index; listing must not.
"""

from typing import Any

from ingest.errors import CommandRejected, MnemologError
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Call, Tool, ToolAnswer, contract_tools, json_answer

GUIDE = """How to search memory, from little text to much:

1. search(query, limit=20): titles and ids of what matches. Narrow with project, type, dateStart and dateEnd.
2. timeline(anchor=<id>): what happened just before and after it, in its session. timeline(query=...) finds the anchor.
3. get_observations(ids=[...]): everything about the few that matter. Ask for them together, not one by one.

Keep what should outlive the session with save_memory, and rules learned from mistakes with create_lesson; \
search_lessons finds those again."""


async def guide(context: Call, arguments: dict[str, Any]) -> ToolAnswer:
    """memory_search_guide."""
    return ToolAnswer(GUIDE)


def refused(tool: Tool, error: Exception) -> ToolAnswer:
    """The answer to an error: invalid arguments are an error, everything else is the tool's answer."""
    match error:
        case BadArgument(message=message):
            return ToolAnswer(f"Input validation error: {message}", is_error=True)
        case CommandRejected(message=message, field=field):
            return json_answer({"error": f"{field}: {message}" if field else message})
        case MnemologError():
            return json_answer({"error": str(error)})
        case _:
            return json_answer({"error": "unexpected error; see the server's log"})


AGENT_MEMORY = contract_tools(__file__, refused)
AGENT_MEMORY_PROFILE = ToolProfile(
    "agent-memory",
    AGENT_MEMORY,
    "Memory of coding sessions. Search, then timeline, then get_observations: see memory_search_guide.",
    server_name="agent-memory",
    answers_for_any_tool=True,
)
