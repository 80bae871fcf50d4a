"""What hooks and agents really send: big, odd, twice, in another folder; all of it is stored."""

import base64
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.running import running
from tests.contracts.conftest import Doors
from tests.support.waiting import wait_until

WHEN = "2026-01-31T12:00:00.000Z"


@pytest.fixture
def client(doors: Doors) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{doors.agentmemory}/agentmemory", timeout=60, trust_env=False) as http:
        yield http


def observe(client: httpx.Client, session: str, **fields: Any) -> httpx.Response:
    said = {"sessionId": session, "hookType": "post_tool_use", "timestamp": WHEN, **fields}
    return client.post("/observe", json=said)


def sessions(client: httpx.Client, session: str) -> list[dict[str, Any]]:
    return [one for one in client.get("/sessions").json()["sessions"] if one["id"] == session]


def full(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """An observation that was just stored."""
    assert answer.status_code == 201, answer.text
    (found,) = client.post("/smart-search", json={"expandIds": [answer.json()["observationId"]]}).json()["results"]
    return found["observation"]


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_tool_input_of_five_megabytes_is_stored_and_says_that_it_was_cut(client: httpx.Client, name: str):
    secret = "ghp_" + "a" * 36
    text = ("line of code\n" * 5_040)[:65_530] + secret + "x = 1\n" * 800_000
    answer = observe(client, name, data={"tool_name": "Write", "tool_input": {"file_path": "a.py", "content": text}})
    kept = full(client, answer)["toolInput"]
    assert kept["file_path"] == "a.py"
    assert kept["content"].startswith("line of code\n")
    assert f"of {len(text):,} characters are kept]" in kept["content"]
    assert "ghp_" not in json.dumps(kept)


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("prefix", ["", "data:image/png;base64,"])
def test_an_image_is_named_and_not_kept(client: httpx.Client, name: str, prefix: str):
    pixels = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 8_000).decode()
    data = {"tool_name": "Shot", "tool_input": {"url": "http://x"}, "image_data": prefix + pixels}
    seen = full(client, observe(client, name, data=data))
    assert (seen["modality"], seen["toolInput"]) == ("mixed", {"url": "http://x"})
    assert seen["imageData"].startswith("sha256-")
    assert seen["imageData"] in seen["raw"]["image_data"]
    assert len(json.dumps(seen)) < 5_000


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("data", [{}, None, "a text", 7, ["a", {"b": None}], {"prompt": None}])
def test_anything_is_an_observation(client: httpx.Client, name: str, data: object):
    assert observe(client, name, hookType="step_finish", data=data, title=None, project=None, more=1).status_code == 201
    assert sessions(client, name)[0]["observationCount"] == 1


@pytest.mark.covers("POST /agentmemory/observe")
def test_half_an_emoji_is_repaired_whatever_the_content_type(client: httpx.Client, name: str):
    raw = json.dumps({"sessionId": name, "hookType": "post_tool_use", "timestamp": WHEN, "data": {"tool_name": "T"}})
    body = raw.replace('"T"', '"T", "tool_output": "cut \\ud83d"').encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert full(client, client.post("/observe", content=body, headers=form))["toolOutput"] == "cut \ufffd"


@pytest.mark.covers("POST /agentmemory/observe", "GET /agentmemory/sessions")
def test_a_session_stays_one_session_when_its_agent_changes_folders(client: httpx.Client, name: str):
    observe(client, name, project=f"{name}-a", cwd="/a", data={"tool_name": "Bash"})
    observe(client, name, project=f"{name}-b", cwd="/b", data={"tool_name": "Bash"})
    observe(client, name, project="", data={"tool_name": "Bash"})
    (known,) = sessions(client, name)
    assert (known["project"], known["cwd"], known["observationCount"]) == (f"{name}-a", "/a", 3)


@pytest.mark.covers("POST /agentmemory/session/start")
def test_a_session_that_starts_again_goes_on(client: httpx.Client, name: str):
    started = {"sessionId": name, "project": "p", "cwd": "/p", "title": "Fix  the login", "parentID": None}
    first = client.post("/session/start", json=started).json()["session"]
    assert (first["summary"], first["firstPrompt"]) == ("Fix  the login", "Fix  the login")
    observe(client, name, timestamp="2030-01-01T00:00:00Z", data={"tool_name": "Bash"})
    client.post("/session/end", json={"sessionId": name})
    assert [one["status"] for one in sessions(client, name)] == ["completed"]
    again = client.post("/session/start", json={**started, "title": None}).json()["session"]
    assert again["startedAt"] == first["startedAt"]
    assert (again["status"], again["observationCount"], again["firstPrompt"]) == ("active", 1, "Fix  the login")
    assert "endedAt" not in again


@pytest.mark.covers("POST /agentmemory/session/start")
def test_a_session_starts_with_what_was_learned_in_its_project(client: httpx.Client, name: str):
    observe(client, f"{name}-1", project=name, data={"tool_name": "Edit", "tool_input": {"file_path": "pool.py"}})
    sessions(client, f"{name}-1")  # waits for it

    def told() -> bool:
        said = {"sessionId": f"{name}-2", "project": name, "cwd": "/"}
        text = client.post("/session/start", json=said).json()["context"]
        return text.startswith(f'<agentmemory-context project="{name}">') and "pool.py" in text

    assert any(told() for _ in range(20)), "a busy server may answer without the context, but not always"


@pytest.mark.covers("POST /agentmemory/session/end")
def test_ending_twice_or_what_was_never_there_is_fine_and_observations_still_come(client: httpx.Client, name: str):
    observe(client, name, data={"tool_name": "Bash"})
    for session in (name, name, f"{name}-never"):
        answer = client.post("/session/end", json={"sessionId": session})
        assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert sessions(client, name)[0]["status"] == "completed"
    assert sessions(client, f"{name}-never") == []
    observe(client, name, data={"tool_name": "Bash"})
    assert sessions(client, name)[0]["observationCount"] == 2


@pytest.mark.covers("POST /agentmemory/observe")
async def test_a_hook_that_hangs_up_at_once_has_stored_its_event(doors: Doors, name: str):
    body = json.dumps({"sessionId": name, "hookType": "prompt_submit", "timestamp": WHEN, "data": {"prompt": "go"}})
    head = f"POST //agentmemory/observe HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", int(doors.agentmemory.rpartition(":")[2]))) as connection:
            connection.sendall((head + body).encode())
    async with httpx.AsyncClient(base_url=doors.agentmemory, timeout=60, trust_env=False) as client:

        async def all_there() -> bool:
            known = (await client.get("/agentmemory/sessions")).json()["sessions"]
            return any(one["id"] == name and one["observationCount"] == 20 for one in known)

        await wait_until(all_there)


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_full_session_says_so_and_is_no_fault_of_the_request(tmp_path: Path):
    limits = {"embedder": "none", "partitions": 2, "secret": None, "observations_per_session": 2}
    with (
        running(tmp_path, **limits) as server,
        httpx.Client(base_url=f"{server.url}/agentmemory", timeout=60, trust_env=False) as client,
    ):
        assert [observe(client, "full", data={"n": n}).status_code for n in range(2)] == [201, 201]
        refused = observe(client, "full", data={"n": 2})
        assert refused.status_code == 200
        assert refused.json()["success"] is False
        assert "2" in refused.json()["error"]


@pytest.mark.covers("GET /agentmemory/sessions", "GET /agentmemory/memories")
def test_isolated_an_agent_sees_what_its_sessions_said_and_a_star_lifts_that(tmp_path: Path):
    isolated = {"embedder": "none", "partitions": 2, "secret": None, "agent_scope": "isolated"}
    with (
        running(tmp_path, **isolated) as server,
        httpx.Client(base_url=f"{server.url}/agentmemory", timeout=60, trust_env=False) as client,
    ):
        started = client.post("/session/start", json={"sessionId": "s", "project": "p", "cwd": "/", "agentId": "ada"})
        assert started.json()["session"]["agentId"] == "ada"
        assert observe(client, "s", data={"tool_name": "Bash"}).status_code == 201
        assert client.post("/session/start", json={"sessionId": "t", "project": "p", "cwd": "/"}).status_code == 200
        client.post("/remember", json={"content": "the heron stands", "agentId": "ada"})
        client.post("/remember", json={"content": "nobody said this"})

        def counts(agent: str) -> list[int]:
            known = client.get("/sessions", params={"agentId": agent}).json()["sessions"]
            return sorted(one["observationCount"] for one in known)

        assert (counts("ada"), counts("bob"), counts("*")) == ([1], [], [0, 1])
        unnamed = client.get("/sessions").json()
        assert unnamed["sessions"] == []
        assert unnamed["degraded"]
        asked = ("ada", ""), ("bob", ""), ("bob", "true"), ("ada", "true"), ("*", "")
        totals = [
            client.get("/memories", params={"agentId": agent, "includeOrphans": orphans}).json()["total"]
            for agent, orphans in asked
        ]
        assert totals == [1, 0, 1, 2, 2]
        assert client.post("/search", json={"query": "heron", "agentId": "bob"}).json()["results"] == []


@pytest.mark.covers(
    "POST /agentmemory/session/commit", "GET /agentmemory/session/by-commit", "GET /agentmemory/commits"
)
def test_a_commit_is_linked_to_all_the_sessions_it_is_told_from(client: httpx.Client, name: str):
    for session in (f"{name}-1", f"{name}-2"):
        observe(client, session, project=name, data={"tool_name": "Bash"})
        linked = {"sha": name, "sessionId": session, "branch": f"b-{name}", "repo": None, "message": "why"}
        answer = client.post("/session/commit", json=linked)
        assert answer.status_code == 200
    commit = answer.json()["commit"]
    assert (commit["sha"], commit["shortSha"], commit["files"]) == (name, name[:7], [])
    assert commit["sessionIds"] == [f"{name}-1", f"{name}-2"]
    found = client.get("/session/by-commit", params={"sha": name}).json()
    assert {one["id"] for one in found["sessions"]} == {f"{name}-1", f"{name}-2"}
    assert all(one["commitShas"] == [name] for one in found["sessions"])
    assert client.get("/session/by-commit", params={"sha": "none"}).status_code == 404
    (listed,) = client.get("/commits", params={"branch": f"b-{name}", "limit": "5"}).json()["commits"]
    assert listed == commit


@pytest.mark.covers("POST /agentmemory/replay/import-jsonl")
def test_transcripts_are_taken_over_once(client: httpx.Client, name: str, tmp_path: Path):
    common = {"sessionId": name, "cwd": f"/home/me/{name}", "timestamp": WHEN}
    lines = [
        {"type": "user", "uuid": "1", **common, "message": {"role": "user", "content": "make it fast"}},
        {"type": "assistant", "uuid": "2", **common, "message": {"role": "assistant", "content": "it is"}},
        {"type": "summary", "leafUuid": "2", "summary": "speed"},
    ]
    folder = tmp_path / "projects" / "one"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "no json\n")
    for stored in (2, 0):
        answer = client.post("/replay/import-jsonl", json={"path": str(tmp_path), "maxFiles": 5})
        assert answer.status_code == 202
        told = answer.json()
        assert (told["success"], told["imported"], told["observations"]) == (True, 1, stored)
        assert (told["sessionIds"], told["discovered"], told["truncated"]) == ([name], 1, False)
    (known,) = sessions(client, name)
    assert (known["observationCount"], known["project"], known["firstPrompt"]) == (2, name, "make it fast")
    nothing = client.post("/replay/import-jsonl", json={"path": str(tmp_path / "nothing")})
    assert (nothing.status_code, nothing.json()["success"]) == (200, False)


@pytest.mark.covers("POST /agentmemory/smart-search", "GET /agentmemory/diagnostics/followup")
def test_the_session_that_searches_narrows_nothing_and_is_counted(client: httpx.Client, name: str):
    client.post("/remember", json={"content": f"the {name} stands by the pond"})
    before = client.get("/diagnostics/followup").json()
    for _ in range(2):
        found = client.post("/smart-search", json={"query": name, "sessionId": f"{name}-s", "limit": 3}).json()
        assert name in found["results"][0]["title"]
    after = client.get("/diagnostics/followup").json()
    assert after["agentInitiatedSearches"] == before["agentInitiatedSearches"] + 2
    assert after["followupWithinWindow"] == before["followupWithinWindow"] + 1


@pytest.mark.covers("POST /agentmemory/search")
def test_a_project_finds_its_own_memories_and_those_of_none(client: httpx.Client, name: str):
    for project in ({"project": f"{name}-a"}, {"project": f"{name}-b"}, {}):
        answer = client.post("/remember", json={"content": f"{name} is said in {project}", "type": "bug", **project})
        assert answer.status_code == 201
    found = client.post("/search", json={"query": name, "project": f"{name}-a"}).json()["results"]
    said = [one["observation"].get("project", "") for one in found if name in one["content"]]
    assert sorted(said) == ["", f"{name}-a"]


@pytest.mark.covers("DELETE /agentmemory/governance/memories")
def test_only_memories_are_deleted_and_a_text_is_no_list(client: httpx.Client, name: str):
    kept = client.post("/remember", json={"content": f"{name} goes", "project": name}).json()["memory"]["id"]
    seen = observe(client, name, data={"tool_name": "Bash"}).json()["observationId"]
    wrong = client.request("DELETE", "/governance/memories", json={"memoryIds": kept})
    assert wrong.status_code == 400
    gone = client.request("DELETE", "/governance/memories", json={"memoryIds": [kept, seen, "mem_none"], "reason": "x"})
    assert gone.json() == {"success": True, "deleted": 1, "total": 3}
    found = client.post("/search", json={"query": name, "project": name}).json()["results"]
    assert kept not in {one["obsId"] for one in found}


@pytest.mark.covers("POST /agentmemory/mcp/call", "POST /agentmemory/mcp/tools", "GET /agentmemory/mcp/tools")
def test_a_faulty_call_is_told_in_text_to_the_shim_and_as_a_status_to_others(client: httpx.Client):
    listed = client.get("/mcp/tools").json()["tools"]
    assert len(listed) == 31
    assert listed == client.get("/mcp/tools").json()["tools"]
    faulty: dict[str, Any] = {"name": "memory_recall", "arguments": {}}
    (content,) = client.post("/mcp/call", json=faulty).json()["content"]
    assert json.loads(content["text"])["success"] is False
    refused = client.post("/mcp/tools", json=faulty)
    assert (refused.status_code, refused.json()) == (400, {"error": "query is required"})
    unknown = {"name": "memory_action_update", "arguments": {"actionId": "act_none", "title": "x"}}
    assert client.post("/mcp/tools", json=unknown).status_code == 404
    assert client.post("/mcp/call", json=unknown).status_code == 200
    for path in ("/mcp/call", "/mcp/tools"):
        assert client.post(path, json={"name": "memory_none"}).status_code == 400
        assert client.post(path, content=b"").status_code == 400


@pytest.mark.covers("POST /agentmemory/claude-bridge/sync")
@pytest.mark.parametrize("body", [b"", b"{}", b"  "])
def test_an_empty_body_counts_as_an_object(client: httpx.Client, body: bytes):
    answer = client.post("/claude-bridge/sync", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["success"]) == (200, True)


@pytest.mark.covers("POST /agentmemory/observe")
@pytest.mark.parametrize("body", [b"[1]", b"{", b"[" * 100_000, b"nothing"])
def test_what_is_no_object_is_refused_with_a_text(client: httpx.Client, body: bytes):
    answer = client.post("/observe", content=body)
    assert answer.status_code == 400
    assert isinstance(answer.json()["error"], str)


@pytest.mark.covers("POST /agentmemory/observe")
def test_a_body_over_the_limit_is_refused(client: httpx.Client):
    answer = client.post("/observe", content=b" " * ((16 << 20) + 1))
    assert answer.status_code == 413
    assert "limit" in answer.json()["error"]
