"""What a tool is: a name, when to use it, what it takes and answers, and the call that translates between the two.

Nothing here or in the tools imports the index at load time: the stdio bridge lists the tools without it.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.commands.command import Name, writer
from ingest.commands.decide import Caller, WriteCommand
from ingest.commands.handler import Accepted, CommandHandler
from ingest.errors import ProjectionBehind
from ingest.roles import ANYWHERE, KeyScope, Needs
from mcp_gateway.last_writes import LastWrites

if TYPE_CHECKING:
    from ingest.platform.connections import Client
    from projections.documents.access import Reader
    from projections.health.watch import Watch
    from projections.search.index import IndexService
    from projections.services import Operations, Queries
from ingest.errors import (
    ArchiveUnavailable,
    CommandRejected,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    Overloaded,
)

T = TypeVar("T")

SOURCE = "mcp"
"""What events written here say about where they came from."""
BEHIND = "your newest writes are not searchable yet and may be missing here"

Project = Annotated[Name, Meta(description="One name per code base or task.")]
AgentId = Annotated[
    Name,
    Meta(description="Your own name, the same in every call."),
]
Tags = Annotated[list[Name], Meta(max_length=200, description="Labels to find it by.")]
Metadata = Annotated[dict[str, str], Meta(description="Strings to keep beside it.")]
EventId = Annotated[str, Meta(max_length=128, description="Sent again, nothing is stored twice.")]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool takes. An argument that is not given is absent, never null."""

    agent_id: AgentId = ""


class WriteArguments(Arguments, frozen=True, kw_only=True):
    """What every writing tool takes."""

    project: Project = ""
    event_id: EventId = ""
    metadata: Metadata | UnsetType = UNSET


class Written(Struct, frozen=True, kw_only=True):
    """An acknowledged write."""

    id: Annotated[str, Meta(description="Id of the document that was written.")]
    event_id: Annotated[str, Meta(description="Id of the event in the log.")]
    position: Annotated[str, Meta(description="Place in the log; REST reads take it as `after`.")]
    duplicate: Annotated[bool, Meta(description="True when this event id was known: nothing new was stored.")]


class JobOrders(Protocol):
    """Orders to the workers."""

    async def enqueue(self, name: str, *args: Any, job_id: str) -> bool:
        """Queue a job; false when one with this id is waiting or running."""
        ...


class ToolAnswer(NamedTuple):
    """What a call answers: text a model reads, and the same as data, if there is any."""

    text: str
    data: Struct | Mapping[str, Any] | None = None
    is_error: bool = False


def json_answer(fields: dict[str, Any]) -> ToolAnswer:
    """Fields as JSON on one line."""
    return ToolAnswer(json.dumps(fields, ensure_ascii=False))


class Call(NamedTuple):
    """One request and the services it works with: what tools, dialects and native routes share.

    `agent` is the caller, as far as the transport names it; `own_agent` is used when nobody is named; `source` is the
    API, as events name it; `half_life_days` is for recency, in a dialect's ranking that has one.
    """

    commands: CommandHandler
    queries: "Queries"
    operations: "Operations"
    tenant: str
    last_writes: LastWrites
    own_agent: str = ""
    scope: Literal["shared", "isolated"] = "shared"
    half_life_days: float = 30.0
    search_index: "IndexService" = cast("IndexService", None)
    jobs: JobOrders = cast(JobOrders, None)
    redis: "Client" = cast("Client", None)
    watch: "Watch" = cast("Watch", None)
    """These four are always set in a server; tools don't need them."""
    key_scope: KeyScope = ANYWHERE
    agent: str = ""
    source: str = SOURCE
    durability: str | None = None
    """What the caller asks that a write survives; None: the server's setting."""
    may_read: bool = True
    """Whether the caller can read what others wrote."""
    admit: Callable[["Tool | None"], Awaitable[None]] | None = None
    """Asked before every call of a tool (None: a resource or a prompt); raises AccessDenied or TooManyRequests."""

    async def admits(self, tool: "Tool | None" = None) -> None:
        """Whether whoever calls may call this; raises AccessDenied or TooManyRequests."""
        if self.admit is not None:
            await self.admit(tool)

    def acting(self, agent_id: str = "") -> str:
        """Who acts: whom the arguments name, else who calls, else the server's own agent."""
        return agent_id or self.agent or self.key_scope.sole_agent or self.own_agent

    def caller(self, agent_id: str = "") -> Caller:
        """On whose behalf a command is carried out."""
        named = writer(agent_id, self.agent, self.key_scope.sole_agent, self.own_agent)
        return Caller(self.tenant, self.source, named, key_scope=self.key_scope)

    def reader(self, agent_id: str = "") -> "Reader":
        """Who reads; raises ReaderUnknown where the scope is isolated and nobody is named."""
        from projections.documents.access import reader_of  # loads numpy and more, which the stdio bridge must not

        return reader_of(self.tenant, self.scope, self.own_agent, self.acting(agent_id), self.key_scope)

    def operator(self) -> "Reader":
        """Who looks at everything of the tenant that the key is for."""
        from projections.documents.access import operator_of

        return operator_of(self.tenant, self.key_scope)

    async def write(self, command: WriteCommand) -> Accepted:
        """Carry out a command and take note of its position. Raises what the command handler raises."""
        caller = self.caller(command.agent_id)
        accepted = await self.commands.handle(command, caller)
        self.wrote(caller.agent_id, accepted.position)
        return accepted

    def wrote(self, agent: str, position: str) -> None:
        """Take note of what an operation wrote for an agent; an empty position is nothing.

        Dialects' reads do not say who reads, so it also counts for whom the transport names.
        """
        for name in {agent, self.acting()} if position else ():
            self.last_writes.wrote(name, position)

    async def read_own_writes(self, agent: str, ask: Callable[[str], Awaitable[T]]) -> tuple[T, list[str]]:
        """The answer of `ask(after)`, having waited for the agent's own writes, and what it may lack.

        When they are not projected in time, the answer is what is there, and the list says so.
        """
        if after := self.last_writes.after(agent):
            try:
                return await ask(after), []
            except ProjectionBehind:
                return await ask(""), [BEHIND]
        return await ask(""), []

    async def wait_for_own_writes(self, agent_id: str = "") -> list[str]:
        """Wait for the own writes of who acts, before a read that takes no position; what the read may lack.

        Where the arguments name somebody, also for those of whom the transport names: dialects name whom to read about.
        """
        after = self.last_writes.after(self.acting(agent_id), self.acting())
        try:
            if after:
                await self.queries.log.wait_for_own_writes(after)
        except ProjectionBehind:
            return [BEHIND]
        return []


ToolContext = Call


class Tool(NamedTuple):
    """One tool. `call` raises what the handler and the queries raise; the server turns that into tool errors.

    A native tool has `arguments` and `answer`: its schemas are theirs, and its call gets an `arguments`. A dialect's
    tool has a `schema`, which is advertised as it is and by which arguments are read leniently (`mcp_gateway.lenient`);
    its call gets a dict with every property of `schema` and of `also`, which is accepted and not advertised.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments] | None
    answer: type[Struct] | None
    reads_only: bool
    needs: Needs
    """Who may call it: the roles of `ingest.roles`."""
    call: Callable[[ToolContext, Any], Awaitable[ToolAnswer]]
    destructive: bool = False
    schema: Mapping[str, Any] | None = None
    also: Mapping[str, Any] = {}
    instead: tuple[str, ...] = ()
    """Arguments that excuse the absence of required ones."""
    stated_answer: Mapping[str, Any] | None = None
    """The output schema of a dialect's tool, where its contract has one."""
    refused: Callable[["Tool", Exception], ToolAnswer] | None = None
    """How a dialect tells of a fault; without it as native tools do."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self.schema is not None:
            return dict(self.schema)
        assert self.arguments is not None, "a tool has arguments or a schema"
        return schema_of(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer; None where none is promised."""
        if self.stated_answer is not None:
            return dict(self.stated_answer)
        return None if self.answer is None else schema_of(self.answer)


class Deferred:
    """The coroutine function that `module:function` names, imported by its first call: listing tools loads no index."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, *arguments: Any) -> Any:
        return await resolve_name(self.name)(*arguments)


def dialect_tool(
    name: str,
    needs: Needs,
    description: str,
    call: Callable[[ToolContext, Any], Awaitable[ToolAnswer]],
    *,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
    also: Mapping[str, Any] | None = None,
    instead: tuple[str, ...] = (),
    reads_only: bool = False,
    destructive: bool = False,
    stated_answer: Mapping[str, Any] | None = None,
    refused: Callable[[Tool, Exception], ToolAnswer] | None = None,
) -> Tool:
    """A tool that another project's clients know, with exactly the properties its contract has."""
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return Tool(
        name, name.replace("_", " ").capitalize(), description, None, None, reads_only, needs, call, destructive,
        schema, also or {}, instead, stated_answer, refused,
    )  # fmt: skip


def without_unset(arguments: Struct) -> dict[str, Any]:
    """The arguments as keywords of a command or a question, without those that were not given."""
    return {name: value for name, value in msgspec.structs.asdict(arguments).items() if value is not UNSET}


def written(verb: str, accepted: Accepted) -> ToolAnswer:
    """The answer to a write."""
    verb = f"already {verb}" if accepted.duplicate else verb
    data = Written(id=accepted.id, event_id=accepted.event_id, position=accepted.position, duplicate=accepted.duplicate)
    return ToolAnswer(f"{verb} as {accepted.id}", data)


@cache
def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct that does not contain itself, written so that any client copes.

    No `$ref`, and required arguments first. Shared: do not change it.
    """
    (root,), definitions = msgspec.json.schema_components([struct])
    return _inlined(root, {f"#/$defs/{name}": part for name, part in definitions.items()})


def _inlined(node: Any, definitions: dict[str, dict[str, Any]]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    fields = cast("dict[str, Any]", node)
    if "$ref" in fields:
        return _inlined(definitions[fields["$ref"]], definitions)
    if all(isinstance(value, str) for value in fields.get("enum", [0])):
        fields = {"type": "string", **fields}  # some clients refuse a property without a type
    if fields.get("type") == "object" and "properties" in fields:
        required = fields.get("required", [])
        properties = cast("dict[str, Any]", fields["properties"])
        ordered = sorted(properties, key=lambda name: name not in required)
        # The title would be a Python class name, which tells an agent nothing.
        fields = {key: value for key, value in fields.items() if key != "title"}
        fields["properties"] = {name: properties[name] for name in ordered}
    return {key: _inlined(value, definitions) for key, value in fields.items()}


def refusal(tool: Tool, event_id: str, error: Exception) -> str:
    """What a failed call of `tool` says. `event_id` makes repeating a write harmless; a reading tool has none."""
    match error:
        case CommandRejected(message=message, field=field):
            return _bad_argument(tool, message, field)
        case MalformedRequest():
            return f"{error}. Correct the arguments and call {tool.name} again; nothing was stored."
        case Overloaded(retry_after_s=seconds):
            return (
                f"The server has more to do than it can take: {error}; nothing was stored. "
                f"A retry is safe: wait {seconds} s, then make the same call."
            )
        case LogFull(retry_after_s=seconds):
            after = _after_unknown_outcome(tool, event_id)
            return f"The log's server has no memory left; come back in {seconds} s. {after}"
        case LogUnavailable():
            return f"The log did not acknowledge. {_after_unknown_outcome(tool, event_id)}"
        case ProjectionBehind():
            return (
                "The index is still catching up and cannot answer yet. A retry is safe: wait a second, then ask again."
            )
        case ArchiveUnavailable():
            return f"{error}. {_after_unknown_outcome(tool, event_id)}"
        case MnemologError():
            # said by a look before anything was written, or by a limit
            nothing = "" if tool.reads_only else " Nothing was stored or changed."
            return f"{error}.{nothing} The same call will be refused again: correct it first."
        case _:
            return f"An unexpected fault; the server's log has it. {_after_unknown_outcome(tool, event_id)}"


def _after_unknown_outcome(tool: Tool, event_id: str) -> str:
    if tool.reads_only:
        return "A retry is safe: this tool only reads."
    if not event_id:
        return "Whether it was stored is unknown: look before you repeat it."
    return (
        "Whether it was stored is unknown. "
        f"A retry is safe if you add `event_id`: {event_id!r} to the same arguments; then nothing is stored twice."
    )


def _bad_argument(tool: Tool, message: str, field: str | None) -> str:
    properties: dict[str, dict[str, Any]] = tool.input_schema["properties"]
    name = (field or "").split(".")[0].split("[")[0]
    if name in properties:
        about = properties[name].get("description", "")
        hint = f" {name}: {about}" if about else ""
    else:
        hint = f" {tool.name} takes: {', '.join(properties)}."
    where = f"Bad argument `{field}`: " if field else "Bad arguments: "
    return f"{where}{message}.{hint} Nothing was stored; correct it and call {tool.name} again."
