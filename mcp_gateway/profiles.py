"""Profiles: which tools a client is offered, so that clients of other memory servers find the ones they know.

Nothing here loads the index: the stdio bridge chooses a profile without it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple, Protocol, TypeVar

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ingest.errors import CommandRejected, MnemologError, NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.catalog import INSTRUCTIONS, NATIVE, declared
from mcp_gateway.tools.tool import Tool, ToolContext

R = TypeVar("R", bound=BaseModel)

Context = ServerRequestContext[Any]


class Ask(Protocol):
    """Sends a request to the server behind a bridge."""

    async def __call__(self, request: types.Request[Any, Any], result: type[R]) -> R:
        """The answer; raises Unreachable, or MCPError as the server answered it."""
        ...


async def _no_text(door: ToolContext, name: str, arguments: Mapping[str, str] | None = None) -> str:
    raise BadArgument(f"there is no {name!r}")


class Attachments(NamedTuple):
    """What a profile offers. `served` is false for one whose clients' servers know neither of the two.

    `resource_text` and `prompt_text` return what is read; they raise BadArgument or NotFound.
    """

    served: bool
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    prompts: Sequence[types.Prompt] = ()
    resource_text: Callable[[ToolContext, str], Awaitable[str]] = _no_text
    prompt_text: Callable[[ToolContext, str, Mapping[str, str]], Awaitable[str]] = _no_text

    def register(self, server: Server[Any], door_for: Callable[[Context], ToolContext]) -> None:
        """Answer from the projections."""

        async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
            if not self.resources:
                raise MCPError(types.INVALID_PARAMS, f"there is no resource {params.uri}")
            text = await _told(door_for(context), lambda door: self.resource_text(door, str(params.uri)))
            contents = types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
            return types.ReadResourceResult(contents=[contents])

        async def prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
            if params.name not in {one.name for one in self.prompts}:
                raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
            arguments = params.arguments or {}
            text = await _told(door_for(context), lambda door: self.prompt_text(door, params.name, arguments))
            message = types.PromptMessage(role="user", content=types.TextContent(text=text))
            return types.GetPromptResult(messages=[message])

        self._serve(server, read, prompt)

    def forward(self, server: Server[Any], ask: Ask) -> None:
        """Pass readings on; what there is, is known here."""

        async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
            request = types.ReadResourceRequest(params=types.ReadResourceRequestParams(uri=params.uri))
            return await ask(request, types.ReadResourceResult)

        async def prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
            wanted = types.GetPromptRequestParams(name=params.name, arguments=params.arguments)
            return await ask(types.GetPromptRequest(params=wanted), types.GetPromptResult)

        self._serve(server, read, prompt)

    def _serve(
        self,
        server: Server[Any],
        read: Callable[[Context, types.ReadResourceRequestParams], Awaitable[types.ReadResourceResult]],
        prompt: Callable[[Context, types.GetPromptRequestParams], Awaitable[types.GetPromptResult]],
    ) -> None:
        if not self.served:
            return

        async def resources(context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
            return types.ListResourcesResult(resources=list(self.resources))

        async def templates(
            context: Context, params: types.PaginatedRequestParams
        ) -> types.ListResourceTemplatesResult:
            return types.ListResourceTemplatesResult(resource_templates=list(self.templates))

        async def prompts(context: Context, params: types.PaginatedRequestParams) -> types.ListPromptsResult:
            return types.ListPromptsResult(prompts=list(self.prompts))

        server.add_request_handler("resources/list", types.PaginatedRequestParams, resources)
        server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, templates)
        server.add_request_handler("resources/read", types.ReadResourceRequestParams, read)
        server.add_request_handler("prompts/list", types.PaginatedRequestParams, prompts)
        server.add_request_handler("prompts/get", types.GetPromptRequestParams, prompt)


NO_ATTACHMENTS = Attachments(False)


async def _told(door: ToolContext, text: Callable[[ToolContext], Awaitable[str]]) -> str:
    """The text; a fault of the caller or of the store as a protocol error, which is all that a reading can answer."""
    try:
        await door.admits()
        return await text(door)
    except (BadArgument, NotFound) as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    except MnemologError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from None


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


NATIVE_PROFILE = ToolProfile("native", NATIVE, INSTRUCTIONS)


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
        attached = [profile.attachments for profile in profiles if profile.attachments.served]
        return Offer(
            tools=tools,
            declared=[declared(tool) for tool in tools.values()],
            server_name=alone.server_name if alone else SERVER_NAME,
            instructions="\n".join(profile.instructions for profile in profiles),
            answers_for_any_tool=alone is not None and alone.answers_for_any_tool,
            attachments=max(attached, key=lambda one: len(one.resources), default=NO_ATTACHMENTS),
        )

    def every_choice(self) -> Iterable[tuple[str, ...]]:
        """Every choice of profiles there is."""
        names = tuple(self)
        return (chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count))
