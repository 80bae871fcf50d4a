"""Calls: each request with its services, on behalf of its principal.

Tenant, reader and caller come only from here, so no route can omit the access check.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request

from api.access.admission import admit
from api.access.keys import still_holds
from api.access.principal import Principal, principal_of
from ingest.commands.decide import Caller, stated_agent
from ingest.durability import parse_durability
from ingest.names import sent_name
from ingest.nouns.command import writer
from ingest.platform.clock import system_clock
from ingest.roles import ANYWHERE, READ
from mcp_gateway.tools.tool import Call, Tool
from projections.nouns.access import Reader, reader_of
from projections.webhooks.subscriptions import Owner

AGENT_HEADER = "X-Agent-Id"
READER_HEADER = AGENT_HEADER.lower()
DURABILITY_HEADER = "X-Durability"
_AGENT, _DURABILITY = READER_HEADER.encode(), DURABILITY_HEADER.lower().encode()


class NativeCall(Call):
    """A call of the native API. Unlike a tool call, it reads as an unnamed reader unless the request names an agent."""

    __slots__ = ()

    def on_behalf(self, principal: Principal, agent: str = "", durability: str | None = None) -> "NativeCall":
        """The call for a principal's tenant and key scope; `agent` and `durability` come from the headers."""
        if not agent and durability is None and principal.tenant == self.tenant and principal.key_scope == ANYWHERE:
            return self
        # one tuple: a constructor with 18 fields, or `_replace`, takes two to four times as long on every request
        return self._make(
            (*self[:3], principal.tenant, *self[4:12], principal.key_scope, agent, self.source, durability, *self[16:])
        )

    def call(self, source: str, agent: str = "") -> Call:
        """The call of a tool or dialect; `agent` is the caller, if the transport names it."""
        return Call(*self[:13], stated_agent(agent, AGENT_HEADER), source)

    def caller(self, agent_id: str = "") -> Caller:
        """The caller of a command, with the agent and the durability from the headers."""
        durability = parse_durability(self.durability, DURABILITY_HEADER)
        named = writer(stated_agent(self.agent or agent_id, AGENT_HEADER), self.key_scope.sole_agent, self.own_agent)
        return Caller(self.tenant, self.source, named, durability, self.key_scope)

    def reader(self, agent_id: str = "") -> Reader:
        """The reader: the `X-Agent-Id` header, else `agent_id`, else unnamed.

        Raises ReaderUnknown if the server's scope is isolated and no agent is named, OutsideKeyScope for an agent
        outside the key's scope, CommandRejected for an invalid name.
        """
        return self.reader_named(self.agent or agent_id)

    def reader_named(self, agent_id: str) -> Reader:
        """The reader for this agent, ignoring the header."""
        agent = stated_agent(agent_id, AGENT_HEADER)
        return reader_of(self.tenant, self.scope, self.own_agent, agent, self.key_scope, system_clock())


def services(request: Request) -> NativeCall:
    """The services of the running application, on behalf of the request's principal."""
    return services_of(request.scope)


def services_of(scope: Mapping[str, Any]) -> NativeCall:
    """The services for an ASGI scope that passed the gate."""
    shared: NativeCall = scope["app"].state.services
    return shared.on_behalf(principal_of(scope))


def native_call(scope: Mapping[str, Any]) -> NativeCall:
    """The call of a native API request, with the values of its headers."""
    agent, durability = "", None
    for name, value in scope["headers"]:
        if name == _AGENT:
            agent = sent_name(value)
        elif name == _DURABILITY:
            durability = value.decode("latin-1")
    shared: NativeCall = scope["app"].state.services
    return shared.on_behalf(principal_of(scope), agent, durability)


def tool_context(scope: Mapping[str, Any], source: str, agent: str) -> Call:
    """The call that a request's tools share; the roles are checked for each tool call."""

    async def admitted(tool: Tool | None) -> None:
        await admit(scope, READ if tool is None else tool.needs)

    principal = principal_of(scope)
    return (
        services_of(scope)
        .call(source, agent)
        ._replace(
            admit=admitted, may_read=principal.may(READ), owner=owner_of(principal), holds=partial(still_holds, scope)
        )
    )


def owner_of(principal: Principal) -> Owner:
    """The owner of a principal's subscriptions."""
    return Owner(principal.tenant, principal.key_id, principal.key_scope, principal.expires_ms)
