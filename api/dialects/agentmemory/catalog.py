"""The tools of agentmemory, as its clients know them: names, arguments, defaults.

Each tool names the `module:function` that does it. Those load the index and so are only loaded by a call.
"""

from collections.abc import Mapping
from typing import Any

from api.dialects.agentmemory.answers import refused
from ingest.roles import ADMIN, OPERATOR, READ, READ_WRITE, WRITE, Needs
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Deferred, Tool, dialect_tool

Properties = Mapping[str, Mapping[str, Any]]
NUMBER: dict[str, Any] = {"type": "number"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
NAMES: dict[str, Any] = {"type": ["string", "array"], "items": {"type": "string"}}


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


def _tool(
    name: str,
    call: str,
    needs: Needs,
    description: str,
    properties: Properties,
    required: tuple[str, ...] = (),
    also: Properties | None = None,
    **fields: Any,
) -> Tool:
    return dialect_tool(
        name, needs, description, Deferred(f"api.dialects.agentmemory.{call}"), properties=properties,
        required=required, also=also, refused=refused, **fields,
    )  # fmt: skip


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
    _tool("memory_recall", "searching:recall", READ,
        "Search past observations and memories. Use it before you assume or redo work.",
        {"query": text("What you want to know."), "limit": LIMIT}, ("query",),
        {"format": text(), "token_budget": NUMBER, "agentId": text(), "project": text()}, reads_only=True),
    _tool("memory_save", "memories:save_memory", READ_WRITE, "Save an insight, decision or fact for later sessions.",
        {"content": text("What to remember, in full sentences."), "type": KIND, "concepts": CONCEPTS, "files": FILES,
            "project": PROJECT}, ("content",), {"agentId": text(), "sessionId": text(), "ttlDays": NUMBER}),
    _tool("memory_sessions", "sessions:list_sessions", READ, "List recent sessions.", {},
        also={"limit": NUMBER, "agentId": text()}, reads_only=True),
    _tool("memory_sessions_list", "sessions:list_sessions", READ,
        "List recent sessions, with their status and how much was observed.", {},
        also={"limit": NUMBER, "agentId": text()}, reads_only=True),
    _tool("memory_smart_search", "searching:smart_search", READ,
        "Search by meaning and words; answers titles, and in full what expandIds names.",
        {"query": text("What you want to know."), "limit": LIMIT}, ("query",),
        {"expandIds": {"type": ["string", "array"]}, "project": text(), "includeLessons": {**BOOLEAN, "default": True},
            "agentId": text(), "sessionId": text()}, instead=("expandIds",), reads_only=True),
    _tool("memory_timeline", "searching:timeline", READ, "What was observed around a moment.",
        {"anchor": text("An ISO date, an observation's id, or words."), "project": PROJECT, "sessionId": SESSION},
        ("anchor",), {"before": number(5), "after": number(5), "agentId": text()}, reads_only=True),
    _tool("memory_observations", "observing:observations", READ, "A session's observations, oldest first.",
        {"sessionId": SESSION}, ("sessionId",), {"limit": NUMBER, "agentId": text(), **IN_PROJECT}, reads_only=True),
    _tool("memory_profile", "knowledge:profile", READ, "What a project is like: concepts, files, conventions, errors.",
        {"project": PROJECT}, ("project",), {"refresh": BOOLEAN}, reads_only=True),
    _tool("memory_lessons", "lessons:list_lessons", READ, "The lessons learned, the surest first.",
        {"project": PROJECT, "minConfidence": number(0), "limit": number(50)}, also={"source": text()},
        reads_only=True),
    _tool("memory_lesson_save", "lessons:save_lesson", READ_WRITE,
        "Record a lesson; saying the same again makes it stronger.",
        {"content": text("The lesson, as advice."), "context": text("When it applies."), "project": PROJECT},
        ("content",), {"confidence": NUMBER, "tags": NAMES, "agentId": text()}),
    _tool("memory_lesson_recall", "lessons:search_lessons", READ, "Lessons about something.", LESSONS_FOUND, ("query",),
        LESSONS_ALSO, reads_only=True),
    _tool("memory_lesson_search", "lessons:search_lessons", READ, "Lessons about something.", LESSONS_FOUND, ("query",),
        LESSONS_ALSO, reads_only=True),
    _tool("memory_consolidate", "condensing:consolidate", READ_WRITE,
        "Make memories, facts and procedures of what was observed.", {},
        also={"tier": text(), "project": text(), "force": BOOLEAN, "minObservations": number(10)}),
    _tool("memory_reflect", "condensing:reflect", READ_WRITE, "Bring the slots up to date with a session.",
        {"sessionId": SESSION, "maxObservations": number(50, "How many of the newest observations.")}, ("sessionId",),
        {"project": text(), "maxClusters": NUMBER}, instead=("project", "maxClusters")),
    _tool("memory_diagnose", "maintenance:diagnose", ADMIN, "Check the server and what it holds.", {},
        also={"categories": NAMES}, reads_only=True),
    _tool("memory_forget", "maintenance:forget", READ_WRITE,
        "Forget a memory, a session, or some of its observations, for good.",
        {"memoryId": text("The memory."), "sessionId": text("The session; alone: all of it."),
            "observationIds": names("Observations of the session.")}, also=IN_PROJECT, destructive=True),
    _tool("memory_export", "exporting:export", ADMIN, "Everything there is, as JSON.", {},
        also={"maxSessions": NUMBER, "offset": number(0)}, reads_only=True),
    _tool("agent_observe", "observing:observe_text", WRITE, "Record what you did or saw in a session.",
        {"sessionId": SESSION, "project": PROJECT, "text": text("What happened."), "content": text("The same as text."),
            "type": text("What sort of event.", "other"), "title": text("A short name; left out: agent_ and the type."),
            "cwd": text("Working directory of the session."), "agentId": text("Who you are.")},
        ("sessionId", "project")),
    _tool("agent_remember", "memories:save_memory", READ_WRITE, "Save a memory of a project.",
        {"content": text("What to remember, in full sentences."), "project": PROJECT, "type": KIND,
            "concepts": CONCEPTS, "files": FILES, "agentId": text("Who you are.")}, ("content", "project"),
        {"sessionId": text(), "ttlDays": NUMBER}),
    _tool("memory_antigravity_sync", "antigravity:sync", OPERATOR, "Take over conversations of Antigravity.", SYNC,
        ("mode",)),
    _tool("memory_antigravity_sync_all", "antigravity:sync_all", OPERATOR,
        "Take over conversations of Antigravity, summarise them and bring the slots up to date.", SYNC, ("mode",)),
    _tool("memory_slot_list", "slots:list_slots", READ, "The slots: small texts that stay in view.", {},
        also=IN_PROJECT, reads_only=True),
    _tool("memory_slot_get", "slots:get_slot", READ, "Read a slot.", {"label": text("Name of the slot.")}, ("label",),
        IN_PROJECT, reads_only=True),
    _tool("memory_slot_create", "slots:create_slot", READ_WRITE, "Create a slot, or replace one.",
        {"label": text("Lower-case letters, digits and _."), "content": text("Its text.", ""),
            "scope": text("global or project.", "global"),
            "sizeLimit": number(2000, "Characters it may have, up to 20000."),
            "pinned": {**BOOLEAN, "default": True, "description": "Whether every context shows it."}}, ("label",),
        {"description": text(), "overwrite": BOOLEAN, **IN_PROJECT}),
    _tool("memory_slot_append", "slots:append_to_slot", READ_WRITE, "Add a line to a slot.",
        {"label": text("Name of the slot."), "text": text("The line.")}, ("label", "text"), IN_PROJECT),
    _tool("memory_slot_replace", "slots:replace_slot", READ_WRITE, "Replace the text of a slot.",
        {"label": text("Name of the slot."), "content": text("The new text; may be empty.")}, ("label", "content"),
        IN_PROJECT),
    _tool("memory_slot_delete", "slots:delete_slot", READ_WRITE, "Delete a slot.", {"label": text("Name of the slot.")},
        ("label",), {"scope": text(), **IN_PROJECT}, destructive=True),
    _tool("memory_action_create", "actions:create_action", READ_WRITE, "Write down a work item that agents share.",
        {"title": text("What is to be done."), "description": text(), "priority": number(0, "Higher comes first."),
            "status": text("pending, active, blocked, done or cancelled.", "pending"), "tags": names("Labels."),
            "sessionId": SESSION}, ("title",),
        {"project": text(), "parentId": text(), "requires": NAMES, "agentId": text()}),
    _tool("memory_action_update", "actions:update_action", READ_WRITE, "Change a work item.",
        {"actionId": text("The item's id."), "title": text(), "description": text(), "priority": NUMBER,
            "status": text("pending, active, blocked, done or cancelled."), "tags": names("Labels, all of them."),
            "sessionId": SESSION}, ("actionId",), {"result": text(), "assignedTo": text(), "agentId": text()}),
    _tool("memory_frontier", "actions:frontier", READ,
        "What can be worked on now: nothing blocks it, the most important first.", {},
        also={"project": text(), "agentId": text(), "limit": number(20)}, reads_only=True),
    _tool("memory_crystallize", "condensing:crystallize", READ_WRITE,
        "Summarise a session; with actionIds, make a memory of finished work.", {"sessionId": SESSION}, ("sessionId",),
        {"actionIds": NAMES, "project": text()}, instead=("actionIds",)),
)  # fmt: skip

PLUGIN: tuple[Tool, ...] = (
    _tool("memory_governance_delete", "memories:governance_delete", READ_WRITE, "Delete memories for good.",
        {"memoryIds": names("The memories."), "reason": text("Why; kept with the deletion.")}, ("memoryIds",),
        destructive=True),
    _tool("memory_lesson_delete", "lessons:delete_lesson", READ_WRITE, "Delete a lesson for good.",
        {"lessonId": text("The lesson.")}, ("lessonId",), {"agentId": text()}, destructive=True),
    _tool("memory_commits", "sessions:commits", READ, "List the commits that sessions made, newest first.",
        {"branch": text("Only of this branch."), "repo": text("Only of this repository."),
            "limit": number(100, "How many at most, up to 500.")}, also={"agentId": text()}, reads_only=True),
    _tool("memory_commit_lookup", "sessions:commit_lookup", READ, "Find the sessions that a commit was made in.",
        {"sha": text("The commit's hash.")}, ("sha",), {"agentId": text()}, reads_only=True),
)  # fmt: skip
"""What the plugin of 0.9.29 calls beside the 31: offered by MCP and answered everywhere, but listed over REST, where
clients count on 31, only with AGENTMEMORY_TOOLS=all."""

AGENTMEMORY_PROFILE = ToolProfile(
    "agentmemory",
    (*AGENTMEMORY, *PLUGIN),
    "Memory of past sessions. memory_smart_search or memory_recall before you assume; memory_save for what should "
    "last; memory_lesson_save for what you learned; slots hold what must stay in view.",
)
