"""What is written at one door is found at the others: which, and which not, as docs/dropin.md says."""

from collections.abc import AsyncGenerator, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.conftest import Stdio
from tests.support.waiting import wait_until

PATIENT_S = 60
USER = "grace"


class Clients:
    """A client of each door. Writers are given the word that is to be found, which nothing else says."""

    def __init__(self, http: httpx.AsyncClient, doors: Doors, mcp: Stdio) -> None:
        self.http, self.doors, self.mcp = http, doors, mcp

    async def post(self, base: str, path: str, **body: Any) -> Any:
        answer = await self.http.post(base + path, json=body)
        assert answer.is_success, (path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # writers

    async def native(self, path: str, word: str, **more: Any) -> Any:
        return await self.post(self.doors.agentmemory, path, content=f"The {word} valve is closed at night", **more)

    async def native_memory(self, word: str) -> None:
        await self.native("/v1/memories", word, project=word)

    async def native_lesson(self, word: str) -> None:
        await self.native("/v1/lessons", word, project=word)

    async def native_observation(self, word: str) -> None:
        await self.native("/v1/observations", word, project=word, session_id=word)

    async def native_memory_of_agentd(self, word: str) -> None:
        await self.native("/v1/memories", word, project="agentd", agent_id="ada")

    async def native_memory_of_memex(self, word: str) -> None:
        await self.native("/v1/memories", word, project="memex", agent_id="ada", user_id=USER)

    async def agentmemory_memory(self, word: str) -> None:
        await self.post(self.doors.agentmemory, "/agentmemory/remember", content=f"The {word} valve", project=word)

    async def agentmemory_lesson(self, word: str) -> None:
        await self.post(self.doors.agentmemory, "/agentmemory/lessons", content=f"Close the {word} valve", project=word)

    async def agentmemory_observation(self, word: str) -> None:
        fields = {"sessionId": word, "project": word, "text": f"The {word} valve is open"}
        await self.post(self.doors.agentmemory, "/agentmemory/agent/observe", **fields)

    async def agent_memory_observation(self, word: str) -> None:
        fields = {"session_id": word, "project": word, "title": f"The {word} valve leaks"}
        await self.post(self.doors.agent_memory, "/api/observations", **fields)

    async def agent_memory_saved(self, word: str) -> None:
        assert not self.mcp.call("save_memory", text=f"The {word} valve was replaced", project=word).failed

    async def agent_memory_lesson(self, word: str) -> None:
        await self.post(
            self.doors.agent_memory, "/api/lessons", title=f"{word} valves", rule=f"Close the {word} valve first"
        )

    async def agent_memory_summary(self, word: str) -> None:
        await self.post(self.doors.agent_memory, "/api/sessions", session_id=word, project=f"p{word[1:]}")
        fields = {"summary": f"The {word} valve was found and closed."}
        answer = await self.http.patch(f"{self.doors.agent_memory}/api/sessions/{word}", json=fields)
        assert answer.status_code == 200, answer.text

    async def agentd_memory(self, word: str) -> None:
        await self.post(self.doors.agentd, "/memories", content=f"The {word} valve is new", created_by="ada")

    async def memex_memory(self, word: str) -> None:
        fields = {"agent_id": "ada", "user_id": USER, "content": f"grace likes the {word} valve"}
        await self.post(self.doors.memex, "/v1/memories", **fields)

    # readers: whether the word is in what a search answers

    async def native_recall(self, word: str) -> bool:
        results = await self.post(self.doors.agentmemory, "/v1/recall", query=f"{word} valve", limit=20)
        return word in str(results["results"])

    async def agentmemory_search(self, word: str) -> bool:
        results = await self.post(self.doors.agentmemory, "/agentmemory/search", query=f"{word} valve", limit=20)
        return word in str(results["results"])

    async def agentmemory_smart_search(self, word: str) -> bool:
        results = await self.post(self.doors.agentmemory, "/agentmemory/smart-search", query=f"{word} valve", limit=20)
        return word in str([results["results"], results["lessons"]])

    async def agent_memory_search(self, word: str) -> bool:
        results = await self.post(self.doors.agent_memory, "/api/observations/search", query=f"{word} valve", limit=20)
        return word in str(results["observations"])

    async def agent_memory_mcp(self, word: str) -> bool:
        return word in self.mcp.call("search", query=f"{word} valve").text

    async def agentd_search(self, word: str) -> bool:
        results = await self.post(
            self.doors.agentd, "/memories/search", query=f"{word} valve", as_actor="ada", limit=20
        )
        return word in str(results)

    async def memex_search(self, word: str) -> bool:
        query = {"agent_id": "ada", "user_id": USER, "query": f"{word} valve"}
        return word in str((await self.post(self.doors.memex, "/v1/memories/search", **query))["results"])


@pytest.fixture
async def clients(doors: Doors, mcp: Stdio) -> AsyncGenerator[Clients]:
    async with httpx.AsyncClient(timeout=PATIENT_S, trust_env=False) as http:
        yield Clients(http, doors, mcp)


READERS: dict[str, Callable[[Clients, str], Any]] = {
    "native": Clients.native_recall, "agentmemory search": Clients.agentmemory_search,
    "agentmemory smart-search": Clients.agentmemory_smart_search, "agent-memory REST": Clients.agent_memory_search,
    "agent-memory MCP": Clients.agent_memory_mcp, "agentd": Clients.agentd_search, "memex": Clients.memex_search,
}  # fmt: skip
EVERY_TEXT = {"native", "agent-memory REST", "agent-memory MCP"}
SEEN = EVERY_TEXT | {"agentmemory search", "agentmemory smart-search"}
LEARNED = EVERY_TEXT | {"agentmemory smart-search"}
FOUND: list[tuple[Callable[[Clients, str], Any], set[str]]] = [
    (Clients.native_memory, SEEN),
    (Clients.native_lesson, LEARNED),
    (Clients.native_observation, SEEN),
    (Clients.native_memory_of_agentd, SEEN | {"agentd"}),
    (Clients.native_memory_of_memex, SEEN | {"memex"}),
    (Clients.agentmemory_memory, SEEN),
    (Clients.agentmemory_lesson, LEARNED),
    (Clients.agentmemory_observation, SEEN),
    (Clients.agent_memory_observation, SEEN),
    (Clients.agent_memory_saved, SEEN),
    (Clients.agent_memory_lesson, LEARNED),
    (Clients.agent_memory_summary, EVERY_TEXT),
    (Clients.agentd_memory, SEEN | {"agentd"}),
    (Clients.memex_memory, SEEN | {"memex"}),
]


@pytest.mark.parametrize(("write", "readers"), FOUND, ids=[write.__name__ for write, _ in FOUND])
async def test_what_is_written_at_one_door_is_found_at_the_others(
    clients: Clients, write: Callable[[Clients, str], Any], readers: set[str]
):
    word = f"zq{uuid4().hex[:10]}"
    await write(clients, word)
    for reader in sorted(readers):

        async def found(reader: str = reader) -> bool:
            return await READERS[reader](clients, word)

        found.__name__ = reader
        await wait_until(found, PATIENT_S)
    assert {reader for reader, ask in READERS.items() if await ask(clients, word)} == readers


async def test_what_agent_memorys_search_finds_is_read_by_its_id_and_filtered_by_its_type(clients: Clients, name: str):
    api, base = clients.http, clients.doors.agent_memory
    await clients.native("/v1/memories", name, project=name, memory_type="procedural", concepts=["night"])
    await clients.native("/v1/lessons", name, project=name, title="Night valves")
    await clients.native("/v1/observations", name, project=name, session_id=name, kind="decision")

    async def search(**query: Any) -> list[dict[str, Any]]:
        body = {"query": name, "project": name, **query}
        return (await clients.post(base, "/api/observations/search", **body))["observations"]

    async def all_there() -> bool:
        return len(await search()) == 3

    await wait_until(all_there, PATIENT_S)
    by_type = {item["type"]: item for item in await search()}
    assert by_type.keys() == {"pattern", "gotcha", "decision"}
    assert by_type["pattern"]["concepts"] == ["night"]
    assert by_type["gotcha"]["title"] == "Night valves"
    for kind, item in by_type.items():
        assert [result["id"] for result in await search(type=[kind])] == [item["id"]]
        read = (await api.get(f"{base}/api/observations/{item['id']}")).json()
        assert read == {
            **item,
            "score": None,
            "has_embedding": read["has_embedding"],
        }  # it may just have got its vector
        assert read["narrative"] == f"The {name} valve is closed at night"
        shown = clients.mcp.call("get_observations", ids=[item["id"]]).text
        assert name in shown
        placed = clients.mcp.call("timeline", anchor=item["id"]).text
        assert placed.count('"position"') == 1
    assert await search(project=f"{name}-other") == []
    assert len(await search(limit=2)) == 2
    everything = clients.mcp.call("search", query=name, project=name, limit=2).text
    rest = clients.mcp.call("search", query=name, project=name, limit=2, offset=2).text
    assert everything.count('"id"') + rest.count('"id"') == 3


async def test_agent_memorys_list_has_memories_by_when_they_were_made(clients: Clients, name: str):
    base = clients.doors.agent_memory
    await clients.post(base, "/api/observations", session_id=name, project=name, title="first")
    await clients.native("/v1/memories", name, project=name)
    await clients.post(base, "/api/observations", session_id=name, project=name, title="last")

    async def listed(**query: Any) -> list[str]:
        answer = await clients.http.get(f"{base}/api/observations", params={"project": name, **query})
        return [row["title"] for row in answer.json()]

    async def all_there() -> bool:
        return len(await listed()) == 3

    await wait_until(all_there, PATIENT_S)
    titles = await listed()
    assert titles == ["last", f"The {name} valve is closed at night", "first"]
    assert await listed(limit=1, offset=1) == titles[1:2]


async def test_private_memories_of_others_are_found_at_no_door(clients: Clients, name: str):
    private = await clients.native("/v1/memories", name, project=name, agent_id="ada", visibility="private")
    await clients.native("/v1/observations", name, project=name, session_id=name)

    async def seen() -> bool:
        return await clients.native_recall(name)

    await wait_until(seen, PATIENT_S)
    results = await clients.post(clients.doors.agent_memory, "/api/observations/search", query=name, project=name)
    assert len(results["observations"]) == 1
    assert clients.mcp.call("search", query=name, project=name).text.count('"id"') == 1
    for query in ({"project": name}, {"project": name, "query": name}):
        answer = await clients.post(clients.doors.agentmemory, "/v1/context", **query)
        assert not any(private["id"] in block["sources"] for block in answer["blocks"])


# contexts


@pytest.mark.parametrize("budget", [300, 2_000])
async def test_a_context_without_a_query_tells_memories_and_lessons_at_every_door(
    clients: Clients, name: str, budget: int
):
    ours = clients.doors.agentmemory
    for n in range(6):
        fields = {"project": name, "session_id": f"{name}-{n}", "kind": "decision"}
        text = (
            f"We decided to keep `some_identifier_{n}` in /srv/{name}/module_{n}/file_{n}.py because "
            + "it works " * 30
        )
        await clients.post(ours, "/v1/observations", content=text, **fields)
    await clients.native("/v1/memories", f"{name}-weak", project=name, importance=1)
    await clients.native("/v1/memories", f"{name}-vital", project=name, importance=10)
    accepted = await clients.post(ours, "/v1/lessons", content=f"Warm {name} up first", project=name, confidence=0.9)
    query = {"project": name, "token_budget": budget}

    native = await clients.post(ours, "/v1/context", after=accepted["position"], **query)
    started = {"sessionId": f"{name}-new", "project": name, "cwd": "/w"}
    for fields in (
        native["context"],
        (await clients.post(ours, "/agentmemory/context", sessionId="x", project=name, budget=budget))["context"],
        (await clients.post(ours, "/agentmemory/session/start", **started))["context"],
    ):
        assert f"The {name}-vital valve" in fields
        assert f"Warm {name} up first" in fields
    kinds = [
        block["kind"] for block in native["blocks"] if block["kind"] != "slot"
    ]  # slots of all projects are there, too
    assert kinds[:2] == ["memories", "lessons"]
    before, *_ = native["context"].partition(f"{name}-vital")
    assert f"{name}-weak" not in before, "memories that other tests left for all projects may take its place, too"
    assert native["tokens"] <= budget
