"""Every route, tool, resource and prompt that takes the id of a session, an agent or a user answers its caller.

What takes such an id is read from the OpenAPI documents and the MCP schemas of the running server, so a new route is
asked here without a line; one that the walk cannot ask so that its own author gets an answer fails the test. The walk
runs on a server of each scope. Shared, the mark is in a private memory; isolated, in everything that its author wrote.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import httpx
import pytest
from waiting import wait_until

from api.dialects.profiles import PROFILES
from tests.acceptance.running import SECRET, Doors, every_dialect
from tests.acceptance.test_authorisation_walk import (
    PROJECT,
    SESSION,
    Planted,
    Way,
    calls,
    heard,
    rpc,
    variants,
    ways,
)

AUTHOR, INTRUDER, USER = "nora", "dave", "lou"
OWN_PROJECT, OWN_SESSION = "aviary", "aviary-s1"
SPECIFICATIONS = {
    "native": "/openapi.json",
    "agentmemory": "/agentmemory/openapi.json",
    "agentd": "/openapi.json",
    "agent_memory": "/openapi.json",
    "memex": "/openapi.json",
}
IDENTITY = re.compile(
    r"^(?!max|include).*(session|conversation|agent|actor|author|owner|created_?by|user|subject)", re.I
)
"""In the name of a parameter that says whose a thing is; `subject` is the session or user of POST /v1/forget."""
RENAMED = {PROJECT: OWN_PROJECT, SESSION: OWN_SESSION, "carol": AUTHOR, "intruder": INTRUDER, "kim": USER}
DESTRUCTIVE = re.compile(
    r"^DELETE|^PATCH|^PUT|evolve|forget|evict|tool revise|tool delete_memory|v1/inbox|slot_delete"
    r"|lesson_delete|governance|v1/actions/.*(claim|renew|release|complete)|tool claim"
)
SHOWN = {
    "agentmemory GET /agentmemory/memories",
    "agentmemory POST /agentmemory/context",
    "agentmemory POST /agentmemory/enrich",
    "agentmemory POST /agentmemory/search",
    "agentmemory POST /agentmemory/session/start",
    "agentmemory POST /agentmemory/smart-search",
    "native POST /v1/context",
    "native POST /v1/recall",
    "prompt recall",
    "tool context",
    "tool memory_recall",
    "tool memory_smart_search",
}
"""What must show the mark to its author, in both scopes, so that the silence towards others says something."""
CLAIMS = [f"native POST /v1/actions/{{id}}/{way}" for way in ("renew", "release", "complete")]
UNANSWERED = {
    "agentmemory POST /agentmemory/antigravity/sync": "for operators alone, who read everything",
    "native POST /v1/actions/claim_next": "no action is free once the walk has claimed each",
    **dict.fromkeys(CLAIMS, "for the holder of a claim, by its token"),
}
"""What the author is not answered either, and why."""
STATED: Mapping[str, dict[str, Any]] = {
    "native POST /v1/inbox/{id}": {"decision": "approve"},
    "native POST /v1/feedback": {"verdict": "helped", "recall_id": "01KGA2V0C0QZ2X8W6M4N1P3R5T"},
    **{way: {"token": "0:1-0"} for way in CLAIMS},
    "agentd POST /memories": {"type": "information"},
    "agentd POST /memories/search": {"type": "information"},
    "agentd PUT /memories/{id}/visibility": {"visibility": "private"},
    "agent_memory POST /api/observations": {"type": "discovery", "project": OWN_PROJECT},
    "agent_memory POST /api/sessions": {"session_id": f"{OWN_SESSION}-2", "project": OWN_PROJECT},
    "agent_memory PATCH /api/sessions/{session_id:path}": {"status": "completed"},
}
"""What the bodies of some routes say besides, or instead."""


FILTERED = {"/v1/recall", "/v1/context", "/agentmemory/search"}
"""Where a session or a user filters: asked without it, too."""
TOOLS = {
    tool.name: {*tool.input_schema["properties"], *tool.also} for profile in PROFILES.values() for tool in profile.tools
}


class Request(NamedTuple):
    """One request of the walk: what it is called, and how it is sent."""

    name: str
    way: Way | None
    path: str
    query: dict[str, str]
    body: Any


def properties_of(schema: Mapping[str, Any] | None, components: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a schema, those of its alternatives included."""
    if not schema:
        return {}
    if "$ref" in schema:
        return properties_of(components[schema["$ref"].rsplit("/", 1)[1]], components)
    found: dict[str, Any] = dict(schema.get("properties", {}))
    for one in [*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", []), schema.get("items")]:
        found |= properties_of(one, components)
    return found


async def identities(client: httpx.AsyncClient, urls: Mapping[str, str]) -> dict[Way, dict[str, Any]]:
    """The parameters of every route that say whose a thing is, with their schemas; a path's own has an empty name."""
    found: dict[Way, dict[str, Any]] = {}
    described = set[tuple[str, str, str]]()
    for call, path in SPECIFICATIONS.items():
        document = (await client.get(urls[call] + path)).json()
        components = document.get("components", {}).get("schemas", {})
        for route, methods in document["paths"].items():
            for method, operation in methods.items():
                named = {one["name"]: one.get("schema", {}) for one in operation.get("parameters", [])}
                for content in operation.get("requestBody", {}).get("content", {}).values():
                    named |= properties_of(content.get("schema"), components)
                taken = {name: schema for name, schema in named.items() if IDENTITY.search(name) and "-" not in name}
                if "{" in route and IDENTITY.search(route.partition("{")[0]):
                    taken[""] = {}
                described.add((call, method.upper(), route))
                if taken:
                    found[Way(call, method.upper(), route)] = taken
    undescribed = [
        way for way in ways() if (way.call, way.method, re.sub(r":\w+}", "}", way.path)) not in described
        and way.path != "/mcp" and not way.path.startswith(("/openapi", "/docs", "/redoc"))
    ]  # fmt: skip
    assert undescribed == [], "these are in no OpenAPI document, which the walk reads"
    return found


def renamed(value: Any) -> Any:
    """The same request about what is planted here."""
    match value:
        case str():
            return RENAMED.get(value, value)
        case dict():
            return {name: renamed(one) for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [renamed(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def identity(name: str) -> str:
    """Whom or what a parameter of this name is to say."""
    if re.search(r"session|conversation", name, re.I):
        return OWN_SESSION
    return USER if "user" in name.lower() else AUTHOR


def naming(stated: dict[str, Any], schemas: Mapping[str, Any], *, agents: bool) -> dict[str, Any]:
    """A request's arguments with the author's session and user in them; with its name too, or with no agent's."""
    named = dict(stated)
    for name, schema in schemas.items():
        value = identity(name)
        if not name or name == "subject":
            continue
        if value == AUTHOR and not agents:
            named.pop(name, None)
        else:
            named[name] = (
                [value] if "array" in str(schema.get("type")) and "string" not in str(schema.get("type")) else value
            )
    return named


def requests_of(planted: Planted, taken: Mapping[Way, Mapping[str, Any]], *, agents: bool) -> Iterator[Request]:
    """A request to every route that takes an identity, with the author's."""
    by_route = {(way.call, way.method, re.sub(r":\w+}", "}", way.path)): way for way in ways()}
    for described, schemas in taken.items():
        way = by_route[described.call, described.method, described.path]
        for query, body in variants(way, planted.ids, planted.before):
            in_query = way.method in ("GET", "DELETE")
            asked = naming(renamed(query), schemas, agents=agents) if in_query else {}
            sent = renamed(body)
            if isinstance(sent, dict) and not in_query:
                sent = naming(sent, schemas, agents=agents) | {  # pyright: ignore[reportUnknownArgumentType]
                    name: value.format(**planted.ids)
                    for name, value in STATED.get(f"{way.call} {way.method} {way.path}", {}).items()
                }
            if way.path == "/v1/events" and way.method == "POST":
                line = {"type": "observe", "project": OWN_PROJECT, "session_id": OWN_SESSION, "content": "x"}
                sent = [line | {"agent_id": AUTHOR} if agents else line]
            for path in paths_of(way, planted):
                yield Request(f"{way.call} {way.method} {way.path}", way, path, asked, sent)
                if way.path in FILTERED:
                    yield Request(f"{way.call} {way.method} {way.path}", way, path, asked, renamed(body))


def paths_of(way: Way, planted: Planted) -> list[str]:
    """The addresses of what is planted that a route's path stands for."""
    path = way.path.replace("{label}", "plans").replace("{name}", "main.js")
    if "{" not in path:
        return [path]
    values = [OWN_SESSION] if "session" in way.path else [*planted.ids.values()]
    return [re.sub(r"\{\w+(:path)?\}", value, path) for value in values]


class Scoped(NamedTuple):
    """A server of one scope, with what its author planted."""

    scope: Literal["shared", "isolated"]
    planted: Planted
    mark: str


@pytest.fixture(scope="module", params=["shared", "isolated"])
def scoped(request: pytest.FixtureRequest, cache_dir: Path) -> Iterator[Scoped]:
    scope: Literal["shared", "isolated"] = request.param
    with every_dialect(cache_dir, partitions=2, embedder="none", agent_scope=scope) as doors:
        yield asyncio.run(_plant(doors, scope))


async def _plant(doors: Doors, scope: Literal["shared", "isolated"]) -> Scoped:
    mark, ids = f"zqy{uuid4().hex[:10]}", {"sha": f"c0ffee{uuid4().hex}"}
    names = ("agentmemory", "agentd", "agent_memory", "memex", "memex_mcp")
    urls = {"native": doors.server.url, **{name: getattr(doors, name) for name in names}}
    said = "the heron stands in the reeds"
    hidden = f"{mark}: {said}"
    everywhere = hidden if scope == "isolated" else said
    place = {"project": OWN_PROJECT, "session_id": OWN_SESSION, "user_id": USER}
    async with doors.server.client(AUTHOR) as client:

        async def write(noun: str, path: str, **command: Any) -> str:
            answer = await client.post(path, json=command)
            assert answer.status_code in (200, 201, 202), f"{path}: {answer.text}"
            told = answer.json()
            if noun:
                ids[noun] = told["id"]
            return told["position"]

        before = await write("", "/v1/sessions", **place, status="started", title=everywhere)
        await write("observation", "/v1/observations", **place, content=everywhere, data={"file_path": "src/heron.py"})
        # of no session: a context leaves out what is of the session that it is for
        await write("memory", "/v1/memories", project=OWN_PROJECT, content=hidden, title=hidden, concepts=["heron"],
                    files=["src/heron.py"], visibility="private")  # fmt: skip
        await write("lesson", "/v1/lessons", project=OWN_PROJECT, content=everywhere, trigger_tool="Bash")
        await write("action", "/v1/actions", project=OWN_PROJECT, title=everywhere)
        await write("second", "/v1/actions", project=OWN_PROJECT, title=everywhere)
        remembered = {"content": everywhere, "created_by": AUTHOR, "visibility": "private", "type": "information"}
        made = await client.post(f"{urls['agentd']}/memories", json=remembered)
        ids["agentd"] = made.json()["id"]
        await write("", "/v1/memories", project="memex", user_id=USER, content=hidden, visibility="private",
                    keep_duplicates=True)  # fmt: skip
        remembered = {
            "content": everywhere,
            "agent_id": AUTHOR,
            "user_id": USER,
            "memory_type": "semantic",
            "importance": 1,
        }
        made = await client.post(f"{urls['memex']}/v1/memories", json=remembered)
        ids["memex"] = made.json()["id"]
        last = await write("commit", "/v1/commits", project=OWN_PROJECT, session_id=OWN_SESSION, commit=ids["sha"],
                           message=everywhere)  # fmt: skip

        async def projected() -> bool:
            return (await client.get("/v1/memories", params={"project": OWN_PROJECT, "after": last})).status_code == 200

        await wait_until(projected)
        made = await client.post(f"/v1/sessions/{OWN_SESSION}/summary", json={"project": OWN_PROJECT})
        last = made.json()["position"]
        await wait_until(projected)
        listed = (await client.get("/v1/summaries", params={"project": OWN_PROJECT})).json()["items"]
        ids["summary"] = listed[0]["id"]
        keys = {
            "one agent": {"roles": ["read", "write"], "agents": [INTRUDER]},
            "reads and writes": {"roles": ["read", "write"]},
            "author": {"roles": ["read", "write", "admin"]},
        }
        grants = {
            name: await client.post("/v1/admin/keys", json={"name": name, **grant}) for name, grant in keys.items()
        }
        tokens = {name: answer.json()["key"] for name, answer in grants.items()}

        async def known() -> bool:
            async with doors.server.client(secret=tokens["author"]) as own:
                return (await own.get("/readyz")).status_code == 200

        await wait_until(known)
    return Scoped(scope, Planted(doors.server, urls, ids, before, tokens | {"the operator": SECRET}), mark)


def client_of(scoped: Scoped, key: str, agent: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {scoped.planted.keys[key]}"} | ({"X-Agent-Id": agent} if agent else {})
    return httpx.AsyncClient(headers=headers, timeout=30, trust_env=False)


async def answers(
    client: httpx.AsyncClient, scoped: Scoped, *, agents: bool, destructive: bool
) -> AsyncGenerator[tuple[str, int, bytes]]:
    """The answers to every request of the walk: what was asked, its status, its body."""
    planted = scoped.planted
    async with client_of(scoped, "the operator", "") as operator:
        taken = await identities(operator, planted.urls)
    for request in requests_of(planted, taken, agents=agents):
        if bool(DESTRUCTIVE.search(request.name.partition(" ")[2])) is destructive and request.way is not None:
            status, told = await heard(
                client, request.way.method, planted.urls[request.way.call] + request.path, request.query, request.body
            )
            yield request.name, status, told
    for what, method, params in calls(planted.ids):
        if bool(DESTRUCTIVE.search(what)) is not destructive:
            continue
        params = renamed(params)
        if method == "resources/read":
            params = {"uri": params["uri"].replace(SESSION, OWN_SESSION).replace(PROJECT, OWN_PROJECT)}
        elif method == "tools/call":
            stated: dict[str, Any] = {name: {} for name in TOOLS[params["name"]] if IDENTITY.search(name)}
            plain, params = params, {**params, "arguments": naming(params["arguments"], stated, agents=agents)}
            answer = await rpc(client, planted.urls["native"], method, plain)  # there, too, a session filters
            yield what, answer.status_code, answer.content
        answer = await rpc(client, planted.urls["native"], method, params)
        yield what, answer.status_code, answer.content


async def shown(scoped: Scoped, key: str, agent: str, *, agents: bool, destructive: bool = False) -> list[str]:
    """What shows the mark to a caller."""
    async with client_of(scoped, key, agent) as client:
        return [
            f"{what}: {status} {told[:600]!r}"
            async for what, status, told in answers(client, scoped, agents=agents, destructive=destructive)
            if scoped.mark.encode() in told or status >= 500
        ]


async def test_what_takes_an_id_answers_its_caller_and_not_whom_the_id_belongs_to(scoped: Scoped):
    visible = set[str]()
    for destructive in (False, True):  # what changes or deletes the documents comes last
        if not destructive:
            visible = await _answered_to_the_author(scoped, destructive=False)
            missing = sorted(SHOWN - visible)
            assert missing == [], "its author must see it there, or the silence below says nothing"
        faults = await shown(scoped, "one agent", "", agents=True, destructive=destructive)
        faults += await shown(scoped, "one agent", INTRUDER, agents=True, destructive=destructive)
        faults += await shown(scoped, "reads and writes", INTRUDER, agents=False, destructive=destructive)
        faults += await shown(scoped, "reads and writes", "", agents=False, destructive=destructive)
        assert not faults, "\n".join(faults)
    await _answered_to_the_author(scoped, destructive=True)


async def _answered_to_the_author(scoped: Scoped, *, destructive: bool) -> set[str]:
    """What shows the mark to its author; each request must be one that the server can carry out for somebody."""
    async with client_of(scoped, "author", AUTHOR) as client:
        told = [answer async for answer in answers(client, scoped, agents=True, destructive=destructive)]
    answered = {what for what, status, _ in told if status < 300 or (destructive and status == 404)}
    unasked = [f"{one[0]}: {one[1]} {one[2][:300]!r}" for one in told if one[0] not in answered | UNANSWERED.keys()]
    assert not unasked, "the walk does not know how to ask these:\n" + "\n".join(unasked)
    return {what for what, _, body in told if scoped.mark.encode() in body}


async def test_agentd_shows_the_public_memories_of_others_in_shared_scope_alone(scoped: Scoped):
    url, content = f"{scoped.planted.urls['agentd']}/memories", f"public {uuid4().hex}"
    async with client_of(scoped, "reads and writes", "") as client:
        assert (await client.post(url, json={"content": content, "created_by": AUTHOR})).status_code == 201
        told = {actor: (await client.get(url, params={"as_actor": actor})).text for actor in (AUTHOR, INTRUDER)}
        nameless = await client.get(url)
    assert content in told[AUTHOR]
    assert (content in told[INTRUDER]) is (scoped.scope == "shared")
    assert (nameless.status_code, content in nameless.text) == (
        (200, True) if scoped.scope == "shared" else (400, False)
    )
