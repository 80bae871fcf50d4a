"""Who sees a memory: every way of reading x every visibility x everybody, over a real server; nothing else shows it.

The table READS is complete: a test compares it with the routes of the application and with the tools, resources and
prompts of every MCP profile. What is in neither READS nor CANNOT_SHOW fails it.

The planted mark is in every text of the memory. What a reader may not see must not show the mark in any byte of the
answer; what it may see must.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import uuid4

import httpx
import pytest
from starlette.routing import Route
from waiting import wait_until

from api.app import create_app
from api.dialects.profiles import PROFILES
from ingest.platform.settings import Settings
from tests.acceptance.running import Server, running

Visibility: TypeAlias = Literal["public", "shared", "private"]
VISIBILITIES: tuple[Visibility, ...] = ("public", "shared", "private")
CREATOR, OWNER, FRIEND, STRANGER, NOBODY = "carol", "olga", "sam", "zoe", ""
EVERYBODY = (CREATOR, OWNER, FRIEND, STRANGER, NOBODY)
"""Who asks. The owner is not the creator; nobody names no agent at all."""


class Planted(NamedTuple):
    """A memory, and what surrounds it: all in a project of its own."""

    visibility: Visibility
    mark: str
    """In every text of the memory, and nowhere else."""
    word: str
    """By which the memory is found, and other things are, too."""
    project: str
    id: str
    neighbour: str
    """A public memory that is related to it."""
    before: str
    """The position before the memory was recorded."""
    relation: str
    """Between the neighbour and the memory."""
    friends: tuple[str, ...] = (FRIEND,)

    @property
    def partition(self) -> str:
        """Where it is."""
        return self.before.partition(":")[0]

    def readable_by(self, agent: str) -> bool:
        """The rule, said again."""
        if self.visibility == "public":
            return True
        friends = self.friends if self.visibility == "shared" else ()
        return agent in (CREATOR, OWNER, *friends)


Ask: TypeAlias = Callable[[httpx.AsyncClient, Planted], Coroutine[Any, Any, bytes]]
Shows: TypeAlias = Literal["text", "id", "public text", "nothing"]


class Read(NamedTuple):
    """One way of reading. `shows`, where the reader may see the memory: its text, its id only, its text if it is public
    (whoever asks: what is shown is made for all), nothing at all. Where the reader may not, neither mark nor id."""

    path: str
    how: str
    shows: Shows
    ask: Ask


def get(path: str, shows: Shows = "text", how: str = "", of: str = "id", **query: Any) -> Read:
    """A GET; texts may name fields of the planted: `{project}`. `of` is the one that the path's id is."""

    async def ask(client: httpx.AsyncClient, planted: Planted) -> bytes:
        filled = path.replace("{id}", f"{{{of}}}")
        return _good(await client.get(_filled(filled, planted), params=_filled(query, planted)))

    return Read(f"GET {path}", how or (of if of != "id" else ""), shows, ask)


def post(path: str, shows: Shows = "text", how: str = "", **body: Any) -> Read:
    """A POST that reads."""

    async def ask(client: httpx.AsyncClient, planted: Planted) -> bytes:
        return _good(await client.post(path, json=_filled(body, planted)))

    return Read(f"POST {path}", how, shows, ask)


def tool(name: str, shows: Shows = "text", how: str = "", **arguments: Any) -> Read:
    """A call of an MCP tool."""
    return _mcp(f"tool {name}", "tools/call", shows, how, {"name": name, "arguments": arguments})


def resource(uri: str, shows: Shows = "text") -> Read:
    """A reading of an MCP resource."""
    return _mcp(f"resource {uri}", "resources/read", shows, "", {"uri": uri.replace("{name}", "{project}")})


def prompt(name: str, shows: Shows = "text", **arguments: str) -> Read:
    """An MCP prompt."""
    return _mcp(f"prompt {name}", "prompts/get", shows, "", {"name": name, "arguments": arguments})


def _mcp(path: str, method: str, shows: Shows, how: str, params: dict[str, Any]) -> Read:
    async def ask(client: httpx.AsyncClient, planted: Planted) -> bytes:
        return _good(await mcp(client, method, _filled(params, planted)))

    return Read(path, how, shows, ask)


async def mcp(client: httpx.AsyncClient, method: str, params: dict[str, Any]) -> httpx.Response:
    """One JSON-RPC request to all profiles."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return await client.post("/mcp", params={"profile": "all"}, json=request, headers=headers)


def _filled(value: Any, planted: Planted) -> Any:
    if isinstance(value, str):
        fields = {**planted._asdict(), "session": f"{planted.project}-s", "partition": planted.partition}
        for name, text in fields.items():
            value = value.replace(f"{{{name}}}", str(text))
        return value
    if isinstance(value, dict):
        return {name: _filled(one, planted) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_filled(one, planted) for one in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _good(answer: httpx.Response) -> bytes:
    assert answer.status_code in (200, 202, 404), f"{answer.request.url}: {answer.status_code} {answer.text[:500]}"
    if answer.status_code == 200 and answer.request.url.path == "/mcp":
        told = answer.json()
        assert "error" not in told, f"{answer.request.content!r}: {told}"
        assert not told["result"].get("isError"), f"{answer.request.content!r}: {told}"
    return answer.content


READS: tuple[Read, ...] = (
    get("/v1/memories/{id}"),
    get("/v1/memories/{id}/history"),
    get("/v1/memories", project="{project}", limit=1000),
    get("/v1/memories", how="latest", project="{project}", latest="true"),
    *(
        post("/v1/recall", how=f"{ranking}, {mode}", query="{word}", project="{project}", ranking=ranking, mode=mode,
             limit=200)
        for ranking, mode in itertools.product(("fused", "similarity", "rrf"), ("hybrid", "lexical", "vector"))
    ),
    post("/v1/recall", how="narrowed to its creator", query="{word}", agent_id=CREATOR, limit=200),
    post("/v1/recall", how="narrowed to its user and its tags", query="{word}", user_id="kim", tags=["bug"], limit=200),
    post("/v1/recall", how="as of later", query="{word}", as_of="2190-01-01T00:00:00Z", project="{project}", limit=200),
    post("/v1/recall", how="explained", query="{word}", project="{project}", explain=True, limit=200),
    post("/v1/context", how="with a query", project="{project}", query="{word}", token_budget=100_000),
    get("/v1/events", project="{project}", limit=1000, after="{before}", partition="{partition}"),
    get("/v1/events", how="by type", type="memory.recorded", limit=1000),
    get("/v1/live", project="{project}", after="{before}", type="memory.recorded", limit=1),
    get("/v1/export", project="{project}"),
    get("/v1/export", how="all projects"),
    get("/v1/graph", project="{project}", limit=500),
    get("/v1/graph", how="around the memory", start="{id}", depth=3),
    get("/v1/graph", how="around its session", start="session:{session}", depth=3),
    get("/v1/graph", how="around a concept", start="concept:heron", depth=3, limit=500),
    get("/v1/graph/stats", shows="nothing", project="{project}"),
    get("/v1/related/{id}", of="neighbour"),
    get("/v1/related/{id}", shows="nothing", how="what is related to it is its neighbour"),
    get("/v1/relations", shows="id", project="{project}"),
    get("/v1/relations/{id}", shows="id", of="relation"),
    get("/v1/profile", shows="public text", project="{project}", user_id="kim", refresh="true"),
    get("/v1/profile", shows="public text", how="kept for others", project="{project}", user_id="kim"),
    post("/v1/context", how="without a query", project="{project}", user_id="kim", token_budget=100_000),
    post("/v1/enrich", files=["src/heron.py"], project="{project}", limit_chars=100_000),
    post("/v1/enrich", how="by words", files=["other.py"], terms=["{word}"], project="{project}", limit_chars=100_000),
    get("/v1/audit", shows="nothing", how="says to all in the tenant which documents were written, not what they say",
        project="{project}", operation="*"),
    # MCP, native
    tool("recall", query="{word}", project="{project}", limit=200),
    tool("context", project="{project}", query="{word}", token_budget=100_000),
    # agentmemory
    tool("memory_recall", query="{word}", limit=100),
    tool("memory_recall", how="of the project", query="{word}", project="{project}", format="narrative"),
    tool("memory_smart_search", query="{word}", limit=100),
    tool("memory_smart_search", how="in full", query="{word}", expandIds=["{id}"]),
    tool("memory_profile", shows="public text", project="{project}", refresh=True),
    tool("memory_export"),
    resource("agentmemory://memories/latest"),
    resource("agentmemory://graph/stats", shows="nothing"),
    resource("agentmemory://project/{name}/profile", shows="public text"),
    prompt("recall_context", task_description="{word}"),
    prompt("detect_patterns", shows="nothing", project="{project}"),
)  # fmt: skip

CANNOT_SHOW: dict[str, str] = {
    "GET /openapi.json": "what there is, and nothing of anybody",
    "GET /docs": "what there is, and nothing of anybody",
    # what is no memory, and takes nothing from memories that only some may read
    "GET /v1/observations/{id}": "observations have no visibility",
    "GET /v1/lessons/{id}": "lessons have no visibility; those made of memories are made of public ones",
    "GET /v1/lessons": "as above; see the test of what is made of memories",
    "GET /v1/lessons/match": "lessons only",
    "GET /v1/lessons/surest": "lessons only",
    "POST /v1/lessons/search": "lessons only",
    "GET /v1/actions/{id}": "actions have no visibility",
    "GET /v1/actions": "actions have no visibility",
    "GET /v1/frontier": "actions have no visibility",
    "GET /v1/commits/{id}": "commits have no visibility",
    "GET /v1/commits": "commits have no visibility",
    "GET /v1/sessions/{id:path}/commits": "commits have no visibility",
    "GET /v1/summaries/{id}": "made of observations",
    "GET /v1/summaries": "made of observations",
    "GET /v1/sessions/{id:path}/summary": "made of observations",
    "POST /v1/sessions/{id:path}/summary": "made of observations",
    "GET /v1/sessions": "sessions have no visibility",
    "GET /v1/sessions/{id:path}": "sessions have no visibility",
    "GET /v1/sessions/{id:path}/observations": "observations have no visibility",
    "GET /v1/timeline": "observations only",
    "GET /v1/around": "observations only",
    "GET /v1/slots": "slots have no visibility",
    "GET /v1/slots/{label}": "slots have no visibility",
    "POST /v1/sessions/{id:path}/reflect": "counts; slots from observations",
    "GET /v1/diagnose": "counts, and ids of what the reader may see",
    # operators: whoever has the secret; not limited to what an agent may see
    "GET /v1/admin/projections": "operator: counts",
    "GET /v1/admin/dead-letters": "operator: events that could not be applied, shown as GET /v1/events shows them",
    "GET /v1/admin/dead-letters/{position}": "operator: one of those",
    "POST /v1/admin/dead-letters/redrive": "operator: positions",
    "POST /v1/admin/dead-letters/discard": "operator: positions",
    "GET /v1/admin/keys": "operator: keys, without their secrets",
    "GET /v1/admin/keys/{id}": "operator: a key, without its secret",
    "POST /v1/admin/keys": "operator: a new key with its secret",
    "POST /v1/admin/keys/{id}/rotate": "operator: its successor with its secret",
    "DELETE /v1/admin/keys/{id}": "operator: the revoked key",
    "GET /v1/admin/reconcile": "operator: counts and ids",
    "POST /v1/admin/reconcile": "operator: whether one was queued",
    "GET /v1/admin/export": "operator: everything, on purpose",
    "POST /v1/admin/import": "operator: counts",
    "POST /v1/admin/projections/rebuild": "operator: counts",
    "GET /v1/admin/rebuilds": "operator: counts, and ids of documents that differ",
    "GET /v1/admin/rebuilds/{id}": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds": "operator: counts",
    "POST /v1/admin/rebuilds/{id}/switch": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds/{id}/rollback": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/rebuilds/{id}/cancel": "operator: counts, and ids of documents that differ",
    "POST /v1/admin/snapshots": "operator: whether one was queued",
    "POST /v1/admin/purge": "operator: whether one was queued",
    # writes acknowledge with ids
    **dict.fromkeys(
        (
            "POST /v1/events", "POST /v1/observations", "POST /v1/memories", "POST /v1/lessons", "POST /v1/sessions",
            "PATCH /v1/memories/{id}", "PATCH /v1/lessons/{id}", "POST /v1/lessons/{id}/reinforce",
            "POST /v1/lessons/{id}/trigger", "POST /v1/slots", "DELETE /v1/slots/{label}", "POST /v1/actions",
            "PATCH /v1/actions/{id}", "POST /v1/relations", "POST /v1/commits", "DELETE /v1/observations/{id}",
            "DELETE /v1/memories/{id}", "DELETE /v1/lessons/{id}", "DELETE /v1/actions/{id}",
            "DELETE /v1/relations/{id}", "DELETE /v1/commits/{id}", "DELETE /v1/sessions/{id:path}",
        ),
        "acknowledges a write",
    ),
    "POST /v1/crystals": "made of actions",
    "POST /v1/consolidate": "counts; what it makes has a test here",
    "POST /v1/reflect": "counts; what it makes has a test here",
    "POST /v1/forget": "a receipt: ids and counts",
    "GET /v1/forget": "receipts: ids and counts",
    "GET /v1/forget/{id}": "a receipt: ids and counts",
    # processes
    "GET /livez": "says ok",
    "GET /readyz": "counts",
    "GET /metrics": "counts",
    "POST /mcp": "its tools, resources and prompts are listed one by one",
    # MCP
    **dict.fromkeys(
        (
            "tool remember", "tool observe", "tool lesson", "tool revise", "tool forget", "tool agent_observe",
            "tool memory_lesson_save", "tool memory_forget", "tool memory_action_create",
            "tool memory_action_update", "tool store_memory", "tool delete_memory", "tool save_memory",
            "tool create_lesson",
        ),
        "acknowledges a write",
    ),
    "tool agent_remember": "shows what is saved, and a hint at what resembles it; see the test of the hint",
    "tool memory_save": "shows what is saved, and a hint at what resembles it; see the test of the hint",
    **dict.fromkeys(
        (
            "tool slots", "tool memory_slot_list", "tool memory_slot_get", "tool memory_slot_create",
            "tool memory_slot_append", "tool memory_slot_replace", "tool memory_slot_delete",
        ),
        "slots have no visibility",
    ),
    **dict.fromkeys(
        (
            "tool memory_lessons", "tool memory_lesson_recall", "tool memory_lesson_search", "tool search_lessons",
        ),
        "lessons only",
    ),
    **dict.fromkeys(
        (
            "tool memory_sessions", "tool memory_sessions_list", "tool memory_timeline", "tool memory_observations",
            "tool search", "tool timeline", "tool get_observations", "tool memory_antigravity_sync",
            "tool memory_antigravity_sync_all", "resource agentmemory://project/{name}/recent",
            "prompt session_handoff",
        ),
        "sessions and observations only",
    ),
    "tool memory_frontier": "actions only",
    "tool memory_crystallize": "made of actions, or of a session's observations",
    "tool memory_consolidate": "counts; what it makes has a test here",
    "tool memory_reflect": "counts; what it makes has a test here",
    "tool memory_diagnose": "counts, and ids of what the reader may see",
    "tool search_memories": "shows what the agent that it names remembers itself; see its test",
    "tool count_memories": "a number: of the memories that the reader may see",
    "tool memory_search_guide": "a fixed text",
    "resource agentmemory://status": "counts",
}  # fmt: skip
"""Ways in that cannot show a memory, and why."""


# the table is complete


def ways_in() -> set[str]:
    """Every route with its method, every tool, resource and prompt of every profile."""
    app = create_app(Settings(redis_url="redis://localhost:1", data_dir=Path("-"), cache_dir=Path("-")))
    routes = [one for one in app.routes if isinstance(one, Route)]
    assert len(routes) == len(app.routes), "mounted applications are not looked into"
    found = {f"{method} {one.path}" for one in routes for method in sorted((one.methods or set()) - {"HEAD"})}
    found |= {f"tool {one.name}" for profile in PROFILES.values() for one in profile.tools}
    attached = PROFILES.offer(tuple(PROFILES)).attachments
    found |= {f"resource {one.uri}" for one in attached.resources}
    found |= {f"resource {one.uri_template}" for one in attached.templates}
    return found | {f"prompt {one.name}" for one in attached.prompts}


def test_every_way_in_is_in_the_table_or_cannot_show_a_memory():
    listed = {one.path for one in READS} | CANNOT_SHOW.keys()
    assert not {one.path for one in READS} & CANNOT_SHOW.keys(), "one or the other"
    assert sorted(ways_in() - listed) == [], "say what these show: in READS, or in CANNOT_SHOW with the reason"
    assert sorted(listed - ways_in()) == [], "these are no more"


# the matrix


@pytest.fixture(scope="module")
def server(cache_dir: Path) -> Iterator[Server]:
    """A server of this module's own: some ways of reading know no project."""
    with running(cache_dir, partitions=4) as started:
        yield started


@pytest.fixture(scope="module")
def planted(server: Server) -> list[Planted]:
    """A memory of every visibility, found by words and by meaning."""
    return asyncio.run(_plant(server))


@pytest.fixture
async def clients(server: Server) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    async with opened(server) as found:
        yield found


@asynccontextmanager
async def opened(server: Server) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    """A client for everybody."""
    found = {agent: server.client(agent) for agent in EVERYBODY}
    try:
        yield found
    finally:
        for client in found.values():
            await client.aclose()


async def write(client: httpx.AsyncClient, path: str, **command: Any) -> dict[str, Any]:
    """The acknowledgement of a write."""
    answer = await (client.patch if path.startswith("/v1/memories/") else client.post)(path, json=command)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def _plant(server: Server) -> list[Planted]:
    found: list[Planted] = []
    async with opened(server) as clients:
        carol, somebody = clients[CREATOR], clients[STRANGER]
        for visibility in VISIBILITIES:
            mark, word = f"zqx{uuid4().hex[:10]}", f"heron{uuid4().hex[:10]}"
            project = f"{visibility}-{uuid4().hex[:8]}"
            session = f"{project}-s"
            before = await write(
                somebody,
                "/v1/memories",
                project=project,
                content="The reeds are cut in March.",
                concepts=["heron"],
                keep_duplicates=True,
            )
            await write(
                somebody, "/v1/observations", project=project, session_id=session, content=f"saw {word} at the pond",
                user_id="kim", data={"file_path": "src/heron.py"},
            )  # fmt: skip
            kept = await write(
                carol,
                "/v1/memories",
                project=project,
                session_id=session,
                user_id="kim",
                owner=OWNER,
                visibility=visibility,
                shared_with=[FRIEND],
                content=f"{mark} and {word} stand in the reeds, because the bug was in the pond.",
                title=f"{mark} of the {word}",
                tags=["bug", "preference", f"{mark}-tag"],
                concepts=["heron", f"{mark}-concept"],
                files=["src/heron.py", f"src/{mark}.py"],
                references=[f"{mark}-reference"],
                metadata={f"{mark}-name": f"{mark}-value"},
                trace=f"{mark}-trace",
                keep_duplicates=True,
            )
            relation = await write(carol, "/v1/relations", project=project, source=before["id"], target=kept["id"],
                                   relation="explains", confidence=0.9)  # fmt: skip
            names = (kept["id"], before["id"], before["position"], relation["id"])
            found.append(Planted(visibility, mark, word, project, *names))
        for one in found:
            await wait_until(lambda one=one: _embedded(carol, one))
    return found


async def _embedded(client: httpx.AsyncClient, planted: Planted) -> bool:
    asked = {"query": planted.word, "mode": "vector", "project": planted.project, "limit": 200, "explain": True}
    results = (await client.post("/v1/recall", json=asked)).json()["results"]
    return sum("cosine" in one["explain"] for one in results) == 3


async def faults(
    clients: dict[str, httpx.AsyncClient], planted: Sequence[Planted], reads: Sequence[Read] = READS
) -> list[str]:
    """Everything that is shown and must not be, or is not and must be."""
    found: list[str] = []
    for read in reads:
        cells = list(itertools.product(planted, EVERYBODY))
        answers = await asyncio.gather(*(read.ask(clients[agent], one) for one, agent in cells))
        found += [fault for cell, said in zip(cells, answers, strict=True) for fault in _faults(read, *cell, said)]
    return found


def _faults(read: Read, one: Planted, agent: str, answer: bytes) -> list[str]:
    found: list[str] = []
    said, readable = answer.decode(), one.readable_by(agent)
    marked, named = one.mark in said.lower(), one.id in said
    cell = f"{read.path} ({read.how}): {one.visibility} to {agent or 'nobody'}"
    match read.shows:
        case "text":
            found += [f"{cell}: not shown"] * (readable and not marked)
        case "public text":
            readable = one.visibility == "public"
            found += [f"{cell}: not shown"] * (readable and not marked)
        case "id":
            found += [f"{cell}: id not shown"] * (readable and not named)
            found += [f"{cell}: id shown"] * (named and not readable)
            readable = False
        case "nothing":
            readable = False
    found += [f"{cell}: SHOWN: ...{_around(said, one.mark)}..."] * (marked and not readable)
    return found


def _around(said: str, mark: str) -> str:
    at = said.lower().find(mark)
    return said[max(0, at - 60) : at + 60]


async def test_everybody_sees_what_they_may_and_nothing_else(
    clients: dict[str, httpx.AsyncClient], planted: list[Planted]
):
    assert not (found := await faults(clients, planted)), "\n".join(found)


async def test_the_matrix_follows_when_it_is_decided_anew_who_may_read(
    clients: dict[str, httpx.AsyncClient], planted: list[Planted]
):
    """private becomes shared with the stranger, shared becomes public, public becomes private."""
    public, shared, private = planted
    changed = [
        private._replace(visibility="shared", friends=(STRANGER,)),
        shared._replace(visibility="public"),
        public._replace(visibility="private"),
    ]
    for one in changed:
        told = await write(
            clients[OWNER], f"/v1/memories/{one.id}", visibility=one.visibility, shared_with=list(one.friends)
        )
        answer = await clients[OWNER].get("/v1/memories", params={"after": told["position"]})
        assert answer.status_code == 200, answer.text
    assert not (found := await faults(clients, changed)), "\n".join(found)


async def test_what_is_made_of_memories_is_made_of_public_ones(server: Server):
    """Consolidating and reflecting, by the creator itself, of private, shared and public memories that are alike."""
    async with opened(server) as clients:
        carol = clients[CREATOR]
        projects: dict[Visibility, str] = {one: f"made-{one}-{uuid4().hex[:8]}" for one in VISIBILITIES}
        for visibility, project in projects.items():
            for n, name in enumerate(("rounding", "parsing", "caching", "queueing", "locking")):
                await write(
                    carol, "/v1/memories", project=project, visibility=visibility, shared_with=[FRIEND], owner=OWNER,
                    content=f"zqmade{visibility}: when {name} fails\n1. stop zqmade{visibility} worker {n}\n"
                            f"2. clear the {name} table\n3. start it again",
                    concepts=["outage", "worker"], tags=["outage"], memory_type="procedural", keep_duplicates=True,
                )  # fmt: skip
                await write(
                    carol, "/v1/observations", project=project, session_id=f"{project}-s",
                    content=f"decided to look into the outage of the worker after {name} failed",
                )  # fmt: skip
            for path in ("/v1/consolidate", "/v1/reflect"):
                answer = await carol.post(path, json={"project": project})
                assert answer.status_code == 202, answer.text
            if visibility == "public":
                assert answer.json()["insights"] > 0, "the test would prove nothing"
            else:
                assert answer.json()["items"] == 0
            after = answer.json()["position"]
            made = b""
            for path in ("/v1/lessons", "/v1/memories", "/v1/summaries", "/v1/slots"):
                params = {"project": project, **({"after": after} if after else {})}
                made += (await clients[NOBODY].get(path, params=params)).content
            assert (f"zqmade{visibility}".encode() in made) == (visibility == "public")


@pytest.mark.parametrize("name", ["memory_save", "agent_remember"])
async def test_the_hint_at_what_resembles_a_new_memory_is_of_what_the_saver_may_see(server: Server, name: str):
    """Words enough are shared to be told of a public memory, or of one's own private one; not of somebody else's."""
    async with opened(server) as clients:
        for agent, seen in ((STRANGER, False), (NOBODY, False), (CREATOR, True)):
            project = f"hint-{uuid4().hex[:8]}"
            text = "the heron stands in the reeds beside the old mill and waits for silver fish"
            told = await write(
                clients[CREATOR], "/v1/memories", project=project, visibility="private", title="zqhintmark",
                content=f"{text} zqhintmark", keep_duplicates=True,
            )  # fmt: skip
            await clients[CREATOR].get("/v1/memories", params={"after": told["position"]})
            arguments = {"content": f"{text} every single morning before anybody wakes", "project": project}
            answer = await mcp(clients[agent], "tools/call", {"name": name, "arguments": arguments})
            assert '\\"success\\":true' in answer.text
            assert ("zqhintmark" in answer.text, told["id"] in answer.text) == (seen, seen), answer.text


async def test_memex_finds_what_the_agent_that_it_names_remembers_itself_and_nothing_else(server: Server):
    """Also what is shared with the named agent is not its own memory. Who the agent is, memex takes on trust."""
    async with opened(server) as clients:
        told: dict[str, Any] = {}
        for visibility in VISIBILITIES:
            told = await write(
                clients[CREATOR], "/v1/memories", project="memex", user_id="kim", owner=OWNER, visibility=visibility,
                shared_with=[FRIEND], content=f"zqmemex{visibility} likes herons", keep_duplicates=True,
            )  # fmt: skip
        await clients[CREATOR].get("/v1/memories", params={"after": told["position"]})
        for agent in (CREATOR, OWNER, FRIEND, STRANGER):
            arguments = {"agent_id": agent, "user_id": "kim", "query": "herons", "top_k": 50}
            answer = await mcp(clients[agent], "tools/call", {"name": "search_memories", "arguments": arguments})
            assert answer.json()["result"]["isError"] is False
            shown = [one for one in VISIBILITIES if f"zqmemex{one}" in answer.text]
            assert shown == (list(VISIBILITIES) if agent == CREATOR else []), agent
