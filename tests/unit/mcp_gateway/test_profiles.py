import json
from collections.abc import Mapping, Sequence
from inspect import iscoroutinefunction
from itertools import combinations
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import mcp.types as types
import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from api.dialects.profiles import PROFILES
from ingest.errors import AccessDenied, TooManyRequests
from mcp_gateway.attachments import NO_ATTACHMENTS, Attachments, Prompt, Resource, together
from mcp_gateway.declaring import register
from mcp_gateway.profiles import UnknownProfile
from mcp_gateway.tools.tool import Call, Deferred, Tool

DATA = json.loads(Path(__file__).with_name("agentmemory_tools.json").read_text())

AGENTMEMORY = [
    "memory_recall", "memory_save", "memory_sessions", "memory_sessions_list", "memory_smart_search",
    "memory_timeline", "memory_observations", "memory_profile", "memory_lessons", "memory_lesson_save",
    "memory_lesson_recall", "memory_lesson_search", "memory_consolidate", "memory_reflect", "memory_diagnose",
    "memory_forget", "memory_export", "agent_observe", "agent_remember", "memory_antigravity_sync",
    "memory_antigravity_sync_all", "memory_slot_list", "memory_slot_get", "memory_slot_create", "memory_slot_append",
    "memory_slot_replace", "memory_slot_delete", "memory_action_create", "memory_action_update", "memory_frontier",
    "memory_crystallize",
]  # fmt: skip
"""In the order in which agentmemory lists them."""
PLUGIN = ["memory_governance_delete", "memory_lesson_delete", "memory_commits", "memory_commit_lookup"]
"""What its plugin calls besides."""
REQUIRED = DATA["required"]
OPTIONAL = DATA["optional"]
every_agentmemory_tool = pytest.mark.parametrize("tool", PROFILES["agentmemory"].tools, ids=lambda tool: tool.name)


def test_the_usual_profile_is_small_enough_for_every_conversation():
    assert PROFILES.chosen("native") == PROFILES.chosen("") == PROFILES.chosen(" native ,") == ("native",)
    assert len(PROFILES.offer(("native",)).tools) == 10


def test_agentmemory_has_its_31_tools_in_the_order_of_the_contract_and_those_of_its_plugin():
    assert list(PROFILES.offer(("agentmemory",)).tools) == AGENTMEMORY + PLUGIN


@every_agentmemory_tool
def test_a_tool_takes_exactly_what_the_contract_says(tool: Tool):
    schema = tool.input_schema
    Draft202012Validator.check_schema(schema)
    required = REQUIRED.get(tool.name, [])
    assert schema.get("required", []) == required
    assert list(schema["properties"]) == required + OPTIONAL.get(tool.name, [])
    assert not tool.also.keys() & schema["properties"].keys()
    assert tool.output_schema is None
    assert tool.description


@pytest.mark.parametrize("profile", [one for one in PROFILES if one != "native"])
def test_every_tool_of_a_dialect_names_a_function_that_is_there(profile: str):
    for tool in PROFILES[profile].tools:
        assert isinstance(tool.call, Deferred)
        assert iscoroutinefunction(resolve_name(tool.call.name)), tool.name


def test_no_two_profiles_have_a_tool_of_the_same_name():
    for one, other in combinations(PROFILES.values(), 2):
        assert not {tool.name for tool in one.tools} & {tool.name for tool in other.tools}, (one.name, other.name)


def test_several_profiles_are_offered_in_one_order_whatever_order_they_are_asked_for_in():
    everything = [tool.name for profile in PROFILES.values() for tool in profile.tools]
    assert PROFILES.chosen("all") == PROFILES.chosen("memex,agent-memory,inbox,files,agentmemory,native")
    assert list(PROFILES.offer(PROFILES.chosen("all")).tools) == everything
    assert PROFILES.chosen("memex, native") == ("native", "memex")


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(
        UnknownProfile, match="no MCP profile 'mem'; profiles: native, files, inbox, agentmemory, memex, agent-memory"
    ):
        PROFILES.chosen("native,mem")


def test_a_server_goes_by_the_name_that_the_clients_of_its_profile_know():
    names = {chosen: PROFILES.offer(chosen).server_name for chosen in PROFILES.every_choice()}
    assert names.pop(("memex",)) == "memex"
    assert names.pop(("agent-memory",)) == "agent-memory"
    assert set(names.values()) == {"mnemolog"}


def test_resources_and_prompts_are_native_and_memex_has_empty_lists():
    native = PROFILES["native"].attachments
    assert PROFILES.offer(("native", "agentmemory", "agent-memory")).attachments == native
    assert PROFILES.offer(("memex",)).attachments == Attachments(True)
    assert not PROFILES.offer(("agent-memory",)).attachments.served


def attachments(scheme: str, more: Sequence[str] = ()) -> Attachments:
    """Attachments whose texts say whose they are."""

    async def resource_text(call: Call, uri: str) -> str:
        return f"{scheme} reads {uri}"

    async def prompt_text(call: Call, name: str, arguments: Mapping[str, str]) -> str:
        return f"{scheme} prompts {name}"

    async def listed(call: Call) -> Sequence[Resource]:
        return [Resource(uri, uri) for uri in more]

    return Attachments(
        True,
        [Resource(f"{scheme}://all", "all", mime_type=f"text/{scheme}")],
        [Resource(f"{scheme}://{{id}}", "one")],
        [Prompt(f"{scheme}-prompt")],
        resource_text,
        prompt_text,
        listed,
    )


def serving(offered: Attachments, call: Call) -> Server[Any]:
    server: Server[Any] = Server("test")
    register(offered, server, lambda context: call)
    return server


def text_of(read: types.ReadResourceResult) -> tuple[str | None, str]:
    (contents,) = read.contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.mime_type, contents.text


async def test_several_profiles_are_read_by_scheme_and_prompted_by_name(call: Call):
    both = together([NO_ATTACHMENTS, attachments("a", ["a://lately"]), Attachments(True), attachments("b")])
    async with Client(serving(both, call)) as client:
        assert [resource.uri for resource in (await client.list_resources()).resources] == [
            "a://all",
            "b://all",
            "a://lately",
        ]
        assert len((await client.list_resource_templates()).resource_templates) == 2
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["a-prompt", "b-prompt"]
        assert text_of(await client.read_resource("a://1")) == ("text/a", "a reads a://1")
        assert text_of(await client.read_resource("b://1")) == ("text/b", "b reads b://1")
        (message,) = (await client.get_prompt("b-prompt")).messages
        assert message.content == types.TextContent(text="b prompts b-prompt")
        with pytest.raises(MCPError, match="there is no resource c://1") as raised:
            await client.read_resource("c://1")
        assert (raised.value.error.code, raised.value.error.data) == (types.INVALID_PARAMS, {"uri": "c://1"})


def test_one_profile_alone_is_what_it_is():
    alone = attachments("a")
    assert together([alone, NO_ATTACHMENTS]) is alone
    assert together([NO_ATTACHMENTS]) == NO_ATTACHMENTS


async def test_who_may_read_nothing_is_listed_what_everybody_is(call: Call):
    async def admit(tool: Tool | None) -> None:
        raise AccessDenied("this key has no read role")

    async with Client(serving(attachments("a", ["a://lately"]), call._replace(admit=admit))) as client:
        assert [resource.uri for resource in (await client.list_resources()).resources] == ["a://all"]
        with pytest.raises(MCPError, match="no read role"):
            await client.read_resource("a://1")


async def test_who_asks_too_often_is_told_so_by_the_list(call: Call):
    async def admit(tool: Tool | None) -> None:
        raise TooManyRequests("calls", 10, 3)

    async with Client(serving(attachments("a", ["a://lately"]), call._replace(admit=admit))) as client:
        with pytest.raises(MCPError, match="10 calls a minute"):
            await client.list_resources()
