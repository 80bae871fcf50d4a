"""Resources and prompts of several profiles at once, and through a bridge."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mcp.types as types
import pytest
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from ingest.errors import AccessDenied, TooManyRequests
from mcp_gateway.profiles import NO_ATTACHMENTS, Attachments, Unreachable, together
from mcp_gateway.tools.tool import Tool, ToolContext


def attachments(scheme: str, more: Sequence[str] = ()) -> Attachments:
    """Attachments whose texts say whose they are."""

    async def resource_text(call: ToolContext, uri: str) -> str:
        return f"{scheme} reads {uri}"

    async def prompt_text(call: ToolContext, name: str, arguments: Mapping[str, str]) -> str:
        return f"{scheme} prompts {name}"

    async def listed(call: ToolContext) -> Sequence[types.Resource]:
        return [types.Resource(uri=uri, name=uri) for uri in more]

    return Attachments(
        True,
        [types.Resource(uri=f"{scheme}://all", name="all", mime_type=f"text/{scheme}")],
        [types.ResourceTemplate(uri_template=f"{scheme}://{{id}}", name="one")],
        [types.Prompt(name=f"{scheme}-prompt")],
        resource_text,
        prompt_text,
        listed,
    )


def serving(offered: Attachments, call: ToolContext) -> Server[Any]:
    server: Server[Any] = Server("test")
    offered.register(server, lambda context: call)
    return server


def bridging(offered: Attachments, fault: Exception) -> Server[Any]:
    async def ask(request: Any, result: Any) -> Any:
        raise fault

    server: Server[Any] = Server("test")
    offered.forward(server, ask)
    return server


def text_of(read: types.ReadResourceResult) -> tuple[str | None, str]:
    (contents,) = read.contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.mime_type, contents.text


async def test_several_profiles_are_read_by_scheme_and_prompted_by_name(call: ToolContext):
    both = together([NO_ATTACHMENTS, attachments("a", ["a://lately"]), Attachments(True), attachments("b")])
    async with Client(serving(both, call)) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == ["a://all", "b://all", "a://lately"]
        assert len((await client.list_resource_templates()).resource_templates) == 2
        assert [one.name for one in (await client.list_prompts()).prompts] == ["a-prompt", "b-prompt"]
        assert text_of(await client.read_resource("a://1")) == ("text/a", "a reads a://1")
        assert text_of(await client.read_resource("b://1")) == ("text/b", "b reads b://1")
        (message,) = (await client.get_prompt("b-prompt")).messages
        assert message.content == types.TextContent(text="b prompts b-prompt")
        with pytest.raises(MCPError, match="there is no resource c://1") as raised:
            await client.read_resource("c://1")
        assert raised.value.error.code == types.INVALID_PARAMS


def test_one_profile_alone_is_what_it_is():
    alone = attachments("a")
    assert together([alone, NO_ATTACHMENTS]) is alone
    assert together([NO_ATTACHMENTS]) == NO_ATTACHMENTS


async def test_who_may_read_nothing_is_listed_what_everybody_is(call: ToolContext):
    async def admit(tool: Tool | None) -> None:
        raise AccessDenied("this key has no read role")

    async with Client(serving(attachments("a", ["a://lately"]), call._replace(admit=admit))) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == ["a://all"]
        with pytest.raises(MCPError, match="no read role"):
            await client.read_resource("a://1")


async def test_who_asks_too_often_is_told_so_by_the_list(call: ToolContext):
    async def admit(tool: Tool | None) -> None:
        raise TooManyRequests("calls", 10, 3)

    async with Client(serving(attachments("a", ["a://lately"]), call._replace(admit=admit))) as client:
        with pytest.raises(MCPError, match="may send 10 calls a minute"):
            await client.list_resources()


async def test_a_bridge_lists_its_release_while_the_server_is_down_and_says_so_when_read():
    async with Client(bridging(attachments("a"), Unreachable("start the server"))) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == ["a://all"]
        assert [one.name for one in (await client.list_prompts()).prompts] == ["a-prompt"]
        reads: list[Callable[[], Any]] = [lambda: client.read_resource("a://1"), lambda: client.get_prompt("a-prompt")]
        for read in reads:
            with pytest.raises(MCPError, match="start the server"):
                await read()


async def test_a_bridge_to_a_server_that_has_neither_lists_nothing():
    async with Client(bridging(attachments("a"), MCPError(types.METHOD_NOT_FOUND, "no such method"))) as client:
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []
        with pytest.raises(MCPError, match="no such method"):
            await client.read_resource("a://1")
