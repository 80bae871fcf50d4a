"""Every route, tool, resource, prompt, socket and stream, tried with keys that may not: nothing leaks or is stored.

The ways in are read from the routing tables of the running applications and from the MCP profiles, so a new one is
walked without a line here. A document of every noun, with a mark in its text, is planted in one project of one tenant.
What shows the mark to the operator is what the walk with the other keys has to be silent about.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import httpx
import pytest
import websockets
from oauth_issuer import Issuer
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute
from waiting import wait_until

from api.access.admission import Guarded
from api.access.keys import Grant, Registry, mint
from api.app import create_listeners
from api.dialects.profiles import PROFILES
from api.http.serving import Listeners
from ingest.platform.connections import connect
from ingest.platform.settings import DROP_INS, Settings
from ingest.roles import ADMIN, ANY, METRICS, OPERATOR, READ, READ_WRITE, ROLES, WRITE, Needs, Role, allow
from mcp_gateway.declaring import fixed_lists
from projections.health.diagnosis import CATEGORIES, OF_THE_SERVER
from tests.acceptance.running import SECRET, Doors, Server

MARK = f"zqx{uuid4().hex[:10]}"
"""In every text that is planted, and nowhere else."""
PROJECT, OTHER = "orchard", "quarry"
SESSION, WORD, INTRUDER = "orchard-s1", "heron", "intruder"
PORT_CLIENTS = ("native", "agentmemory", "agentd", "agent_memory", "memex", "memex_mcp")
OPEN = {
    ("native", "GET", "/livez"),
    ("native", "GET", "/viewer"),
    ("native", "GET", "/viewer/{name}"),
    ("agentmemory", "GET", "/agentmemory/livez"),
    ("agentmemory", "GET", "/"),
    ("agentmemory", "GET", "/favicon.svg"),
}
"""Ways in that ask for no key, and tell nothing."""
OF_OPERATORS = {
    "native GET /v1/admin/projections",
    "native GET /v1/admin/rebuilds",
    "native GET /v1/admin/rebuilds/{id}",
    "native GET /v1/admin/reconcile",
    "native POST /v1/admin/purge",
    "native POST /v1/admin/rebuilds",
    "native POST /v1/admin/rebuilds/{id}/cancel",
    "native POST /v1/admin/rebuilds/{id}/rollback",
    "native POST /v1/admin/rebuilds/{id}/switch",
    "native POST /v1/admin/reconcile",
    "native POST /v1/admin/snapshots",
    "agentmemory POST /agentmemory/antigravity/sync",
    "agentmemory POST /agentmemory/replay/import-jsonl",
    "agent_memory GET /api/admin/re-embed/status",
    "agent_memory GET /api/admin/stats",
    "agent_memory POST /api/admin/re-embed",
    "agent_memory POST /api/admin/re-embed/cancel",
    "tool memory_antigravity_sync",
    "tool memory_antigravity_sync_all",
}
"""What concerns the server as a whole: nobody who is admin of a tenant or a project may use it."""
OF_METRICS = {
    "native GET /metrics",
    "agentd GET /metrics",
    "memex GET /metrics",
    "agentmemory GET /agentmemory/diagnostics/followup",
}
KINDS: Mapping[str, frozenset[Role]] = {
    "the operator": frozenset(ROLES),
    "operator": OPERATOR,
    "metrics": METRICS,
    "admin of the tenant": ADMIN,
    "another tenant": READ_WRITE | ADMIN,
    "another project": READ_WRITE | ADMIN,
    "reads and writes": READ_WRITE,
    "only reads": READ,
    "only writes": WRITE,
    "one agent": READ_WRITE,
    "a token that reads": READ,
    "a token of an admin": ADMIN,
}
"""Keys and access tokens that hold, by what they are called here, with their roles."""
THAT_DO_NOT_HOLD = ("", "garbage", "never made", "expired", "revoked", "a token for another server")
REFUSED = re.compile(r"this (key|token) has no \w+( and no \w+)* role")


Answering: TypeAlias = Awaitable[tuple[int, bytes]]


class Way(NamedTuple):
    """One method of one path of one door."""

    call: str
    method: str
    path: str


class Planted(NamedTuple):
    """The server, where its doors are, and what was planted."""

    server: Server
    urls: Mapping[str, str]
    ids: Mapping[str, str]
    before: str
    keys: Mapping[str, str]

    def client(self, key: str) -> httpx.AsyncClient:
        """A client with a key, by what it is called here; an empty one has none."""
        given = self.keys.get(key, key)
        headers = {"Authorization": f"Bearer {given}"} if given else {}
        # fewer answers are worth waiting for than a stream that nobody writes to
        return httpx.AsyncClient(headers=headers | {"X-Agent-Id": INTRUDER}, timeout=30, trust_env=False)


def doors() -> Listeners:
    """The applications, as the server has them."""
    ports = {"agentd_ports": (2,), "agent_memory_ports": (3,), "memex_ports": (4,), "memex_mcp_ports": (5,)}
    folder = Path("-")
    return create_listeners(
        Settings(redis_url="redis://localhost:1", data_dir=folder, cache_dir=folder, drop_in=DROP_INS, **ports)  # pyright: ignore[reportArgumentType]
    )


def apps() -> dict[str, Starlette]:
    """The application of each door."""
    made = doors()
    return dict(
        zip(
            PORT_CLIENTS,
            [made.native, made.on_main_port[0][1], *(made.by_port[port] for port in (2, 3, 4, 5))],
            strict=True,
        )
    )


@cache
def ways() -> list[Way]:
    """Every way in by HTTP."""
    return [
        Way(call, method, route.path)
        for call, app in apps().items()
        for route in app.routes
        if isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"})
    ]


# what is asked


def native_bodies(ids: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Bodies of the native routes, which refuse what they do not know."""
    written = {"project": PROJECT, "content": "an intruder was here", "event_id": uuid4().hex}
    of_session = {**written, "session_id": SESSION}
    return {
        "POST /v1/observations": [of_session],
        "POST /v1/memories": [written, {**written, "project": ""}],
        "POST /v1/lessons": [written],
        "POST /v1/sessions": [{"project": PROJECT, "session_id": SESSION, "status": "ended"}],
        "POST /v1/slots": [
            {"project": PROJECT, "label": "plans", "content": "x"},
            {"label": "g", "content": "x", "scope": "global"},
        ],
        "POST /v1/actions": [{"project": PROJECT, "title": "x"}],
        "PATCH /v1/actions/{id}": [{"status": "done", "project": PROJECT}, {"status": "done"}],
        "PATCH /v1/memories/{id}": [{"content": "an intruder was here"}, {"visibility": "private"}],
        "PATCH /v1/lessons/{id}": [{"content": "an intruder was here"}],
        "POST /v1/relations": [{"project": PROJECT, "source": ids["memory"], "target": ids["lesson"], "relation": "x"}],
        "POST /v1/commits": [
            {"project": PROJECT, "commit": "abc", "session_id": SESSION},
            {"commit": "abd", "session_id": SESSION},
        ],
        "POST /v1/recall": [
            {"query": WORD, "limit": 200},
            {"query": WORD, "project": PROJECT},
            {"query": WORD, "projects": [PROJECT]},
        ],
        "POST /v1/context": [{"project": PROJECT, "query": WORD, "token_budget": 100_000}],
        "POST /v1/lessons/search": [{"query": WORD}, {"query": WORD, "project": PROJECT}],
        "POST /v1/crystals": [{"action_ids": [ids["action"]]}],
        "POST /v1/consolidate": [{"project": PROJECT}],
        "POST /v1/reflect": [{"project": PROJECT}],
        "POST /v1/sessions/{id:path}/summary": [{}, {"project": PROJECT}],
        "POST /v1/sessions/{id:path}/reflect": [{}, {"project": PROJECT}],
        "POST /v1/forget": [
            {"kind": "project", "subject": PROJECT},
            {"kind": "session", "subject": SESSION},
            {"kind": "user", "subject": "kim"},
        ],
        "POST /v1/admin/keys": [{"name": "x", "roles": ["read"], "tenant": "default", "projects": [PROJECT]}],
    }


QUERIES: dict[str, list[dict[str, str]]] = {
    "GET /v1/lessons/match": [{"tool_name": "Bash", "preview": WORD, "project": PROJECT}],
    "GET /v1/profile": [{"project": PROJECT, "user_id": "kim"}],
    "GET /v1/graph": [
        {},
        {"project": PROJECT},
        {"start": "{memory}", "depth": "3"},
        {"start": "concept:heron", "depth": "3"},
    ],
    "GET /v1/audit": [{"operation": "*", "project": PROJECT}, {"operation": "*"}],
    "GET /v1/live": [{"after": "{before}", "limit": "1", "project": PROJECT}],
}


def kitchen_sink(ids: Mapping[str, str]) -> dict[str, Any]:
    """What the dialects' endpoints take, all at once: they pass over what they do not know."""
    memory, lesson, action = ids["memory"], ids["lesson"], ids["action"]
    return {
        "project": PROJECT,
        "sessionId": SESSION,
        "session_id": SESSION,
        "query": WORD,
        "content": "an intruder was here",
        "text": "x",
        "title": "x",
        "topic": WORD,
        "id": memory,
        "memoryId": memory,
        "memoryIds": [memory],
        "memory_id": memory,
        "lessonId": lesson,
        "actionId": action,
        "actionIds": [action],
        "expandIds": [memory, ids["observation"]],
        "sourceId": memory,
        "targetId": lesson,
        "relation": "x",
        "type": "related",
        "label": "plans",
        "file": "note.md",
        "sha": ids["sha"],
        "files": ["src/heron.py"],
        "terms": [WORD],
        "anchor": WORD,
        "tool_name": "Bash",
        "newContent": "an intruder was here",
        "name": "memory_recall",
        "arguments": {"query": WORD},
        "budget": 4000,
        "created_by": INTRUDER,
        "agent_id": "carol",
        "user_id": "kim",
        "cwd": "/x",
        "hookType": "post_tool_use",
        "timestamp": "2026-01-31T12:00:00Z",
        "data": {"tool_name": "x"},
        "status": "done",
        "tool_response_preview": "x",
    }


async def ask(client: httpx.AsyncClient, planted: Planted, way: Way, *, once: bool = False) -> list[tuple[int, bytes]]:
    """The answers to everything that is asked of one way in, or to the first question."""
    ids, told = planted.ids, list[tuple[int, bytes]]()
    named = "{id" in way.path or "{memory_id" in way.path or "{session_id" in way.path
    names = [*ids.values()] if named and "sessions" not in way.path else [SESSION]
    for name in names if named else [""]:
        path = way.path
        for part in ("{id:path}", "{id}", "{memory_id}", "{session_id:path}"):
            path = path.replace(part, name)
        path = path.replace("{label}", "plans").replace("{name}", "main.js")
        for query, body in variants(way, ids, planted.before):
            url = planted.urls[way.call] + path
            told.append(await heard(client, way.method, url, query, body))
            if once:
                return told
    return told


def variants(way: Way, ids: Mapping[str, str], before: str) -> list[tuple[dict[str, str], Any]]:
    """Queries and bodies for a way in."""
    asked = f"{way.method} {way.path}"
    if way.call == "native":
        if way.method in ("GET", "DELETE"):
            default: list[dict[str, str]] = [{}, {"project": PROJECT}]
            queries = QUERIES.get(asked, default)
            known = {**ids, "before": before}
            return [({name: value.format(**known) for name, value in query.items()}, None) for query in queries]
        return [({}, body) for body in native_bodies(ids).get(asked, [{}])]
    sink = kitchen_sink(ids)
    if way.method in ("GET", "DELETE"):
        as_query = {name: value for name, value in sink.items() if isinstance(value, str)}
        everything: dict[str, str] = {}
        return [(as_query, sink if way.method == "DELETE" else None), (everything, None)]
    return [({}, sink), ({}, {name: value for name, value in sink.items() if name != "project"})]


async def heard(
    client: httpx.AsyncClient, method: str, url: str, query: Mapping[str, str], body: Any
) -> tuple[int, bytes]:
    """Status and body; of a stream what it says until it is silent."""
    said = b""
    async with client.stream(method, url, params=dict(query), json=body) as answer:
        endless = answer.headers.get("content-type", "").startswith("text/event-stream")
        try:
            async with asyncio.timeout(1.0 if endless else 30):
                async for chunk in answer.aiter_bytes():
                    said += chunk
        except TimeoutError:
            assert endless, url
    return answer.status_code, said


async def rpc(client: httpx.AsyncClient, url: str, method: str, params: Mapping[str, Any]) -> httpx.Response:
    """One MCP request to all profiles."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return await client.post(f"{url}/mcp", params={"profile": "all"}, json=request, headers=headers)


def calls(ids: Mapping[str, str]) -> list[tuple[str, str, dict[str, Any]]]:
    """Every call of MCP: what it is called, its method, its parameters."""
    sink = kitchen_sink(ids) | {
        "author": "",
        "limit": 50,
        "token_budget": 10_000,
        "memory": ids["memory"],
        "action": "list",
    }
    found: list[tuple[str, str, dict[str, Any]]] = []
    for tool in (tool for profile in PROFILES.values() for tool in profile.tools):
        properties = tool.input_schema["properties"]
        arguments = {name: sink[name] for name in properties if name in sink and name not in ("agent_id", "type")}
        found.append((f"tool {tool.name}", "tools/call", {"name": tool.name, "arguments": arguments}))
        without = {name: value for name, value in arguments.items() if name != "project"}
        found.append((f"tool {tool.name}", "tools/call", {"name": tool.name, "arguments": without}))
    found += [
        (f"tool recall, {noun}", "tools/call", {"name": "recall", "arguments": {"ids": [ids[noun]]}})
        for noun in ("memory", "lesson", "observation", "summary", "action")
    ]
    attached = PROFILES.offer(tuple(PROFILES)).attachments
    found += [(method, method, {}) for method in fixed_lists(attached)]
    for uri in (resource.uri for resource in (*attached.resources, *attached.templates)):
        for address in addresses(uri, ids):
            found.append((f"resource {uri}", "resources/read", {"uri": address}))
    for prompt in attached.prompts:
        stated = {"task_description": WORD, "task": WORD, "topic": WORD, "project": PROJECT, "session_id": SESSION}
        found.append((f"prompt {prompt.name}", "prompts/get", {"name": prompt.name, "arguments": stated}))
    return found


def addresses(template: str, ids: Mapping[str, str]) -> set[str]:
    """The addresses of what is planted that a template stands for."""
    known = {"name": PROJECT, "project": PROJECT, "session_id": SESSION}
    for name, value in known.items():
        template = template.replace(f"{{{name}}}", value)
    filled = {template.replace("{id}", name) for name in ids.values()}
    filled = {one.replace("{?project}", query) for one in filled for query in ("", f"?project={PROJECT}")}
    assert not any("{" in one for one in filled), f"the walk does not know what to put into {template}"
    return filled


# the server


@pytest.fixture(scope="module")
def planted(guarded: Doors, issuer: Issuer) -> Planted:
    """A server with every dialect's port, what is planted in it, and keys of every kind."""
    urls = {name: getattr(guarded, name) for name in ("agentmemory", "agentd", "agent_memory", "memex", "memex_mcp")}
    return asyncio.run(_plant(guarded.server, issuer, {"native": guarded.server.url, **urls}))


async def _plant(server: Server, issuer: Issuer, urls: Mapping[str, str]) -> Planted:
    ids: dict[str, str] = {"sha": f"c0ffee{uuid4().hex}"}
    said = f"{MARK}: the {WORD} stands in the reeds"
    place = {"project": PROJECT, "session_id": SESSION, "agent_id": "carol", "user_id": "kim"}
    async with server.client("carol") as client:

        async def write(noun: str, path: str, url: str = "", **command: Any) -> dict[str, Any]:
            answer = await client.post((url or server.url) + path, json=command)
            assert answer.status_code in (200, 201, 202), f"{path}: {answer.text}"
            told = answer.json()
            if noun:
                ids[noun] = str(told["id"])
            return told

        begun = await write("", "/v1/sessions", **place, status="started", title=said)
        await write("observation", "/v1/observations", **place, content=said, data={"file_path": "src/heron.py"})
        await write("memory", "/v1/memories", **place, content=said, title=said, concepts=["heron"],
                    files=["src/heron.py"], tags=["bug", "preference"])  # fmt: skip
        await write("lesson", "/v1/lessons", project=PROJECT, content=said, trigger_tool="Bash", trigger_pattern=WORD)
        await write("slot", "/v1/slots", project=PROJECT, label="plans", content=said, pinned=True)
        await write("action", "/v1/actions", project=PROJECT, title=said)
        await write("commit", "/v1/commits", project=PROJECT, session_id=SESSION, commit=ids["sha"], message=said)
        await write("", "/v1/admin/keys", name=f"key of the {WORD}", roles=["read"], projects=[PROJECT])
        await write("agentd", "/memories", urls["agentd"], content=said, created_by="carol")
        await write("", "/v1/memories", urls["memex"], agent_id="carol", user_id="kim", content=said,
                    memory_type="semantic", importance=1)  # fmt: skip
        await write("", "/api/lessons", urls["agent_memory"], title=said, rule=said, project=PROJECT)
        await write("", "/api/observations", urls["agent_memory"], session_id=SESSION, project=PROJECT, title=said,
                    type="discovery", narrative=said)  # fmt: skip
        made = await client.post(f"/v1/sessions/{SESSION}/summary", json={"project": PROJECT})
        assert made.status_code == 202, made.text
        relation = await write("relation", "/v1/relations", project=PROJECT, source=ids["memory"], target=ids["lesson"],
                               relation=f"{MARK}-of")  # fmt: skip
        await wait_until(lambda: _projected(client, relation["position"]))
        listed = (await client.get("/v1/summaries", params={"project": PROJECT})).json()["items"]
        ids["summary"] = listed[0]["id"]
        keys = await _keys(server, issuer, client)
    return Planted(server, urls, ids, begun["position"], keys)


async def _projected(client: httpx.AsyncClient, position: str) -> bool:
    return (await client.get("/v1/relations", params={"project": PROJECT, "after": position})).status_code == 200


async def _keys(server: Server, issuer: Issuer, client: httpx.AsyncClient) -> dict[str, str]:
    """Keys and tokens that may not, by what is wrong with them."""
    every = ["read", "write", "admin"]
    scopes = "mnemolog:read mnemolog:write mnemolog:admin"
    grants: dict[str, dict[str, Any]] = {
        "another tenant": {"roles": every, "tenant": "elsewhere"},
        "another project": {"roles": every, "projects": [OTHER]},
        "only reads": {"roles": ["read"]},
        "only writes": {"roles": ["write"]},
        "reads and writes": {"roles": ["read", "write"]},
        "one agent": {"roles": ["read", "write"], "agents": ["dave"]},
        "admin of the tenant": {"roles": ["admin"]},
        "metrics": {"roles": ["metrics"]},
        "operator": {"roles": ["operator"]},
        "revoked": {"roles": every},
    }
    found: dict[str, str] = {
        "": "",
        "garbage": "mnk_nobody",
        "the operator": SECRET,
        "a token that reads": issuer.token("mnemolog:read"),
        "a token of an admin": issuer.token("mnemolog:admin"),
        "a token of another tenant": issuer.token(scopes, tenant="elsewhere"),
        "a token for another project": issuer.token(scopes, projects=[OTHER]),
        "a token for another server": issuer.token(scopes, aud="https://elsewhere.example/mcp"),
    }
    for name, grant in grants.items():
        answer = await client.post("/v1/admin/keys", json={"name": name, **grant})
        assert answer.status_code == 201, answer.text
        found[name] = answer.json()["key"]
        if name == "revoked":
            assert (await client.delete(f"/v1/admin/keys/{answer.json()['id']}")).status_code == 200
    redis = connect(server.redis_url)
    long_ago = datetime.now(UTC) - timedelta(days=2)
    grant = Grant(
        name="expired", roles=["read", "write", "admin"], tenant="default", expires_at=long_ago + timedelta(days=1)
    )
    found["expired"] = str((await Registry(redis, lambda: long_ago).create(grant)).token)
    await redis.aclose()
    mistyped = found["only reads"][:-1] + ("a" if found["only reads"][-1] != "a" else "b")
    found["garbage"], found["never made"] = mistyped, str(mint())
    async with httpx.AsyncClient(base_url=server.url, trust_env=False) as http:

        async def known() -> bool:
            told = [await http.get("/readyz", headers={"Authorization": f"Bearer {found[name]}"})
                    for name in KINDS]  # fmt: skip
            return all(one.status_code == 200 for one in told)

        await wait_until(known)
    return found


@pytest.fixture
async def operator(planted: Planted) -> AsyncGenerator[httpx.AsyncClient]:
    async with planted.client("the operator") as client:
        yield client


# every route is guarded by its declaration


def test_every_route_asks_for_what_it_declares():
    for call, app in apps().items():
        for route in app.routes:
            assert isinstance(route, Route | WebSocketRoute), f"{call}: {route} is not looked into"
            assert isinstance(route.app, Guarded), f"{call}: {route.path} lets everybody in who has a key"


# nobody comes in


@pytest.mark.parametrize("key", THAT_DO_NOT_HOLD)
async def test_without_a_key_that_holds_every_way_in_answers_401(planted: Planted, key: str):
    async with planted.client(key) as client:
        for way in ways():
            if tuple(way) in OPEN:
                continue
            for status, told in await ask(client, planted, way, once=True):
                assert status == 401, f"{way}: {status}"
                assert MARK.encode() not in told
        for path in ("/stream/mem-live/viewer", "/"):
            given = planted.keys[key]
            socket = f"{planted.urls['native'].replace('http', 'ws')}{path}?token={given}"
            async with websockets.connect(socket, proxy=None) as opened:
                with pytest.raises(websockets.ConnectionClosed) as closed:
                    await opened.recv()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1008


async def test_what_is_open_tells_nothing(planted: Planted):
    async with planted.client("") as client:
        for call, method, path in sorted(OPEN):
            status, told = await heard(client, method, planted.urls[call] + path.format(name="main.js"), {}, None)
            assert status == 200
            assert MARK.encode() not in told


# nothing is shown, nothing is stored


def failed(status: int, told: bytes) -> bool:
    """Whether an answer is no answer; on a busy machine one may be told to come again."""
    behind = status in (502, 503) and (b"projection_behind" in told or b"events are pending" in told)
    return status >= 500 and not behind


async def test_keys_of_another_tenant_and_of_another_project_meet_nothing_of_what_is_planted(
    planted: Planted, operator: httpx.AsyncClient
):
    shown = set[str]()
    reading = [way for way in ways() if way.method == "GET" or f"{way.method} {way.path}" in ASKING]
    for way in reading:
        told = b"".join(said for _, said in await ask(operator, planted, way))
        if MARK.encode() in told:
            shown.add(f"{way.call} {way.method} {way.path}")
    for what, method, params in calls(planted.ids):
        if what in READING_TOOLS or "ids" in params.get("arguments", {}) or method != "tools/call":
            answer = await rpc(operator, planted.urls["native"], method, params)
            if MARK.encode() in answer.content:
                shown.add(what)
    assert sorted(SHOWN - shown) == [], "the walk no longer asks these so that they answer with what is planted"
    faults: list[str] = []
    for key in ("another tenant", "another project", "a token of another tenant", "a token for another project"):
        async with planted.client(key) as client:
            for way in ways():
                for status, told in await ask(client, planted, way):
                    if MARK.encode() in told or failed(status, told):
                        faults.append(f"{key}, {way}: {status} {told[:1000]!r}")
            for what, method, params in calls(planted.ids):
                answer = await rpc(client, planted.urls["native"], method, params)
                if MARK.encode() in answer.content or failed(answer.status_code, answer.content):
                    faults.append(f"{key}, {what}: {answer.text[:1000]}")
    assert faults == []
    await _nothing_was_stored(operator, planted)


async def _nothing_was_stored(operator: httpx.AsyncClient, planted: Planted) -> None:
    """No event of the tenant is the intruder's, but in the project of its key; all that was planted is there."""
    cursor: str | None = None
    while True:
        query = {"operation": "*", "limit": "1000", **({"cursor": cursor} if cursor else {})}
        page = (await operator.get(planted.urls["native"] + "/v1/audit", params=query)).json()
        theirs = [one for one in page["entries"] if one["agent_id"] == INTRUDER and one["project"] != OTHER]
        assert theirs == []
        gone = [one for one in page["entries"] if one["operation"] == "subject.forgotten" and one["project"] == PROJECT]
        assert gone == []
        if (cursor := page["next"]) is None:
            break
    for noun, collection in {"memory": "memories", "lesson": "lessons", "action": "actions"}.items():
        there = await operator.get(f"{planted.urls['native']}/v1/{collection}/{planted.ids[noun]}")
        assert MARK in there.text
        assert "intruder was here" not in there.text


ASKING = {
    "POST /v1/recall", "POST /v1/context", "POST /v1/lessons/search", "POST /agentmemory/context",
    "POST /agentmemory/enrich", "POST /agentmemory/search", "POST /agentmemory/smart-search",
    "POST /agentmemory/lessons/search", "POST /agentmemory/mcp/call", "POST /agentmemory/mcp/tools",
    "POST /agentmemory/timeline", "POST /memories/search", "POST /api/observations/search", "POST /v1/memories/search",
}  # fmt: skip
READING_TOOLS = {f"tool {tool.name}" for profile in PROFILES.values() for tool in profile.tools if tool.reads_only}
SHOWN = {
    "agent_memory GET /api/lessons",
    "agent_memory GET /api/observations",
    "agent_memory GET /api/sessions",
    "agentd GET /memories",
    "agentd GET /memories/{id}",
    "agentmemory GET /agentmemory/actions",
    "agentmemory GET /agentmemory/commits",
    "agentmemory GET /agentmemory/export",
    "agentmemory GET /agentmemory/frontier",
    "agentmemory GET /agentmemory/lessons",
    "agentmemory GET /agentmemory/memories",
    "agentmemory GET /agentmemory/memories/{id}",
    "agentmemory GET /agentmemory/observations",
    "agentmemory GET /agentmemory/profile",
    "agentmemory GET /agentmemory/relations",
    "agentmemory GET /agentmemory/replay/load",
    "agentmemory GET /agentmemory/replay/sessions",
    "agentmemory GET /agentmemory/session/by-commit",
    "agentmemory GET /agentmemory/sessions",
    "agentmemory GET /agentmemory/slot",
    "agentmemory GET /agentmemory/slots",
    "agentmemory POST /agentmemory/context",
    "agentmemory POST /agentmemory/enrich",
    "agentmemory POST /agentmemory/lessons/search",
    "agentmemory POST /agentmemory/mcp/call",
    "agentmemory POST /agentmemory/mcp/tools",
    "agentmemory POST /agentmemory/search",
    "agentmemory POST /agentmemory/smart-search",
    "agentmemory POST /agentmemory/timeline",
    "memex POST /v1/memories/search",
    "native GET /v1/actions",
    "native GET /v1/actions/{id}",
    "native GET /v1/admin/export",
    "native GET /v1/commits",
    "native GET /v1/commits/{id}",
    "native GET /v1/events",
    "native GET /v1/export",
    "native GET /v1/frontier",
    "native GET /v1/graph",
    "native GET /v1/lessons",
    "native GET /v1/lessons/match",
    "native GET /v1/lessons/surest",
    "native GET /v1/lessons/{id}",
    "native GET /v1/live",
    "native GET /v1/memories",
    "native GET /v1/memories/{id}",
    "native GET /v1/memories/{id}/history",
    "native GET /v1/observations/{id}",
    "native GET /v1/profile",
    "native GET /v1/related/{id}",
    "native GET /v1/relations",
    "native GET /v1/relations/{id}",
    "native GET /v1/sessions",
    "native GET /v1/sessions/{id:path}",
    "native GET /v1/sessions/{id:path}/observations",
    "native GET /v1/sessions/{id:path}/summary",
    "native GET /v1/slots",
    "native GET /v1/slots/{label}",
    "native GET /v1/summaries",
    "native GET /v1/summaries/{id}",
    "native GET /v1/timeline",
    "native POST /v1/context",
    "native POST /v1/lessons/search",
    "native POST /v1/recall",
    "prompt catch-up",
    "prompt recall",
    "resource mnemolog://documents/{id}",
    "resource mnemolog://projects/{project}/context",
    "resource mnemolog://sessions/{session_id}/summary{?project}",
    "tool context",
    "tool memory_export",
    "tool memory_frontier",
    "tool memory_lesson_recall",
    "tool memory_lesson_search",
    "tool memory_lessons",
    "tool memory_observations",
    "tool memory_profile",
    "tool memory_recall",
    "tool memory_sessions",
    "tool memory_sessions_list",
    "tool memory_smart_search",
    "tool memory_timeline",
    "tool recall",
    "tool recall, lesson",
    "tool recall, memory",
    "tool recall, observation",
    "tool recall, summary",
    "tool search",
    "tool search_lessons",
}
"""What must show the mark to the operator, so that the silence of the others says something."""


# roles


@cache
def declared() -> Mapping[Way, Needs]:
    """The roles that every way in declares to need."""
    return {
        Way(call, method, route.path): needs
        for call, app in apps().items()
        for route in app.routes
        if isinstance(route, Route) and isinstance(route.app, Guarded)
        for method, needs in route.app.needs.items()
    }


def test_what_concerns_the_server_is_declared_for_its_operator_alone():
    needs = {f"{way.call} {way.method} {way.path}": roles for way, roles in declared().items()}
    needs |= {f"tool {name}": tool.needs for name, tool in TOOLS.items()}
    assert {name for name, roles in needs.items() if "operator" in roles} == OF_OPERATORS
    assert {name for name, roles in needs.items() if "metrics" in roles} == OF_METRICS


def test_a_tool_that_only_reads_needs_no_role_to_write():
    wrong = [one.name for one in TOOLS.values() if one.reads_only and one.needs not in (READ, ADMIN)]
    assert wrong == []


@pytest.mark.parametrize("key", KINDS)
async def test_a_key_is_admitted_where_the_declaration_says_and_nowhere_else(planted: Planted, key: str):
    """Requests name nothing that is there, so that they can be sent with the operator's key, too."""
    roles, wrong = KINDS[key], list[str]()
    counts = Counter[str]()
    async with planted.client(key) as client:
        for what, needs, asked in [*_requests(client, planted), *_tool_calls(client, planted)]:
            status, told = await asked
            admitted = allow(roles, needs)
            refused = REFUSED.search(told.decode(errors="replace")) is not None
            as_declared = not refused and status != 401 if admitted else refused and status in (200, 403)
            if not as_declared or (refused and MARK.encode() in told):
                wrong.append(f"{what} needs {sorted(needs)}: {status} {told[:300]!r}")
            counts["admitted" if admitted else "refused"] += 1
    assert wrong == []
    print(f"{key}: {counts['admitted']} admitted, {counts['refused']} refused")


def _requests(client: httpx.AsyncClient, planted: Planted) -> Iterator[tuple[str, Needs, Answering]]:
    """A request to every route: what it is called, what it declares to need, its answer."""
    for way, needs in declared().items():
        path = re.sub(r"\{\w+(:path)?\}", "nothing-of-that-name", way.path)
        body: dict[str, Any] | None = None if way.method in ("GET", "DELETE") else {}
        yield str(way), needs, heard(client, way.method, planted.urls[way.call] + path, {}, body)


def _tool_calls(client: httpx.AsyncClient, planted: Planted) -> Iterator[tuple[str, Needs, Answering]]:
    """A call of every tool at every door that has it, and of every resource and prompt."""
    for tool in TOOLS.values():
        asked: dict[str, Any] = {"name": tool.name, "arguments": {}}
        yield f"tool {tool.name}", tool.needs, _said(rpc(client, planted.urls["native"], "tools/call", asked))
        if tool in PROFILES["agentmemory"].tools:
            for path in ("/agentmemory/mcp/call", "/agentmemory/mcp/tools"):
                url = planted.urls["agentmemory"] + path
                yield f"{path} {tool.name}", tool.needs, heard(client, "POST", url, {}, asked)
    for what, method, params in calls(planted.ids):
        if method != "tools/call":
            needs = ANY if method.endswith("/list") else READ
            yield what, needs, _said(rpc(client, planted.urls["native"], method, params))


async def _said(answering: Awaitable[httpx.Response]) -> tuple[int, bytes]:
    answer = await answering
    return answer.status_code, answer.content


@pytest.mark.parametrize("key", KINDS)
async def test_a_viewers_socket_is_for_keys_that_read(planted: Planted, key: str):
    for path in ("/stream/mem-live/viewer", "/"):
        socket = f"{planted.urls['native'].replace('http', 'ws')}{path}?token={planted.keys[key]}"
        async with websockets.connect(socket, proxy=None) as opened:
            if allow(KINDS[key], READ):
                await (await opened.ping())
                continue
            with pytest.raises(websockets.ConnectionClosed):
                await opened.recv()
            assert opened.close_code == 1008


# keys


@pytest.mark.parametrize("key", ["admin of the tenant", "another tenant", "another project"])
@pytest.mark.parametrize("role", ["operator", "metrics"])
async def test_an_admin_makes_no_key_for_the_server(planted: Planted, key: str, role: str):
    url = planted.urls["native"] + "/v1/admin/keys"
    async with planted.client(key) as admin, planted.client("the operator") as operator:
        before = (await operator.get(url)).json()["keys"]
        for grant in ({}, {"projects": [OTHER]}, {"tenant": "elsewhere"}, {"projects": [OTHER], "tenant": "default"}):
            made = await admin.post(url, json={"name": "x", "roles": [role, "read"], **grant})
            assert made.status_code in (403, 422), made.text
        assert (await operator.get(url)).json()["keys"] == before


@pytest.mark.parametrize("key", ["admin of the tenant", "another tenant", "another project"])
async def test_an_admin_neither_sees_nor_replaces_nor_revokes_a_key_for_the_server(planted: Planted, key: str):
    url = planted.urls["native"] + "/v1/admin/keys"
    async with planted.client(key) as admin:
        for name in ("operator", "metrics"):
            key_id = planted.keys[name].split("_")[1]
            assert key_id not in (await admin.get(url)).text
            assert (await admin.post(f"{url}/{key_id}/rotate")).status_code == 404
            assert (await admin.delete(f"{url}/{key_id}")).status_code == 404
    async with planted.client("operator") as operator:
        assert (await operator.get(planted.urls["native"] + "/v1/admin/projections")).status_code == 200


async def test_an_operators_key_makes_keys_for_the_server_and_of_every_tenant(planted: Planted):
    url = planted.urls["native"] + "/v1/admin/keys"
    async with planted.client("operator") as operator:
        for grant in ({"roles": ["operator"]}, {"roles": ["metrics"]}, {"roles": ["admin"], "tenant": "elsewhere"}):
            made = await operator.post(url, json={"name": "made by a key", **grant})
            assert made.status_code == 201, made.text
            assert (await operator.delete(f"{url}/{made.json()['id']}")).status_code == 200
        limited = await operator.post(url, json={"name": "x", "roles": ["operator"], "projects": [PROJECT]})
        assert limited.status_code == 422


async def test_only_operators_and_metrics_keys_are_told_figures_of_the_server(planted: Planted):
    told: dict[str, bool] = {}
    for key in KINDS:
        async with planted.client(key) as client:
            ready = (await client.get(planted.urls["native"] + "/readyz")).json()
            assert ready["status"] in ("ready", "degraded")
            told[key] = bool({"lag", "vitals", "documents"} & ready.keys())
    assert [key for key, figures in told.items() if figures] == ["the operator", "operator", "metrics"]


async def test_a_diagnosis_tells_an_admin_of_its_tenants_documents_alone(planted: Planted):
    categories: dict[str, set[str]] = {}
    for key in ("operator", "admin of the tenant", "another tenant", "another project"):
        async with planted.client(key) as client:
            native = planted.urls["native"]
            asked = [
                client.get(f"{native}/v1/diagnose"),
                client.get(f"{native}/v1/diagnose", params={"categories": "storage,slots"}),
                client.post(f"{native}/agentmemory/diagnostics"),
            ]
            answers = [(await one).json()["checks"] for one in asked]
            categories[key] = {check["category"] for checks in answers for check in checks}
    assert categories["operator"] == set(CATEGORIES)
    for key in ("admin of the tenant", "another tenant", "another project"):
        assert categories[key] == set(CATEGORIES) - OF_THE_SERVER


# sockets, streams and sessions


async def test_live_views_show_nothing_of_another_tenant_or_project_and_end_with_their_key(planted: Planted):
    """What a watcher is sent before its own event comes through is all that it may see of what was written before."""
    url = planted.urls["native"]
    for key, own_place in (("another tenant", {"tenant": "elsewhere"}), ("another project", {"project": OTHER})):
        secret, own = planted.keys[key], f"own-{uuid4().hex}"
        socket = f"{url.replace('http', 'ws')}/stream/mem-live/viewer?token={secret}"
        async with planted.client("the operator") as operator, planted.client(key) as theirs:
            opened = await websockets.connect(socket, proxy=None)
            async with theirs.stream("GET", f"{url}/v1/live") as stream:
                lines = stream.aiter_lines()
                assert await anext(lines) == ": connected"
                said = {"project": PROJECT, "session_id": SESSION, "content": f"{MARK} again"}
                written = await operator.post(f"{url}/v1/observations", json=said)
                assert written.status_code == 202
                after = {"project": PROJECT, "after": written.json()["position"]}
                assert (await operator.get(f"{url}/v1/relations", params=after)).status_code == 200
                said = {"project": OTHER, "session_id": own, "content": own}
                assert (await theirs.post(f"{url}/v1/observations", json=said)).status_code == 202
                heard_of = await _heard(lines, own)
            seen = ""
            while own not in seen:
                seen += str(await asyncio.wait_for(opened.recv(), 20))
            await opened.close()
            assert MARK not in "".join(heard_of) + seen
            for event in (json.loads(line.removeprefix("data: ")) for line in heard_of if line.startswith("data: ")):
                assert own_place.items() <= event.items(), f"{key} was told of {event}"


async def _heard(lines: AsyncIterator[str], last: str) -> list[str]:
    """What a stream says until it says `last`; events of the tests before may still come through."""
    heard: list[str] = []
    async with asyncio.timeout(30):
        async for line in lines:
            heard.append(line)
            if line.startswith("data: ") and last in line:
                return heard
    raise AssertionError(f"the stream ended before {last}: {heard}")


async def test_a_stream_ends_and_a_socket_is_closed_once_the_key_is_revoked(planted: Planted):
    url = planted.urls["native"]
    async with planted.client("the operator") as operator:
        made = (await operator.post(f"{url}/v1/admin/keys", json={"name": "short", "roles": ["read"]})).json()
        key = {"Authorization": f"Bearer {made['key']}"}

        async def known() -> bool:
            return (await operator.get(f"{url}/readyz", headers=key)).status_code == 200

        await wait_until(known)
        opened = await websockets.connect(
            f"{url.replace('http', 'ws')}/stream/mem-live/viewer?token={made['key']}", proxy=None
        )
        async with operator.stream("GET", f"{url}/v1/live", headers=key) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": connected"
            assert (await operator.delete(f"{url}/v1/admin/keys/{made['id']}")).status_code == 200

            async def unknown() -> bool:
                return (await operator.get(f"{url}/readyz", headers=key)).status_code == 401

            await wait_until(unknown)
            said = {"project": PROJECT, "session_id": SESSION, "content": f"{MARK} after it"}
            assert (await operator.post(f"{url}/v1/observations", json=said)).status_code == 202
            assert MARK not in "\n".join([line async for line in lines])
        assert MARK not in await everything_until_closed(opened)
        assert opened.close_code == 1008


async def everything_until_closed(opened: websockets.ClientConnection) -> str:
    """What a WebSocket says before the server closes it."""
    frames: list[str] = []
    with suppress(websockets.ConnectionClosed):
        while True:
            frames.append(str(await asyncio.wait_for(opened.recv(), 20)))
    return "".join(frames)


async def test_an_mcp_session_is_for_the_key_that_opened_it(planted: Planted):
    url = planted.urls["memex_mcp"] + "/mcp"
    begin = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream"}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    async with (
        planted.client("only reads") as owner,
        planted.client("another project") as other,
        planted.client("") as nobody,
    ):
        session = (await owner.post(url, json=begin, headers=headers)).headers["mcp-session-id"]
        headers["mcp-session-id"] = session
        assert (await owner.post(url, json=listing, headers=headers)).status_code == 200
        assert (await other.post(url, json=listing, headers=headers)).status_code == 404
        assert (await nobody.post(url, json=listing, headers=headers)).status_code == 401
        assert (await other.delete(url, headers=headers)).status_code == 404


async def test_no_secret_is_in_any_log_file_or_metric(planted: Planted):
    """After all of the above: every key and the server's secret were sent, in headers and in addresses."""
    async with planted.client("the operator") as operator:
        measured = (await operator.get(planted.urls["native"] + "/metrics")).text
    secrets = [key for key in planted.keys.values() if key]
    logs = {path.name: path.read_text(errors="replace") for path in (planted.server.data_dir / "logs").iterdir()}
    assert {"api.log", "worker.log"} <= logs.keys()
    for name, text in {**logs, "/metrics": measured}.items():
        assert [secret for secret in secrets if secret in text] == [], name


TOOLS = {tool.name: tool for profile in PROFILES.values() for tool in profile.tools}
