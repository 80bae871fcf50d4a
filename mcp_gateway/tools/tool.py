"""A tool: its name, description, arguments and answer, and the call that translates between the two.

Nothing here or in the tools imports the index at load time: the stdio bridge lists tools without it.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.commands.decide import Caller, WriteCommand
from ingest.errors import (
    ArchiveUnavailable,
    ChangeRefused,
    CommandRejected,
    LogFull,
    LogUnavailable,
    MalformedRequest,
    MnemologError,
    NothingToClaim,
    Overloaded,
    ProjectionBehind,
)
from ingest.log.position import Token
from ingest.log.shared_positions import SharedPositions
from ingest.names import visible_data
from ingest.nouns.command import Name, writer
from ingest.platform.clock import system_clock
from ingest.platform.tasks import JobState
from ingest.roles import ANYWHERE, KeyScope, Needs

if TYPE_CHECKING:
    from ingest.commands.handler import Accepted, CommandHandler
    from ingest.platform.connections import Client
    from projections.health.watch import Watch
    from projections.index.protocol import IndexService
    from projections.nouns.access import Reader
    from projections.services import Operations, Queries
    from projections.webhooks.subscriptions import Owner

T = TypeVar("T")

SOURCE = "mcp"
"""Source of events written here."""
BEHIND = "your latest writes are not searchable yet and may be missing"

Project = Annotated[Name, Meta(description="Codebase or task.")]
AgentId = Annotated[Name, Meta(description="Your stable name.")]
Tags = Annotated[list[Name], Meta(max_length=200, description="Labels.")]
Metadata = Annotated[dict[str, str], Meta(description="Stored with it.")]
EventId = Annotated[str, Meta(max_length=128, description="One per write.")]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of every tool. An omitted argument is absent, never null."""

    agent_id: AgentId = ""


class WriteArguments(Arguments, frozen=True, kw_only=True):
    """Arguments of every writing tool."""

    project: Project = ""
    event_id: EventId = ""
    metadata: Metadata | UnsetType = UNSET


class Written(Struct, frozen=True, kw_only=True):
    """An acknowledged write."""

    id: Annotated[str, Meta(description="Id of the written document.")]
    event_id: Annotated[str, Meta(description="Id of the event in the log.")]
    position: Annotated[str, Meta(description="Position in the log; REST reads take it as `after`.")]
    duplicate: Annotated[bool, Meta(description="True if the event id was already known: nothing new was stored.")]


class JobOrders(Protocol):
    """Orders to the workers."""

    async def enqueue(self, name: str, *args: Any, job_id: str, again: bool = False) -> bool:
        """Queue a job; false when one with this id is waiting or running, or has a result, unless `again`."""
        ...

    async def state(self, job_id: str) -> tuple[JobState, Any] | None:
        """Return how far a job is, and its result or error; None for an unknown one."""
        ...


class ToolAnswer(NamedTuple):
    """The answer to a call: text for a model, and the same as data, if any."""

    text: str
    data: Struct | Mapping[str, Any] | None = None
    is_error: bool = False


def json_answer(fields: dict[str, Any]) -> ToolAnswer:
    """Fields as JSON on one line."""
    return ToolAnswer(json.dumps(visible_data(fields), ensure_ascii=False))


MAX_AGENTS = 10_000


class LastWrites:
    """The position of each agent's last write through this server, so that its reads can wait for it.

    Bounded: the least recent writer is dropped first, and only loses the wait. With several processes on one port,
    `shared` has the writes that the others acknowledged.
    """

    def __init__(self, limit: int = MAX_AGENTS, shared: SharedPositions | None = None) -> None:
        self._limit, self.shared = limit, shared
        self._tokens: OrderedDict[str, Token] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def wrote(self, agent: str, position: str) -> None:
        """Record the position of an acknowledged write."""
        written = Token.parse(position)
        token = self._tokens.setdefault(agent, Token())
        token.include_all(written)
        self._tokens.move_to_end(agent)
        if len(self._tokens) > self._limit:
            self._tokens.popitem(last=False)
        if self.shared is not None:
            self.shared.wrote(f"agent\0{agent}", written)

    def after(self, *agents: str) -> str:
        """The position to wait for, so that a read sees the writes of these agents; empty if none is known."""
        token = Token()
        for agent in agents:
            token.include_all(self._tokens.get(agent, Token()))
            if self.shared is not None:
                token.include_all(self.shared.after(f"agent\0{agent}"))
        return str(token)


class Call(NamedTuple):
    """One request and the services it works with: what tools, dialects and native routes share.

    `agent` is the caller named by the transport; `own_agent` the server's default; `source` is the API, as stored in
    events; `half_life_days` is the recency half-life of a dialect's ranking.
    """

    commands: "CommandHandler"
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
    """Called before every tool call (None: a resource or a prompt); raises AccessDenied or TooManyRequests."""
    owner: "Owner | None" = None
    """The owner of webhooks that the caller creates; None for a caller without a key."""
    holds: Callable[[], Awaitable[bool]] | None = None
    """Whether the caller's access is still valid, for streams."""

    async def admits(self, tool: "Tool | None" = None) -> None:
        """Return if the caller can call this; raises AccessDenied or TooManyRequests."""
        if self.admit is not None:
            await self.admit(tool)

    def acting(self, agent_id: str = "") -> str:
        """The acting agent: named by the arguments, else by the transport, else the server's own."""
        return agent_id or self.agent or self.key_scope.sole_agent or self.own_agent

    def caller(self, agent_id: str = "") -> Caller:
        """The caller of a command."""
        named = writer(agent_id, self.agent, self.key_scope.sole_agent, self.own_agent)
        return Caller(self.tenant, self.source, named, key_scope=self.key_scope)

    def reader(self, agent_id: str = "") -> "Reader":
        """The reader; raises ReaderUnknown if the scope is isolated and no agent is named."""
        from projections.nouns.access import reader_of  # loads numpy and more, which the stdio bridge must not

        return reader_of(self.tenant, self.scope, self.own_agent, self.acting(agent_id), self.key_scope, system_clock())

    def operator(self) -> "Reader":
        """A reader of everything in the key's tenant."""
        from projections.nouns.access import operator_of

        return operator_of(self.tenant, self.key_scope, system_clock())

    async def whole_ids(self, ids: Sequence[str], agent_id: str = "") -> list[str]:
        """The ids of documents as they are stored; results show shortened ones."""
        return await self.queries.lookup.whole_ids(ids, self.reader(agent_id))

    async def write(self, command: WriteCommand) -> "Accepted":
        """Handle a command and record its position. Raises what the command handler raises."""
        caller = self.caller(command.agent_id)
        accepted = await self.commands.handle(command, caller)
        self.wrote(caller.agent_id, accepted.position)
        return accepted

    def wrote(self, agent: str, position: str) -> None:
        """Record the position of an agent's write; an empty one is ignored.

        Also for the agent named by the transport, because reads of dialects name no other.
        """
        for name in {agent, self.acting()} if position else ():
            self.last_writes.wrote(name, position)

    async def read_own_writes(self, agent: str, ask: Callable[[str], Awaitable[T]]) -> tuple[T, list[str]]:
        """The answer of `ask(after)` after the agent's own writes are projected, and what it may lack.

        On timeout, the answer is without them, and the list says so.
        """
        if after := self.last_writes.after(agent):
            try:
                return await ask(after), []
            except ProjectionBehind:
                return await ask(""), [BEHIND]
        return await ask(""), []

    async def wait_for_own_writes(self, agent_id: str = "") -> list[str]:
        """Wait for the acting agent's own writes, before a read without a position; returns what the read may lack.

        Also for those of the agent named by the transport: in dialects, the arguments name whom to read about.
        """
        after = self.last_writes.after(self.acting(agent_id), self.acting())
        try:
            if after:
                await self.queries.log.wait_for_own_writes(after)
        except ProjectionBehind:
            return [BEHIND]
        return []


CallOf: TypeAlias = Callable[[Mapping[str, Any], str], Call]
"""Makes the context of a request from its ASGI scope and the agent in its header."""


class Tool(NamedTuple):
    """One tool. `call` raises what the handler and the queries raise; the server turns that into tool errors.

    A native tool has `arguments` and `answer`, which give its schemas; its call gets an `arguments`. A dialect's tool
    has a `schema`, which is advertised unchanged, and by which arguments are read leniently (`mcp_gateway.lenient`);
    its call gets a dict with every property of `schema` and of `also`, which is accepted but not advertised.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments] | None
    answer: type[Struct] | None
    reads_only: bool
    needs: Needs
    """Who can call it: the roles of `ingest.roles`."""
    call: Callable[[Call, Any], Awaitable[ToolAnswer]]
    destructive: bool = False
    schema: Mapping[str, Any] | None = None
    also: Mapping[str, Any] = {}
    instead: tuple[str, ...] = ()
    """Arguments that excuse the absence of required ones."""
    stated_answer: Mapping[str, Any] | None = None
    """The output schema of a dialect's tool, if its contract has one."""
    refused: Callable[["Tool", Exception], ToolAnswer] | None = None
    """The answer to an error in a dialect; by default as in native tools."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self.schema is not None:
            return dict(self.schema)
        assert self.arguments is not None, "a tool has arguments or a schema"
        return schema_of(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """JSON Schema of the structured answer; None without one."""
        if self.stated_answer is not None:
            return dict(self.stated_answer)
        return None if self.answer is None else schema_of(self.answer)


class Deferred:
    """The coroutine function `module:function`, imported by its first call, so that listing tools loads no index."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, *arguments: Any) -> Any:
        return await resolve_name(self.name)(*arguments)


def dialect_tool(
    name: str,
    needs: Needs,
    description: str,
    call: Callable[[Call, Any], Awaitable[ToolAnswer]],
    *,
    properties: Mapping[str, Any],
    required: tuple[str, ...] = (),
    reads_only: bool = False,
    keywords: Mapping[str, Any] = {},
    **fields: Any,
) -> Tool:
    """A tool of another project's clients, with exactly the properties of its contract; `keywords` are further ones of
    its schema, `fields` are those of Tool."""
    needed = {"required": list(required)} if required else {}
    schema = {"type": "object", "properties": dict(properties), **needed, **keywords}
    title = name.replace("_", " ").capitalize()
    return Tool(name, title, description, None, None, reads_only, needs, call, schema=schema, **fields)


def contract_tools(module: str, refused: Callable[[Tool, Exception], ToolAnswer] | None = None) -> tuple[Tool, ...]:
    """The tools that the contract beside a module, `tools.json`, lists; `call` is the `module:function` of each."""
    rows: list[dict[str, Any]] = json.loads(Path(module).with_name("tools.json").read_text("utf-8"))
    return tuple(
        dialect_tool(needs=frozenset(row.pop("needs")), call=Deferred(row.pop("call")), refused=refused, **row)
        for row in rows
    )


def without_unset(arguments: Struct) -> dict[str, Any]:
    """The given arguments as keywords of a command or query."""
    return {name: value for name, value in msgspec.structs.asdict(arguments).items() if value is not UNSET}


def written(verb: str, accepted: "Accepted") -> ToolAnswer:
    """The answer to a write."""
    verb = f"already {verb}" if accepted.duplicate else verb
    return ToolAnswer(f"{verb} as {accepted.id}", msgspec.convert(accepted, Written, from_attributes=True))


@cache
def schema_of(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a non-recursive struct, in a form that all clients understand.

    Without `$ref`, and with required arguments first. Shared: do not change it.
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
        # The title would be a Python class name, which means nothing to an agent.
        fields = {key: value for key, value in fields.items() if key != "title"}
        fields["properties"] = {name: properties[name] for name in ordered}
    return {key: _inlined(value, definitions) for key, value in fields.items()}


def refusal(tool: Tool, event_id: str, error: Exception) -> str:
    """The message of a failed call. `event_id` makes a retry of a write safe; a reading tool has none."""
    unknown = "It is unknown whether it was stored" + (
        f". A retry is safe if you add `event_id`: {event_id!r} to the same arguments; nothing is stored twice."
        if event_id
        else ": check before you repeat it."
    )
    unknown = "A retry is safe: this tool only reads." if tool.reads_only else unknown
    match error:
        case CommandRejected(message=message, field=field):
            return _bad_argument(tool, message, field)
        case MalformedRequest():
            return f"{error}. Correct the arguments and call {tool.name} again; nothing was stored."
        case Overloaded(retry_after_s=seconds):
            retry = f"A retry is safe: wait {seconds} s, then repeat the call."
            return f"The server is overloaded: {error}; nothing was stored. {retry}"
        case LogFull(retry_after_s=seconds):
            return f"Redis is out of memory; try again in {seconds} s. {unknown}"
        case LogUnavailable():
            return f"The log did not acknowledge the write. {unknown}"
        case ProjectionBehind():
            return "The index is still catching up. A retry is safe: wait a second, then repeat the call."
        case ChangeRefused() | NothingToClaim():
            return f"{error}. Nothing was changed."
        case ArchiveUnavailable():
            return f"{error}. {unknown}"
        case MnemologError():
            # raised by a check before anything was written, or by a limit
            nothing = "" if tool.reads_only else " Nothing was stored or changed."
            return f"{error}.{nothing} The same call will fail again: correct it first."
        case _:
            return f"Unexpected error; details are in the server's log. {unknown}"


def _bad_argument(tool: Tool, message: str, field: str | None) -> str:
    properties: dict[str, dict[str, Any]] = tool.input_schema["properties"]
    name = (field or "").split(".")[0].split("[")[0]
    about = properties.get(name, {}).get("description")
    hint = (
        f" {name}: {about}" if about else "" if name in properties else f" {tool.name} takes: {', '.join(properties)}."
    )
    problem = f"Bad argument `{field}`: " if field else "Bad arguments: "
    return f"{problem}{message}.{hint} Nothing was stored; correct it and call {tool.name} again."
