"""The tools of memex, as its clients know them. What they do is in `memories`: it loads the index, listing must not."""

from typing import Any

from ingest.errors import CommandRejected, LogFull, MnemologError, Overloaded, ProjectionBehind
from ingest.roles import READ, READ_WRITE, WRITE, Needs
from mcp_gateway.attachments import Attachments
from mcp_gateway.lenient import BadArgument
from mcp_gateway.profiles import ToolProfile
from mcp_gateway.tools.tool import Deferred, Tool, ToolAnswer, dialect_tool


def property_(name: str, kind: str, description: str, **more: Any) -> dict[str, Any]:
    """The schema of an argument, titled as memex's are: `top_k` is "Top K"."""
    return {"title": name.replace("_", " ").title(), "type": kind, "description": description, **more}


def output_schema(name: str) -> dict[str, Any]:
    """The schema of what a tool answers: its text, once more."""
    result = {"title": "Result", "type": "string"}
    return {"type": "object", "title": f"{name}Output", "properties": {"result": result}, "required": ["result"]}


def refused(tool: Tool, error: Exception) -> ToolAnswer:
    """The answer to an error: what is wrong, and whether to try again."""
    match error:
        case BadArgument(message=message):
            return _failed(tool, f"validation error: {message}")
        case CommandRejected(message=message, field=field):
            return _failed(tool, f"validation error: {f'{field}: ' if field else ''}{message}")
        case Overloaded(retry_after_s=seconds) | LogFull(retry_after_s=seconds):
            return _failed(tool, f"{error}; try again in {seconds} s")
        case ProjectionBehind():
            return _failed(tool, f"{error}; try again in a second")
        case MnemologError():
            return _failed(tool, str(error))
        case _:
            return _failed(tool, "unexpected error; see the server's log")


def _failed(tool: Tool, text: str) -> ToolAnswer:
    return ToolAnswer(f"Error executing tool {tool.name}: {text}", is_error=True)


def _tool(name: str, call: str, needs: Needs, description: str, *properties: dict[str, Any], **more: Any) -> Tool:
    """A tool that requires every argument without a default."""
    named = {schema["title"].lower().replace(" ", "_"): schema for schema in properties}
    required = tuple(argument for argument, schema in named.items() if "default" not in schema)
    tool = dialect_tool(
        name, needs, description, Deferred(f"api.dialects.memex.{call}"), properties=named, required=required,
        stated_answer=output_schema(name), refused=refused, **more,
    )  # fmt: skip
    return tool._replace(schema={**tool.input_schema, "title": f"{name}Arguments"})


_AGENT = property_("agent_id", "string", "The agent whose memories these are.")
_USER = property_("user_id", "string", "The user they are about.")
_ALPHA = property_("alpha", "number", "Weight of likeness (1.0) against recency (0.0).", default=0.7)
_CONTENT = property_("content", "string", "What to remember, up to 8000 characters.")
_TYPE = property_(
    "memory_type", "string", "episodic (what happened), semantic (a fact) or procedural (a how-to).", default="episodic"
)
_ONE_TYPE = {
    "title": "Memory Type",
    "description": "Only memories of this type. Left out: of all.",
    "anyOf": [{"type": "string"}, {"type": "null"}],
    "default": None,
}

MEMEX: tuple[Tool, ...] = (
    _tool("store_memory", "memories:store_tool", WRITE,
        "Store a memory that an agent has of a user. It is found at once.", _AGENT, _USER, _CONTENT, _TYPE,
        property_("importance", "number", "0.0 to 2.0; kept with the memory.", default=1.0)),
    _tool("search_memories", "memories:search_tool", READ,
        "Search what an agent remembers of a user, by meaning and recency; best first.", _AGENT, _USER,
        property_("query", "string", "What to look for, in plain words."),
        property_("top_k", "integer", "How many memories at most, 1 to 50.", default=5), _ALPHA, _ONE_TYPE,
        reads_only=True),
    _tool("delete_memory", "memories:delete_tool", READ_WRITE, "Delete one memory of an agent, for good.", _AGENT,
        property_("memory_id", "string", "The UUID that store_memory and search_memories say."), destructive=True),
    _tool("count_memories", "memories:count_tool", READ, "Count what an agent remembers of a user.", _AGENT, _USER,
        reads_only=True),
)  # fmt: skip

MEMEX_PROFILE = ToolProfile(
    "memex",
    MEMEX,
    "Memory of an agent about a user. memory_type is episodic (what happened), semantic (a fact) or procedural (a "
    "how-to). importance, 0 to 2, is kept with a memory. alpha weighs likeness (1) against recency (0) in a search.",
    server_name="memex",
    attachments=Attachments(True),
)
