"""What a tool is: a name, when to use it, what it takes and answers, and the call that translates between the two.

Nothing here or in the tools imports the index at load time: the stdio bridge lists the tools without it.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ingest.commands.decide import Caller
from ingest.commands.handler import Accepted, CommandHandler
from ingest.commands.requests import Name, WriteCommand
from ingest.errors import ProjectionBehind
from mcp_gateway.last_writes import LastWrites
from mcp_gateway.schema import schema_of

if TYPE_CHECKING:
    from projections.queries import Queries

T = TypeVar("T")

SOURCE = "mcp"
"""What events written here say about where they came from."""

Project = Annotated[Name, Meta(description="The project this belongs to. Use one name per code base or task.")]
AgentId = Annotated[
    Name,
    Meta(
        description="Your own name, the same in every call: your reads wait for your own writes, "
        "and you find the private memories that name you."
    ),
]
Tags = Annotated[list[Name], Meta(max_length=200, description="Short labels to find it by.")]
Metadata = Annotated[
    dict[str, str], Meta(description="Strings stored beside it and returned as they are; up to 4 KiB.")
]
EventId = Annotated[
    str, Meta(max_length=128, description="Your own id for this write: sending the same id again stores nothing twice.")
]


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


class Answer(NamedTuple):
    """What a call answers: text a model reads, and the same as data."""

    text: str
    data: Struct


class Door(NamedTuple):
    """What the tools reach through: the write side, the questions, whose they are, and what callers wrote last."""

    commands: CommandHandler
    queries: "Queries"
    tenant: str
    last_writes: LastWrites

    async def write(self, command: WriteCommand) -> Accepted:
        """Carry out a command and take note of its position. Raises what the command handler raises."""
        accepted = await self.commands.handle(command, Caller(self.tenant, SOURCE, command.agent_id))
        self.last_writes.wrote(command.agent_id, accepted.position)
        return accepted

    async def read_own_writes(self, agent: str, ask: Callable[[str], Awaitable[T]]) -> tuple[T, list[str]]:
        """The answer of `ask(after)`, having waited for the agent's own writes, and what it may lack.

        When they are not projected in time, the answer is what is there, and the list says so.
        """
        if after := self.last_writes.after(agent):
            try:
                return await ask(after), []
            except ProjectionBehind:
                return await ask(""), ["your newest writes are not searchable yet and may be missing here"]
        return await ask(""), []


class Tool(NamedTuple):
    """One tool. `call` raises what the handler and the queries raise; the server turns that into tool errors."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: type[Struct]
    reads_only: bool
    call: Callable[[Door, Any], Awaitable[Answer]]

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return schema_of(self.arguments)

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the structured answer."""
        return schema_of(self.answer)


def given(arguments: Struct) -> dict[str, Any]:
    """The arguments as keywords of a command or a question, without those that were not given."""
    return {name: value for name, value in msgspec.structs.asdict(arguments).items() if value is not UNSET}


def written(verb: str, accepted: Accepted) -> Answer:
    """The answer to a write."""
    verb = f"already {verb}" if accepted.duplicate else verb
    data = Written(id=accepted.id, event_id=accepted.event_id, position=accepted.position, duplicate=accepted.duplicate)
    return Answer(f"{verb} as {accepted.id}", data)
