"""The 31 tools of agentmemory, as its clients know them: names, arguments, defaults; its resources and its prompts.

What they do is in `tools` and `resources`, which load the index and so are only loaded by a call.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp.types as types

from api.dialects.agentmemory.answers import refused
from ingest.roles import ADMIN, OPERATOR, READ, READ_WRITE, WRITE, Needs
from mcp_gateway.attachments import Attachments
from mcp_gateway.profiles import Profile
from mcp_gateway.tools.tool import Answer, Tool, ToolContext, dialect_tool

Properties = Mapping[str, Mapping[str, Any]]
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NAMES: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}
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


def text(description: str = "", default: str | None = None) -> dict[str, Any]:
    """The schema of a text."""
    return _described({"type": "string"}, description, default)


def number(default: float | None = None, description: str = "") -> dict[str, Any]:
    """The schema of a number; numeric text is taken for one."""
    return _described(NUMBER, description, default)


def names(description: str) -> dict[str, Any]:
    """The schema of a list; a text with commas is taken for one."""
    return _described(NAMES, description + " A list, or one text with commas.", None)


def _described(schema: dict[str, Any], description: str, default: Any) -> dict[str, Any]:
    about = {"description": description} if description else {}
    return {**schema, **about, **({} if default is None else {"default": default})}


def _called(name: str) -> Callable[[ToolContext, dict[str, Any]], Awaitable[Answer]]:
    async def call(door: ToolContext, arguments: dict[str, Any]) -> Answer:
        from api.dialects.agentmemory.calls import CALLS

        return await CALLS[name](door, arguments)

    return call


def _tool(
    name: str,
    needs: Needs,
    description: str,
    properties: Properties,
    required: tuple[str, ...] = (),
    also: Properties | None = None,
    **fields: Any,
) -> Tool:
    return dialect_tool(
        name,
        needs,
        description,
        _called(name),
        properties=properties,
        required=required,
        also=also,
        refused=refused,
        **fields,
    )


async def resource_text(door: ToolContext, uri: str) -> str:
    """The JSON text of a resource; raises BadArgument for what is no resource's address, NotFound for an unknown."""
    from api.dialects.agentmemory.calls import read

    return await read(door, uri)


async def prompt_text(door: ToolContext, name: str, arguments: Mapping[str, str]) -> str:
    """The message of a prompt; raises BadArgument."""
    from api.dialects.agentmemory.calls import message

    return await message(door, name, arguments)


PROJECT = text("The project.")
SESSION = text("The session's id.")
LIMIT = number(10, "How many at most.")
KIND = text("pattern, preference, architecture, bug, workflow or fact.", "fact")
CONCEPTS, FILES = names("What it is about."), names("Paths it is about.")
IN_PROJECT: Properties = {"project": text()}
"""Taken where session ids or slots of several projects meet; agentmemory itself knows no such thing."""
LESSONS_FOUND: Properties = {"query": text("What you want to know."), "project": PROJECT}
LESSONS_ALSO: Properties = {"minConfidence": number(0.1), "limit": number(10)}
SYNC: Properties = {
    "mode": text("current_session, current_folder or all.", "current_session"),
    "currentConversationId": text("The conversation, for current_session."),
    "currentFolder": text("The folder, for current_folder."),
}
AGENTMEMORY: tuple[Tool, ...] = (
    _tool(
        "memory_recall", READ, "Search past observations and memories. Use it before you assume or redo work.",
        {"query": text("What you want to know."), "limit": LIMIT}, ("query",),
        {"format": text(), "token_budget": NUMBER, "agentId": text(), "project": text()}, reads_only=True,
    ),
    _tool(
        "memory_save", READ_WRITE, "Save an insight, decision or fact for later sessions.",
        {"content": text("What to remember, in full sentences."), "type": KIND, "concepts": CONCEPTS, "files": FILES,
            "project": PROJECT},
        ("content",), {"agentId": text(), "sessionId": text(), "ttlDays": NUMBER},
    ),
    _tool(
        "memory_sessions", READ, "List recent sessions.", {}, also={"limit": NUMBER, "agentId": text()},
        reads_only=True,
    ),
    _tool(
        "memory_sessions_list", READ, "List recent sessions, with their status and how much was observed.", {},
        also={"limit": NUMBER, "agentId": text()}, reads_only=True,
    ),
    _tool(
        "memory_smart_search", READ, "Search by meaning and words; answers titles, and in full what expandIds names.",
        {"query": text("What you want to know."), "limit": LIMIT}, ("query",),
        {"expandIds": {"type": ["string", "array"]}, "project": text(), "includeLessons": {**BOOLEAN, "default": True},
            "agentId": text(), "sessionId": text()},
        instead=("expandIds",), reads_only=True,
    ),
    _tool(
        "memory_timeline", READ, "What was observed around a moment.",
        {"anchor": text("An ISO date, an observation's id, or words."), "project": PROJECT, "sessionId": SESSION},
        ("anchor",), {"before": number(5), "after": number(5), "agentId": text()}, reads_only=True,
    ),
    _tool(
        "memory_observations", READ, "A session's observations, oldest first.", {"sessionId": SESSION}, ("sessionId",),
        {"limit": NUMBER, "agentId": text(), **IN_PROJECT}, reads_only=True,
    ),
    _tool(
        "memory_profile", READ, "What a project is like: concepts, files, conventions, errors.", {"project": PROJECT},
        ("project",), {"refresh": BOOLEAN}, reads_only=True,
    ),
    _tool(
        "memory_lessons", READ, "The lessons learned, the surest first.",
        {"project": PROJECT, "minConfidence": number(0), "limit": number(50)}, also={"source": text()}, reads_only=True,
    ),
    _tool(
        "memory_lesson_save", READ_WRITE, "Record a lesson; saying the same again makes it stronger.",
        {"content": text("The lesson, as advice."), "context": text("When it applies."), "project": PROJECT},
        ("content",), {"confidence": NUMBER, "tags": NAMES, "agentId": text()},
    ),
    _tool(
        "memory_lesson_recall", READ, "Lessons about something.", LESSONS_FOUND, ("query",), LESSONS_ALSO,
        reads_only=True,
    ),
    _tool(
        "memory_lesson_search", READ, "Lessons about something.", LESSONS_FOUND, ("query",), LESSONS_ALSO,
        reads_only=True,
    ),
    _tool(
        "memory_consolidate", READ_WRITE, "Make memories, facts and procedures of what was observed.", {},
        also={"tier": text(), "project": text(), "force": BOOLEAN, "minObservations": number(10)},
    ),
    _tool(
        "memory_reflect", READ_WRITE, "Bring the slots up to date with a session.",
        {"sessionId": SESSION, "maxObservations": number(50, "How many of the newest observations.")}, ("sessionId",),
        {"project": text(), "maxClusters": NUMBER}, instead=("project", "maxClusters"),
    ),
    _tool(
        "memory_diagnose", ADMIN, "Check the server and what it holds.", {}, also={"categories": NAMES},
        reads_only=True,
    ),
    _tool(
        "memory_forget", READ_WRITE, "Forget a memory, a session, or some of its observations, for good.",
        {"memoryId": text("The memory."), "sessionId": text("The session; alone: all of it."),
            "observationIds": names("Observations of the session.")},
        also=IN_PROJECT, destructive=True,
    ),
    _tool(
        "memory_export", ADMIN, "Everything there is, as JSON.", {}, also={"maxSessions": NUMBER, "offset": number(0)},
        reads_only=True,
    ),
    _tool(
        "agent_observe", WRITE, "Record what you did or saw in a session.",
        {"sessionId": SESSION, "project": PROJECT, "text": text("What happened."),
            "content": text("The same as text."), "type": text("What sort of event.", "other"),
            "title": text("A short name; left out: agent_ and the type."),
            "cwd": text("Working directory of the session."), "agentId": text("Who you are.")},
        ("sessionId", "project"),
    ),
    _tool(
        "agent_remember", READ_WRITE, "Save a memory of a project.",
        {"content": text("What to remember, in full sentences."), "project": PROJECT, "type": KIND,
            "concepts": CONCEPTS, "files": FILES, "agentId": text("Who you are.")},
        ("content", "project"), {"sessionId": text(), "ttlDays": NUMBER},
    ),
    _tool("memory_antigravity_sync", OPERATOR, "Take over conversations of Antigravity.", SYNC, ("mode",)),
    _tool(
        "memory_antigravity_sync_all", OPERATOR,
        "Take over conversations of Antigravity, summarise them and bring the slots up to date.", SYNC, ("mode",),
    ),
    _tool("memory_slot_list", READ, "The slots: small texts that stay in view.", {}, also=IN_PROJECT, reads_only=True),
    _tool(
        "memory_slot_get", READ, "Read a slot.", {"label": text("Name of the slot.")}, ("label",), IN_PROJECT,
        reads_only=True,
    ),
    _tool(
        "memory_slot_create", READ_WRITE, "Create a slot, or replace one.",
        {"label": text("Lower-case letters, digits and _."), "content": text("Its text.", ""),
            "scope": text("global or project.", "global"),
            "sizeLimit": number(2000, "Characters it may have, up to 20000."),
            "pinned": {**BOOLEAN, "default": True, "description": "Whether every context shows it."}},
        ("label",), {"description": text(), "overwrite": BOOLEAN, **IN_PROJECT},
    ),
    _tool(
        "memory_slot_append", READ_WRITE, "Add a line to a slot.",
        {"label": text("Name of the slot."), "text": text("The line.")}, ("label", "text"), IN_PROJECT,
    ),
    _tool(
        "memory_slot_replace", READ_WRITE, "Replace the text of a slot.",
        {"label": text("Name of the slot."), "content": text("The new text; may be empty.")}, ("label", "content"),
        IN_PROJECT,
    ),
    _tool(
        "memory_slot_delete", READ_WRITE, "Delete a slot.", {"label": text("Name of the slot.")}, ("label",),
        {"scope": text(), **IN_PROJECT}, destructive=True,
    ),
    _tool(
        "memory_action_create", READ_WRITE, "Write down a work item that agents share.",
        {"title": text("What is to be done."), "description": text(), "priority": number(0, "Higher comes first."),
            "status": text("pending, active, blocked, done or cancelled.", "pending"), "tags": names("Labels."),
            "sessionId": SESSION},
        ("title",), {"project": text(), "parentId": text(), "requires": NAMES, "agentId": text()},
    ),
    _tool(
        "memory_action_update", READ_WRITE, "Change a work item.",
        {"actionId": text("The item's id."), "title": text(), "description": text(), "priority": NUMBER,
            "status": text("pending, active, blocked, done or cancelled."), "tags": names("Labels, all of them."),
            "sessionId": SESSION},
        ("actionId",), {"result": text(), "assignedTo": text(), "agentId": text()},
    ),
    _tool(
        "memory_frontier", READ, "What can be worked on now: nothing blocks it, the most important first.", {},
        also={"project": text(), "agentId": text(), "limit": number(20)}, reads_only=True,
    ),
    _tool(
        "memory_crystallize", READ_WRITE, "Summarise a session; with actionIds, make a memory of finished work.",
        {"sessionId": SESSION}, ("sessionId",), {"actionIds": NAMES, "project": text()}, instead=("actionIds",),
    ),
)  # fmt: skip

AGENTMEMORY_PROFILE = Profile(
    "agentmemory",
    AGENTMEMORY,
    "Memory of past sessions. memory_smart_search or memory_recall before you assume; memory_save for what should "
    "last; memory_lesson_save for what you learned; slots hold what must stay in view.",
    attachments=Attachments(True, RESOURCES, TEMPLATES, PROMPTS, resource_text, prompt_text),
)
