"""Profiles: which tools a client is offered, so that clients of other memory servers find the ones they know.

Nothing here loads the index: the stdio bridge chooses a profile without it.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import NamedTuple

import mcp.types as types

from ingest.errors import CommandRejected
from mcp_gateway.attachments import NO_ATTACHMENTS, Attachments, together
from mcp_gateway.prompts import PROMPTS, prompt_text
from mcp_gateway.resources import RESOURCES, TEMPLATES, contexts, resource_text
from mcp_gateway.tools.catalog import INSTRUCTIONS, NATIVE, declared
from mcp_gateway.tools.tool import Tool

ALL = "all"
"""Stands for every profile."""
SERVER_NAME = "mnemolog"


class ToolProfile(NamedTuple):
    """The tools that one kind of client knows, in the order in which it lists them, and what it is told about them.

    `server_name` is the name under which those clients know their server. `answers_for_any_tool`: they get a sentence
    for a tool that does not exist, where the protocol has an error.
    """

    name: str
    tools: tuple[Tool, ...]
    instructions: str
    server_name: str = SERVER_NAME
    answers_for_any_tool: bool = False
    attachments: Attachments = NO_ATTACHMENTS


NATIVE_ATTACHMENTS = Attachments(True, RESOURCES, TEMPLATES, PROMPTS, resource_text, prompt_text, contexts)
NATIVE_PROFILE = ToolProfile("native", NATIVE, INSTRUCTIONS, attachments=NATIVE_ATTACHMENTS)


class UnknownProfile(CommandRejected):
    """No profile has that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no MCP profile {name!r}; there are: {', '.join((*known, ALL))}", "profile")


class Offer(NamedTuple):
    """What a client of one or several profiles is offered."""

    tools: Mapping[str, Tool]
    declared: list[types.Tool]
    server_name: str
    instructions: str
    answers_for_any_tool: bool
    attachments: Attachments


class ToolProfiles(dict[str, ToolProfile]):
    """The profiles of a server by name, in the order in which they are offered. No two have a tool of the same name."""

    def __init__(self, *profiles: ToolProfile | None) -> None:
        super().__init__((profile.name, profile) for profile in profiles if profile is not None)

    def chosen(self, names: str) -> tuple[str, ...]:
        """The profiles that a comma-separated list names, in the order of this one; `all` names every one.

        Without any name the native one. Raises UnknownProfile.
        """
        wanted = {name for name in map(str.strip, names.split(",")) if name} or {NATIVE_PROFILE.name}
        for name in sorted(wanted - {ALL}):
            if name not in self:
                raise UnknownProfile(name, self)
        return tuple(name for name in self if ALL in wanted or name in wanted)

    def offer(self, chosen: tuple[str, ...]) -> Offer:
        """What these profiles offer together. A server has the name and manners of a profile that is offered alone."""
        profiles = [self[name] for name in chosen]
        tools = {tool.name: tool for profile in profiles for tool in profile.tools}
        alone = profiles[0] if len(profiles) == 1 else None
        return Offer(
            tools=tools,
            declared=[declared(tool) for tool in tools.values()],
            server_name=alone.server_name if alone else SERVER_NAME,
            instructions="\n".join(profile.instructions for profile in profiles),
            answers_for_any_tool=alone is not None and alone.answers_for_any_tool,
            attachments=together([profile.attachments for profile in profiles]),
        )

    def every_choice(self) -> Iterable[tuple[str, ...]]:
        """Every choice of profiles there is."""
        names = tuple(self)
        return (chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count))
