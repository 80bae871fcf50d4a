"""The tools of agent-memory, as its clients know them.

Each names the `module:function` that does it. Those load the index; listing must not.
"""

from typing import Any

from ingest.errors import CommandRejected, MnemologError
from ingest.roles import READ, READ_WRITE, WRITE, Needs
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Call, Deferred, Tool, ToolAnswer, dialect_tool, json_answer

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


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _number(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "integer", "description": description, **more}


_LISTING = {"offset": {"type": "integer"}, "orderBy": {"type": "string"}}
_PROJECT = _text("Only this project. Left out: all.")


def _tool(
    name: str,
    call: str,
    needs: Needs,
    description: str,
    properties: dict[str, Any],
    *,
    takes_more: bool = False,
    **more: Any,
) -> Tool:
    """A tool; one that `takes_more` is said to take further arguments."""
    tool = dialect_tool(
        name,
        needs,
        description,
        Deferred(f"api.dialects.agent_memory.{call}"),
        properties=properties,
        refused=refused,
        **more,
    )
    return tool._replace(schema={**tool.input_schema, "additionalProperties": True}) if takes_more else tool


AGENT_MEMORY: tuple[Tool, ...] = (
    _tool("memory_search_guide", "tools:guide", READ,
        "How to search memory in three steps: search, timeline, get_observations. Read it once before you search.", {},
        reads_only=True),
    _tool("search", "observations:search_tool", READ,
        "Step 1: search what was observed and remembered. Answers ids and titles, best first. "
        "Takes query, project, type, limit, dateStart, dateEnd, offset, orderBy.",
        {"query": _text("What to look for, in plain words."), "project": _PROJECT,
            "type": _text("Only this type: decision, bugfix, feature, refactor, discovery, change, pattern or gotcha."),
            "limit": _number("How many at most, up to 50.", default=20),
            "dateStart": _text("Not before this date or time (ISO 8601)."),
            "dateEnd": _text("Not after this date or time (ISO 8601); a date includes its whole day.")},
        required=("query",), also={"obs_type": {"type": "string"}, **_LISTING}, reads_only=True, takes_more=True),
    _tool("timeline", "observations:timeline", READ,
        "Step 2: what happened around an observation in its session. Give its id as anchor, or a query that finds it.",
        {"anchor": _number("Id of the observation in the middle."),
            "query": _text("Finds the observation in the middle, when there is no anchor."),
            "depth_before": _number("How many before it.", default=3),
            "depth_after": _number("How many after it.", default=3),
            "project": _text("Look for the query in this project only.")}, reads_only=True),
    _tool("get_observations", "observations:get_observations", READ,
        "Step 3: everything about the observations you chose, by id; several at once. "
        "Takes ids, orderBy (date_asc or date_desc), limit, project.",
        {"ids": {"type": "array", "items": {"type": "integer"}, "description": "Ids of observations."}},
        required=("ids",), also={"limit": {"type": "integer"}, "project": {"type": "string"}, **_LISTING},
        reads_only=True, takes_more=True),
    _tool("save_memory", "observations:save_memory", WRITE,
        "Save something to memory by hand, so that later sessions find it.",
        {"text": _text("What to remember, in full sentences."),
            "title": _text("A short title. Left out: the beginning of the text."),
            "project": _text("The project it belongs to. Left out: manual.")}, required=("text",)),
    _tool("create_lesson", "lessons:create_lesson", READ_WRITE,
        "Write down a rule learned from a mistake. It is shown before tool calls that its trigger matches.",
        {"rule": _text("The rule, as an instruction."),
            "title": _text("A short title. Left out: the beginning of the rule."),
            "severity": {"type": "string", "enum": ["critical", "warning", "info"], "default": "warning",
                "description": "How much harm breaking it does."},
            "project": _text("The project it holds for. Left out: every project."),
            "trigger_tool": _text("Show it before this tool is used, e.g. Bash. Left out: any tool."),
            "trigger_pattern": _text("Show it when this regular expression occurs in the tool's input.")},
        required=("rule",)),
    _tool("search_lessons", "lessons:search_lessons", READ,
        "Search the rules that are in force: those of a project and the ones for every project.",
        {"query": _text("What the rules are about."),
            "project": _text("This project's, and global ones. Left out: all."),
            "limit": _number("How many at most, up to 50.", default=10)}, required=("query",), reads_only=True),
)  # fmt: skip

AGENT_MEMORY_PROFILE = ToolProfile(
    "agent-memory",
    AGENT_MEMORY,
    "Memory of coding sessions. Search, then timeline, then get_observations: see memory_search_guide.",
    server_name="agent-memory",
    answers_for_any_tool=True,
)
