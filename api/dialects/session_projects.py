"""Maps sessions to projects: other systems identify a session by its id alone, mnemolog by project and id.

A session stays in the project of its first request, whatever project later requests name, because agents change folders
and hooks then send another project. This is a bounded cache that saves lookups, not the source of truth.
"""

from collections import OrderedDict
from copy import copy
from typing import NamedTuple

from starlette.requests import Request

from api.hook_observations import UNKNOWN_PROJECT
from api.services import services
from ingest.log.position import Token
from ingest.log.shared_positions import SharedPositions
from projections.nouns.session import Session

MAX_HOMES = 10_000


class SessionProject(NamedTuple):
    """A session's project and agent, and up to where it was written through this process (empty: it was not)."""

    project: str
    agent: str
    written: Token


class Owner(NamedTuple):
    """A tenant, and those projects of it that may be seen (empty: all of them)."""

    tenant: str = ""
    projects: tuple[str, ...] = ()


class SessionProjects:
    """The homes of the sessions that were asked about last."""

    def __init__(self, limit: int = MAX_HOMES) -> None:
        self._limit, self._whose = limit, Owner()
        self._shared: SharedPositions | None = None
        self._homes: OrderedDict[tuple[Owner, str], SessionProject] = OrderedDict()

    def of(self, tenant: str, projects: tuple[str, ...], shared: SharedPositions | None = None) -> "SessionProjects":
        """The same homes, as far as they are of one tenant, and of those who may see the same projects of it.

        `shared` gets writes to sessions, for the other processes on this port.
        """
        theirs = copy(self)
        theirs._whose, theirs._shared = Owner(tenant, projects), shared
        return theirs

    def __len__(self) -> int:
        return len(self._homes)

    def get(self, session_id: str) -> SessionProject | None:
        """The home of a session, if it is known."""
        if (name := (self._whose, session_id)) in self._homes:
            self._homes.move_to_end(name)
        return self._homes.get(name)

    def settle(self, session_id: str, project: str, agent: str) -> SessionProject:
        """Take note of a session's home, unless it has one; returns the one it has, with an agent once one is named."""
        home = self.get(session_id) or SessionProject(project, agent, Token())
        home = self._homes[self._whose, session_id] = home._replace(agent=home.agent or agent)
        if len(self._homes) > self._limit:
            self._homes.popitem(last=False)
        return home

    def wrote(self, session_id: str, position: str) -> None:
        """Take note of an acknowledged write to a session."""
        written = Token.parse(position)
        if home := self._homes.get((self._whose, session_id)):
            home.written.include_all(written)
        if self._shared is not None:
            self._shared.wrote(_writer(self._whose.tenant, session_id), written)

    def forget(self, session_id: str) -> None:
        """Drop a session that was deleted: it can start again in another project."""
        self._homes.pop((self._whose, session_id), None)


def written_elsewhere(shared: SharedPositions | None, tenant: str, session_id: str) -> Token:
    """Up to where a session was written through other processes on this port."""
    return Token() if shared is None else shared.after(_writer(tenant, session_id))


def _writer(tenant: str, session_id: str) -> str:
    return f"session\0{tenant}\0{session_id}"


def homes(request: Request) -> SessionProjects:
    """The cached homes, as far as the caller can read them."""
    dependencies = services(request)
    projects: SessionProjects = request.app.state.homes
    return projects.of(dependencies.tenant, dependencies.key_scope.projects, dependencies.last_writes.shared)


async def home_of(request: Request, session_id: str) -> SessionProject | None:
    """The home of a session that exists; None for one that was never heard of.

    Raises ProjectionBehind for one that another process on this port wrote to, when that is not projected in time.
    """
    cached = homes(request)
    if home := cached.get(session_id):
        return home
    dependencies = services(request)
    if elsewhere := written_elsewhere(dependencies.last_writes.shared, dependencies.tenant, session_id):
        await dependencies.search_index.wait_for(elsewhere)
    located = await dependencies.queries.sessions.named(dependencies.operator(), session_id)
    if not located or not isinstance(session := located[0].document, Session):
        return cached.get(session_id)  # a concurrent request may have settled it
    return cached.settle(session_id, session.project, session.agent_id)


async def settled(request: Request, session_id: str, project: str, agent: str) -> tuple[SessionProject, bool]:
    """The home of a session that is written to, and whether it is new; a blank project is `unknown`."""
    if await home_of(request, session_id) is None:
        return homes(request).settle(session_id, project if project.strip() else UNKNOWN_PROJECT, agent), True
    return homes(request).settle(session_id, "", agent), False
