"""What holds for every endpoint: bodies, paths, what may be left out, what must not be lost."""

import json
import re
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.running import Doors
from tests.contracts.agentmemory.calling import WHEN, Api, Json, ok, refused
from tests.support.waiting import wait_until

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
LONE = '"cut \\ud83d"'
"""A text that ends in half an emoji, as JSON."""


@pytest.mark.covers("POST /agentmemory/remember")
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=x", ""])
def test_a_body_is_json_whatever_its_content_type(api: Api, name: str, kind: str):
    body = json.dumps({"content": f"{name} is kept"}).encode()
    answer = api.http.post("/agentmemory/remember", content=body, headers={"Content-Type": kind})
    assert ok(answer, 201)["memory"]["content"] == f"{name} is kept"


@pytest.mark.covers(
    "POST /agentmemory/claude-bridge/sync", "POST /agentmemory/consolidate", "POST /agentmemory/auto-forget"
)
@pytest.mark.parametrize("path", ["claude-bridge/sync", "consolidate", "consolidate-pipeline", "diagnostics"])
def test_an_empty_body_is_an_empty_object(api: Api, path: str):
    for body in (b"", b"  "):
        answer = api.http.post(f"/agentmemory/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 200, answer.text


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/livez")
@pytest.mark.parametrize("slashes", ["//", "///"])
def test_slashes_at_the_start_of_a_path_count_once(api: Api, doors: Doors, name: str, slashes: str):
    base = doors.agentmemory + slashes
    assert api.http.get(f"{base}agentmemory/livez").status_code == 200
    fields = {"sessionId": name, "hookType": "notification", "timestamp": WHEN}
    assert api.http.post(f"{base}agentmemory/observe", json=fields).status_code == 201
    assert api.session(name)["observationCount"] == 1


@pytest.mark.covers("POST /agentmemory/session/commit", "POST /agentmemory/session/start")
async def test_what_was_sent_whole_counts_though_the_client_hung_up(doors: Doors, api: Api, name: str):
    requests: dict[str, dict[str, Any]] = {
        "session/start": {"sessionId": name, "project": name, "cwd": "/"},
        "session/commit": {"sha": name},
        "remember": {"content": name, "project": name},
        "observe": {"sessionId": f"{name}-o", "hookType": "prompt_submit", "timestamp": WHEN, "data": {"prompt": "go"}},
    }
    for path, text in requests.items():
        body = json.dumps(text)
        head = f"POST /agentmemory/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", urlsplit(doors.agentmemory).port or 0)) as connection:
            connection.sendall((head + body).encode())

    def all_there() -> bool:
        sessions = {session["id"] for session in ok(api.get("sessions"))["sessions"]}
        commits = {session["sha"] for session in ok(api.get("commits", limit=500))["commits"]}
        memories = {memory["content"] for memory in api.memories(limit=5000)}
        return {name, f"{name}-o"} <= sessions and name in commits and name in memories

    await wait_until(all_there)


@pytest.mark.covers(
    "POST /agentmemory/observe", "POST /agentmemory/search", "POST /agentmemory/smart-search",
    "POST /agentmemory/remember", "GET /agentmemory/memories", "POST /agentmemory/session/start",
    "POST /agentmemory/session/end", "GET /agentmemory/sessions",
)  # fmt: skip
def test_what_is_written_is_read_as_soon_as_it_is_acknowledged(api: Api, name: str):
    api.start(name)
    assert api.session(name)["status"] == "active"
    for count in range(1, 6):
        observation = api.observe(name, tool_name="Bash", tool_input=f"run {name} {count}")
        for path in ("search", "smart-search"):
            results = ok(api.post(path, query=name, project=f"p-{name}"))["results"]
            assert observation in [result["obsId"] for result in results]
        assert api.session(name)["observationCount"] == count
        assert len(api.observations(name)) == count
    memory = api.remember(f"the heron {name} stands by the pond", project=name)["id"]
    assert memory in [result["obsId"] for result in api.search(name, project=name)]
    assert memory in [row["id"] for row in api.memories(limit=5000)]
    ok(api.post("session/end", sessionId=name))
    assert api.session(name)["status"] == "completed"


@pytest.mark.covers(
    "POST /agentmemory/session/start", "POST /agentmemory/session/end", "POST /agentmemory/session/commit",
    "POST /agentmemory/observe", "POST /agentmemory/context", "POST /agentmemory/enrich",
    "POST /agentmemory/remember", "POST /agentmemory/search", "POST /agentmemory/smart-search",
)  # fmt: skip
@pytest.mark.parametrize(
    ("path", "required", "nulls"),
    [
        ("session/start", {"project": "p", "cwd": "/"}, ["title", "agentId", "parentID", "version"]),
        ("session/end", {}, ["reason"]),
        ("session/commit", {"sha": "s"}, ["branch", "repo", "message", "author", "authoredAt", "files"]),
        ("observe", {"hookType": "step_finish", "timestamp": WHEN}, ["title", "project", "cwd", "data", "agentId"]),
        ("context", {"project": "p"}, ["budget", "agentId"]),
        ("enrich", {"files": ["a.py"], "terms": []}, ["toolName", "project"]),
        ("remember", {"content": "null is nothing"}, ["type", "concepts", "files", "project", "agentId", "ttlDays"]),
        ("search", {"query": "q"}, ["limit", "project", "cwd", "format", "token_budget", "agentId"]),
        ("smart-search", {"query": "q"}, ["expandIds", "limit", "project", "includeLessons", "agentId", "source"]),
    ],
)
def test_nulls_and_unknown_keys_are_passed_over(api: Api, name: str, path: str, required: Json, nulls: list[str]):
    fields = {"sessionId": name, **required, **dict.fromkeys(nulls), "somethingElse": {"a": [1]}}
    assert api.post(path, **fields).status_code in (200, 201)


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize(
    "kind",
    ["config_loaded", "session_status", "session_compacted", "assistant_message", "step_finish", "reasoning",
     "patch_applied", "compaction_event", "retry_attempt", "llm_params", "Something-Nobody.Heard of"],
)  # fmt: skip
def test_any_kind_of_hook_is_stored(api: Api, name: str, kind: str):
    api.hook(name, kind, data={"extra": {"deep": [1, None]}})
    assert api.seen(name)["hookType"] == kind


@pytest.mark.covers(
    "POST /agentmemory/remember", "POST /agentmemory/search", "POST /agentmemory/smart-search",
    "GET /agentmemory/sessions", "GET /agentmemory/export", "GET /agentmemory/audit",
    "DELETE /agentmemory/governance/memories",
)  # fmt: skip
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "remember", {"content": "core", "type": "fact", "concepts": [], "files": []}),
        ("POST", "search", {"query": "core", "limit": 10, "format": "full"}),
        ("POST", "search", {"query": "core", "limit": 10, "format": "compact", "token_budget": 500}),
        ("POST", "smart-search", {"query": "core", "limit": 10, "format": "full", "token_budget": 500}),
        *(("GET", path, None) for path in ("sessions?limit=20", "export", "audit?limit=50")),
        ("DELETE", "governance/memories", {"memoryIds": ["mem_none"], "reason": "plugin skill request"}),
    ],
)
def test_the_core_calls_of_the_published_mcp_server_succeed(api: Api, method: str, path: str, body: Any):
    answer = api.http.request(method, f"/agentmemory/{path}", **({} if body is None else {"json": body}))
    assert answer.is_success, answer.text
    assert isinstance(answer.json(), dict)


@pytest.mark.covers("POST /agentmemory/remember", "POST /agentmemory/lessons", "POST /agentmemory/slot")
@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("remember", '"project":"{name}","content":'),
        ("lessons", '"project":"{name}","content":'),
        ("search", '"query":'),
        ("slot", '"label":"{name}","content":'),
        ("agent/observe", '"sessionId":"{name}","project":"{name}","text":'),
    ],
)
def test_half_a_character_is_repaired(api: Api, name: str, path: str, rest: str):
    body = "{" + rest.replace("{name}", name) + LONE + "}"
    answer = api.http.post(f"/agentmemory/{path}", content=body.encode())
    assert answer.is_success, answer.text
    assert "\\ud83d" not in answer.text
    answer.json()


@pytest.mark.covers("POST /agentmemory/observe")
def test_half_a_character_in_an_observation_comes_back_dropped_or_replaced(api: Api, name: str):
    body = f'{{"sessionId":"{name}","hookType":"post_tool_use","timestamp":"{WHEN}","data":{{"tool_output":{LONE}}}}}'
    ok(api.http.post("/agentmemory/observe", content=body.encode()), 201)
    assert api.seen(name)["toolOutput"] in ("cut ", "cut \ufffd")


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_body_of_nearly_16_mebibytes_is_taken_and_a_larger_one_refused(api: Api, name: str):
    assert api.observe(name, tool_name="Write", tool_input={"content": "x" * ((16 << 20) - 1024)})
    assert "limit" in refused(api.http.post("/agentmemory/observe", content=b" " * ((16 << 20) + 1)), 413)


@pytest.mark.covers("GET /agentmemory/sessions")
def test_a_secret_nobody_asked_for_is_passed_over(api: Api):
    assert api.http.get("/agentmemory/sessions", headers={"Authorization": "Bearer stray"}).status_code == 200


@pytest.mark.covers("POST /agentmemory/remember")
@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 100_000, b'"text"', b"\xff\xfe", b"null"])
def test_what_is_no_object_is_refused_in_words(api: Api, body: bytes):
    refused(api.http.post("/agentmemory/remember", content=body))


@pytest.mark.covers("GET /agentmemory/livez")
def test_the_name_localhost_reaches_the_server(doors: Doors):
    port = urlsplit(doors.agentmemory).port
    assert httpx.get(f"http://localhost:{port}/agentmemory/livez", timeout=60, trust_env=False).status_code == 200


@pytest.mark.covers("GET /agentmemory/sessions", "POST /agentmemory/remember", "GET /agentmemory/audit")
def test_times_are_utc_and_end_in_z(api: Api, name: str):
    started = api.start(name)["startedAt"]
    ok(api.post("session/end", sessionId=name))
    memory = api.remember(f"{name} has a time", ttlDays=1)
    (row,) = ok(api.get("audit", limit=1))["entries"]
    lesson = ok(api.post("lessons", content=f"{name} learned", project=name), 201)["lesson"]
    commit = ok(api.post("session/commit", sha=name))["commit"]
    times = [memory[key] for key in ("createdAt", "updatedAt", "forgetAfter")]
    times += [started, api.session(name)["endedAt"], row["timestamp"], lesson["createdAt"], commit["linkedAt"]]
    assert [time for time in times if not MOMENT.fullmatch(time)] == []
