"""A server where every agent sees what it wrote itself.

A server with a secret: who may ask it what.
"""

import asyncio
import json
from collections.abc import Iterator

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.acceptance.running import SECRET, Server, running
from tests.contracts.agentmemory.calling import WHEN, Api, Json, ok


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A client of a server where nobody is anybody unless they say so; ada and bob both wrote about the heron."""
    changes = {"embedder": "none", "partitions": 2, "secret": None, "agent_scope": "isolated"}
    with (
        running(tmp_path_factory.mktemp("cache"), **changes) as server,
        httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http,
    ):
        api = Api(http)
        for agent in ("ada", "bob"):
            api.start(agent, project="p", agentId=agent)
            api.hook(agent, "prompt_submit", project="p", data={"prompt": f"heron {agent}"})
            api.remember(f"the heron of {agent}", project="p", agentId=agent)
        api.post("remember", content="nobody said anything", project="p")
        yield api


def both(text: object) -> list[str]:
    """Whose names are in there."""
    return [agent for agent in ("ada", "bob") if agent in str(text)]


@pytest.mark.covers("GET /agentmemory/sessions", "GET /agentmemory/memories")
@pytest.mark.parametrize("path", ["sessions", "memories"])
@pytest.mark.parametrize(
    ("agent", "expected"), [("ada", ["ada"]), ("bob", ["bob"]), ("*", ["ada", "bob"]), ("eve", [])]
)
def test_an_agent_lists_its_own_and_a_star_everything(isolated: Api, path: str, agent: str, expected: list[str]):
    assert both(ok(isolated.get(path, agentId=agent))[path]) == expected


@pytest.mark.covers("GET /agentmemory/observations")
@pytest.mark.parametrize(("agent", "count"), [("ada", 1), ("bob", 0), ("*", 1)])
def test_an_agent_reads_its_own_observations(isolated: Api, agent: str, count: int):
    assert len(ok(isolated.get("observations", sessionId="ada", agentId=agent))["observations"]) == count


@pytest.mark.covers("POST /agentmemory/search", "POST /agentmemory/smart-search")
@pytest.mark.parametrize("path", ["search", "smart-search"])
@pytest.mark.parametrize(("agent", "count"), [("ada", 2), ("*", 4), ("eve", 0)])
def test_an_agent_finds_its_own(isolated: Api, path: str, agent: str, count: int):
    assert len(ok(isolated.post(path, query="heron", agentId=agent))["results"]) == count


@pytest.mark.covers("POST /agentmemory/smart-search")
@pytest.mark.parametrize(("agent", "count"), [("ada", 1), ("bob", 0), ("*", 1)])
def test_an_agent_expands_its_own(isolated: Api, agent: str, count: int):
    (observation,) = ok(isolated.get("observations", sessionId="ada", agentId="*"))["observations"]
    answer = ok(isolated.post("smart-search", expandIds=[observation["id"]], agentId=agent))
    assert len(answer["results"]) == count


@pytest.mark.covers("POST /agentmemory/context")
@pytest.mark.parametrize("where", ["body", "query"])
def test_the_context_of_an_agent_is_of_its_own(isolated: Api, where: str):
    fields: Json = {"sessionId": "asking", "project": "p"}
    if where == "body":
        answer = isolated.post("context", **fields, agentId="ada")
    else:
        answer = isolated.http.post("/agentmemory/context?agentId=ada", json=fields)
    assert both(ok(answer)["context"]) == ["ada"]


@pytest.mark.covers("POST /agentmemory/remember")
def test_what_nobody_says_is_kept_and_answered(isolated: Api):
    answer = ok(isolated.post("remember", content="nobody said that either", project="q"), 201)
    assert answer["success"] is True
    assert answer["memory"]["content"] == "nobody said that either"
    assert "similarTo" not in answer
    memories = ok(isolated.get("memories", agentId="*"))["memories"]
    assert answer["memory"]["id"] in [item["id"] for item in memories]


@pytest.mark.covers("GET /agentmemory/memories")
def test_memories_of_nobody_may_be_added_and_are_counted(isolated: Api):
    assert ok(isolated.get("memories", agentId="ada", count="true"))["total"] == 1
    with_orphans = ok(isolated.get("memories", agentId="ada", includeOrphans="true"))
    assert "nobody said anything" in str(with_orphans["memories"])
    assert with_orphans["total"] == len(with_orphans["memories"]) >= 2
    assert both(with_orphans["memories"]) == ["ada"]


@pytest.mark.covers("GET /agentmemory/sessions", "GET /agentmemory/memories", "POST /agentmemory/search")
def test_who_is_nobody_reads_nothing(isolated: Api):
    answers = [isolated.get("sessions"), isolated.get("memories"), isolated.post("search", query="heron")]
    for answer in answers:
        assert answer.status_code >= 400 or both(answer.text) == []


@pytest.mark.covers(
    "GET /agentmemory/sessions",
    "GET /agentmemory/export",
    "GET /agentmemory/audit",
    "POST /agentmemory/search",
    "POST /agentmemory/smart-search",
)
@pytest.mark.parametrize(
    ("path", "body", "empty"),
    [
        ("search", {"query": "heron"}, {"results": []}),
        ("search", {"query": "heron", "format": "narrative"}, {"results": []}),
        ("smart-search", {"query": "heron"}, {"results": [], "lessons": []}),
        ("sessions", None, {"sessions": []}),
        ("audit", None, {"success": False, "entries": []}),
        ("export", None, {"success": False}),
    ],
)
def test_a_client_that_is_nobody_is_answered_nothing_and_why(isolated: Api, path: str, body: Json | None, empty: Json):
    answer = ok(isolated.get(path) if body is None else isolated.post(path, **body))
    assert {key: answer[key] for key in empty} == empty
    assert both(answer) == []
    assert "scope is isolated" in str(answer.get("degraded") or answer["error"])


@pytest.mark.covers("DELETE /agentmemory/governance/memories")
def test_nobody_deletes_nothing_and_is_told_why(isolated: Api):
    before = ok(isolated.get("memories", agentId="*"))["memories"]
    names = [document["id"] for document in before]
    answer = ok(isolated.http.request("DELETE", "/agentmemory/governance/memories", json={"memoryIds": names}))
    assert (answer["success"], answer["deleted"], answer["total"]) == (False, 0, len(names))
    assert "scope is isolated" in answer["error"]
    assert ok(isolated.get("memories", agentId="*"))["memories"] == before


@pytest.mark.parametrize("path", ["memories", "sessions", "timeline", "events", "audit", "frontier"])
def test_native_reads_of_nobody_are_refused(isolated: Api, path: str):
    refusal = isolated.http.get(f"/v1/{path}")
    assert (refusal.status_code, refusal.json()["code"]) == (422, "invalid")
    assert refusal.json()["field"] == "agent_id"


def test_a_native_recall_of_nobody_is_refused_and_a_star_reads_what_nobody_wrote(isolated: Api, name: str):
    refusal = isolated.http.post("/v1/recall", json={"query": "x"})
    assert (refusal.status_code, refusal.json()["code"]) == (422, "invalid")
    written = isolated.http.post("/v1/memories", json={"project": name, "content": "by nobody in particular"}).json()
    query = {"project": name, "after": written["position"]}
    listed = isolated.http.get("/v1/memories", params=query, headers={"X-Agent-Id": "*"}).json()
    assert [item["id"] for item in listed["items"]] == [written["id"]]


PATIENT_S = 30.0
STREAM = "/stream/mem-live/viewer"


@pytest.mark.covers("GET /agentmemory/livez")
@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}])
def test_livez_is_for_everybody(trusted: Api, guarded: Server, given: dict[str, str]):
    assert trusted.http.get("/agentmemory/livez", headers={"Authorization": "", **given}).status_code == 200


@pytest.mark.covers("GET /agentmemory/health", "GET /agentmemory/config/flags", "POST /agentmemory/observe")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "health"),
        ("GET", "config/flags"),
        ("GET", "sessions"),
        ("GET", "export"),
        ("GET", "audit"),
        ("GET", "memories"),
        ("GET", "mcp/tools"),
        ("GET", "observations"),
        ("GET", "viewer"),
        ("POST", "observe"),
        ("POST", "session/start"),
        ("POST", "remember"),
        ("POST", "search"),
        ("POST", "smart-search"),
        ("POST", "mcp/call"),
        ("POST", "replay/import-jsonl"),
        ("DELETE", "governance/memories"),
        ("PATCH", "actions/act_none"),
    ],
)
def test_everything_else_asks_for_the_secret(trusted: Api, method: str, path: str):
    answer = trusted.http.request(method, f"/agentmemory/{path}", headers={"Authorization": ""})
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})


@pytest.mark.covers("GET /agentmemory/sessions")
@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic eDp5", "{secret}", "Bearer {secret}x"])
def test_what_is_not_the_secret_is_refused(trusted: Api, guarded: Server, given: str):
    headers = {"Authorization": given.format(secret=guarded.secret)}
    answer = trusted.http.get("/agentmemory/sessions", headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized"})


@pytest.mark.covers("GET /agentmemory/sessions", "POST /agentmemory/observe")
def test_with_the_secret_all_is_as_without_one(trusted: Api, name: str):
    trusted.observe(name, tool_name="Bash")
    assert trusted.session(name)["observationCount"] == 1


@pytest.mark.covers("GET /viewer")
def test_the_page_without_a_prefix_is_open(trusted: Api):
    assert trusted.http.get("/viewer", headers={"Authorization": ""}).status_code == 200


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("given", ["", "?token=wrong", "?secret=wrong", "?secret=", f"?token={SECRET}x"])
async def test_the_stream_is_closed_without_the_secret(guarded: Server, given: str):
    address = guarded.url.replace("http://", "ws://") + STREAM + given
    async with asyncio.timeout(PATIENT_S), connect(address, open_timeout=PATIENT_S, proxy=None) as stream:
        with pytest.raises(ConnectionClosed) as closed:
            await stream.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


@pytest.mark.covers("WS /stream/mem-live/viewer")
@pytest.mark.parametrize("field", ["token", "secret"])
async def test_the_stream_tells_who_knows_the_secret(guarded: Server, trusted: Api, name: str, field: str):
    address = guarded.url.replace("http://", "ws://") + f"{STREAM}?{field}={guarded.secret}"
    fields = {"sessionId": name, "hookType": "post_tool_use", "timestamp": WHEN, "data": {"tool_name": "Bash"}}
    frames: list[dict[str, object]] = []
    async with asyncio.timeout(PATIENT_S), connect(address, open_timeout=PATIENT_S, proxy=None) as stream:
        answer = await asyncio.to_thread(trusted.http.post, "/agentmemory/observe", json=fields)
        while len(frames) < 2:
            frame = json.loads(await stream.recv())
            frames += [frame] if frame["sessionId"] == name else []
    assert [frame["type"] for frame in frames] == ["raw_observation", "compressed_observation"]
    assert ok(answer, 201)["observationId"] in str(frames[0])
    assert guarded.secret not in "".join(path.read_text() for path in (guarded.data_dir / "logs").iterdir())
