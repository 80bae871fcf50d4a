"""Resources and prompts of agentmemory: what there is. Reading them loads the index, which listing must not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import mcp.types as types

if TYPE_CHECKING:
    from mcp_gateway.tools.tool import Door

JSON = "application/json"

RESOURCES = (
    types.Resource(
        uri="agentmemory://status",
        name="Status",
        description="How many sessions and memories there are, and whether the server is well.",
        mime_type=JSON,
    ),
    types.Resource(
        uri="agentmemory://memories/latest",
        name="Latest memories",
        description="The newest memories that nothing has superseded.",
        mime_type=JSON,
    ),
    types.Resource(
        uri="agentmemory://graph/stats",
        name="Graph statistics",
        description="How many nodes and edges the graph of what is remembered has, by type.",
        mime_type=JSON,
    ),
)
TEMPLATES = (
    types.ResourceTemplate(
        uri_template="agentmemory://project/{name}/profile",
        name="Project profile",
        description="What a project is like: its concepts, files, conventions and errors.",
        mime_type=JSON,
    ),
    types.ResourceTemplate(
        uri_template="agentmemory://project/{name}/recent",
        name="Recent sessions of a project",
        description="A project's newest sessions, with their summaries.",
        mime_type=JSON,
    ),
)
PROMPTS = (
    types.Prompt(
        name="recall_context",
        description="What is known that helps with a task.",
        arguments=[
            types.PromptArgument(name="task_description", description="What you are about to do.", required=True)
        ],
    ),
    types.Prompt(
        name="session_handoff",
        description="What the next one needs to know of a session.",
        arguments=[types.PromptArgument(name="session_id", description="The session to hand over.", required=True)],
    ),
    types.Prompt(
        name="detect_patterns",
        description="What recurs in the work on a project.",
        arguments=[types.PromptArgument(name="project", description="The project; left out: all.", required=False)],
    ),
)


async def resource_text(door: "Door", uri: str) -> str:
    """The JSON text of a resource; raises BadArgument for what is no resource's address, NotFound for an unknown."""
    from api.dialects.agentmemory.mcp.resources import read

    return await read(door, uri)


async def prompt_text(door: "Door", name: str, arguments: Mapping[str, str]) -> str:
    """The message of a prompt; raises BadArgument."""
    from api.dialects.agentmemory.mcp.resources import message

    return await message(door, name, arguments)
