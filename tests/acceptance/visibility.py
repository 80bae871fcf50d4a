"""What the tests of visibility share: memories that are planted, everybody who asks for them, and ways of reading."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import uuid4

import httpx
import pytest
from together import Together
from waiting import wait_until

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
        if told.get("error", {}).get("message", "").startswith("there is no resource"):
            return b""  # as 404 is; it repeats the address
        assert "error" not in told, f"{answer.request.content!r}: {told}"
        assert not told["result"].get("isError"), f"{answer.request.content!r}: {told}"
    return answer.content


@pytest.fixture(scope="session")
def matrix_server(cache_dir: Path, together: Together) -> Server:
    """A server for these tests alone: some ways of reading know no project."""
    return together(running(cache_dir, partitions=4))


@pytest.fixture(scope="session")
def planted_memories(matrix_server: Server) -> list[Planted]:
    """A memory of every visibility, found by words and by meaning."""
    return asyncio.run(_plant(matrix_server))


@pytest.fixture
async def everybody(matrix_server: Server) -> AsyncGenerator[dict[str, httpx.AsyncClient]]:
    async with opened(matrix_server) as found:
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
    async with opened(server) as clients:
        found = [await plant(clients, visibility) for visibility in VISIBILITIES]
        for one in found:
            await wait_until(lambda one=one: _embedded(clients[CREATOR], one))
    return found


async def plant(clients: dict[str, httpx.AsyncClient], visibility: Visibility, **more: Any) -> Planted:
    """Write a memory with these fields, and what surrounds it, in a new project."""
    carol, somebody = clients[CREATOR], clients[STRANGER]
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
        title=f"/memories/{mark}.md",
        tags=["bug", "preference", f"{mark}-tag", f"file:/memories/{mark}.md"],
        concepts=["heron", f"{mark}-concept"],
        files=["src/heron.py", f"src/{mark}.py"],
        references=[f"{mark}-reference"],
        metadata={f"{mark}-name": f"{mark}-value"},
        trace=f"{mark}-trace",
        keep_duplicates=True,
        **more,
    )
    relation = await write(carol, "/v1/relations", project=project, source=before["id"], target=kept["id"],
                           relation="explains", confidence=0.9)  # fmt: skip
    names = (kept["id"], before["id"], before["position"], relation["id"])
    return Planted(visibility, mark, word, project, *names)


async def _embedded(client: httpx.AsyncClient, planted: Planted) -> bool:
    asked = {"query": planted.word, "mode": "vector", "project": planted.project, "limit": 200, "explain": True}
    results = (await client.post("/v1/recall", json=asked)).json()["results"]
    return sum("cosine" in result["explain"] for result in results) == 3


async def faults(clients: dict[str, httpx.AsyncClient], planted: Sequence[Planted], reads: Sequence[Read]) -> list[str]:
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
