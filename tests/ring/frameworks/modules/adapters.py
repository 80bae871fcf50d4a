"""The modules for agent frameworks, driven through the real frameworks. `test_frameworks.py` runs this file."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from agents import TResponseInputItem
from google.adk.events import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai.types import Content, Part
from langgraph.store.base import PutOp, SearchItem
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import Memory
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from mnemolog_client import AsyncMnemolog, Mnemolog, NotFound
from mnemolog_client.google_adk import MnemologMemoryService
from mnemolog_client.langgraph import MnemologStore
from mnemolog_client.llama_index import MnemologBlock
from mnemolog_client.openai_agents import MemorySession
from mnemolog_client.pydantic_ai import MemoryToolset


@pytest.fixture
def project() -> str:
    return f"frameworks-{uuid4().hex[:12]}"


@pytest.fixture
async def client() -> AsyncIterator[AsyncMnemolog]:
    async with AsyncMnemolog(agent="ada") as opened:
        yield opened


# LangGraph

ADA, BOB, TEAM = ("users", "ada"), ("users", "bob"), ("teams", "red")


@pytest.fixture
def store(project: str) -> Iterator[MnemologStore]:
    """A store with an item in each of three namespaces."""
    with Mnemolog(agent="ada") as opened:
        made = MnemologStore(opened, project)
        made.put(ADA, "food", {"likes": "green tea", "rank": 1, "at": {"city": "Rome"}})
        made.put(BOB, "food", {"likes": "black coffee", "rank": 2})
        made.put(TEAM, "the", {"likes": "water"})
        yield made


def test_a_store_gets_what_was_put_and_the_newest_of_it(store: MnemologStore):
    food, other, missing = store.get(ADA, "food"), store.get(TEAM, "the"), store.get(ADA, "the")
    assert food is not None
    assert (food.value["likes"], food.key, food.namespace) == ("green tea", "food", ADA)
    assert (other and other.value, missing) == ({"likes": "water"}, None)
    store.put(ADA, "food", {"likes": "milk"})
    changed = store.get(ADA, "food")
    assert changed is not None
    assert changed.value == {"likes": "milk"}
    assert changed.updated_at >= food.updated_at
    other = store.get(BOB, "food")
    assert other is not None
    assert other.value["likes"] == "black coffee"


def test_a_slash_in_a_key_or_a_namespace_confuses_no_items(store: MnemologStore):
    store.put(("users",), "ada/food", {"likes": "nothing"})
    store.put(("users/ada",), "food", {"likes": "everything"})
    items = [store.get(ADA, "food"), store.get(("users",), "ada/food"), store.get(("users/ada",), "food")]
    assert [item.value["likes"] for item in items if item] == ["green tea", "nothing", "everything"]


def test_a_store_forgets_what_was_deleted(store: MnemologStore):
    store.put(ADA, "food", {"likes": "milk"})
    store.delete(ADA, "food")
    store.delete(ADA, "nothing")
    assert store.get(ADA, "food") is None
    assert store.get(BOB, "food") is not None


class Loading(httpx.HTTPTransport):
    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)  # without what was found, as while the index is loading
        if request.url.path == "/v1/recall":
            answer = httpx.Response(200, json=json.loads(answer.read()) | {"results": [], "degraded": ["loading"]})
        return answer


@pytest.mark.parametrize("transport", [httpx.HTTPTransport, Loading])
def test_a_key_is_of_one_item_although_two_were_put_at_the_same_moment(project: str, transport: Any):
    with Mnemolog(agent="ada", transport=transport()) as client:
        store = MnemologStore(client, project)
        for likes in ("tea", "milk"):
            store.put(ADA, "food", {"likes": likes})
        (memory,) = client.memories.list(project, latest=True)
        fields: Any = {"project": project, "tags": memory.tags, "metadata": memory.metadata}
        client.memories.create('{"likes": "wine"}', **fields)
        assert [item.value for item in [store.get(ADA, "food")] if item] == [{"likes": "wine"}]
        store.delete(ADA, "food")
        assert list(client.memories.list(project)) == []


def test_a_search_of_a_store_warns_that_items_may_be_missing(project: str, caplog: pytest.LogCaptureFixture):
    with Mnemolog(agent="ada", transport=Loading()) as client:
        store = MnemologStore(client, project)
        store.put(ADA, "food", {"likes": "tea"})
        assert store.get(ADA, "food") is not None
        assert caplog.messages == []
        assert store.search(("users",), query="who drinks tea?") == []
    assert caplog.messages == ["results of a recall may be incomplete: loading"]


async def test_a_store_searches_below_a_namespace(store: MnemologStore):
    by_meaning = await store.asearch(("users",), query="who drinks coffee?")
    assert by_meaning[0].namespace == BOB
    assert by_meaning[0].score is not None
    assert {item.namespace for item in by_meaning} <= {ADA, BOB}
    assert len(await store.asearch((), limit=1, offset=2)) == 1


@pytest.mark.parametrize(
    ("rule", "expected"),
    [({"rank": 1}, [ADA]), ({"rank": {"$gt": 1}}, [BOB]), ({"rank": {"$gte": 1, "$lt": 3}}, [ADA, BOB]),
     ({"rank": {"$ne": 2}}, [ADA]), ({"at": {"city": "Rome"}}, [ADA]), ({"at": {"city": "Oslo"}}, [])],
)  # fmt: skip
def test_a_search_may_be_filtered(store: MnemologStore, rule: dict[str, Any], expected: list[tuple[str, ...]]):
    assert sorted(item.namespace for item in store.search(("users",), filter=rule)) == expected


def test_a_store_lists_its_namespaces(store: MnemologStore):
    assert store.list_namespaces() == [TEAM, ADA, BOB]
    assert store.list_namespaces(prefix=("users", "*")) == [ADA, BOB]
    assert store.list_namespaces(suffix=("red",)) == [TEAM]
    assert store.list_namespaces(max_depth=1) == [("teams",), ("users",)]


async def test_operations_of_a_batch_see_what_those_before_them_did(store: MnemologStore):
    from langgraph.store.base import GetOp

    done = await store.abatch([PutOp(ADA, "x", {"n": 1}), GetOp(ADA, "x"), PutOp(ADA, "x", None), GetOp(ADA, "x")])
    assert [isinstance(one, SearchItem) for one in done] == [False, True, False, False]


# OpenAI Agents SDK

USER: TResponseInputItem = {"role": "user", "content": "What is the weather in Zürich? 🌧"}
CALL: TResponseInputItem = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"Z"}'}
OUTPUT: TResponseInputItem = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
SAID: TResponseInputItem = {
    "type": "message", "id": "m1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "It rains.", "annotations": []}],
}  # fmt: skip


async def test_a_session_returns_its_items_as_they_were_added(client: AsyncMnemolog, project: str):
    session = MemorySession("s1", client, project)
    assert await session.get_items() == []
    await session.add_items([])
    await session.add_items([USER, CALL])
    await session.add_items([OUTPUT, SAID])
    assert await session.get_items() == [USER, CALL, OUTPUT, SAID]
    assert await session.get_items(limit=2) == [OUTPUT, SAID]
    assert await MemorySession("s2", client, project).get_items() == []
    found = await client.search("what is the weather in Zürich?", project=project)
    assert any("weather in Zürich" in one.content for one in found)


async def test_an_item_that_is_taken_back_is_gone(client: AsyncMnemolog, project: str):
    session = MemorySession("s1", client, project)
    assert await session.pop_item() is None
    await session.add_items([USER, SAID])
    assert await session.pop_item() == SAID
    assert await session.get_items() == [USER]


async def test_a_session_that_is_cleared_starts_over(client: AsyncMnemolog, project: str):
    session = MemorySession("s1", client, project)
    await session.clear_session()
    await session.add_items([USER, SAID])
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items([USER])
    assert await session.get_items() == [USER]


# Pydantic AI


async def test_a_toolset_offers_four_tools_with_described_parameters(client: AsyncMnemolog, project: str):
    model = TestModel(call_tools=[])
    await Agent(model, toolsets=[MemoryToolset(client, project)]).run("hello")
    assert model.last_model_request_parameters is not None
    tools = {tool.name: tool for tool in model.last_model_request_parameters.function_tools}
    assert list(tools) == ["recall", "remember", "revise", "forget"]
    for tool in tools.values():
        assert tool.description
        assert all(one["description"] for one in tool.parameters_json_schema["properties"].values())


async def test_a_toolset_revises_and_forgets(client: AsyncMnemolog, project: str):
    memory = MemoryToolset(client, project, user_id="bob")
    assert await memory.recall("where does Bob live?") == "Nothing is recorded about this."
    stored = (await memory.remember("Bob lives in Rome.", tags=["home"])).removesuffix(".").split()[-1]
    revised = (await memory.revise(stored, "Bob lives in Oslo.")).removesuffix(".").split()[-1]
    assert "Oslo" in await memory.recall("where does Bob live?")
    assert "Oslo" not in await MemoryToolset(client, project, user_id="eve").recall("where does Bob live?")
    await memory.forget(revised)
    with pytest.raises(NotFound):
        await client.memories.get(revised)


async def test_a_model_that_names_an_unknown_memory_reads_why_that_failed(client: AsyncMnemolog, project: str):
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        newest = messages[-1].parts[-1]
        if isinstance(newest, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"{newest.outcome}: {newest.content}")])
        return ModelResponse(parts=[ToolCallPart("forget", {"id": "mem_0"})])

    result = await Agent(FunctionModel(model), toolsets=[MemoryToolset(client, project)]).run("forget it")
    assert result.output == "failed: not_found: there is no document 'mem_0'"


# LlamaIndex


async def test_messages_that_leave_the_short_term_memory_are_recalled_later(client: AsyncMnemolog, project: str):
    block = MnemologBlock(client=client, project=project)
    memory = Memory.from_defaults(session_id="s1", memory_blocks=[block], token_limit=60, token_flush_size=20)
    await memory.aput(ChatMessage(role="user", content="The staging database is reset every night at two."))
    for n in range(6):
        for role in ("assistant", "user"):
            await memory.aput(ChatMessage(role=role, content=f"Here is another long sentence, with number {n}."))
    seen = [one.content async for one in client.sessions.observations("s1", project=project)]
    assert seen[0] == "user: The staging database is reset every night at two."
    found = await block.aget([ChatMessage(role="user", content="when is the staging database reset?")])
    assert "reset every night at two" in found
    assert await block.aget([]) == ""


async def test_a_block_is_cut_to_whole_results(client: AsyncMnemolog, project: str):
    block = MnemologBlock(client=client, project=project)
    assert await block.atruncate("- first result\n- second result", 3) == "- first result"
    assert await block.atruncate("- first result\n- second result", 9) is None


# Google ADK


def said(text: str, author: str = "user") -> Event:
    return Event(author=author, content=Content(role="user", parts=[Part(text=text)]), invocation_id="i")


async def test_a_session_that_is_added_twice_is_remembered_once(client: AsyncMnemolog, project: str):
    service = MnemologMemoryService(client)
    events = [said("My sister lives in Lisbon."), Event(author="ada"), said("Noted.", "ada")]
    session = Session(id="s1", app_name=project, user_id="bob", events=events)
    await service.add_session_to_memory(session)
    session.events.append(said("She moved to Porto."))
    await service.add_session_to_memory(session)
    seen = [(one.agent_id, one.content) async for one in client.sessions.observations("s1", project=project)]
    assert seen == [("user", "My sister lives in Lisbon."), ("ada", "Noted."), ("user", "She moved to Porto.")]


async def test_a_search_finds_events_and_memories_of_one_user(client: AsyncMnemolog, project: str):
    service = MnemologMemoryService(client)
    bob = {"app_name": project, "user_id": "bob"}
    await service.add_events_to_memory(
        app_name=project, user_id="bob", events=[said("I drink green tea.")], session_id="s1"
    )
    fact = MemoryEntry(content=Content(parts=[Part(text="Bob drinks tea at four.")]), custom_metadata={"source": 1})
    await service.add_memory(app_name=project, user_id="bob", memories=[fact])
    found = (await service.search_memory(**bob, query="who drinks tea?")).memories
    texts = {entry.content.parts[0].text: entry for entry in found if entry.content.parts}
    assert set(texts) == {"I drink green tea.", "Bob drinks tea at four."}
    assert texts["I drink green tea."].author == "user"
    assert (await service.search_memory(app_name=project, user_id="eve", query="who drinks tea?")).memories == []
    for entry in found:
        await service.delete_memory(**bob, memory_id=entry.id)
    assert (await service.search_memory(**bob, query="who drinks tea?")).memories == []
