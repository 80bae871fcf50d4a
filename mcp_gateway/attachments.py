"""What a profile offers beside tools: resources that a client attaches, prompts that its user picks.

Nothing here loads the index: the stdio bridge lists them without it.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ingest.errors import AccessDenied, MnemologError, NotFound, ReaderUnknown
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import ToolContext

R = TypeVar("R", bound=BaseModel)

Context = ServerRequestContext[Any]
Handler = Callable[[Context, Any], Awaitable[BaseModel]]

logger = logging.getLogger(__name__)


class Unreachable(Exception):
    """The server behind a bridge could not be asked; the message is for the agent."""


class Ask(Protocol):
    """Sends a request to the server behind a bridge."""

    async def __call__(self, request: types.Request[Any, Any], result: type[R]) -> R:
        """The answer; raises Unreachable, or MCPError as the server answered it."""
        ...


async def _no_text(call: ToolContext, name: str, arguments: Mapping[str, str] | None = None) -> str:
    raise BadArgument(f"there is no {name!r}")


async def _nothing_more(call: ToolContext) -> Sequence[types.Resource]:
    return ()


class Attachments(NamedTuple):
    """What a profile offers. `served` is false for one whose clients' servers know neither of the two.

    `resource_text` and `prompt_text` return what is read; they raise BadArgument, NotFound or MCPError. `more` are
    resources that depend on what is recorded and on who lists them; few, however much is recorded.
    """

    served: bool
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    prompts: Sequence[types.Prompt] = ()
    resource_text: Callable[[ToolContext, str], Awaitable[str]] = _no_text
    prompt_text: Callable[[ToolContext, str, Mapping[str, str]], Awaitable[str]] = _no_text
    more: Callable[[ToolContext], Awaitable[Sequence[types.Resource]]] = _nothing_more

    def register(self, server: Server[Any], door_for: Callable[[Context], ToolContext]) -> None:
        """Answer from the projections."""

        async def resources(context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
            return types.ListResourcesResult(resources=[*self.resources, *await self._more(door_for(context))])

        async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
            if not self.resources:
                raise MCPError(types.INVALID_PARAMS, f"there is no resource {params.uri}")
            text = await _told(door_for(context), lambda call: self.resource_text(call, str(params.uri)))
            contents = types.TextResourceContents(uri=params.uri, mime_type=self._mime_type(params.uri), text=text)
            return types.ReadResourceResult(contents=[contents])

        async def prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
            if params.name not in {one.name for one in self.prompts}:
                raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
            arguments = params.arguments or {}
            text = await _told(door_for(context), lambda call: self.prompt_text(call, params.name, arguments))
            message = types.PromptMessage(role="user", content=types.TextContent(text=text))
            return types.GetPromptResult(messages=[message])

        own = {method: _answering(answer) for method, answer in self.lists().items()}
        self._serve(server, {**own, "resources/list": resources, "resources/read": read, "prompts/get": prompt})

    def forward(self, server: Server[Any], ask: Ask) -> None:
        """Pass everything on to the server that `ask` asks; while it cannot be asked, list what this release has."""

        lists = self.lists()

        def passing_on(method: str) -> Handler:
            async def passed_on(context: Context, params: types.RequestParams) -> BaseModel:
                request, _, result = _METHODS[method]
                try:
                    return await ask(request(params=params.model_copy(update={"meta": None})), result)
                except Unreachable as fault:
                    if method not in lists:
                        raise MCPError(types.INTERNAL_ERROR, str(fault)) from None
                    logger.warning("%s answers what this release has: %s", method, fault)
                    return lists[method]
                except MCPError as error:
                    # The server's own profile may have no such thing, where this bridge was given none.
                    if error.error.code != types.METHOD_NOT_FOUND or method not in lists:
                        raise
                    return NO_ATTACHMENTS.lists()[method]

            return passed_on

        self._serve(server, {method: passing_on(method) for method in _METHODS})

    def lists(self) -> dict[str, BaseModel]:
        """What is listed whatever is recorded, by the method that lists it."""
        return {
            "resources/list": types.ListResourcesResult(resources=list(self.resources)),
            "resources/templates/list": types.ListResourceTemplatesResult(resource_templates=list(self.templates)),
            "prompts/list": types.ListPromptsResult(prompts=list(self.prompts)),
        }

    def _serve(self, server: Server[Any], handlers: Mapping[str, Handler]) -> None:
        for method in _METHODS if self.served else ():
            server.add_request_handler(method, _METHODS[method].params, handlers[method])

    async def _more(self, call: ToolContext) -> Sequence[types.Resource]:
        """What whoever lists may read; nothing for who may read nothing."""
        if self.more is _nothing_more:
            return ()
        try:
            await call.admits()
            return await self.more(call)
        except (AccessDenied, ReaderUnknown):
            return ()
        except MnemologError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None

    def _mime_type(self, uri: str) -> str | None:
        """What the resources of that scheme are."""
        return next((one.mime_type for one in self.resources if scheme(one.uri) == scheme(uri)), None)


class Method(NamedTuple):
    """A method of the protocol: its request, the parameters, the result."""

    request: Callable[..., types.Request[Any, Any]]
    params: type[types.RequestParams]
    result: type[BaseModel]


_METHODS = {
    "resources/list": Method(types.ListResourcesRequest, types.PaginatedRequestParams, types.ListResourcesResult),
    "resources/templates/list": Method(
        types.ListResourceTemplatesRequest, types.PaginatedRequestParams, types.ListResourceTemplatesResult
    ),
    "resources/read": Method(types.ReadResourceRequest, types.ReadResourceRequestParams, types.ReadResourceResult),
    "prompts/list": Method(types.ListPromptsRequest, types.PaginatedRequestParams, types.ListPromptsResult),
    "prompts/get": Method(types.GetPromptRequest, types.GetPromptRequestParams, types.GetPromptResult),
}
NO_ATTACHMENTS = Attachments(False)


def together(offered: Sequence[Attachments]) -> Attachments:
    """What several profiles offer, as one: an address is read by the profile that has its scheme, a prompt by the one
    that has its name."""
    served = [one for one in offered if one.served]
    if len(served) < 2:
        return served[0] if served else NO_ATTACHMENTS
    of_scheme = {scheme(resource.uri): one for one in served for resource in one.resources}
    of_prompt = {prompt.name: one for one in served for prompt in one.prompts}

    async def resource_text(call: ToolContext, uri: str) -> str:
        owner = of_scheme.get(scheme(uri))
        if owner is None:
            raise NotFound(f"there is no resource {uri}")
        return await owner.resource_text(call, uri)

    async def prompt_text(call: ToolContext, name: str, arguments: Mapping[str, str]) -> str:
        return await of_prompt[name].prompt_text(call, name, arguments)

    async def more(call: ToolContext) -> Sequence[types.Resource]:
        return [resource for one in served for resource in await one.more(call)]

    return Attachments(
        True,
        [resource for one in served for resource in one.resources],
        [template for one in served for template in one.templates],
        [prompt for one in served for prompt in one.prompts],
        resource_text,
        prompt_text,
        more,
    )


def scheme(uri: str) -> str:
    """What stands before the first colon."""
    return uri.partition(":")[0]


def _answering(answer: BaseModel) -> Handler:
    async def answered(context: Context, params: types.RequestParams) -> BaseModel:
        return answer

    return answered


async def _told(call: ToolContext, text: Callable[[ToolContext], Awaitable[str]]) -> str:
    """The text; a fault of the caller or of the store as a protocol error, which is all that a reading can answer."""
    try:
        await call.admits()
        return await text(call)
    except (BadArgument, NotFound) as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    except MnemologError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from None
