"""What is quirky in the wider surface: what an import leaves as it was, which statuses mean the same, what heals."""

from collections.abc import Iterator
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


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that nobody else writes to."""
    changes = {"embedder": "none", "partitions": 4, "secret": None}
    with (
        running(tmp_path_factory.mktemp("cache"), **changes) as server,
        httpx.Client(base_url=f"{server.url}/agentmemory", timeout=60, trust_env=False) as http,
    ):
        yield http


def post(client: httpx.Client, path: str, expected: int = 200, /, **said: Any) -> dict[str, Any]:
    answer = client.post(path, json=said)
    assert answer.status_code == expected, answer.text
    return answer.json()


def get(client: httpx.Client, path: str, **query: str | int) -> dict[str, Any]:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def exported(session: str, content: str) -> dict[str, Any]:
    """An export of agentmemory's with a session, an observation, a summary and a memory."""
    where = {"sessionId": session, "project": session}
    seen = {"id": f"obs_{session}", "type": "file_edit", "title": "Edit", "narrative": f"{content} painted"}
    kept = {"id": f"mem_{session}", "createdAt": WHEN, "updatedAt": WHEN, "type": "fact", "title": "t", "version": 1}
    return {
        "version": "0.9.29",
        "sessions": [{"id": session, "project": session, "startedAt": WHEN, "endedAt": WHEN, "status": "completed"}],
        "observations": {session: [{**where, **seen, "timestamp": WHEN, "facts": [], "concepts": [], "files": []}]},
        "memories": [{**kept, "content": content, "project": session, "isLatest": True}],
        "summaries": [{**where, "createdAt": WHEN, "title": "Done", "narrative": "n", "observationCount": 1}],
    }


@pytest.mark.covers("POST /agentmemory/import")
def test_an_export_of_agentmemory_is_found_and_comes_in_once(client: httpx.Client, name: str):
    export = exported(name, "zebra crossings are striped")
    for _ in range(2):
        done = post(client, "/import", exportData=export)
        assert done["success"] is True
        counts = [done[kind] for kind in ("sessions", "observations", "memories", "summaries", "skipped")]
        assert counts == [1, 1, 1, 1, 0]
    skipped = post(client, "/import", exportData=export, strategy="skip")
    assert (skipped["sessions"], skipped["skipped"]) == (0, 4)
    found = post(client, "/search", query="zebra crossings", project=name)["results"]
    assert len([one for one in found if name in str(one)]) == 2
    (session,) = [one for one in get(client, "/sessions", limit=500)["sessions"] if one["id"] == name]
    assert (session["status"], session["observationCount"], session["startedAt"]) == ("completed", 1, WHEN)


@pytest.mark.covers("POST /agentmemory/import")
def test_an_import_brings_a_memory_up_to_date(client: httpx.Client, name: str):
    post(client, "/import", exportData=exported(name, "zebra crossings are striped"))
    post(client, "/import", exportData=exported(name, "giraffes sleep standing up"))
    found = get(client, "/memories", latest="true", limit=5000)["memories"]
    (memory,) = [one for one in found if one.get("project") == name]
    assert (memory["content"], memory["version"]) == ("giraffes sleep standing up", 2)


@pytest.mark.covers("POST /agentmemory/import")
@pytest.mark.parametrize("version", ["1.0.0", "0.2.9", "0.9.30", "", None, "0.9"])
def test_an_export_of_another_version_is_refused(client: httpx.Client, name: str, version: str | None):
    refused = post(client, "/import", exportData={**exported(name, "x"), "version": version})
    assert refused["success"] is False
    assert "Unsupported export version" in refused["error"]


@pytest.mark.covers("POST /agentmemory/import", "GET /agentmemory/export")
def test_what_this_server_exported_changes_nothing_here_and_can_take_the_place_of_what_came_later(alone: httpx.Client):
    session = {"sessionId": "s1", "project": "shop", "cwd": "/"}
    post(alone, "/session/start", **session)
    post(alone, "/observe", 201, **session, hookType="prompt_submit", timestamp=WHEN, data={"prompt": "why?"})
    first = post(alone, "/remember", 201, content="The pool retries five times.", project="shop")["memory"]["id"]
    second = post(alone, "/remember", 201, content="Orders are kept in UTC.", project="shop")["memory"]["id"]
    post(alone, "/relations", 201, sourceId=first, targetId=second, type="related")
    post(alone, "/lessons", 201, content="Restart Redis in tests.")
    post(alone, "/actions", 201, title="Add a chaos test", project="shop")
    export = get(alone, "/export")

    def state() -> list[Any]:
        memories = get(alone, "/memories", latest="true")["memories"]
        sessions = get(alone, "/sessions")["sessions"]
        return [
            sorted(one["content"] for one in memories),
            sorted((one["id"], one["observationCount"]) for one in sessions),
            [(one["content"], one["confidence"]) for one in get(alone, "/lessons")["lessons"]],
            [one["title"] for one in get(alone, "/actions")["actions"]],
            len(get(alone, "/relations")["relations"]),
        ]

    before = state()
    assert post(alone, "/import", exportData=export)["success"] is True
    assert state() == before
    post(alone, "/evolve", memoryId=first, newContent="The pool never retries anything.")
    post(alone, "/remember", 201, content="Soon to be gone.", project="elsewhere")
    post(alone, "/observe", 201, sessionId="s2", hookType="stop", timestamp=WHEN, data={"a": 1})
    post(alone, "/actions", 201, title="Nobody wants this", project="nowhere")
    assert state() != before
    assert post(alone, "/import", exportData=export, strategy="replace")["success"] is True
    assert state() == before


@pytest.mark.covers("POST /agentmemory/import")
def test_an_import_revises_no_private_memory_of_somebody_else(doors: Doors, client: httpx.Client, name: str):
    """A version that names it as the one it follows is a memory of its own."""
    ada = {"X-Agent-Id": "ada"}
    said = {"content": f"{name} has a secret garden", "project": name, "visibility": "private", "agent_id": "ada"}
    secret = httpx.post(f"{doors.agentmemory}/v1/memories", json=said, headers=ada, timeout=60).json()["id"]
    export = exported(name, "taken over by a stranger")
    (first,) = export["memories"]
    later = {**first, "id": f"mem_{name}_2", "parentId": secret, "version": 2}
    export["memories"] = [{**first, "id": secret, "isLatest": False}, later]
    assert post(client, "/import", exportData=export)["success"] is True
    found = httpx.get(f"{doors.agentmemory}/v1/memories/{secret}", headers=ada, timeout=60).json()
    assert (found["content"], found["is_latest"]) == (said["content"], True)


@pytest.mark.covers("GET /agentmemory/actions", "PATCH /agentmemory/actions/{id}", "POST /agentmemory/actions/update")
def test_statuses_that_mean_the_same_are_listed_together(client: httpx.Client, name: str):
    made = [post(client, "/actions", 201, title=f"{name} {n}", project=name)["action"]["id"] for n in range(3)]
    assert client.patch(f"/actions/{made[0]}", json={"status": "completed"}).status_code == 200
    post(client, "/actions/update", actionId=made[1], status="done")
    done = get(client, "/actions", project=name, status="done")
    assert ({one["id"] for one in done["actions"]}, done["total"]) == ({made[0], made[1]}, 2)
    assert client.patch("/actions/act_nobody", json={"status": "done"}).status_code == 404
    assert post(client, "/actions/update", actionId="act_nobody", status="done")["success"] is False


@pytest.mark.covers("POST /agentmemory/actions/edges", "GET /agentmemory/next", "GET /agentmemory/frontier")
def test_an_action_that_comes_to_depend_on_another_waits_for_it(client: httpx.Client, name: str):
    first = post(client, "/actions", 201, title="first", project=name)["action"]["id"]
    edges = [{"type": "requires", "targetActionId": first}]
    second = post(client, "/actions", 201, title="second", project=name, priority=9, edges=edges)
    assert (second["action"]["status"], second["edges"][0]["targetActionId"]) == ("blocked", first)
    third = post(client, "/actions", 201, title="third", project=name, priority=8)["action"]["id"]
    edge = {"sourceActionId": third, "targetActionId": first, "type": "gated_by"}
    assert post(client, "/actions/edges", **edge)["edge"]["targetActionId"] == first
    assert [one["id"] for one in get(client, "/frontier", project=name)["frontier"]] == [first]
    assert get(client, "/next", project=name)["suggestion"]["actionId"] == first
    post(client, "/actions", 400, title="bad", edges=[{"type": "likes", "targetActionId": first}])


@pytest.mark.covers("POST /agentmemory/slot", "POST /agentmemory/slot/append", "DELETE /agentmemory/slot")
def test_a_slot_says_how_full_it_is_and_is_overwritten_unless_it_may_not_be(client: httpx.Client, name: str):
    post(client, "/slot", 201, label=name, content="one", sizeLimit=8)
    full = post(client, "/slot/append", 413, label=name, text="two, and then some")
    assert (full["currentSize"], full["sizeLimit"]) == (3, 8)
    assert post(client, "/slot/append", label=name, text="two")["slot"]["content"] == "one\ntwo"
    post(client, "/slot", 409, label=name, content="other", overwrite=False)
    assert post(client, "/slot", 201, label=name, content="other")["slot"]["content"] == "other"
    assert client.delete("/slot", params={"label": name}).status_code == 200
    assert client.delete("/slot", params={"label": name}).status_code == 404
    post(client, "/slot", 400, label="Not a label")


@pytest.mark.covers("POST /agentmemory/lessons", "POST /agentmemory/lessons/delete")
def test_a_lesson_that_was_deleted_is_new_when_it_is_said_again(client: httpx.Client, name: str):
    said = {"content": f"Restart Redis in tests of {name}."}
    lesson = post(client, "/lessons", 201, **said)["lesson"]["id"]
    assert post(client, "/lessons", 200, **said)["action"] == "strengthened"
    assert post(client, "/lessons/delete", lessonId=lesson)["success"] is True
    post(client, "/lessons/delete", 404, lessonId=lesson)
    again = post(client, "/lessons", 201, **said)
    assert (again["action"], again["lesson"]["reinforcements"]) == ("created", 0)


@pytest.mark.covers("POST /agentmemory/evolve", "GET /agentmemory/memories/{id}", "GET /agentmemory/relations")
def test_a_memory_that_evolved_is_related_to_what_it_was(client: httpx.Client, name: str):
    old = post(client, "/remember", 201, content="The pool retries five times.", project=name)["memory"]["id"]
    evolved = post(client, "/evolve", memoryId=old, newContent="The pool retries twice.", newTitle="Retries")
    new = evolved["memory"]
    assert (evolved["previousId"], new["version"], new["parentId"], new["title"]) == (old, 2, old, "Retries")
    (relation,) = get(client, "/relations", project=name)["relations"]
    assert (relation["type"], relation["confidence"], relation["sourceId"]) == ("supersedes", 1.0, new["id"])
    assert get(client, f"/memories/{old}")["memory"]["isLatest"] is False
    assert get(client, f"/memories/{old}")["memory"]["relatedIds"] == [new["id"]]
    versions = get(client, f"/memories/{new['id']}/versions")["versions"]
    assert [one["id"] for one in versions] == [old, new["id"]]
    assert client.get("/memories/mem_nobody").status_code == 404
    assert post(client, "/evolve", memoryId="mem_nobody", newContent="x") == {
        "success": False,
        "error": "memory not found",
    }
    assert post(client, "/relations", sourceId=old, targetId="mem_nobody", type="related")["success"] is False


@pytest.mark.covers("POST /agentmemory/auto-forget", "POST /agentmemory/evict")
async def test_a_sweep_takes_what_ran_out_and_a_dry_run_only_says_so(client: httpx.Client, name: str):
    """Upkeep does the same once a minute, so it may have been quicker."""
    short = post(client, "/remember", 201, content=f"{name} is soon over", project=name, ttlDays=0.000001)
    gone = short["memory"]["id"]

    def swept() -> bool:
        for said in (post(client, "/auto-forget?dryRun=true"), post(client, "/evict", dryRun=True)):
            assert (said["dryRun"], said["evicted"], said["contradictions"]) == (True, 0, [])
        done = post(client, "/auto-forget")
        assert done["evicted"] == len(done["ttlExpired"]) + len(done["lowValueObs"])
        return client.get(f"/memories/{gone}").status_code == 404

    await wait_until(swept)


@pytest.mark.covers("GET /agentmemory/replay/load", "GET /agentmemory/replay/sessions")
def test_a_session_is_played_back_in_the_order_of_its_times(client: httpx.Client, name: str):
    for second in (20, 0, 5):
        at = f"2026-01-31T12:00:{second:02}.000Z"
        data = {"tool_name": f"Tool{second}", "tool_input": second}
        post(client, "/observe", 201, sessionId=name, hookType="post_tool_use", timestamp=at, data=data)
    film = get(client, "/replay/load", sessionId=name)["timeline"]
    assert (film["eventCount"], film["totalDurationMs"]) == (3, 20_000)
    told = [(one["offsetMs"], one["durationMs"], one["label"], one["toolInput"]) for one in film["events"]]
    assert told == [(0, 5_000, "Tool0", 0), (5_000, 15_000, "Tool5", 5), (20_000, 0, "Tool20", 20)]
    assert name in [one["id"] for one in get(client, "/replay/sessions", limit=500)["sessions"]]
    assert client.get("/replay/load", params={"sessionId": "nobody"}).status_code == 404
    assert client.get("/replay/load").json() == {"error": "sessionId required"}


@pytest.mark.covers("GET /agentmemory/second-brain", "POST /agentmemory/second-brain")
def test_a_note_is_kept_by_its_name_alone(client: httpx.Client, name: str):
    note = f"{name}.md"
    post(client, "/second-brain", file=note, content="# One")
    post(client, "/second-brain", file=note, content="# Two")
    assert get(client, "/second-brain", file=note)["content"] == "# Two"
    assert [one["file"] for one in get(client, "/second-brain")["files"]].count(note) == 1
    for bad in ("../x.md", "a/b.md", "x.txt", ".md", "/etc/passwd.md"):
        post(client, "/second-brain", 400, file=bad, content="x")
        assert client.get("/second-brain", params={"file": bad}).status_code == 400
    assert client.get("/second-brain", params={"file": f"no-{note}"}).status_code == 404
    post(client, "/second-brain", 413, file=note, content="x" * 20_001)


@pytest.mark.covers(
    "POST /agentmemory/graph/query",
    "POST /agentmemory/graph/build",
    "GET /agentmemory/profile",
    "GET /agentmemory/semantic",
    "GET /agentmemory/procedural",
    "GET /agentmemory/crystals",
    "POST /agentmemory/crystals/create",
    "GET /agentmemory/insights",
    "POST /agentmemory/insights/search",
    "POST /agentmemory/reflect",
)
def test_what_is_made_of_memories_and_finished_work_is_listed(client: httpx.Client, name: str):
    for text in ("Redis restarts break the pool.", "A pool needs retries.", "The pool logs every retry it makes."):
        memory = post(client, "/remember", 201, content=f"{name}: {text}", concepts=[name], project=name)["memory"]
    assert post(client, "/reflect", project=name)["newInsights"] > 0
    insights = get(client, "/insights", project=name)
    assert insights["total"] == len(insights["insights"]) > 0
    assert name in insights["insights"][0]["sourceConceptCluster"]
    assert post(client, "/insights/search", query="pool retries", project=name)["insights"]
    action = post(client, "/actions", 201, title="Fix the pool", project=name, sessionId=name)["action"]["id"]
    assert post(client, "/crystals/create", actionIds=[action])["success"] is False
    post(client, "/actions/update", actionId=action, status="done", result="Always retry with backoff.")
    made = post(client, "/crystals/create", actionIds=[action])["crystal"]
    (listed,) = get(client, "/crystals", project=name, sessionId=name)["crystals"]
    assert {key: listed[key] for key in ("id", "narrative", "keyOutcomes", "lessons", "sourceActionIds")} == {
        key: made[key] for key in ("id", "narrative", "keyOutcomes", "lessons", "sourceActionIds")
    }
    graph = post(client, "/graph/query", startNodeId=memory["id"], maxDepth=1)
    assert f"concept:{name}" in [one["id"] for one in graph["nodes"]]
    assert {"sourceNodeId", "targetNodeId", "type"} <= graph["edges"][0].keys()
    assert post(client, "/graph/build", batchSize=25)["nodes"] > 0
    assert name in get(client, "/profile")["projects"]
    assert get(client, "/profile", project="nobody-knows-it")["reason"] == "no_sessions"
    for kind in ("semantic", "procedural"):
        assert get(client, f"/{kind}", project=name)["total"] == 0


@pytest.mark.covers(
    "GET /agent.md", "GET /auth.md", "GET /agentmemory/dolt/commits", "POST /agentmemory/diagnostics/heal"
)
def test_the_server_describes_itself(doors: Doors, client: httpx.Client, name: str):
    for page, words in (("/agent.md", "POST /agentmemory/observe"), ("/auth.md", "Authorization: Bearer")):
        answer = httpx.get(f"{doors.agentmemory}{page}", timeout=60)
        assert answer.headers["content-type"].startswith("text/markdown")
        assert words in answer.text
    memory = post(client, "/remember", 201, content=f"{name} was here")["memory"]["id"]
    commits = get(client, "/dolt/commits", limit=500)["commits"]
    (commit,) = [one for one in commits if memory in one["message"]]
    assert len(commit["sha"]) == 40
    assert commit["sha"].endswith(commit["shortSha"])
    healed = post(client, "/diagnostics/heal", dryRun=True)
    assert (healed["fixed"], healed["dryRun"]) == (0, True)


@pytest.mark.covers("POST /agentmemory/forget", "POST /agentmemory/timeline", "POST /agentmemory/slot/reflect")
def test_a_session_that_was_forgotten_is_not_there_any_more(client: httpx.Client, name: str):
    seen = []
    for second in range(3):
        at = f"2026-01-31T12:00:{second:02}.000Z"
        data = {"prompt": f"{name} todo: number {second}"}
        said = post(client, "/observe", 201, sessionId=name, hookType="prompt_submit", timestamp=at, data=data)
        seen.append(said["observationId"])
    around = post(client, "/timeline", anchor=seen[1], sessionId=name)
    assert [one["relativePosition"] for one in around["entries"]] == [-1, 0, 1]
    assert post(client, "/slot/reflect", sessionId=name)["observationsReviewed"] == 3
    assert post(client, "/forget", sessionId=name, observationIds=seen[0])["deleted"] == 1
    assert len(get(client, "/observations", sessionId=name)["observations"]) == 2
    assert post(client, "/forget", sessionId=name)["deleted"] == 4
    assert get(client, "/observations", sessionId=name) == {"observations": []}
    assert post(client, "/forget", memoryId="mem_nobody")["deleted"] == 0
    post(client, "/forget", 400)
