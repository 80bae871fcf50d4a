from inspect import iscoroutinefunction
from itertools import combinations
from pkgutil import resolve_name

import pytest
from jsonschema import Draft202012Validator

from api.dialects.registry import PROFILES
from mcp_gateway.attachments import Attachments
from mcp_gateway.profiles import UnknownProfile
from mcp_gateway.tools.tool import Deferred, Tool

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
REQUIRED = {
    "memory_recall": ["query"],
    "memory_save": ["content"],
    "memory_smart_search": ["query"],
    "memory_timeline": ["anchor"],
    "memory_observations": ["sessionId"],
    "memory_profile": ["project"],
    "memory_lesson_save": ["content"],
    "memory_lesson_recall": ["query"],
    "memory_lesson_search": ["query"],
    "memory_reflect": ["sessionId"],
    "agent_observe": ["sessionId", "project"],
    "agent_remember": ["content", "project"],
    "memory_antigravity_sync": ["mode"],
    "memory_antigravity_sync_all": ["mode"],
    "memory_slot_get": ["label"],
    "memory_slot_create": ["label"],
    "memory_slot_append": ["label", "text"],
    "memory_slot_replace": ["label", "content"],
    "memory_slot_delete": ["label"],
    "memory_action_create": ["title"],
    "memory_action_update": ["actionId"],
    "memory_crystallize": ["sessionId"],
    "memory_governance_delete": ["memoryIds"],
    "memory_lesson_delete": ["lessonId"],
    "memory_commit_lookup": ["sha"],
}
OPTIONAL = {
    "memory_recall": ["limit"],
    "memory_save": ["type", "concepts", "files", "project"],
    "memory_smart_search": ["limit"],
    "memory_timeline": ["project", "sessionId"],
    "memory_lessons": ["project", "minConfidence", "limit"],
    "memory_lesson_save": ["context", "project"],
    "memory_lesson_recall": ["project"],
    "memory_lesson_search": ["project"],
    "memory_reflect": ["maxObservations"],
    "memory_forget": ["memoryId", "sessionId", "observationIds"],
    "agent_observe": ["text", "content", "type", "title", "cwd", "agentId"],
    "agent_remember": ["type", "concepts", "files", "agentId"],
    "memory_antigravity_sync": ["currentConversationId", "currentFolder"],
    "memory_antigravity_sync_all": ["currentConversationId", "currentFolder"],
    "memory_slot_create": ["content", "scope", "sizeLimit", "pinned"],
    "memory_action_create": ["description", "priority", "status", "tags", "sessionId"],
    "memory_governance_delete": ["reason"],
    "memory_commits": ["branch", "repo", "limit"],
    "memory_action_update": ["title", "description", "priority", "status", "tags", "sessionId"],
}
every_agentmemory_tool = pytest.mark.parametrize("tool", PROFILES["agentmemory"].tools, ids=lambda tool: tool.name)


def test_the_usual_profile_is_small_enough_for_every_conversation():
    assert PROFILES.chosen("native") == PROFILES.chosen("") == PROFILES.chosen(" native ,") == ("native",)
    assert len(PROFILES.offer(("native",)).tools) == 9


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
    assert PROFILES.chosen("all") == PROFILES.chosen("memex,agent-memory,agentmemory,native")
    assert list(PROFILES.offer(PROFILES.chosen("all")).tools) == everything
    assert PROFILES.chosen("memex, native") == ("native", "memex")


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(
        UnknownProfile, match="no MCP profile 'mem'; there are: native, agentmemory, memex, agent-memory"
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
