"""How far a caller's key reaches within its tenant: which projects it may read and write, whose name it may use.

Callers (who write) and readers carry it, so that one check below all writes and one below all reads are enough.
"""

from typing import NamedTuple

from ingest.errors import AccessDenied


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
