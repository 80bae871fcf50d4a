"""What a profile offers besides tools: resources, which a client attaches, and prompts, which its user picks."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from ingest.errors import NotFound
from mcp_gateway.lenient import BadArgument
from mcp_gateway.tools.tool import Call


class Resource(NamedTuple):
    """A resource that clients list. `uri` is the address, or its RFC 6570 template."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class PromptArgument(NamedTuple):
    """An argument of a prompt."""

    name: str
    description: str
    required: bool


class Prompt(NamedTuple):
    """A prompt and its arguments."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: Sequence[PromptArgument] = ()


async def _no_text(call: Call, name: str, arguments: Mapping[str, str] | None = None) -> str:
    raise BadArgument(f"there is no {name!r}")


async def nothing_more(call: Call) -> Sequence[Resource]:
    """No resources that depend on the data."""
    return ()


class Attachments(NamedTuple):
    """The resources and prompts of a profile. `served`: whether it has any.

    `resource_text` and `prompt_text` return the text; they raise BadArgument or NotFound. `more` lists resources that
    depend on the data and the reader; their number is bounded.
    """

    served: bool
    resources: Sequence[Resource] = ()
    templates: Sequence[Resource] = ()
    prompts: Sequence[Prompt] = ()
    resource_text: Callable[[Call, str], Awaitable[str]] = _no_text
    prompt_text: Callable[[Call, str, Mapping[str, str]], Awaitable[str]] = _no_text
    more: Callable[[Call], Awaitable[Sequence[Resource]]] = nothing_more


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

    async def more(call: Call) -> Sequence[Resource]:
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
