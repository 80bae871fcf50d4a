"""What an API key allows: its roles, and its scope within the tenant (projects, agents).

`read`, `write` and `admin` are for what belongs to the key's tenant and projects. `operator` is for the server as a
whole, which may hold other tenants; `metrics` for its figures alone. A key with one of these two comes from an
operator, or from `mnemolog keys` on the log's server. Routes and tools name the constant they need.

Callers (who write) and readers carry the scope, so one check below all writes and one below all reads are enough.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from ingest.errors import AccessDenied

Role = Literal["read", "write", "admin", "metrics", "operator"]
ROLES: tuple[Role, ...] = get_args(Role)
OF_THE_SERVER: frozenset[Role] = frozenset({"metrics", "operator"})
"""Roles that only an operator gives away, and that no tenant or project limits."""
_SCOPE = re.compile(r"[!#-\[\]-~]+")
"""RFC 6749, section 3.3."""
Needs: TypeAlias = frozenset[Role]
"""The roles that a way in asks for, all of them; none: whoever has a key."""

ANY: Needs = frozenset()
"""It tells nothing of anybody, or asks for each of its calls."""
READ: Needs = frozenset({"read"})
"""It only asks."""
WRITE: Needs = frozenset({"write"})
"""It only acknowledges: it answers with nothing that others wrote. A hook that reports needs this alone."""
READ_WRITE: Needs = READ | WRITE
"""What is written, and answered with what others wrote."""
ADMIN: Needs = frozenset({"admin"})
"""Whole parts of what the key is for: everything of its tenant, or of its projects."""
METRICS: Needs = frozenset({"metrics"})
"""Figures of the server as a whole, and nothing that anybody wrote."""
OPERATOR: Needs = frozenset({"operator"})
"""The server as a whole: what costs, changes or tells something of every tenant, or reads files of its machine."""


def allow(roles: frozenset[Role], needs: Needs) -> bool:
    """Whether roles are enough. An operator has every one; an admin could make itself a key that reads and writes."""
    if "operator" in roles:
        return True
    return needs <= (roles | READ_WRITE if "admin" in roles else roles)


def roles_by_scope(entries: Iterable[str]) -> Mapping[str, frozenset[Role]]:
    """The roles that each OAuth scope gives, of entries like `notes=read+write`; raises ValueError for what is none."""
    found: dict[str, frozenset[Role]] = {}
    for entry in entries:
        scope, _, names = entry.rpartition("=")
        roles = frozenset(names.split("+"))
        if not _SCOPE.fullmatch(scope) or not roles <= frozenset(ROLES):
            raise ValueError(f"{entry!r} is not SCOPE=ROLE or SCOPE=ROLE+ROLE; roles are {', '.join(ROLES)}")
        found[scope] = found.get(scope, frozenset()) | cast("frozenset[Role]", roles)
    return found


class KeyScope(NamedTuple):
    """The projects and agents of a key; empty is all of them. `""` among the projects is the nameless one.

    `within_tenant`: the key is not an operator's, and is not shown what belongs to no tenant: entries of the log that
    nobody can read, which may be anybody's, and figures of the server.
    """

    projects: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    within_tenant: bool = False

    def allows(self, project: str) -> bool:
        """Whether documents of a project are within reach."""
        return not self.projects or project in self.projects

    def speaks_for(self, agent: str) -> bool:
        """Whether the name of an agent may be used; where agents are named, nobody's may not."""
        return not self.agents or agent in self.agents

    @property
    def whole(self) -> bool:
        """Whether it is all of the tenant, in anybody's name."""
        return not (self.projects or self.agents)

    def check_whole(self) -> None:
        """Raise AccessDenied for a key for some projects or agents: what is asked for is for a whole tenant."""
        if not self.whole:
            raise AccessDenied("this key is for some projects or agents, and that concerns all of them")

    @property
    def sole_agent(self) -> str:
        """The agent that is meant when nobody is named: the only one there is, else nobody."""
        return self.agents[0] if len(self.agents) == 1 else ""


ANYWHERE = KeyScope()
"""All of a tenant, in anybody's name."""
