"""Profiles: the tools, resources and prompts that a kind of client is offered, and how they are declared.

Nothing here loads the index, because the stdio bridge needs a profile without it while the server is down.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from typing import Any, NamedTuple

import mcp.types as types
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from ingest.errors import AccessDenied, CommandRejected, MnemologError, NotFound, ReaderUnknown
from ingest.names import visible
from mcp_gateway.lenient import BadArgument
from mcp_gateway.resources import PROMPTS, RESOURCES, TEMPLATES, contexts, prompt_text, resource_text
from mcp_gateway.tools.files import MEMORY_FILES
from mcp_gateway.tools.reading import CONTEXT, RECALL
from mcp_gateway.tools.tool import Call, Tool
from mcp_gateway.tools.writing import CONFIRM, FORGET, LESSON, OBSERVE, REMEMBER, REVISE, SLOTS

Context = ServerRequestContext[Any]
Handler = Callable[[Context, Any], Awaitable[BaseModel]]


async def _no_text(call: Call, name: str, arguments: Mapping[str, str] | None = None) -> str:
    raise BadArgument(f"there is no {name!r}")


async def _nothing_more(call: Call) -> Sequence[types.Resource]:
    return ()


class Attachments(NamedTuple):
    """A profile's resources, which a client attaches, and prompts, which its user picks. `served`: whether it has any.

    `resource_text` and `prompt_text` return the text; they raise BadArgument, NotFound or MCPError. `more` lists
    resources that depend on the data and the reader; their number is bounded.
    """

    served: bool
    resources: Sequence[types.Resource] = ()
    templates: Sequence[types.ResourceTemplate] = ()
    prompts: Sequence[types.Prompt] = ()
    resource_text: Callable[[Call, str], Awaitable[str]] = _no_text
    prompt_text: Callable[[Call, str, Mapping[str, str]], Awaitable[str]] = _no_text
    more: Callable[[Call], Awaitable[Sequence[types.Resource]]] = _nothing_more

    def register(self, server: Server[Any], call_for: Callable[[Context], Call]) -> None:
        """Serve them from the projections."""

        async def resources(context: Context, params: types.PaginatedRequestParams) -> types.ListResourcesResult:
            call = call_for(context)
            further: Sequence[types.Resource] = ()
            try:
                if self.more is not _nothing_more:
                    await call.admits()
                    further = await self.more(call)
            except (AccessDenied, ReaderUnknown):  # without access, only the fixed ones
                pass
            except MnemologError as error:
                raise MCPError(types.INTERNAL_ERROR, str(error)) from None
            return types.ListResourcesResult(resources=[*self.resources, *further])

        async def read(context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
            if not self.resources:
                raise MCPError(types.INVALID_PARAMS, f"there is no resource {params.uri}")
            text = await _text_or_error(call_for(context), lambda call: self.resource_text(call, str(params.uri)))
            same_scheme = (resource for resource in self.resources if scheme(resource.uri) == scheme(params.uri))
            mime_type = next((resource.mime_type for resource in same_scheme), None)
            contents = types.TextResourceContents(uri=params.uri, mime_type=mime_type, text=text)
            return types.ReadResourceResult(contents=[contents])

        async def prompt(context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
            if params.name not in {prompt.name for prompt in self.prompts}:
                raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")
            arguments = params.arguments or {}
            text = await _text_or_error(call_for(context), lambda call: self.prompt_text(call, params.name, arguments))
            message = types.PromptMessage(role="user", content=types.TextContent(text=text))
            return types.GetPromptResult(messages=[message])

        own = {method: _answering(answer) for method, answer in self.lists().items()}
        self._serve(server, {**own, "resources/list": resources, "resources/read": read, "prompts/get": prompt})

    def lists(self) -> dict[str, BaseModel]:
        """The fixed lists, by the method that returns them."""
        return {
            "resources/list": types.ListResourcesResult(resources=list(self.resources)),
            "resources/templates/list": types.ListResourceTemplatesResult(resource_templates=list(self.templates)),
            "prompts/list": types.ListPromptsResult(prompts=list(self.prompts)),
        }

    def _serve(self, server: Server[Any], handlers: Mapping[str, Handler]) -> None:
        for method in _METHODS if self.served else ():
            server.add_request_handler(method, _METHODS[method][1], handlers[method])


_METHODS: dict[
    str, tuple[Callable[..., types.Request[Any, Any]], type[types.RequestParams], type[BaseModel]]
] = {
    "resources/list": (types.ListResourcesRequest, types.PaginatedRequestParams, types.ListResourcesResult),
    "resources/templates/list": (
        types.ListResourceTemplatesRequest, types.PaginatedRequestParams, types.ListResourceTemplatesResult,
    ),
    "resources/read": (types.ReadResourceRequest, types.ReadResourceRequestParams, types.ReadResourceResult),
    "prompts/list": (types.ListPromptsRequest, types.PaginatedRequestParams, types.ListPromptsResult),
    "prompts/get": (types.GetPromptRequest, types.GetPromptRequestParams, types.GetPromptResult),
}  # fmt: skip
"""The methods of the protocol, each with its request, parameters and result."""
NO_ATTACHMENTS = Attachments(False)


def together(offered: Sequence[Attachments]) -> Attachments:
    """The attachments of several profiles as one: a URI's scheme and a prompt's name determine the profile."""
    served = [attachments for attachments in offered if attachments.served]
    if len(served) < 2:
        return served[0] if served else NO_ATTACHMENTS
    of_scheme = {scheme(resource.uri): profile for profile in served for resource in profile.resources}
    of_prompt = {prompt.name: profile for profile in served for prompt in profile.prompts}

    async def resource_text(call: Call, uri: str) -> str:
        owner = of_scheme.get(scheme(uri))
        if owner is None:
            raise NotFound(f"there is no resource {uri}")
        return await owner.resource_text(call, uri)

    async def prompt_text(call: Call, name: str, arguments: Mapping[str, str]) -> str:
        return await of_prompt[name].prompt_text(call, name, arguments)

    async def more(call: Call) -> Sequence[types.Resource]:
        return [resource for profile in served for resource in await profile.more(call)]

    return Attachments(
        True,
        [resource for profile in served for resource in profile.resources],
        [template for profile in served for template in profile.templates],
        [prompt for profile in served for prompt in profile.prompts],
        resource_text,
        prompt_text,
        more,
    )


def scheme(uri: str) -> str:
    """The part before the first colon."""
    return uri.partition(":")[0]


def _answering(answer: BaseModel) -> Handler:
    async def answered(context: Context, params: types.RequestParams) -> BaseModel:
        return answer

    return answered


async def _text_or_error(call: Call, text: Callable[[Call], Awaitable[str]]) -> str:
    """The text; an error becomes a protocol error, because a read has no other form of error."""
    try:
        await call.admits()
        return visible(await text(call))
    except (BadArgument, NotFound) as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None
    except MnemologError as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from None


NATIVE = (RECALL, REMEMBER, OBSERVE, LESSON, CONTEXT, CONFIRM, REVISE, FORGET, SLOTS)
INSTRUCTIONS = (
    "mnemolog is memory shared by you and other agents. Start with `context` for the project. `recall` before you "
    "assume. `remember` what should last, `observe` what happens, `lesson` what you learned. Pass the same `agent_id` "
    "and `project` every time."
)


def server_version() -> str:
    """The installed release; empty in a source tree."""
    try:
        return version("mnemolog")
    except PackageNotFoundError:
        return ""


LIMITS = frozenset(("maxLength", "minLength", "maxItems", "pattern"))
"""Schema keywords that models ignore: violations are reported anyway, and every session pays for listing them."""


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
    """An input schema without length limits, its own description, and empty defaults."""

    def shortened(schema: dict[str, Any]) -> dict[str, Any]:
        short = {
            name: value for name, value in schema.items() if name not in LIMITS and (name, value) != ("default", "")
        }
        if "properties" in short:
            short["properties"] = {name: shortened(part) for name, part in short["properties"].items()}
        if "items" in short:
            short["items"] = shortened(short["items"])
        return short

    return {name: value for name, value in shortened(schema).items() if name != "description"}


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


NATIVE_ATTACHMENTS = Attachments(True, RESOURCES, TEMPLATES, PROMPTS, resource_text, prompt_text, contexts)
NATIVE_PROFILE = ToolProfile("native", NATIVE, INSTRUCTIONS, attachments=NATIVE_ATTACHMENTS)
FILES_PROFILE = ToolProfile(
    "files",
    (MEMORY_FILES,),
    "View /memories with `memory` before you start: its files are the notes of earlier conversations. Write there what "
    "later conversations need.",
)


class UnknownProfile(CommandRejected):
    """No profile has that name."""

    def __init__(self, name: str, names: Iterable[str]) -> None:
        super().__init__(f"there is no MCP profile {name!r}; profiles: {', '.join((*names, ALL))}", "profile")


class Offer(NamedTuple):
    """What a client of one or more profiles is offered."""

    tools: Mapping[str, Tool]
    declared: list[types.Tool]
    server_name: str
    instructions: str
    answers_for_any_tool: bool
    attachments: Attachments


class ToolProfiles(dict[str, ToolProfile]):
    """The profiles of a server by name, in the order in which they are offered. Tool names are unique across them."""

    def __init__(self, *profiles: ToolProfile | None) -> None:
        super().__init__((profile.name, profile) for profile in profiles if profile is not None)

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
            declared=[declared(tool) for tool in tools.values()],
            server_name=alone.server_name if alone else SERVER_NAME,
            instructions="\n".join(profile.instructions for profile in profiles),
            answers_for_any_tool=alone is not None and alone.answers_for_any_tool,
            attachments=together([profile.attachments for profile in profiles]),
        )

    def every_choice(self) -> Iterable[tuple[str, ...]]:
        """Every combination of profiles."""
        names = tuple(self)
        return (chosen for count in range(1, len(names) + 1) for chosen in combinations(names, count))
