"""Profiles: the tools, resources and prompts that a kind of client is offered.

Nothing here loads the index, because the stdio bridge needs a profile without it while the server is down, nor the MCP
SDK, which a server loads at the first request (`mcp_gateway.declaring` has its types).
"""

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from typing import Any, NamedTuple

from ingest.errors import CommandRejected
from mcp_gateway.attachments import NO_ATTACHMENTS, Attachments, together
from mcp_gateway.resources import PROMPTS, RESOURCES, TEMPLATES, of_projects, prompt_text, resource_text
from mcp_gateway.tools.claiming import CLAIM
from mcp_gateway.tools.files import MEMORY_FILES
from mcp_gateway.tools.inbox import INBOX
from mcp_gateway.tools.reading import CONTEXT, RECALL
from mcp_gateway.tools.tool import Tool
from mcp_gateway.tools.writing import CONFIRM, FORGET, LESSON, OBSERVE, REMEMBER, REVISE, SLOTS

NATIVE = (RECALL, REMEMBER, OBSERVE, LESSON, CONTEXT, CONFIRM, REVISE, FORGET, SLOTS, CLAIM)
INSTRUCTIONS = (
    "mnemolog is memory shared by you and other agents. Start with `context` for the project. `recall` before you "
    "assume. `remember` what should last, `observe` what happens, `lesson` what you learned, `claim` what you work on. "
    "Pass the same `agent_id` and `project` every time."
)


def server_version() -> str:
    """The installed release; empty in a source tree."""
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return ""


ALL = "all"
"""All profiles."""
SERVER_NAME = "mnemolog"


class ToolProfile(NamedTuple):
    """The tools of one kind of client, in listing order, and the instructions for them.

    `server_name` is the name that those clients expect. `answers_for_any_tool`: an unknown tool gets a text, not a
    protocol error.
    """

    name: str
    tools: tuple[Tool, ...]
    instructions: str
    server_name: str = SERVER_NAME
    answers_for_any_tool: bool = False
    attachments: Attachments = NO_ATTACHMENTS


NATIVE_ATTACHMENTS = Attachments(True, RESOURCES, TEMPLATES, PROMPTS, resource_text, prompt_text, of_projects)
NATIVE_PROFILE = ToolProfile("native", NATIVE, INSTRUCTIONS, attachments=NATIVE_ATTACHMENTS)
FILES_PROFILE = ToolProfile(
    "files",
    (MEMORY_FILES,),
    "View /memories with `memory` before you start: its files are the notes of earlier conversations. Write there what "
    "later conversations need.",
)
INBOX_PROFILE = ToolProfile("inbox", (INBOX,), "`inbox` lists what the server suggests to remember.")


class Sessions(NamedTuple):
    """A route with sessions: the profile that it offers, and who owns a session, by the request's ASGI scope."""

    profile: str
    owner: Callable[[MutableMapping[str, Any]], str]


class UnknownProfile(CommandRejected):
    """No profile has that name."""

    def __init__(self, name: str, names: Iterable[str]) -> None:
        super().__init__(f"there is no MCP profile {name!r}; profiles: {', '.join((*names, ALL))}", "profile")


class Offer(NamedTuple):
    """What a client of one or more profiles is offered."""

    tools: Mapping[str, Tool]
    server_name: str
    instructions: str
    answers_for_any_tool: bool
    attachments: Attachments


class ToolProfiles(dict[str, ToolProfile]):
    """The profiles of a server by name, in the order in which they are offered. Tool names are unique across them."""

    def __init__(self, *profiles: ToolProfile) -> None:
        super().__init__((profile.name, profile) for profile in profiles)

    def chosen(self, names: str) -> tuple[str, ...]:
        """The profiles of a comma-separated list (or `all`), in the order of this one; by default the native one.

        Raises UnknownProfile.
        """
        requested = {name for name in map(str.strip, names.split(",")) if name} or {NATIVE_PROFILE.name}
        for name in sorted(requested - {ALL}):
            if name not in self:
                raise UnknownProfile(name, self)
        return tuple(name for name in self if ALL in requested or name in requested)

    def offer(self, chosen: tuple[str, ...]) -> Offer:
        """What these profiles offer together. A single profile also sets the server's name and behavior."""
        profiles = [self[name] for name in chosen]
        tools = {tool.name: tool for profile in profiles for tool in profile.tools}
        alone = profiles[0] if len(profiles) == 1 else None
        return Offer(
            tools=tools,
            server_name=alone.server_name if alone else SERVER_NAME,
            instructions="\n".join(profile.instructions for profile in profiles),
            answers_for_any_tool=alone is not None and alone.answers_for_any_tool,
            attachments=together([profile.attachments for profile in profiles]),
        )

    def every_choice(self) -> Iterable[tuple[str, ...]]:
        """Every combination of profiles."""
        names = tuple(self)
        return (chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count))
