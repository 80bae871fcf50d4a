"""What the routes work with: the application's services, on behalf of whoever makes the request.

Tenant, reader and caller come from here and nowhere else, so that no route can forget whose request it answers.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

from starlette.requests import Request

from api.access.admission import admit
from api.access.principal import Principal, principal_of
from ingest.commands.command import writer
from ingest.commands.decide import Caller, stated_agent
from ingest.commands.handler import CommandHandler
from ingest.durability import Durability, parse_durability
from ingest.names import header_name
from ingest.platform.connections import Client
from ingest.roles import ANYWHERE, READ, KeyScope
from mcp_gateway.last_writes import LastWrites
from mcp_gateway.tools.tool import Tool, ToolContext
from projections.documents.access import Reader, Scope, operator_of, reader_of
from projections.health.watch import Watch
from projections.search.index import IndexService
from projections.services import Operations, Queries

AGENT_HEADER = "X-Agent-Id"
READER_HEADER = AGENT_HEADER.lower()
DURABILITY_HEADER = "X-Durability"


class JobOrders(Protocol):
    """Orders to the workers."""

    async def enqueue(self, name: str, *args: Any, job_id: str) -> bool:
        """Queue a job; false when one with this id is waiting or running."""
        ...


class Services(NamedTuple):
    """The write side, the questions, the workers' queue, how everything is, and who the callers are."""

    commands: CommandHandler
    queries: Queries
    operations: Operations
    search_index: IndexService
    jobs: JobOrders
    redis: Client
    tenant: str
    last_writes: LastWrites
    watch: Watch
    own_agent: str = ""
    scope: Scope = "shared"
    half_life_days: float = 30.0
    key_scope: KeyScope = ANYWHERE

    def on_behalf(self, principal: Principal) -> Self:
        """The same for the tenant and within the reach of a principal."""
        if principal.tenant == self.tenant and principal.key_scope == ANYWHERE:
            return self
        # half of what _replace takes, for every request with a key
        return type(self)(
            self.commands, self.queries, self.operations, self.search_index, self.jobs, self.redis, principal.tenant,
            self.last_writes, self.watch, self.own_agent, self.scope, self.half_life_days, principal.key_scope,
        )  # fmt: skip

    def call(self, source: str, agent: str = "") -> ToolContext:
        """What tools and dialects reach through; `agent` is who calls, as far as the transport says it."""
        return ToolContext(
            self.commands, self.queries, self.operations, self.tenant, self.last_writes, self.own_agent, self.scope,
            stated_agent(agent, AGENT_HEADER), source, self.half_life_days, self.key_scope,
        )  # fmt: skip

    def caller(self, agent: str, source: str = "native", durability: Durability | None = None) -> Caller:
        """On whose behalf a command is carried out, where the request names this agent, or none."""
        named = writer(stated_agent(agent, AGENT_HEADER), self.key_scope.sole_agent, self.own_agent)
        return Caller(self.tenant, source, named, durability, self.key_scope)

    def reader(self, agent: str) -> Reader:
        """Who reads, where the request names this agent, or none.

        Raises ReaderUnknown where the server's scope is isolated and nobody is named, OutOfReach for another agent than
        those of the key, CommandRejected for what is no name.
        """
        return reader_of(self.tenant, self.scope, self.own_agent, stated_agent(agent, AGENT_HEADER), self.key_scope)

    def operator(self) -> Reader:
        """Who sees everything of the tenant that the key is for."""
        return operator_of(self.tenant, self.key_scope)


def services(request: Request) -> Services:
    """The services of the running application, on behalf of the request's principal."""
    return services_of(request.scope)


def services_of(scope: Mapping[str, Any]) -> Services:
    """The same of an ASGI scope that came past the gate."""
    at_hand: Services = scope["app"].state.services
    return at_hand.on_behalf(principal_of(scope))


def tool_context(scope: Mapping[str, Any], source: str, agent: str = "") -> ToolContext:
    """The door that a request's tool calls go through; each call is asked for the roles that its tool needs."""

    async def admitted(tool: Tool | None) -> None:
        await admit(scope, READ if tool is None else tool.needs)

    return services_of(scope).call(source, agent)._replace(admit=admitted, may_read=principal_of(scope).may(READ))


def caller(request: Request, source: str = "native") -> Caller:
    """On whose behalf a request acts; `X-Agent-Id` names the agent where the body does not, `X-Durability` says what
    the write must survive before it is acknowledged."""
    durability = parse_durability(request.headers.get(DURABILITY_HEADER), DURABILITY_HEADER)
    return services(request).caller(header_name(request.headers, READER_HEADER), source, durability)


def reader(request: Request, agent_id: str = "") -> Reader:
    """Who reads: the `X-Agent-Id` header, else who the request names, else nobody in particular.

    Raises ReaderUnknown where the server's scope is isolated and nobody is named.
    """
    return services(request).reader(header_name(request.headers, READER_HEADER) or agent_id)


def operator(request: Request) -> Reader:
    """Who may see everything that the key is for: the routes below /v1/admin read for an operator."""
    return services(request).operator()
