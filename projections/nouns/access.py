"""Access control: the single rule that every read path uses.

A reader sees its own tenant only. Every reader sees a public memory; a shared one is for its creator, its owner and
those it is shared with, a private one for its creator and its owner. In isolated scope a reader sees only what it
wrote. A reader whose key is for some projects sees nothing of the others, operator or not. Only operators see
documents in quarantine. No reader sees a memory that has expired, even before upkeep deletes it.
"""

from datetime import datetime
from typing import Any, Literal, NamedTuple

from ingest.errors import OutsideKeyScope, ReaderUnknown
from ingest.nouns.command import EVERYBODY as EVERYBODY
from ingest.roles import ANYWHERE, KeyScope
from projections.nouns.memory import Memory

Scope = Literal["shared", "isolated"]


class Reader(NamedTuple):
    """A reader. An empty `agent_id` is an unnamed reader. An operator sees all of the tenant, within its key scope.

    `now` is the time of the request: memories that have expired by then are not shown. A job has none, because it must
    find expired memories to delete them.
    """

    tenant: str
    agent_id: str = ""
    scope: Scope = "shared"
    operator: bool = False
    key_scope: KeyScope = ANYWHERE
    now: datetime | None = None

    @property
    def only_agent(self) -> str:
        """The only agent whose documents it can see; empty for no such limit."""
        return self.agent_id if self.scope == "isolated" and not self.operator else ""


def reader_of(
    tenant: str,
    scope: Scope,
    own_agent: str,
    requested: str,
    key_scope: KeyScope = ANYWHERE,
    now: datetime | None = None,
) -> Reader:
    """The reader for a request: `requested` is the agent that it names, `own_agent` the one of the server's settings.

    Isolated, `*` lifts the scope and a name replaces the server's. Without any name an isolated read is refused
    (ReaderUnknown). A key for some agents reads as one of them: its only one
    when none is named, as an unnamed reader when there are several. Another name, or `*` where that lifts the scope,
    raises OutsideKeyScope.
    """
    if key_scope.agents:
        requested = requested or key_scope.sole_agent
        own_agent = own_agent if own_agent in key_scope.agents else ""
        lifts = requested == EVERYBODY and scope == "isolated"
        if lifts or (requested not in ("", EVERYBODY) and requested not in key_scope.agents):
            raise OutsideKeyScope("agent", requested, "agent_id")
    reader = Reader(tenant, key_scope=key_scope, now=now)
    if requested == EVERYBODY:
        return reader
    if scope == "isolated":
        agent = requested or own_agent
        if not agent:
            raise ReaderUnknown
        return reader._replace(agent_id=agent, scope="isolated")
    return reader._replace(agent_id=requested)


def operator_of(tenant: str, key_scope: KeyScope = ANYWHERE, now: datetime | None = None) -> Reader:
    """The reader for a route that shows everything of the tenant; a key for some agents reads as one of them."""
    return Reader(tenant, key_scope.sole_agent, operator=not key_scope.agents, key_scope=key_scope, now=now)


def may_read(document: Any, reader: Reader) -> bool:
    """Return whether the reader can see a document (anything with a `tenant`); False for one without a tenant."""
    is_memory = isinstance(document, Memory)
    return has_access(document, reader) and not (is_memory and reader.now and document.is_expired(reader.now))


def has_access(document: Any, reader: Reader) -> bool:
    """Return the same as `may_read`, and also True for an expired memory: it can still be deleted."""
    if getattr(document, "tenant", None) != reader.tenant:
        return False
    if reader.key_scope.projects and getattr(document, "project", None) not in reader.key_scope.projects:
        return False
    if reader.operator:
        return True
    if getattr(document, "quarantined", ""):
        return False
    if reader.only_agent and getattr(document, "agent_id", "") != reader.only_agent:
        return False
    if not isinstance(document, Memory) or document.visibility == "public":
        return True
    return reader.agent_id != "" and reader.agent_id in document.audience


def may_change(memory: Memory, actor: str) -> bool:
    """Whether an actor can change the visibility of a memory: only its creator and its owner can."""
    return bool(actor) and actor in (memory.agent_id, memory.owner)


def may_forget(document: Any, reader: Reader) -> bool:
    """Whether a reader can forget what it can read: not a memory that is only shared with it."""
    if not isinstance(document, Memory) or document.visibility == "public" or reader.operator:
        return True
    return may_change(document, reader.agent_id)
