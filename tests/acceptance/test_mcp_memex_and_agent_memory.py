"""memex's and agent-memory's tools as their clients call them: the official SDK against a running server."""

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import httpx2
import mcp.types as types
import pytest
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from waiting import wait_until

from ingest.commands.handler import CommandHandler
from ingest.log.group_commit import GroupCommit
from ingest.log.partitions import partition_of, project_route
from ingest.log.position import Token
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import connect
from projections.operations import Condensing, Current
from projections.queries.documents import DocumentReader
from tests.acceptance.running import Server

ToolContext = Callable[[], AbstractAsyncContextManager[Client]]
STORED = re.compile(r"Stored memory (\S+) \(type=(\w+), importance=([0-9.]+)\)")
HIT = re.compile(r"^(\d+)\. \[(\w+)\] score=(-?\d+\.\d{4})  id=(\S+)$", re.MULTILINE)


@asynccontextmanager
async def connected(server: Server, profile: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {server.secret}"}, timeout=30) as http,
        Client(streamable_http_client(f"{server.url}/mcp?profile={profile}", http_client=http)) as client,
    ):
        yield client


@pytest.fixture
def memex(server: Server) -> ToolContext:
    return lambda: connected(server, "memex")


@pytest.fixture
def agent_memory(server: Server) -> ToolContext:
    return lambda: connected(server, "agent-memory")


@pytest.fixture
def agent() -> str:
    """An agent that no other test knows."""
    return f"agent-{uuid4().hex[:12]}"


def text(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def answered(client: Client, name: str, **arguments: Any) -> str:
    """The text of an answer that is no error."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text(result)
    return text(result)


async def refused(client: Client, name: str, **arguments: Any) -> str:
    """The text of an answer that is an error."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, text(result)
    return text(result)


# memex


async def store(client: Client, agent: str, content: str, user: str = "grace", **more: Any) -> str:
    """Store a memory; returns its UUID."""
    said = STORED.fullmatch(
        await answered(client, "store_memory", agent_id=agent, user_id=user, content=content, **more)
    )
    assert said
    return said.group(1)


async def search(client: Client, agent: str, query: str, user: str = "grace", **more: Any) -> list[str]:
    """The ids that a search finds, best first."""
    found = await answered(client, "search_memories", agent_id=agent, user_id=user, query=query, **more)
    return [hit[3] for hit in HIT.findall(found)]


async def count(client: Client, agent: str, user: str = "grace") -> int:
    """How many memories there are of the pair."""
    said = re.fullmatch(
        rf"Agent '{agent}' has (\d+) memor(?:y|ies) for user '{user}'\.",
        await answered(client, "count_memories", agent_id=agent, user_id=user),
    )
    assert said
    return int(said.group(1))


async def test_memex_has_its_four_tools_and_its_name(memex: ToolContext):
    async with memex() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["store_memory", "search_memories", "delete_memory", "count_memories"]
        for tool in tools:
            assert list((tool.output_schema or {})["properties"]) == ["result"]
        assert client.server_info is not None
        assert client.server_info.name == "memex"


async def test_memex_answers_its_text_twice(memex: ToolContext, agent: str):
    async with memex() as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        result = await client.call_tool("count_memories", {"agent_id": agent, "user_id": "grace"})
        Draft202012Validator(schemas["count_memories"] or {}).validate(result.structured_content)
        assert result.structured_content == {"result": text(result)}


async def test_what_memex_stored_is_found_and_counted_at_once(memex: ToolContext, agent: str):
    async with memex() as client:
        stored = [await store(client, agent, f"Grace drinks {drink} at breakfast.") for drink in ("tea", "coffee")]
        assert all(UUID(one).version == 4 for one in stored)
        said = await answered(
            client, "search_memories", agent_id=agent, user_id="grace", query="does Grace drink coffee?"
        )
        assert said.splitlines()[0] == "Found 2 memories for query: does Grace drink coffee?"
        assert [hit[0] for hit in HIT.findall(said)] == ["1", "2"]
        assert {hit[3] for hit in HIT.findall(said)} == set(stored)
        assert "\n   Grace drinks coffee at breakfast." in said
        assert await count(client, agent) == 2


async def test_memex_keeps_duplicates(memex: ToolContext, agent: str):
    async with memex() as client:
        first, second = [await store(client, agent, "Grace likes tea.") for _ in range(2)]
        assert first != second
        assert set(await search(client, agent, "tea")) == {first, second}
        assert await count(client, agent) == 2


async def test_memex_finds_only_what_agent_and_user_share(memex: ToolContext, agent: str):
    async with memex() as client:
        mine = await store(client, agent, "Tea with lemon.")
        await store(client, agent, "Tea with milk.", user="ada")
        await store(client, f"{agent}-other", "Tea with sugar.")
        assert await search(client, agent, "tea") == [mine]
        assert await count(client, agent) == 1
        assert await search(client, agent, "tea", user="nobody") == []
        assert await count(client, agent, "nobody") == 0


async def test_memex_narrows_by_type_and_clamps_its_numbers(memex: ToolContext, agent: str):
    async with memex() as client:
        fact = await store(client, agent, "Tea grows in Assam.", memory_type="semantic")
        event = await store(client, agent, "We had tea in Assam.")
        assert await search(client, agent, "tea", memory_type="semantic") == [fact]
        assert await search(client, agent, "tea", memory_type="procedural") == []
        assert len(await search(client, agent, "tea", top_k=0)) == 1
        assert set(await search(client, agent, "tea", top_k=1000, alpha=7)) == {fact, event}
        for given, kept in ((-3, "0.0"), (1.37, "1.37"), (9, "2.0")):
            said = await answered(
                client, "store_memory", agent_id=agent, user_id="grace", content="x", importance=given
            )
            assert said.endswith(f"(type=episodic, importance={kept})")


async def test_memex_orders_by_age_alone_when_alpha_is_0(memex: ToolContext, agent: str):
    async with memex() as client:
        old = await store(client, agent, "The kettle is red.")
        new = await store(client, agent, "Grace likes oolong tea.")
        assert await search(client, agent, "which colour is the kettle?", alpha=0.0) == [new, old]


async def test_memex_deletes_for_good_by_agent_alone(memex: ToolContext, agent: str):
    async with memex() as client:
        of_grace, of_ada = await store(client, agent, "Tea."), await store(client, agent, "Coffee.", user="ada")
        theirs = await answered(client, "delete_memory", agent_id=f"{agent}-other", memory_id=of_grace)
        assert theirs == f"Memory {of_grace} was not found, or does not belong to this agent."
        assert await count(client, agent) == 1
        for memory, user in ((of_grace, "grace"), (of_ada, "ada")):
            assert await answered(client, "delete_memory", agent_id=agent, memory_id=memory.upper()) == (
                f"Deleted memory {memory}."
            )
            assert await search(client, agent, "tea or coffee", user=user) == []
            assert await count(client, agent, user) == 0
            assert "not found" in await answered(client, "delete_memory", agent_id=agent, memory_id=memory)


async def test_deleting_a_summary_deletes_what_it_stands_for(memex: ToolContext, server: Server, agent: str):
    """Its originals are gone from search, count and delete as soon as they are condensed."""
    async with memex() as client:
        originals = [
            await store(client, agent, f"On day {n} Grace walked {n + 2} miles by the river.") for n in range(4)
        ]
        later = await store(client, agent, "On day 9 Grace stayed at home.")
        assert await count(client, agent) == 5
        assert await condensed(server, agent, 4) == 4
        found = await answered(client, "search_memories", agent_id=agent, user_id="grace", query="river walks")
        assert "   [Summary of 4 memories] On day" in found
        kinds = {hit[3]: hit[1] for hit in HIT.findall(found)}
        (summary,) = set(kinds) - {later}
        assert kinds[summary] == "semantic"
        assert await count(client, agent) == 2
        for original in originals:
            assert "not found" in await answered(client, "delete_memory", agent_id=agent, memory_id=original)
        assert "Deleted" in await answered(client, "delete_memory", agent_id=agent, memory_id=summary)
        assert await search(client, agent, "river walks") == [later]
        assert await count(client, agent) == 1


async def condensed(server: Server, agent: str, batch: int) -> int:
    """Do what a worker does every five minutes, with other bounds; how many were condensed, and searchable."""
    redis = connect(server.redis_url)
    log = RedisLog(redis, server.supervisor.settings.partitions)
    writes = GroupCommit(log)
    commands, documents = CommandHandler(writes, log.partitions), DocumentReader(redis, log.partitions)

    async def wait(token: Token) -> None:
        async with server.client() as http:
            answer = await http.post("/v1/recall", json={"query": "river", "after": str(token), "project": "memex"})
            assert answer.status_code == 200, answer.text

    current = Current(commands, documents, log, wait)
    home = partition_of(project_route("default", "memex"), log.partitions)
    try:
        await current.settle()
        count = await Condensing(current, None).condense_pair(home, "default", agent, "grace", threshold=4, batch=batch)
        await current.settle()
        return count
    finally:
        await writes.aclose()
        await redis.aclose()


async def test_memex_does_not_touch_what_was_remembered_elsewhere(
    memex: ToolContext, client: httpx.AsyncClient, agent: str, project: str
):
    """A UUID can be made of any memory's id; only memex's own are there for memex."""
    remembered = await client.post(
        "/v1/memories", json={"content": "Native.", "agent_id": agent, "user_id": "grace", "project": project}
    )
    digits = remembered.json()["id"].removeprefix("mem_")
    made = f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-6d656d6578{digits[18:]}"
    async with memex() as mcp:
        assert "not found" in await answered(mcp, "delete_memory", agent_id=agent, memory_id=made)
        assert await count(mcp, agent) == 0
    found = await client.get(f"/v1/memories/{remembered.json()['id']}")
    assert found.status_code == 200


@pytest.mark.parametrize("memory", [str(uuid4()), str(UUID(int=0))], ids=["random", "nil"])
async def test_memex_deletes_no_unknown_memory(memex: ToolContext, agent: str, memory: str):
    async with memex() as client:
        assert "was not found" in await answered(client, "delete_memory", agent_id=agent, memory_id=memory)


async def test_memex_says_what_is_no_uuid(memex: ToolContext, agent: str):
    async with memex() as client:
        assert "not a valid UUID" in await answered(client, "delete_memory", agent_id=agent, memory_id="mem_17")


@pytest.mark.parametrize(
    ("name", "arguments"), [("store_memory", {"content": "x"}), ("search_memories", {"query": "x"})]
)
async def test_memex_tells_of_a_bad_type_without_an_error(
    memex: ToolContext, agent: str, name: str, arguments: dict[str, Any]
):
    async with memex() as client:
        said = await answered(client, name, agent_id=agent, user_id="grace", memory_type="poem", **arguments)
        assert said == "Invalid memory_type 'poem'. Must be one of: episodic, semantic, procedural."
        assert await count(client, agent) == 0


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("store_memory", {"agent_id": "a", "user_id": "u"}, "content"),
        ("store_memory", {"agent_id": "a", "user_id": "u", "content": ""}, "content"),
        ("store_memory", {"agent_id": "a", "user_id": "u", "content": "x" * 8001}, "content"),
        ("store_memory", {"agent_id": "a", "user_id": "u", "content": "x", "importance": "much"}, "importance"),
        ("store_memory", {"agent_id": "", "user_id": "u", "content": "x"}, "agent_id"),
        ("search_memories", {"agent_id": "a", "user_id": "", "query": "x"}, "user_id"),
        ("search_memories", {"agent_id": "a", "user_id": "u", "query": "x", "top_k": "many"}, "top_k"),
        ("search_memories", {"agent_id": "a", "user_id": "u", "query": ""}, "query"),
        ("delete_memory", {"agent_id": "a"}, "memory_id"),
        ("delete_memory", {"agent_id": "a", "memory_id": 17}, "memory_id"),
        ("count_memories", {"agent_id": "a"}, "user_id"),
    ],
)
async def test_memex_flags_a_bad_argument(memex: ToolContext, name: str, arguments: dict[str, Any], told: str):
    async with memex() as client:
        said = await refused(client, name, **arguments)
        assert "validation error" in said
        assert told in said


# agent-memory


def leading(said: str) -> Any:
    """The JSON that a text begins with."""
    return json.JSONDecoder().raw_decode(said)[0]


async def save(client: Client, project: str, said: str, title: str = "") -> int:
    """Save a memory; returns its number."""
    more = {"title": title} if title else {}
    saved = json.loads(await answered(client, "save_memory", text=said, project=project, **more))
    assert saved == {"saved": True, "id": saved["id"], "title": title or said[:80]}
    return saved["id"]


async def find(client: Client, query: str, **more: Any) -> list[dict[str, Any]]:
    """What `search` finds."""
    said = await answered(client, "search", query=query, **more)
    assert re.search(r"\]\n\n---\n.*user", said)
    return leading(said)


async def test_agent_memory_has_its_seven_tools_and_its_name(agent_memory: ToolContext):
    async with agent_memory() as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == [
            "memory_search_guide", "search", "timeline", "get_observations", "save_memory", "create_lesson",
            "search_lessons",
        ]  # fmt: skip
        assert [tool.output_schema for tool in tools] == [None] * 7
        assert client.server_info is not None
        assert client.server_info.name == "agent-memory"


async def test_the_guide_names_the_steps_in_order(agent_memory: ToolContext):
    async with agent_memory() as client:
        said = await answered(client, "memory_search_guide")
        assert said.index("search(") < said.index("timeline(") < said.index("get_observations(")


async def test_a_saved_memory_is_found_at_once_and_read_in_full(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        said = f"The {project} pool has twenty places. " + "Each of them is given back by the handler. " * 3
        number = await save(client, project, said)
        (line,) = await find(client, "how many places has the pool?", project=project)
        assert list(line) == ["id", "title", "type", "project", "created_at", "score"]
        assert (line["id"], line["title"], line["type"]) == (number, said[:80], "discovery")
        assert line["project"] == project
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["created_at"])
        assert line["score"] in (0.0333, 0.0667)  # top of one list, or of both once it is embedded
        full = await answered(client, "get_observations", ids=[number])
        assert leading(full) == [
            {
                "id": number,
                "title": said[:80],
                "subtitle": None,
                "type": "discovery",
                "narrative": said,
                "facts": [],
                "concepts": [],
                "files_read": [],
                "files_modified": [],
                "project": project,
                "tool_name": None,
                "created_at": line["created_at"],
            }
        ]


async def test_a_memory_without_a_project_is_manual(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        saved = json.loads(await answered(client, "save_memory", text=f"No project for {project}."))
        (one,) = leading(await answered(client, "get_observations", ids=[saved["id"]]))
        assert one["project"] == "manual"


async def test_manual_memories_share_a_session_of_their_own_type(
    agent_memory: ToolContext, client: httpx.AsyncClient, project: str
):
    async with agent_memory() as mcp:
        for n in range(2):
            await save(mcp, project, f"Number {n}.")
        assert len(await find(mcp, "number", project=project)) == 2
    session = await client.get("/v1/sessions/manual-memories", params={"project": project})
    told = session.json()
    assert (told["agent_type"], told["observation_count"]) == ("manual", 2)


async def test_a_search_takes_type_project_and_dates(
    agent_memory: ToolContext, client: httpx.AsyncClient, project: str
):
    day = datetime(2025, 3, 14, 15, 0, tzinfo=UTC)
    for n, kind in enumerate(("bugfix", "file_edit", "decision")):
        await client.post(
            "/v1/observations",
            json={
                "project": project,
                "session_id": f"{project}-s",
                "kind": kind,
                "content": f"The parser of release {n} was changed.",
                "occurred_at": (day + timedelta(days=n)).isoformat(),
            },
        )
    async with agent_memory() as mcp:
        await save(mcp, project, "The parser is written by hand.")

        async def types_of(**more: Any) -> list[str]:
            return sorted(one["type"] for one in await find(mcp, "parser", project=project, **more))

        await until_found(mcp, project, 4)
        assert await types_of() == ["bugfix", "change", "decision", "discovery"]
        assert await types_of(type="bugfix") == ["bugfix"]
        assert await types_of(obs_type="change") == ["change"]
        assert await types_of(type="gotcha") == []
        assert await types_of(dateStart="2025-03-15", dateEnd="2025-03-15") == ["change"]
        assert await types_of(dateStart="2025-03-14T15:00:00Z", dateEnd="2025-03-14") == ["bugfix"]
        assert await types_of(dateStart="2025-03-14T15:00:01Z", dateEnd="2025-03-16T15:00:00Z") == [
            "change",
            "decision",
        ]
        assert await types_of(dateEnd="2025-03-13") == []
        assert await find(mcp, "parser", project=f"{project}-other") == []
        assert len(await find(mcp, "parser", project=project, limit=1)) == 1
        assert len(await find(mcp, "parser", project=project, limit=1000, offset=3)) == 1


async def until_found(client: Client, project: str, count: int, **more: Any) -> None:
    """Wait until what another door wrote is searchable."""

    async def found() -> bool:
        return len(await find(client, "parser", project=project, **more)) == count

    await wait_until(found)


async def test_a_search_is_capped_at_50(agent_memory: ToolContext, client: httpx.AsyncClient, project: str):
    said = [
        {"type": "observe", "project": project, "session_id": project, "content": f"The parser met token {n}."}
        for n in range(60)
    ]
    answer = await client.post("/v1/events", json=said)
    assert answer.json()["accepted"] == 60
    async with agent_memory() as mcp:
        await until_found(mcp, project, 50, limit=1000)
        found = await find(mcp, "parser token", project=project, limit=1000)
        assert len(found) == 50
        assert len({one["id"] for one in found}) == 50


async def test_ids_are_small_integers_that_stay(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        first, second = await save(client, project, "One."), await save(client, project, "Two.")
        assert 0 < first < second
        assert {one["id"] for one in await find(client, "One. Two.", project=project)} == {first, second}


async def test_observations_come_oldest_first_and_unknown_ids_are_left_out(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        numbers = [await save(client, project, f"Step {n}.") for n in range(3)]
        said = await answered(client, "get_observations", ids=[numbers[2], 10**9, numbers[0], -1, numbers[0]])
        assert [one["id"] for one in leading(said)] == [numbers[0], numbers[2]]
        assert "\n\n---\n" in said
        newest_first = await answered(client, "get_observations", ids=numbers, orderBy="date_desc", limit=2)
        assert [one["id"] for one in leading(newest_first)] == [numbers[2], numbers[1]]
        assert await answered(client, "get_observations", ids=[]) == "[]"


async def test_a_timeline_stays_in_the_session_of_its_anchor(
    agent_memory: ToolContext, client: httpx.AsyncClient, project: str
):
    day = datetime(2025, 3, 14, 15, 0, tzinfo=UTC)
    for n in range(5):
        for session in ("s", "other"):
            await client.post(
                "/v1/observations",
                json={
                    "project": project,
                    "session_id": f"{project}-{session}",
                    "content": f"The parser took step {n} of {session}.",
                    "occurred_at": (day + timedelta(seconds=n)).isoformat(),
                },
            )
    async with agent_memory() as mcp:
        await until_found(mcp, project, 10)
        lines = await find(mcp, "parser took step 2 of s", project=project)
        anchor = next(one["id"] for one in lines if one["title"] == "The parser took step 2 of s.")
        around = json.loads(await answered(mcp, "timeline", anchor=anchor, depth_before=1))
        assert [list(one) for one in around] == [["id", "title", "type", "position", "created_at"]] * 4
        assert [(one["title"], one["position"]) for one in around] == [
            ("The parser took step 1 of s.", "before"),
            ("The parser took step 2 of s.", "anchor"),
            ("The parser took step 3 of s.", "after"),
            ("The parser took step 4 of s.", "after"),
        ]
        assert around[1]["id"] == anchor
        alone = await answered(mcp, "timeline", anchor=anchor, depth_before=0, depth_after=-1)
        assert [one["id"] for one in json.loads(alone)] == [anchor]


async def test_a_query_finds_the_anchor_of_a_timeline_in_its_project(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        await save(client, project, "The kettle is red.")
        await save(client, project, "The office moved to Oslo.")
        await save(client, f"{project}-b", "The kettle of the other project is green.")
        around = json.loads(await answered(client, "timeline", query="kettle", project=project, depth_after=2))
        assert [one["title"] for one in around if one["position"] == "anchor"] == ["The kettle is red."]
        assert [one["title"] for one in around if one["position"] == "after"] == [
            "The office moved to Oslo.",
            "The kettle of the other project is green.",
        ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({}, "anchor"), ({"anchor": 10**9}, "1000000000"), ({"query": "x", "project": "project-of-nobody"}, "x")],
)
async def test_a_timeline_without_an_anchor_is_a_sentence(
    agent_memory: ToolContext, arguments: dict[str, Any], told: str
):
    async with agent_memory() as client:
        said = await answered(client, "timeline", **arguments)
        assert not said.startswith("[")
        assert told in said


async def test_a_lesson_is_kept_with_its_trigger(agent_memory: ToolContext, client: httpx.AsyncClient, project: str):
    rule = f"Never push to {project} with force, because others lose their work."
    async with agent_memory() as mcp:
        said = await answered(
            mcp,
            "create_lesson",
            rule=rule,
            title="No force",
            severity="critical",
            project=project,
            trigger_tool="Bash",
            trigger_pattern="push .*--force",
        )
        created = json.loads(said)
        assert "\n" not in said
        number = created.pop("id")
        assert created == {"saved": True, "title": "No force", "severity": "critical", "project": project}
        answers = json.loads(await answered(mcp, "search_lessons", query="force push", project=project))
        found = next(one for one in answers if one["id"] == number)  # global lessons of others may come first
        assert 0 < found.pop("score") <= 0.0333
        assert found == {
            "id": number,
            "title": "No force",
            "rule": rule,
            "severity": "critical",
            "project": project,
            "trigger_tool": "Bash",
            "trigger_pattern": "push .*--force",
            "trigger_count": 0,
        }
    (kept,) = (await client.get("/v1/lessons", params={"project": project})).json()["items"]
    assert kept["reinforcements"] == 1, "unconfirmed lessons fade, agent-memory's do not"


async def test_lessons_of_a_project_are_found_with_global_ones(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        word = f"zebra{uuid4().hex[:8]}"
        said = await answered(client, "create_lesson", rule=f"Feed the {word} daily.", trigger_tool=word)
        everywhere = json.loads(said)
        assert (everywhere["project"], everywhere["severity"]) == (None, "warning")
        assert everywhere["title"] == f"Feed the {word} daily."
        here, there = [
            json.loads(await answered(client, "create_lesson", rule=f"Walk the {word} in {place}.", project=place))
            for place in (project, f"{project}-b")
        ]

        async def found(**more: Any) -> set[int]:
            rows = json.loads(await answered(client, "search_lessons", query=word, limit=50, **more))
            return {one["id"] for one in rows if word in one["rule"]}

        assert await found(project=project) == {everywhere["id"], here["id"]}
        assert await found() == {everywhere["id"], here["id"], there["id"]}


async def test_the_same_rule_is_the_same_lesson_and_takes_the_graver_severity(agent_memory: ToolContext, project: str):
    async with agent_memory() as client:
        rule = f"Check the locks of {project}."
        first = json.loads(await answered(client, "create_lesson", rule=rule, project=project, severity="info"))
        again = json.loads(
            await answered(
                client, "create_lesson", rule=rule, project=project, severity="critical", trigger_tool="Edit"
            )
        )
        third = json.loads(await answered(client, "create_lesson", rule=rule, project=project))
        assert first["id"] == again["id"] == third["id"]
        assert third["severity"] == "critical"
        (found,) = [
            one
            for one in json.loads(await answered(client, "search_lessons", query=rule, project=project))
            if one["project"] == project
        ]
        assert (found["severity"], found["trigger_tool"]) == ("critical", "Edit")


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("search", {}, "query"),
        ("search", {"query": "x", "limit": "many"}, "limit"),
        ("timeline", {"anchor": "obs_17"}, "anchor"),
        ("get_observations", {}, "ids"),
        ("get_observations", {"ids": ["first"]}, "ids"),
        ("save_memory", {"title": "x"}, "text"),
        ("create_lesson", {"rule": "x", "severity": "fatal"}, "severity"),
        ("search_lessons", {"query": 17}, "query"),
    ],
)
async def test_agent_memory_flags_a_bad_argument(
    agent_memory: ToolContext, name: str, arguments: dict[str, Any], told: str
):
    async with agent_memory() as client:
        said = await refused(client, name, **arguments)
        assert said.startswith("Input validation error:")
        assert told in said


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("search", {"query": "  "}, "query"),
        ("search", {"query": "x", "dateStart": "yesterday"}, "dateStart"),
        ("save_memory", {"text": " "}, "text"),
        ("create_lesson", {"rule": "x", "trigger_pattern": "(("}, "trigger_pattern"),
        ("create_lesson", {"rule": "x", "trigger_pattern": "x" * 501}, "trigger_pattern"),
        ("create_lesson", {"rule": "", "title": "x"}, "rule"),
    ],
)
async def test_agent_memory_tells_of_other_faults_without_flagging_them(
    agent_memory: ToolContext, name: str, arguments: dict[str, Any], told: str
):
    async with agent_memory() as client:
        told_of = json.loads(await answered(client, name, **arguments))
        assert list(told_of) == ["error"]
        assert told in told_of["error"]


async def test_an_unknown_tool_is_told_with_those_that_there_are(memex: ToolContext, agent_memory: ToolContext):
    """agent-memory's server answers for it, as a tool that could not do it would."""
    async with memex() as client:
        with pytest.raises(MCPError, match="there is no tool 'recall'"):
            await client.call_tool("recall", {"query": "x"})
    async with agent_memory() as client:
        assert "there is no tool 'recall'" in await answered(client, "recall", query="x")
