"""The four tools that the plugin of 0.9.29 calls beside the 31: what their routes do."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.acceptance.running import Together, running
from tests.contracts.agentmemory.calling import Api, Json, ok, refused

PLUGIN = ("memory_governance_delete", "memory_lesson_delete", "memory_commits", "memory_commit_lookup")


@pytest.mark.covers("MCP memory_governance_delete")
@pytest.mark.parametrize("as_text", [False, True])
def test_memory_governance_delete_forgets_what_it_names_and_counts_it(api: Api, name: str, as_text: bool):
    stored = [ok(api.post("remember", content=f"{name} {word}", project=name), 201)["memory"]["id"]
            for word in ("opens at noon", "is painted red", "was built by Ada")]  # fmt: skip
    expected = [*stored[:2], "mem_none"]
    text = api.tool("memory_governance_delete", memoryIds=",".join(expected) if as_text else expected, reason="a test")
    assert (text["success"], text["deleted"], text["total"]) == (True, 2, 3)
    assert [api.get(f"memories/{row}").status_code for row in stored] == [404, 404, 200]


@pytest.mark.covers("MCP memory_lesson_delete")
def test_memory_lesson_delete_forgets_a_lesson_once(api: Api, name: str):
    lesson = ok(api.post("lessons", content=f"never paint {name}", project=name), 201)["lesson"]["id"]
    assert api.tool("memory_lesson_delete", lessonId=lesson)["success"] is True
    assert api.tool("memory_lesson_delete", lessonId=lesson) == {"success": False, "error": "lesson not found"}


@pytest.mark.covers("MCP memory_commits", "MCP memory_commit_lookup")
def test_memory_commits_and_memory_commit_lookup_answer_as_their_routes(api: Api, name: str):
    ok(api.post("session/start", sessionId=name, project=name, cwd="/x"))
    for sha in (f"{name}a", f"{name}b"):
        ok(api.post("session/commit", sha=sha, sessionId=name, branch=name))
    listed = api.tool("memory_commits", branch=name, limit="5")
    assert listed == ok(api.get("commits", branch=name, limit=5))
    assert [commit["sha"] for commit in listed["commits"]] == [f"{name}b", f"{name}a"]
    results = api.tool("memory_commit_lookup", sha=f"{name}a")
    assert results == ok(api.get("session/by-commit", sha=f"{name}a"))
    assert [commit["id"] for commit in results["sessions"]] == [name]
    assert api.tool("memory_commit_lookup", sha="none")["success"] is False
    refused(api.post("mcp/tools", name="memory_commit_lookup", arguments={"sha": "none"}), 404)


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory, together: Together) -> Iterator[Api]:
    """A client of a server that lists every tool."""
    folder: Path = tmp_path_factory.mktemp("cache")
    server = together(running(folder, embedder="none", partitions=1, secret=None, agentmemory_tools="all"))
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        yield Api(http)


def test_they_are_listed_where_the_server_is_set_up_to_and_by_mcp_everywhere(api: Api, listing: Api):
    """Clients count on 31 in the list over REST; an agent can only call what MCP lists."""
    every = [tool["name"] for tool in ok(listing.get("mcp/tools"))["tools"]]
    usual = [tool["name"] for tool in ok(api.get("mcp/tools"))["tools"]]
    assert every == [*usual, *PLUGIN]
    query: Json = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    for client in (api, listing):
        answer = client.http.post("/mcp", params={"profile": "agentmemory"}, json=query, headers=headers).json()
        assert [tool["name"] for tool in answer["result"]["tools"]] == every
