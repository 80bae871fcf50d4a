"""What the endpoints share: bodies and query strings, the context of a request, the numbers of documents, the state.

Unknown keys of a body are ignored.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import Request

from api.dialects.agent_memory.answers import Numbered
from api.dialects.agent_memory.records import ObservationType
from api.dialects.errors import Unprocessable
from api.services import READER_HEADER, services
from ingest.commands.decide import AnyCommand
from ingest.names import header_name
from ingest.platform.settings import Settings
from mcp_gateway.tools.tool import Call
from projections.queries.listed import Listed, Noun
from projections.rebuilding.reembedding import ReEmbedding

Severity = Literal["critical", "warning", "info"]
Status = Literal["active", "completed", "failed"]
Limit = Annotated[int, Field(ge=0, le=100)]
Texts = Annotated[list[str], Field(fail_fast=True)]
"""Checked up to the first that is no text: a fault takes a kilobyte, and there may be as many as values."""
MAX_FOUND = 100
MAX_OFFSET = 1_000_000_000
MAX_BATCH = 1_000


class NewObservation(BaseModel):
    """An observation that somebody makes."""

    session_id: str
    project: str
    title: str
    subtitle: str | None = None
    type: ObservationType = "discovery"
    narrative: str | None = None
    facts: Texts = []
    concepts: Texts = []
    files_read: Texts = []
    files_modified: Texts = []
    tool_name: str | None = None
    prompt_number: Annotated[int | None, Field(ge=-(2**63), lt=2**63)] = None


class ObservationsQuery(BaseModel):
    """Which observations are listed."""

    project: str | None = None
    type: ObservationType | None = None
    limit: Limit = 20
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET)] = 0


class SearchBody(BaseModel):
    """What is searched for; `limit` beyond 100 is 100. `cross_project` passes `project` over."""

    query: str
    project: str | None = None
    cross_project: bool = False
    type: Texts | None = None
    limit: Annotated[int, Field(ge=0)] = 10
    mode: str = "hybrid"


class NewSession(BaseModel):
    """A session that begins."""

    session_id: str
    project: str
    project_path: str | None = None
    agent_type: str = "claude-code"


class SessionChanges(BaseModel):
    """What became of a session; empty text is nothing."""

    status: Annotated[Status | None, BeforeValidator(lambda value: None if value == "" else value)] = None
    summary: str | None = None


class SessionsQuery(BaseModel):
    """Which sessions are listed."""

    project: str | None = None
    status: Status | None = None
    limit: Limit = 20


class NewLesson(BaseModel):
    """A rule; without a project it holds everywhere."""

    title: str
    rule: str
    severity: Severity = "warning"
    project: str | None = None
    trigger_tool: str | None = None
    trigger_pattern: str | None = None
    source_observation_id: int | None = None


class LessonChanges(BaseModel):
    """What changes of a lesson; null leaves it as it is."""

    title: str | None = None
    rule: str | None = None
    severity: Severity | None = None
    trigger_tool: str | None = None
    trigger_pattern: str | None = None
    active: bool | None = None


class LessonsQuery(BaseModel):
    """Which lessons are listed: of one project without the global ones, or all."""

    project: str | None = None
    severity: Severity | None = None
    active: bool = True
    limit: Limit = 20


class MatchQuery(BaseModel):
    """A tool call that is about to be made."""

    tool_name: str
    tool_input_preview: str = ""
    project: str | None = None


class ReEmbedQuery(BaseModel):
    """Which vectors are made again, and how many at a time (at most 1,000)."""

    only_missing: bool = True
    batch_size: Annotated[int, Field(ge=1)] = 100


SOURCE = "agent-memory"
"""Where an event came from, as events name it."""
HOOKS = "agent-memory's hooks"
"""Whose last writes those of the queue are. Few reads wait for them: hooks do not read what others report."""


def context_of(request: Request) -> Call:
    """The context of a request, for the agent that its header names; agent-memory's own clients name none."""
    return services(request).call(SOURCE, header_name(request.headers, READER_HEADER))


async def change(context: Call, command: AnyCommand) -> None:
    """Change what exists."""
    caller = context.caller()
    context.wrote(caller.agent_id, (await context.commands.handle(command, caller)).position)


def listed(request: Request) -> Listed:
    """The queries that list documents."""
    dependencies = services(request)
    return Listed(dependencies.search_index, dependencies.operations.current.documents)


def unprocessable(message: str, *where: str, given: object = None) -> Unprocessable:
    """A fault that no type tells, as one of the body's values would be told."""
    return Unprocessable(
        [{"type": "value_error", "loc": ["body", *where], "msg": f"Value error, {message}", "input": given}]
    )


async def numbers(context: Call, noun: Noun, names: Sequence[str]) -> list[int]:
    """The numbers of some things, in the order asked for."""
    return await context.queries.numbers(context.tenant, noun).numbers(names)


async def numbered(context: Call, keys: Sequence[tuple[str, str, str]]) -> list[Numbered]:
    """The numbers of observations, given the id, the session and the project of each."""
    nouns: tuple[Noun, ...] = ("observation", "session", "project")
    columns = await asyncio.gather(
        *(numbers(context, noun, [key[column] for key in keys]) for column, noun in enumerate(nouns))
    )
    return [Numbered(*row) for row in zip(*columns, strict=True)]


class AgentMemoryState:
    """The settings, how many observations there were when last counted, and the last run of re-embedding."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.observations = -1
        self.reembedding: ReEmbedding | None = None


def state(request: Request) -> AgentMemoryState:
    """The state of the process that answers."""
    return request.app.state.agent_memory
