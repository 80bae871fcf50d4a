"""Resources and prompts: what profiles offer beside tools, on a server and through the bridge."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ingest.errors import MnemologError, NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext

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
