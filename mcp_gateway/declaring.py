"""What a profile offers, in the types of the MCP SDK. It and `mcp_gateway.server` are all that loads the SDK."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ingest.errors import AccessDenied, MnemologError, NotFound, ReaderUnknown
from ingest.names import visible
from mcp_gateway.attachments import Attachments, Resource, nothing_more, scheme
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call, Tool

Context = ServerRequestContext[Any]
Handler = Callable[[Context, Any], Awaitable[BaseModel]]
UNLISTED = frozenset(
    ("additionalProperties", "exclusiveMinimum", "maximum", "maxItems", "maxLength", "minimum", "minLength", "pattern")
)
"""Schema keywords that models ignore: violations are reported anyway, and every session pays for listing them. Google's
converter of schemas fails at `additionalProperties: false`."""


def declared(tool: Tool) -> types.Tool:
    """A tool as clients see it. A native one is as brief as possible, because a model reads it in every session."""
    native = tool.arguments is not None
    hints: dict[str, Any] = {"read_only_hint": True} if tool.reads_only else {"destructive_hint": tool.destructive}
    if not native:
        hints = {"title": tool.title, "read_only_hint": tool.reads_only, "destructive_hint": tool.destructive}
        hints["idempotent_hint"] = tool.reads_only  # without the same event_id, a second write is a second event
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=brief(tool.input_schema) if native else tool.input_schema,
        output_schema=None if native else tool.output_schema,
        annotations=types.ToolAnnotations(**hints, open_world_hint=False),
    )


def brief(schema: dict[str, Any]) -> dict[str, Any]:
    """An input schema without limits, its own description, and empty defaults."""

    def shortened(schema: dict[str, Any]) -> dict[str, Any]:
        short = {
            name: value
            for name, value in schema.items()
            if name not in UNLISTED and (name, value) not in (("default", ""), ("required", []))
        }
        if "properties" in short:
            short["properties"] = {name: shortened(part) for name, part in short["properties"].items()}
        if "items" in short:
            short["items"] = shortened(short["items"])
        return short

    return {name: value for name, value in shortened(schema).items() if name != "description"}


def fixed_lists(attachments: Attachments) -> dict[str, BaseModel]:
    """The lists that do not depend on the data, by the method that returns them."""
    templates = [
        types.ResourceTemplate(uri_template=template.uri, **_without_uri(template))
        for template in attachments.templates
    ]
    prompts = [
        types.Prompt(
            name=prompt.name,
            title=prompt.title,
            description=prompt.description,
            arguments=[types.PromptArgument(**argument._asdict()) for argument in prompt.arguments] or None,
        )
        for prompt in attachments.prompts
    ]
    return {
        "resources/list": types.ListResourcesResult(resources=_listed(attachments.resources)),
        "resources/templates/list": types.ListResourceTemplatesResult(resource_templates=templates),
        "prompts/list": types.ListPromptsResult(prompts=prompts),
    }


def register(attachments: Attachments, server: Server[Any], call_for: Callable[[Context], Call]) -> None:
    """Serve a profile's attachments from the projections."""

    async def resources(context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
        call = call_for(context)
        further: Sequence[Resource] = ()
        try:
            if attachments.more is not nothing_more:
                await call.admits()
                further = await attachments.more(call)
        except (AccessDenied, ReaderUnknown):  # without access, only the fixed ones
            pass
        except MnemologError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from None
        return types.ListResourcesResult(resources=_listed([*attachments.resources, *further]))

    async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        if not attachments.resources:
            raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}")
        text = await _text_or_error(call_for(context), lambda call: attachments.resource_text(call, uri), {"uri": uri})
        same_scheme = (resource for resource in attachments.resources if scheme(resource.uri) == scheme(uri))
        mime_type = next((resource.mime_type for resource in same_scheme), None)
        contents = types.TextResourceContents(uri=params.uri, mime_type=mime_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name not in {prompt.name for prompt in attachments.prompts}:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
        arguments = params.arguments or {}
        text = await _text_or_error(
            call_for(context), lambda call: attachments.prompt_text(call, params.name, arguments)
        )
        message = types.PromptMessage(role="user", content=types.TextContent(text=text))
        return types.GetPromptResult(messages=[message])

    fixed = {method: _answering(answer) for method, answer in fixed_lists(attachments).items()}
    handlers: dict[str, Handler] = {
        **fixed, "resources/list": resources, "resources/read": read, "prompts/get": prompt,
    }  # fmt: skip
    for method in _PARAMETERS if attachments.served else ():
        server.add_request_handler(method, _PARAMETERS[method], handlers[method])


_PARAMETERS: dict[str, type[types.RequestParams]] = {
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "prompts/list": types.PaginatedRequestParams,
    "prompts/get": types.GetPromptRequestParams,
}
"""The methods of the protocol, each with its parameters."""


def _listed(resources: Sequence[Resource]) -> list[types.Resource]:
    return [types.Resource(uri=resource.uri, **_without_uri(resource)) for resource in resources]


def _without_uri(resource: Resource) -> dict[str, Any]:
    return {name: value for name, value in resource._asdict().items() if name != "uri"}


def _answering(answer: BaseModel) -> Handler:
    async def answered(context: Context, params: types.RequestParams) -> BaseModel:
        return answer

    return answered


async def _text_or_error(
    call: Call, text: Callable[[Call], Awaitable[str]], about: Mapping[str, str] | None = None
) -> str:
    """The text; an error becomes a protocol error, because a read has no other form of error. `about` goes with the
    error of something that does not exist."""
    try:
        await call.admits()
        return visible(await text(call))
    except NotFound as error:
        raise MCPError(types.INVALID_PARAMS, str(error), about) from None
    except BadArgument as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    except MnemologError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from None
