"""Profiles: which tools a client is offered, so that clients of other memory servers find the ones they know.

Nothing here loads the index: the stdio bridge chooses a profile without it.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations
from typing import NamedTuple

import mcp.types as types

from ingest.errors import CommandRejected
from mcp_gateway.tools.agent_memory.catalog import AGENT_MEMORY
from mcp_gateway.tools.agentmemory.catalog import AGENTMEMORY
from mcp_gateway.tools.catalog import INSTRUCTIONS, NATIVE, declared
from mcp_gateway.tools.memex.catalog import MEMEX
from mcp_gateway.tools.tool import Tool

PROFILES: dict[str, tuple[Tool, ...]] = {
    "native": NATIVE,
    "agentmemory": AGENTMEMORY,
    "memex": MEMEX,
    "agent-memory": AGENT_MEMORY,
}
"""The tools of every profile, in the order clients list them. No two profiles have a tool of the same name."""
DEFAULT = "native"
ALL = "all"
"""Stands for every profile."""
SERVER_NAME = "mnemolog"
SERVER_NAMES = {"memex": "memex", "agent-memory": "agent-memory"}
"""Under which name clients of a profile know its server, where that is not ours."""
ANSWERS_FOR_ANY_TOOL = "agent-memory"
"""The profile whose clients get a sentence for a tool that there is not, where the protocol has an error."""
_INSTRUCTIONS = {
    "native": INSTRUCTIONS,
    "agentmemory": (
        "Memory of past sessions. memory_smart_search or memory_recall before you assume; memory_save for what should "
        "last; memory_lesson_save for what you learned; slots hold what must stay in view."
    ),
    "memex": (
        "Memory of an agent about a user. memory_type is episodic (what happened), semantic (a fact) or procedural (a "
        "how-to). importance, 0 to 2, is kept with a memory. alpha weighs likeness (1) against recency (0) in a search."
    ),
    "agent-memory": "Memory of coding sessions. Search, then timeline, then get_observations: see memory_search_guide.",
}


class UnknownProfile(CommandRejected):
    """There is no profile of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no MCP profile {name!r}; there are: {', '.join((*PROFILES, ALL))}", "profile")


class Offer(NamedTuple):
    """What a client of one or several profiles is offered."""

    profiles: tuple[str, ...]
    tools: Mapping[str, Tool]
    declared: list[types.Tool]
    server_name: str
    instructions: str
    answers_for_any_tool: bool = False


def profiles_of(profile: str) -> tuple[str, ...]:
    """The profiles that a comma list names, in the order of PROFILES; `all` names every one.

    Raises UnknownProfile; without any name the default.
    """
    names = {name for name in map(str.strip, profile.split(",")) if name} or {DEFAULT}
    for name in sorted(names - {ALL}):
        if name not in PROFILES:
            raise UnknownProfile(name)
    return tuple(name for name in PROFILES if ALL in names or name in names)


@cache
def offer(profiles: tuple[str, ...]) -> Offer:
    """What these profiles offer together."""
    tools = {tool.name: tool for name in profiles for tool in PROFILES[name]}
    alone = profiles[0] if len(profiles) == 1 else ""
    return Offer(
        profiles=profiles,
        tools=tools,
        declared=[declared(tool) for tool in tools.values()],
        server_name=SERVER_NAMES.get(alone, SERVER_NAME),
        instructions="\n".join(_INSTRUCTIONS[name] for name in profiles),
        answers_for_any_tool=alone == ANSWERS_FOR_ANY_TOOL,
    )


def every_choice() -> Iterable[tuple[str, ...]]:
    """Every choice of profiles there is."""
    names = tuple(PROFILES)
    return (chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count))
