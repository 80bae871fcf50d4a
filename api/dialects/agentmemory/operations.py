"""What clients of agentmemory can call: each row of `operations.toml` is a tool, a route or both.

Rows name the `module:function` that does the work. Those load the index, which listing the tools must not, so a tool
imports its function with its first call and the routes are made by `app.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from ingest.errors import CommandRejected, LogUnavailable, MnemologError, Overloaded, ProjectionBehind, ReaderUnknown
from ingest.platform.files import toml_beside
from ingest.roles import ADMIN, READ, Needs
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


class Operation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    """Tools that the plugin of 0.9.29 calls besides the 31 of the contract; they are listed last."""

    def as_tool(self) -> Tool:
        """The MCP tool."""
        return dialect_tool(
            self.tool, self.needs, self.about, _ToolCall(f"{PACKAGE}.{self.call}"), properties=self.takes,
            required=self.required, also=self.also, instead=self.instead,
            reads_only=self.needs in (READ, ADMIN),  # those for an admin change nothing
            destructive=self.destructive, refused=refused,
        )  # fmt: skip

    def request(self) -> Schema | None:
        """The schema of the route's request, without descriptions, which are for models; None for none."""
        plain: dict[str, dict[str, Any]] = {}
        for name, schema in {**self.takes, **self.also, **self.route_takes}.items():
            if name not in self.route_omits:
                plain[name] = {word: value for word, value in schema.items() if word != "description"}
                if plain[name].get("type") == "array":
                    plain[name]["type"] = ["array", "string"]  # a text with commas is a list
        required = () if self.instead else self.required
        required = required if self.route_required is None else self.route_required
        return {"type": "object", "properties": plain, "required": [*required]} if plain else None


PACKAGE = "api.dialects.agentmemory"


def _operations() -> Iterator[Operation]:
    table = toml_beside(__file__, "operations.toml")
    for row in table["operations"]:
        for properties in (row.get("takes", {}), row.get("also", {}), row.get("route_takes", {})):
            for name, schema in properties.items():
                properties[name] = table["schemas"][schema] if isinstance(schema, str) else schema
        yield msgspec.convert(row, Operation, str_keys=True)


OPERATIONS = tuple(_operations())
"""Tools are listed in this order, those of the plugin last."""
REQUESTS = {operation.route: schema for operation in OPERATIONS if (schema := operation.request())}
"""The schemas of what routes accept."""

AGENTMEMORY_PROFILE = ToolProfile(
    "agentmemory",
    tuple(item.as_tool() for item in sorted(OPERATIONS, key=lambda item: item.plugin) if item.tool),
    "Memory of past sessions. memory_smart_search or memory_recall before you assume; memory_save for what should "
    "last; memory_lesson_save for what you learned; slots hold what must stay in view.",
)
