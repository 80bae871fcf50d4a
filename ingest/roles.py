"""What an API key allows: its roles, and its scope within the tenant (projects, agents).

`read`, `write` and `admin` are for what belongs to the key's tenant and projects. `operator` is for the server as a
whole, which may hold other tenants; `metrics` for its figures alone. A key with one of these two comes from an
operator, or from `mnemolog admin keys` on the log's server. Routes and tools name the constant they need.

Callers (who write) and readers carry the scope, so one check below all writes and one below all reads are enough.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from ingest.errors import AccessDenied

Role = Literal["read", "write", "admin", "metrics", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
OF_THE_SERVER: frozenset[Role] = frozenset({"metrics", "operator"})
"""Roles that only an operator can grant, and that no tenant or project limits."""
_SCOPE = re.compile(r"[!#-\[\]-~]+")
"""RFC 6749, section 3.3."""
Needs: TypeAlias = frozenset[Role]
"""The roles that a route or tool needs, all of them; empty: any key is accepted."""

ANY: Needs = frozenset()
"""It reveals nothing, or checks each of its calls itself."""
READ: Needs = frozenset({"read"})
"""It only reads."""
WRITE: Needs = frozenset({"write"})
"""It only writes: its answers show nothing that others wrote. A hook that reports needs only this."""
READ_WRITE: Needs = READ | WRITE
"""It writes, and answers with what others wrote."""
ADMIN: Needs = frozenset({"admin"})
"""It affects everything in the key's tenant, or in its projects."""
METRICS: Needs = frozenset({"metrics"})
"""Server-wide metrics without content."""
OPERATOR: Needs = frozenset({"operator"})
"""It affects the whole server: it uses resources of, changes or shows data of every tenant, or reads local files."""


def allow(roles: frozenset[Role], needs: Needs) -> bool:
    """Whether roles are enough. An operator has every one; an admin could make itself a key that reads and writes."""
    if "operator" in roles:
        return True
    return needs <= (roles | READ_WRITE if "admin" in roles else roles)


def roles_by_scope(entries: Iterable[str]) -> Mapping[str, frozenset[Role]]:
    """The roles that each OAuth scope gives, of entries like `notes=read+write`; raises ValueError otherwise."""
    roles_of: dict[str, frozenset[Role]] = {}
    for entry in entries:
        scope, _, names = entry.rpartition("=")
        roles = frozenset(names.split("+"))
        if not _SCOPE.fullmatch(scope) or not roles <= frozenset(ROLES):
            raise ValueError(f"{entry!r} is not SCOPE=ROLE or SCOPE=ROLE+ROLE; roles are {', '.join(ROLES)}")
        roles_of[scope] = roles_of.get(scope, frozenset()) | cast("frozenset[Role]", roles)
    return roles_of


class KeyScope(NamedTuple):
    """The projects and agents of a key; empty is all of them. `""` among the projects is the nameless one.
    `within_tenant`: the key is not an operator's, and is not shown what belongs to no tenant: unreadable entries of the
    log, which may be any tenant's, and figures of the server. `is_admin`: it may state rules for every project. `key`
    is its id."""

    projects: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    within_tenant: bool = False
    is_admin: bool = True
    key: str = ""

    def allows(self, project: str) -> bool:
        """Whether the key covers a project."""
        return not self.projects or project in self.projects

    def speaks_for(self, agent: str) -> bool:
        """Whether an agent's name may be used; a key for some agents must name one."""
        return not self.agents or agent in self.agents

    @property
    def whole(self) -> bool:
        """Whether it is all of the tenant, in anybody's name."""
        return not (self.projects or self.agents)

    def check_whole(self) -> None:
        """Raise AccessDenied for a key for some projects or agents: what is asked for is for a whole tenant."""
        if not self.whole:
            raise AccessDenied("this key is limited to some projects or agents, and this affects all of them")

    @property
    def sole_agent(self) -> str:
        """The agent that is meant when none is named: the key's only one, else ""."""
        return self.agents[0] if len(self.agents) == 1 else ""


ANYWHERE = KeyScope()
"""A whole tenant, as any agent."""
