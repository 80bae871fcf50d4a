"""What clients of agentmemory can call: each row is a tool, a route or both, and says once what it takes.

Rows name the `module:function` that does the work. Those load the index, which listing the tools must not, so a tool
imports its function with its first call and the routes are made by `app.py`.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from ingest.errors import CommandRejected, LogUnavailable, MnemologError, Overloaded, ProjectionBehind, ReaderUnknown
from ingest.roles import ADMIN, ANY, METRICS, OPERATOR, READ, READ_WRITE, WRITE, Needs
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Deferred, Tool, ToolAnswer, dialect_tool, refusal

_RETRY = (LogUnavailable, Overloaded, ProjectionBehind)


def answer(record: Mapping[str, Any]) -> ToolAnswer:
    """A record as a tool's answer: the text is its JSON, or for results in narrative form what they tell."""
    data: dict[str, Any] = msgspec.to_builtins(record, str_keys=True)
    narrative = data.get("format") == "narrative"
    return ToolAnswer(data["text"] if narrative else msgspec.json.encode(data).decode(), data)


def success(**record: Any) -> dict[str, Any]:
    """The record of a function that did what it should."""
    return {"success": True, **record}


def failure(error: str, **record: Any) -> dict[str, Any]:
    """The record of a function that could not: no error of the protocol, so that clients show what it says."""
    return {"success": False, "error": error, **record}


class _ToolCall(Deferred):
    """The function of a tool, whose record becomes the answer."""

    async def __call__(self, *arguments: Any) -> ToolAnswer:
        return answer(await super().__call__(*arguments))


def refused(tool: Tool, error: Exception) -> ToolAnswer:
    """The answer to an error: an invalid argument is an error that names it, a refusal the function's answer."""
    if isinstance(error, BadArgument):
        return _bad_argument(error.field, error.message)
    if isinstance(error, CommandRejected):
        name = argument(error.field)
        at_fault = type(error) in (CommandRejected, ReaderUnknown) and name in tool.input_schema["properties"]
        return _bad_argument(name, error.message) if at_fault else answer(failure(error.message))
    if isinstance(error, MnemologError) and not isinstance(error, _RETRY):
        return answer(failure(str(error)))
    return ToolAnswer(refusal(tool, "", error), is_error=True)


def argument(field: str | None) -> str | None:
    """What agentmemory calls a field of a command: camel case, without what is inside it."""
    if field is None:
        return None
    first, *others = field.split(".")[0].split("[")[0].split("_")
    return first + "".join(map(str.capitalize, others))


def _bad_argument(name: str | None, message: str) -> ToolAnswer:
    return ToolAnswer(f"Bad argument {name}: {message}. Nothing was stored.", is_error=True)


Schema = Mapping[str, Any]
Properties = Mapping[str, Schema]
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
NAMES: Schema = {"type": ["string", "array"], "items": {"type": "string"}}
"""A list, or one text with commas."""
ANYTHING: Schema = {}


def text(description: str = "", default: str | None = None) -> Schema:
    """The schema of a text."""
    return _described({"type": "string"}, description, default)


def number(default: float | None = None, description: str = "") -> Schema:
    """The schema of a number, or numeric text."""
    return _described(NUMBER, description, default)


def boolean(default: bool, description: str = "") -> Schema:
    """The schema of a boolean."""
    return _described({**BOOLEAN, "default": default}, description, None)


def names(description: str) -> Schema:
    """The schema of a list, or one text with commas."""
    return _described(NAMES, description + " A list, or one text with commas.", None)


def _described(schema: Schema, description: str, default: Any) -> Schema:
    about = {"description": description} if description else {}
    return {**schema, **about, **({} if default is None else {"default": default})}


def texts(properties: str) -> dict[str, Schema]:
    """The schemas of properties that are texts, by their names."""
    return dict.fromkeys(properties.split(), text())


def fields(properties: Properties, required: tuple[str, ...] = ()) -> Schema:
    """The schema of a body or a query string; without descriptions, which are for models."""
    plain: dict[str, dict[str, Any]] = {}
    for name, schema in properties.items():
        plain[name] = {word: value for word, value in schema.items() if word != "description"}
        if isinstance(plain[name].get("type"), list):
            plain[name]["type"] = sorted(plain[name]["type"])
    return {"type": "object", "properties": plain, "required": [*required]}


class Operation(NamedTuple):
    """One thing that clients can ask for.

    `call` is the function of the tool and the route, `handler` another one for the route. A function returns a record;
    for a route, it may return a response. Its first parameter is `call`, or `request` where it needs more than that; it
    has a second one for the arguments, unless it takes none or reads the request itself.
    """

    call: str
    about: str
    needs: Needs
    takes: Mapping[str, Schema] = {}
    required: tuple[str, ...] = ()
    also: Mapping[str, Schema] = {}
    """Accepted by the tool but not advertised; the route advertises it."""
    tool: str = ""
    route: str = ""
    """Method and path, below /agentmemory."""
    handler: str = ""
    level: Literal["M", "S", "V"] = "M"
    status: int = 200
    route_takes: Mapping[str, Schema] = {}
    """Parameters that only the route accepts, or describes differently."""
    route_omits: tuple[str, ...] = ()
    route_required: tuple[str, ...] | None = None
    errors: Mapping[int, str] = {}
    sent_in: Literal["body", "query", "either"] = "body"
    """Where the route reads its parameters; a GET always reads the query string."""
    answers_200: bool = False
    """The route can return 200 as well as its status."""
    instead: tuple[str, ...] = ()
    destructive: bool = False
    plugin: bool = False
    """Tools that the plugin of 0.9.29 calls besides the 31: listed over MCP and callable everywhere, but listed over
    REST, where clients expect 31, only with AGENTMEMORY_TOOLS=all."""

    def as_tool(self) -> Tool:
        """The MCP tool."""
        return dialect_tool(
            self.tool, self.needs, self.about, _ToolCall(f"{PACKAGE}.{self.call}"), properties=self.takes,
            required=self.required, also=self.also, instead=self.instead,
            reads_only=self.needs in (READ, ADMIN),  # those for an admin change nothing
            destructive=self.destructive, refused=refused,
        )  # fmt: skip

    def request(self) -> Schema | None:
        """The schema of the route's request; None for none."""
        properties = {**self.takes, **self.also, **self.route_takes}
        for name in self.route_omits:
            del properties[name]
        required = () if self.instead else self.required
        return (
            fields(properties, required if self.route_required is None else self.route_required) if properties else None
        )


PACKAGE = "api.dialects.agentmemory"
MAX_OBSERVATIONS = 5_000
MAX_LISTED_RELATIONS = 1_000
PROJECT, SESSION = text("The project."), text("The session's id.")
QUERY, LIMIT = text("What you want to know."), number(10, "How many at most.")
KIND = text("pattern, preference, architecture, bug, workflow or fact.", "fact")
STATUSES = "pending, active, blocked, done or cancelled."
SLOT = text("Name of the slot.")
IN_PROJECT: Properties = {"project": text()}
"""Distinguishes session ids or slots of several projects; agentmemory itself has no such parameter."""
MEMORY: Properties = {
    "content": text("What to remember, in full sentences."), "type": KIND, "concepts": names("What it is about."),
    "files": names("Paths it is about."), "project": PROJECT,
}  # fmt: skip
REMEMBERED: Properties = {"type": text(), "sourceObservationIds": NAMES}
LESSONS_ABOUT: Properties = {"query": QUERY, "project": PROJECT}
LESSONS_ALSO: Properties = {"minConfidence": number(0.1), "limit": number(10)}
PIPELINE: Properties = {**texts("tier project"), "force": BOOLEAN, "minObservations": number(10)}
SYNC: Properties = {
    "mode": text("current_session, current_folder or all.", "current_session"),
    "currentConversationId": text("The conversation, for current_session."),
    "currentFolder": text("The folder, for current_folder."),
}
LISTED: Properties = {"project": text(), "limit": number(100)}
OF_SESSION: Properties = {**texts("sessionId agentId"), "limit": number(MAX_OBSERVATIONS)}
DRY_RUN: Properties = {"dryRun": BOOLEAN}
CALL: Properties = {"name": text(), "arguments": {"type": "object"}}
DELETE: Properties = {"memoryIds": {"type": "array", "items": text()}, "reason": text()}
"""A comma-separated text is not accepted here, because deletions cannot be undone."""
EXPORT: Properties = {"exportData": {"type": "object"}, "strategy": text(default="merge")}
_ACTION: Properties = {"title": text(), "description": text(), "priority": NUMBER, "status": text(STATUSES)}
_NO_SESSION = {400: "The session is missing."}
_NO_SLOT = {400: "The label is missing.", 404: "No such slot."}
_WRITTEN = {**_NO_SLOT, 413: "The text would exceed the slot's limit; says its size and the limit."}
_NO_ACTION = {400: "A field cannot be read.", 404: "No such action."}

OPERATIONS: tuple[Operation, ...] = (
    # About the server
    Operation("maintenance:health", "Server health.", ANY, route="GET health",
        errors={503: "Redis is not responding, or no worker is running"}),
    Operation("maintenance:flags", "Enabled features.", ANY, route="GET config/flags"),
    Operation("maintenance:graph_stats", "How many nodes and edges the graph has.", READ, route="GET graph/stats"),
    Operation("searching:bridge", "Does nothing; always succeeds.", ANY, route="POST claude-bridge/sync"),
    Operation("searching:followup", "How often agents repeat a search soon after another one.", METRICS,
        route="GET diagnostics/followup"),
    Operation("endpoints:tools", "The tools.", ANY, route="GET mcp/tools"),
    Operation("endpoints:call_for_status", "Call a tool.", ANY, CALL, ("name",), route="POST mcp/tools", level="S",
        errors={404: "no such action"}),
    Operation("endpoints:call", "Call a tool; errors are in the response's text.", ANY, CALL, ("name",),
        route="POST mcp/call"),
    # Searching, and context for agents
    Operation("searching:recall", "Search past observations and memories. Use it before you assume or redo work.", READ,
        {"query": QUERY, "limit": LIMIT}, ("query",),
        {"format": text(), "token_budget": NUMBER, **texts("agentId project")}, "memory_recall", "POST search",
        "searching:post_search", route_takes={"limit": number(20), "cwd": text()}),
    Operation("memories:save_memory", "Save an insight, decision or fact for later sessions.", READ_WRITE, MEMORY,
        ("content",), {**texts("agentId sessionId"), "ttlDays": NUMBER}, "memory_save", "POST remember",
        "memories:remember", status=201, route_takes=REMEMBERED),
    Operation("sessions:list_sessions", "List recent sessions.", READ, also={"limit": NUMBER, "agentId": text()},
        tool="memory_sessions", route="GET sessions", handler="sessions:get_sessions"),
    Operation("sessions:list_sessions", "List recent sessions, with their status and observation counts.", READ,
        also={"limit": NUMBER, "agentId": text()}, tool="memory_sessions_list"),
    Operation("searching:smart_search",
        "Search by meaning and words; answers titles, and in full what expandIds names.", READ,
        {"query": QUERY, "limit": LIMIT}, ("query",),
        {"expandIds": {"type": ["string", "array"]}, "project": text(), "includeLessons": boolean(True),
            **texts("agentId sessionId")}, "memory_smart_search", "POST smart-search", "searching:post_smart_search",
        route_takes={"limit": number(20), "expandIds": {"type": ["array", "string"], "items": ANYTHING},
            "source": text()}, instead=("expandIds",)),
    Operation("searching:timeline", "Observations around a moment.", READ,
        {"anchor": text("An ISO date, an observation's id, or words."), "project": PROJECT, "sessionId": SESSION},
        ("anchor",), {"before": number(5), "after": number(5), "agentId": text()}, "memory_timeline", "POST timeline",
        level="S", errors={400: "The anchor is missing."}),
    Operation("searching:context", "A project's context within a token budget.", READ,
        {**texts("sessionId project agentId"), "budget": NUMBER}, ("sessionId", "project"), route="POST context"),
    Operation("searching:enrich", "Information about files before work on them.", READ,
        {**texts("sessionId toolName project agentId"), "files": NAMES, "terms": NAMES},
        ("sessionId", "files"), route="POST enrich"),
    # Observations and sessions
    Operation("sessions:observations", "A session's observations, oldest first.", READ, {"sessionId": SESSION},
        ("sessionId",), {"limit": NUMBER, "agentId": text(), **IN_PROJECT}, "memory_observations", "GET observations",
        "sessions:get_observations", "S", route_takes=OF_SESSION, route_omits=("project",), errors=_NO_SESSION),
    Operation("sessions:observe", "Record a hook's event.", WRITE,
        {**texts("sessionId hookType project cwd agentId"), "timestamp": {"type": ["string", "number"]},
            "data": ANYTHING}, ("sessionId", "hookType", "timestamp"), route="POST observe", status=201),
    Operation("sessions:played_sessions", "The sessions that can be played back.", READ,
        {"agentId": text(), "limit": number(100)}, route="GET replay/sessions", level="S"),
    Operation("sessions:load", "A session's observations with playback times.", READ, OF_SESSION, ("sessionId",),
        route="GET replay/load",
        level="S", errors={**_NO_SESSION, 404: "No such session."}),
    Operation("sessions:start", "Start or resume a session; returns its context.", READ_WRITE,
        texts("sessionId project cwd title agentId"), ("sessionId",), route="POST session/start"),
    Operation("sessions:end", "End a session.", WRITE, texts("sessionId"), ("sessionId",), route="POST session/end"),
    Operation("sessions:link", "Link a commit to the session it was made in.", READ_WRITE,
        {**texts("sha sessionId branch repo message author authoredAt project agentId"),
            "files": NAMES}, ("sha",), route="POST session/commit"),
    # Profiles, lessons, and condensed knowledge
    Operation("knowledge:profile", "A project's profile: concepts, files, conventions, errors.", READ,
        {"project": PROJECT}, ("project",), {"refresh": BOOLEAN}, "memory_profile", "GET profile",
        "knowledge:get_profile", "S", route_required=()),
    Operation("work:list_lessons", "Lessons, highest confidence first.", READ,
        {"project": PROJECT, "minConfidence": number(0), "limit": number(50)}, also={"source": text()},
        tool="memory_lessons", route="GET lessons", level="S", errors={400: "Not a number."}),
    Operation("work:save_lesson", "Record a lesson; repeating it raises its confidence.", READ_WRITE,
        {"content": text("The lesson, as advice."), "context": text("When it applies."), "project": PROJECT},
        ("content",), {"confidence": NUMBER, "tags": NAMES, "agentId": text()}, "memory_lesson_save", "POST lessons",
        "work:post_lesson", "S", 201, errors={400: "The content is missing."}, answers_200=True),
    Operation("work:search_lessons", "Lessons about something.", READ, LESSONS_ABOUT, ("query",), LESSONS_ALSO,
        "memory_lesson_recall"),
    Operation("work:search_lessons", "Lessons about something.", READ, LESSONS_ABOUT, ("query",), LESSONS_ALSO,
        "memory_lesson_search", "POST lessons/search", level="S", errors={400: "The query is missing."}),
    Operation("work:post_strengthen", "Confirm a lesson again.", READ_WRITE,
        texts("lessonId agentId"), ("lessonId",), route="POST lessons/strengthen", level="S",
        errors={400: "The id is missing."}),
    Operation("knowledge:consolidate", "Create memories, facts and procedures from observations.", READ_WRITE,
        also=PIPELINE, tool="memory_consolidate", route="POST consolidate"),
    Operation("knowledge:pipeline", "Run the consolidation, or one tier of it.", READ_WRITE, PIPELINE,
        route="POST consolidate-pipeline"),
    Operation("knowledge:reflect", "Update the slots from a session.", READ_WRITE,
        {"sessionId": SESSION, "maxObservations": number(50, "How many of the newest observations.")}, ("sessionId",),
        {"project": text(), "maxClusters": NUMBER}, "memory_reflect", "POST reflect", "knowledge:post_reflect", "S",
        route_takes={"maxClusters": number(10)}, instead=("project", "maxClusters")),
    Operation("work:reflect_session", "Update the automatic slots from a session.", READ_WRITE,
        {"sessionId": text(), "maxObservations": number(50)}, ("sessionId",), route="POST slot/reflect", level="S",
        errors=_NO_SESSION),
    Operation("knowledge:summarize", "Summarize a session now.", READ_WRITE, texts("sessionId"), ("sessionId",),
        route="POST summarize"),
    Operation("knowledge:crystallize_finished", "Create crystals from work that was finished a while ago.", READ_WRITE,
        {"olderThanDays": number(7), "project": text(), "dryRun": boolean(False)}, route="POST crystals/auto"),
    Operation("knowledge:crystals", "Results of finished chains of actions.", READ,
        {"project": text(), "sessionId": text(), "limit": number(20)}, route="GET crystals", level="S"),
    Operation("knowledge:semantic", "Facts that sessions stated or decided.", READ, LISTED, route="GET semantic",
        level="S"),
    Operation("knowledge:procedural", "Procedures.", READ, LISTED, route="GET procedural", level="S"),
    # Upkeep
    Operation("maintenance:diagnose", "Check the server and its data.", ADMIN, also={"categories": NAMES},
        tool="memory_diagnose", route="POST diagnostics", level="S", route_takes=DRY_RUN),
    Operation("maintenance:audit", "Who wrote or deleted what, newest first.", READ,
        {"operation": text(), "limit": number(50), "agentId": text()}, route="GET audit"),
    Operation("maintenance:forget", "Permanently delete a memory, a session, or some of its observations.", READ_WRITE,
        {"memoryId": text("The memory."), "sessionId": text("The session; alone: all of it."),
            "observationIds": names("Observations of the session.")}, (), IN_PROJECT, "memory_forget", "POST forget",
        "maintenance:post_forget", "S", route_omits=("project",),
        errors={400: "Neither a memory nor a session is named."}, destructive=True),
    Operation("maintenance:auto_forget", "Delete expired memories and old observations.", READ_WRITE, DRY_RUN,
        route="POST auto-forget", level="S", sent_in="either"),
    Operation("transfer:export", "Export everything as JSON.", ADMIN,
        also={"maxSessions": NUMBER, "offset": number(0)}, tool="memory_export", route="GET export",
        handler="transfer:get_export"),
    Operation("transfer:import_export", "Import an export. Rejected rows are listed in the response.", ADMIN, EXPORT,
        ("exportData",), route="POST import", level="S",
        errors={400: "The export is missing, or the strategy is unknown.",
            413: "The export is too big for a request.", 429: "Another import is in progress."}),
    Operation("transcripts:import_transcripts", "Import transcripts of Claude Code.", OPERATOR,
        {"path": text(), "maxFiles": number(200)}, route="POST replay/import-jsonl", status=202, answers_200=True),
    # What agents say
    Operation("sessions:observe_text", "Record what you did or saw in a session.", WRITE,
        {"sessionId": SESSION, "project": PROJECT, "text": text("What happened."), "content": text("The same as text."),
            "type": text("What sort of event.", "other"), "title": text("A short name; left out: agent_ and the type."),
            "cwd": text("Working directory of the session."), "agentId": text("Who you are.")},
        ("sessionId", "project"), {}, "agent_observe", "POST agent/observe", "sessions:observe_as_agent", "S", 201,
        route_takes=texts("type imageData")),
    Operation("memories:save_memory", "Save a memory of a project.", READ_WRITE,
        {"content": MEMORY["content"], "project": PROJECT, "type": KIND, "concepts": MEMORY["concepts"],
            "files": MEMORY["files"], "agentId": text("Who you are.")}, ("content", "project"),
        {"sessionId": text(), "ttlDays": NUMBER}, "agent_remember", "POST agent/remember", "memories:remember", "S",
        201, route_takes=REMEMBERED, route_required=("content",)),
    Operation("transcripts:sync", "Import Antigravity conversations.", OPERATOR, SYNC, ("mode",), {},
        "memory_antigravity_sync", "POST antigravity/sync", level="S", route_required=(),
        errors={400: "Unknown mode."}),
    Operation("transcripts:sync_all",
        "Import Antigravity conversations, summarize them and update the slots.", OPERATOR, SYNC,
        ("mode",), tool="memory_antigravity_sync_all"),
    # Slots
    Operation("work:list_slots", "List slots: short texts, in every context if pinned.", READ, also=IN_PROJECT,
        tool="memory_slot_list", route="GET slots", level="S"),
    Operation("work:get_slot", "Read a slot.", READ, {"label": SLOT}, ("label",), IN_PROJECT, "memory_slot_get",
        "GET slot", level="S", errors=_NO_SLOT),
    Operation("work:create_slot", "Create a slot, or replace one.", READ_WRITE,
        {"label": text("Lowercase letters, digits and _."), "content": text("Its text.", ""),
            "scope": text("global or project.", "global"),
            "sizeLimit": number(2000, "Its character limit, up to 20000."),
            "pinned": boolean(True, "Whether every context includes it.")}, ("label",),
        {"description": text(), "overwrite": BOOLEAN, **IN_PROJECT}, "memory_slot_create", "POST slot",
        "work:post_slot", "S", 201, route_takes={"scope": text(default="project")},
        errors={400: "Invalid label, or limit out of bounds.", 409: "It exists and must not be overwritten."}),
    Operation("work:append_to_slot", "Add a line to a slot.", READ_WRITE, {"label": SLOT, "text": text("The line.")},
        ("label", "text"), IN_PROJECT, "memory_slot_append", "POST slot/append", level="S", errors=_WRITTEN),
    Operation("work:replace_slot", "Replace the text of a slot.", READ_WRITE,
        {"label": SLOT, "content": text("The new text; may be empty.")}, ("label", "content"), IN_PROJECT,
        "memory_slot_replace", "POST slot/replace", level="S", errors=_WRITTEN),
    Operation("work:delete_slot", "Delete a slot.", READ_WRITE, {"label": SLOT}, ("label",),
        {"scope": text(), **IN_PROJECT}, "memory_slot_delete", "DELETE slot", level="S", route_omits=("scope",),
        errors=_NO_SLOT, sent_in="query", destructive=True),
    # Actions
    Operation("work:create_action", "Create a work item that agents share.", READ_WRITE,
        {"title": text("What to do."), "description": text(), "priority": number(0, "Higher comes first."),
            "status": text(STATUSES, "pending"), "tags": names("Labels."), "sessionId": SESSION}, ("title",),
        {**texts("project parentId"), "requires": NAMES, "agentId": text()}, "memory_action_create", "POST actions",
        "work:post_action", "S", 201,
        {**texts("result assignedTo createdBy"), "edges": {"type": "array", "items": {"type": "object"}}},
        errors={400: "The title is missing, or a field cannot be read."}),
    Operation("work:update_action", "Change a work item.", READ_WRITE,
        {"actionId": text("The item's id."), **_ACTION, "tags": names("Labels, all of them."), "sessionId": SESSION},
        ("actionId",), texts("result assignedTo agentId"), "memory_action_update", "POST actions/update",
        "work:post_update", "S", errors={400: "The id is missing."}),
    Operation("work:patch_action", "Change an action.", READ_WRITE,
        {**_ACTION, "tags": NAMES, **texts("sessionId result assignedTo agentId")},
        route="PATCH actions/{id}", level="S", errors=_NO_ACTION),
    Operation("work:list_actions", "Actions, newest first.", READ,
        {**texts("status project parentId"), "limit": number(100)}, route="GET actions", level="S"),
    Operation("work:frontier", "Work items that nothing blocks, most important first.", READ,
        also={**texts("project agentId"), "limit": number(20)}, tool="memory_frontier", route="GET frontier",
        level="S"),
    Operation("knowledge:crystallize", "Summarize a session; with actionIds, create a memory of finished work.",
        READ_WRITE, {"sessionId": SESSION}, ("sessionId",), {"actionIds": NAMES, "project": text()},
        "memory_crystallize", instead=("actionIds",)),
    # Memories, relations, commits
    Operation("memories:governance_delete", "Permanently delete memories.", READ_WRITE,
        {"memoryIds": names("The memories."), "reason": text("Reason; stored with the deletion.")}, ("memoryIds",), {},
        "memory_governance_delete", "DELETE governance/memories", "memories:delete_memories", route_takes=DELETE,
        destructive=True, plugin=True),
    Operation("memories:list_memories", "The memories, newest first, or how many there are.", READ,
        {**dict.fromkeys(("latest", "includeOrphans", "count"), BOOLEAN), "agentId": text(), "limit": NUMBER,
            "offset": number(0)}, route="GET memories"),
    Operation("memories:get_memory", "One memory.", READ, route="GET memories/{id}", level="V",
        errors={404: "No such memory."}),
    Operation("memories:evolve", "Create a memory's next version.", READ_WRITE,
        texts("memoryId newContent newTitle agentId"), ("memoryId", "newContent"), route="POST evolve",
        level="S", errors={400: "The memory or its new content is missing."}),
    Operation("memories:list_relations", "Relations, newest first.", READ,
        {"project": text(), "limit": number(MAX_LISTED_RELATIONS)}, route="GET relations", level="S"),
    Operation("memories:relate", "Relate two memories.", READ_WRITE,
        {**texts("sourceId targetId type agentId"), "confidence": NUMBER}, ("sourceId", "targetId", "type"),
        route="POST relations", level="S", status=201,
        errors={400: "An end or the type is missing, or the type is unknown."}),
    Operation("work:delete_lesson", "Permanently delete a lesson.", READ_WRITE, {"lessonId": text("The lesson.")},
        ("lessonId",), {"agentId": text()}, "memory_lesson_delete", destructive=True, plugin=True),
    Operation("sessions:commits", "List commits made in sessions, newest first.", READ,
        {"branch": text("Only of this branch."), "repo": text("Only of this repository."),
            "limit": number(100, "At most this many, up to 500.")}, also={"agentId": text()}, tool="memory_commits",
        route="GET commits", plugin=True),
    Operation("sessions:commit_lookup", "Find the sessions that a commit was made in.", READ,
        {"sha": text("The commit's hash.")}, ("sha",), {"agentId": text()}, "memory_commit_lookup",
        "GET session/by-commit", errors={404: "no session is known for it"}, plugin=True),
)  # fmt: skip
"""Tools are listed in this order."""

_TOOLS = [operation for operation in OPERATIONS if operation.tool]
AGENTMEMORY = tuple(operation.as_tool() for operation in _TOOLS if not operation.plugin)
PLUGIN = tuple(operation.as_tool() for operation in _TOOLS if operation.plugin)
AGENTMEMORY_PROFILE = ToolProfile(
    "agentmemory",
    (*AGENTMEMORY, *PLUGIN),
    "Memory of past sessions. memory_smart_search or memory_recall before you assume; memory_save for what should "
    "last; memory_lesson_save for what you learned; slots hold what must stay in view.",
)
